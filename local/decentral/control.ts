/**
 * The control channel of a supervisor, POST /control/{verb} with its token, and the page /stat: HTTP on the loopback
 * address. Each caller gets its own answer. Requests under another Host, or from pages of another Origin, are refused.
 */
import { once } from 'node:events';
import {
  createServer,
  type IncomingMessage,
  type OutgoingHttpHeaders,
  type Server,
  type ServerResponse,
} from 'node:http';
import type { AddressInfo } from 'node:net';
import { badRequest, ServingError } from '../../lib/contract/errors.ts';
import { page } from '../../lib/http/page.ts';
import { foreignHost, foreignOrigin, withoutToken } from '../gateway/caller.ts';
import { listenError } from '../machine/ports.ts';

/** @param signal ends when the caller has gone. @returns the data of the answer */
export type Verb = (body: Readonly<Record<string, unknown>>, signal: AbortSignal) => Promise<unknown>;

export interface HttpServer {
  readonly port: number;
  /** Answers in progress are sent. */
  close(): Promise<void>;
}

type Respond = (request: IncomingMessage, response: ServerResponse) => Promise<void>;

const HOST = '127.0.0.1';
const MAX_BODY_BYTES = 128 * 1024;
const MAX_CONNECTIONS = 64;
const REQUEST_MS = 10_000;
const CLOSE_MS = 1_000;

/** @param token is made once the port is held */
export function startControl(
  port: number,
  token: Promise<string>,
  verbs: Readonly<Record<string, Verb>>,
): Promise<HttpServer> {
  return listen(port, '-port', async (request, response) => {
    if (refuseForeign(request, response)) return;
    if (withoutToken({ token: await token }, request)) {
      response.setHeader('www-authenticate', 'Bearer');
      return answer(response, 401, 'unauthorized', 'this service needs the token of its port');
    }
    const [, name = ''] = /^\/control\/(\w{1,32})$/.exec(request.url ?? '') ?? [];
    const verb = Object.hasOwn(verbs, name) ? verbs[name] : undefined;
    if (request.method !== 'POST' || !verb)
      throw new ServingError('not_found', 'expected POST /control/{verb}');
    const gone = new AbortController();
    response.once('close', () => gone.abort());
    const data = await verb(await readBody(request), gone.signal);
    answer(response, 200, undefined, '', data);
  });
}

/** @param html the page, rendered for each request */
export function startPage(port: number, html: () => string): Promise<HttpServer> {
  return listen(port, '-http_port', async (request, response) => {
    if (refuseForeign(request, response)) return;
    if (request.method !== 'GET' || request.url !== '/stat')
      throw new ServingError('not_found', 'expected GET /stat');
    const { statusCode, headers, body } = page(html());
    response.writeHead(statusCode as number, headers as OutgoingHttpHeaders).end(body);
  });
}

async function listen(port: number, option: string, respond: Respond): Promise<HttpServer> {
  const server = createServer(
    { requestTimeout: REQUEST_MS, headersTimeout: REQUEST_MS },
    (request, response) => {
      respond(request, response).catch((error: unknown) => {
        if (response.headersSent || response.destroyed) return;
        const known = ServingError.from(error);
        answer(response, known.code === 'bad_config' ? 400 : known.status, known.code, known.message);
      });
    },
  );
  server.maxConnections = MAX_CONNECTIONS;
  try {
    server.listen({ port, host: HOST, exclusive: true });
    await once(server, 'listening');
  } catch (error) {
    throw await listenError(error, { port, option });
  }
  return { port: (server.address() as AddressInfo).port, close: () => close(server) };
}

function close(server: Server): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(() => server.closeAllConnections(), CLOSE_MS);
    server.close(() => {
      clearTimeout(timer);
      resolve();
    });
    server.closeIdleConnections();
  });
}

function refuseForeign(request: IncomingMessage, response: ServerResponse): boolean {
  if (!foreignHost({}, request) && !foreignOrigin({}, request)) return false;
  answer(response, 403, 'unauthorized', 'this Host or Origin is not allowed');
  return true;
}

function answer(
  response: ServerResponse,
  status: number,
  code?: string,
  message = '',
  data: unknown = null,
): void {
  const envelope = { error_code: status === 200 ? 0 : status, error_message: message, data };
  // A body that was not read would be taken for the next request.
  response.writeHead(status, { 'content-type': 'application/json', connection: 'close' });
  response.end(JSON.stringify(code === undefined ? envelope : { ...envelope, code }));
}

async function readBody(request: IncomingMessage): Promise<Readonly<Record<string, unknown>>> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    bytes += chunk.byteLength;
    if (bytes > MAX_BODY_BYTES)
      throw new ServingError('too_large', `the body is over ${MAX_BODY_BYTES} bytes`);
    chunks.push(chunk);
  }
  if (bytes === 0) return {};
  let body: unknown;
  try {
    body = JSON.parse(Buffer.concat(chunks).toString('utf8'));
  } catch (error) {
    throw badRequest('the body is not JSON', { cause: error });
  }
  if (typeof body === 'object' && body !== null && !Array.isArray(body)) return { ...body };
  throw badRequest('the body is not an object');
}
