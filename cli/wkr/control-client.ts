/** Calls the control channel of a service on this machine, with the token of its port. */
import { type IncomingMessage, request } from 'node:http';
import { isErrorCode, ServingError } from '../../lib/contract/errors.ts';
import { findToken } from '../../local/decentral/token.ts';

const MAX_ANSWER_BYTES = 64 * 1024 * 1024;

interface Envelope {
  readonly error_code?: unknown;
  readonly error_message?: unknown;
  readonly code?: unknown;
  readonly data?: unknown;
}

/**
 * @returns the data of the answer; undefined when nothing listens on the port
 * @throws timeout when the answer is not complete after `timeoutMs`, and the service's own errors
 */
export async function callControl(
  port: number,
  verb: string,
  body: object,
  timeoutMs: number,
): Promise<unknown> {
  const token = await findToken(port);
  const signal = AbortSignal.timeout(timeoutMs);
  try {
    const response = await send(port, verb, JSON.stringify(body), token, signal);
    return dataOf(await readJson(response));
  } catch (error) {
    if (signal.aborted) {
      throw new ServingError(
        'timeout',
        `no answer of port ${port} within ${timeoutMs} ms; -timeout allows more`,
      );
    }
    if ((error as NodeJS.ErrnoException).code === 'ECONNREFUSED') return undefined;
    throw error;
  }
}

function send(port: number, verb: string, body: string, token: string | undefined, signal: AbortSignal) {
  return new Promise<IncomingMessage>((resolve, reject) => {
    const headers = {
      'content-type': 'application/json',
      'content-length': Buffer.byteLength(body),
      ...(token !== undefined && { authorization: `Bearer ${token}` }),
    };
    const options = { host: '127.0.0.1', port, path: `/control/${verb}`, method: 'POST', headers, signal };
    request(options, resolve).once('error', reject).end(body);
  });
}

async function readJson(response: IncomingMessage): Promise<Envelope> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of response as AsyncIterable<Buffer>) {
    bytes += chunk.byteLength;
    if (bytes > MAX_ANSWER_BYTES) throw notOurs(`more than ${MAX_ANSWER_BYTES} bytes`);
    chunks.push(chunk);
  }
  try {
    return Object(JSON.parse(Buffer.concat(chunks).toString('utf8'))) as Envelope;
  } catch {
    throw notOurs('no JSON');
  }
}

function dataOf({ error_code: status, error_message: message, code, data }: Envelope): unknown {
  if (status === 0) return data;
  if (typeof message !== 'string' || !isErrorCode(code)) throw notOurs('no answer of the control channel');
  throw new ServingError(code, message);
}

function notOurs(problem: string): ServingError {
  return new ServingError('bad_request', `what listens on the port is no service of ours: ${problem}`);
}
