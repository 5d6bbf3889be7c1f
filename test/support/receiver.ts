/** A receiver of webhooks over https, as a back end has one, on this machine under a name that no DNS knows. */
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { secretKeys, signatureHeaders, type WebhookOptions } from '../../lib/notify/webhook.ts';
import { type Hooks, temporaryFolder } from './runner.ts';
import { makeCertificate } from './tls.ts';

export const SECRET = 'whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=';
export const RECEIVER_URL = 'https://localhost/hooks';

export interface Received {
  readonly id: string;
  readonly body: string;
  readonly headers: IncomingMessage['headers'];
}

type Answer = (received: Received, response: ServerResponse) => void;

export interface Receiver {
  readonly received: Received[];
  /** How the sender reaches it, although its address is not public. */
  readonly options: WebhookOptions;
}

/** @returns undefined where there is no openssl. @param answer default: 204 */
export async function startReceiver(
  t: Hooks,
  answer: Answer = (_, response) => response.writeHead(204).end(),
) {
  const files = makeCertificate(await temporaryFolder(t));
  if (!files) return undefined;
  const received: Received[] = [];
  const [cert, key] = [await readFile(files.certificate, 'utf8'), await readFile(files.key)];
  const server = createServer({ cert, key }, (request, response) => {
    let body = '';
    request.setEncoding('utf8').on('data', (chunk: string) => (body += chunk));
    request.on('end', () => {
      const one = { id: String(request.headers['webhook-id']), body, headers: request.headers };
      received.push(one);
      answer(one, response);
    });
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(async () => {
    server.closeAllConnections();
    server.close();
  });
  const options: WebhookOptions = {
    resolve: async () => ['127.0.0.1'],
    isAllowed: (address) => address === '127.0.0.1',
    ca: cert,
    port: (server.address() as AddressInfo).port,
    now: Date.now,
  };
  return { received, options };
}

/** True if the message is signed with SECRET. */
export function isSigned({ id, body, headers }: Received): boolean {
  const expected = signatureHeaders(id, Number(headers['webhook-timestamp']), body, secretKeys(SECRET));
  return headers['webhook-signature'] === expected['webhook-signature'];
}
