/** Finds the control channel of a service on this machine, and calls it with the token of its port. */
import { type IncomingMessage, request } from 'node:http';
import { connect } from 'node:net';
import { asError, isErrorCode, ServingError } from '../../lib/contract/errors.ts';
import { type Control, controlFolder, findControls } from '../../local/machine/token.ts';
import { wrongUse } from '../command.ts';

const MAX_ANSWER_BYTES = 64 * 1024 * 1024;
/** A service that is too busy to accept a connection is there. */
const REACH_MS = 2_000;

interface Envelope {
  readonly error_code?: unknown;
  readonly error_message?: unknown;
  readonly code?: unknown;
  readonly data?: unknown;
}

/**
 * @returns the data of the answer; undefined when nothing listens there
 * @throws timeout when the answer is not complete after `timeoutMs`, and the service's own errors
 */
export async function callControl(
  control: Control,
  verb: string,
  body: object,
  timeoutMs: number,
): Promise<unknown> {
  const { port } = control;
  const signal = AbortSignal.timeout(timeoutMs);
  try {
    const response = await send(control, verb, JSON.stringify(body), signal);
    if (response.statusCode === 401) throw withoutToken(control);
    return dataOf(await readJson(response));
  } catch (error) {
    if (signal.aborted) {
      throw new ServingError(
        'timeout',
        `no answer of port ${port} within ${timeoutMs} ms; -timeout allows more`,
      );
    }
    if (NONE_THERE.has(asError(error).code)) return undefined;
    throw error;
  }
}

/** No service can have the port of an address that says this. */
const NONE_THERE: ReadonlySet<unknown> = new Set(['ECONNREFUSED', 'EADDRNOTAVAIL', 'ENETUNREACH']);

/**
 * Where the service of a port is.
 * @param host the address to look at; without it, all of this machine
 * @throws bad_config when there are several
 */
export async function findControl(port: number, host?: string): Promise<Control> {
  const controls = await findControls(port, host);
  const [first, second] = controls;
  if (first && !second) return first;
  // A service that was killed leaves its token.
  const reached = await Promise.all(controls.map(isReached));
  const alive = controls.filter((_, i) => reached[i]);
  if (alive.length < 2) return alive[0] ?? (first as Control);
  const hosts = alive.map((control) => control.host).join(', ');
  throw wrongUse(`services listen on port ${port} of ${hosts}; -ip says which one is meant`);
}

/** True if something listens there. */
export function isReached({ host, port }: Pick<Control, 'host' | 'port'>): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ host, port, timeout: REACH_MS });
    const end = (found: boolean) => {
      socket.destroy();
      resolve(found);
    };
    socket.once('connect', () => end(true));
    socket.once('timeout', () => end(true));
    socket.once('error', ({ code }: NodeJS.ErrnoException) => end(!NONE_THERE.has(code)));
  });
}

function withoutToken({ port, token }: Control): ServingError {
  const which = token === undefined ? 'there is none' : 'there is another';
  return new ServingError(
    'unauthorized',
    `the service of port ${port} needs its token, and ${which} in ${controlFolder()}; ` +
      'run this as the user who started the service, with the WKR_CONTROL_DIR of its start',
  );
}

function send({ host, port, token }: Control, verb: string, body: string, signal: AbortSignal) {
  return new Promise<IncomingMessage>((resolve, reject) => {
    const headers = {
      'content-type': 'application/json',
      'content-length': Buffer.byteLength(body),
      ...(token !== undefined && { authorization: `Bearer ${token}` }),
    };
    const options = { host, port, path: `/control/${verb}`, method: 'POST', headers, signal };
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
  return new ServingError('bad_request', `what listens on the port is not a service of ours: ${problem}`);
}
