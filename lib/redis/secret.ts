/**
 * Reads the password of Redis from a parameter of AWS Systems Manager, of type SecureString. A function reads it once,
 * while it downloads the model. The AWS SDK would do it too, and its client alone costs a tenth of a cold start.
 */
import { request as requestOverHttp } from 'node:http';
import { request as requestOverHttps } from 'node:https';
import { type Credentials, signedHeaders } from '../codecs/sigv4.ts';
import { asError, ServingError } from '../contract/errors.ts';
import { leave } from '../contract/under-way.ts';

export interface ParameterSecret {
  /** Name of the parameter, as "/my-job/redis". */
  readonly parameter: string;
  readonly region: string;
  readonly credentials: Credentials;
  /** Another endpoint than AWS's, as of an emulator. */
  readonly endpoint: string | undefined;
}

const ATTEMPTS = 2;
const ATTEMPT_MS = 2_000;
/** A parameter has up to 8 KB. */
const MAX_ANSWER_BYTES = 64 * 1024;
/** When Redis refuses the password, it may have been changed. It is read again, but not before this time has passed. */
const LEAST_AGE_MS = 5_000;

/** The value of a parameter, which is read at once and kept. A failed reading is repeated at the next use. */
export class CachedSecret {
  readonly #read: () => Promise<string>;
  readonly #now: () => number;
  #value: Promise<string> | undefined;
  #readAt = 0;

  /** @param now wall clock, in ms */
  constructor(read: () => Promise<string>, now: () => number) {
    this.#read = read;
    this.#now = now;
    // The first use of the value gets the error.
    leave(this.#start());
  }

  get(): Promise<string> {
    return this.#value ?? this.#start();
  }

  /** For a value that may have been refused. */
  getChanged(): Promise<string> {
    return this.#now() - this.#readAt >= LEAST_AGE_MS ? this.#start() : this.get();
  }

  #start(): Promise<string> {
    const value = this.#read();
    this.#value = value;
    this.#readAt = this.#now();
    value.catch(() => {
      if (this.#value === value) this.#value = undefined;
    });
    return value;
  }
}

/** @throws results_unavailable with the reason that AWS gives */
export async function readParameter(secret: ParameterSecret): Promise<string> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await askFor(secret);
    } catch (error) {
      // AWS answered: asking again changes nothing.
      if (error instanceof ServingError || attempt === ATTEMPTS) throw unreadable(secret, asError(error));
    }
  }
}

function unreadable({ parameter }: ParameterSecret, error: Error): ServingError {
  const message = `the password of Redis, parameter ${parameter} of Systems Manager: ${error.message}`;
  return new ServingError('results_unavailable', message, { cause: error });
}

async function askFor(secret: ParameterSecret): Promise<string> {
  const { parameter, region, endpoint } = secret;
  const suffix = region.startsWith('cn-') ? 'amazonaws.com.cn' : 'amazonaws.com';
  const url = new URL(endpoint ?? `https://ssm.${region}.${suffix}`);
  const body = JSON.stringify({ Name: parameter, WithDecryption: true });
  const headers = signedHeaders({
    ...secret,
    method: 'POST',
    path: '/',
    host: url.host,
    service: 'ssm',
    now: Date.now(),
    headers: { 'content-type': 'application/x-amz-json-1.1', 'x-amz-target': 'AmazonSSM.GetParameter' },
    body,
  });
  const { status, text } = await post(url, headers, body);
  const answer = parsed(text);
  const value = answer.Parameter?.Value;
  if (status === 200 && typeof value === 'string' && value !== '') return value;
  // As "com.amazonaws.ssm#ParameterNotFound".
  const kind = typeof answer.__type === 'string' ? answer.__type.replace(/^.*#/, '') : `status ${status}`;
  const message = answer.message ?? answer.Message;
  const reason = typeof message === 'string' && message !== '' ? `${kind}: ${message}` : kind;
  if (status >= 500) throw new Error(reason);
  throw new ServingError('results_unavailable', reason);
}

interface Answer {
  readonly Parameter?: { readonly Value?: unknown } | null;
  readonly __type?: unknown;
  readonly message?: unknown;
  readonly Message?: unknown;
}

function parsed(text: string): Answer {
  try {
    const answer: unknown = JSON.parse(text);
    return typeof answer === 'object' && answer !== null ? answer : {};
  } catch {
    return {};
  }
}

function post(url: URL, headers: Record<string, string>, body: string) {
  const request = url.protocol === 'http:' ? requestOverHttp : requestOverHttps;
  return new Promise<{ status: number; text: string }>((resolve, reject) => {
    const signal = AbortSignal.timeout(ATTEMPT_MS);
    const sent = request(url, { method: 'POST', headers, signal }, (response) => {
      const chunks: Buffer[] = [];
      let bytes = 0;
      response.on('data', (chunk: Buffer) => {
        bytes += chunk.length;
        if (bytes > MAX_ANSWER_BYTES) sent.destroy(new Error(`an answer of over ${MAX_ANSWER_BYTES} bytes`));
        chunks.push(chunk);
      });
      response.on('error', reject);
      response.on('end', () =>
        resolve({ status: response.statusCode ?? 0, text: Buffer.concat(chunks).toString() }),
      );
    });
    const failed = (error: Error) =>
      reject(signal.aborted ? new Error(`no answer within ${ATTEMPT_MS} ms`) : error);
    sent.on('error', failed);
    sent.end(body);
  });
}
