/**
 * Reads a part of an object by one signed request, without the AWS SDK, whose client takes a third of a cold start. Only a
 * plain success counts: redirects, refusals, other regions, broken connections and slow answers are left to the SDK, which
 * repeats the request and knows what each of them means.
 */
import type { Agent, ClientRequest } from 'node:http';
import { sha256, signedHeaders } from '../codecs/sigv4.ts';
import { objectUrl, type S3Place } from './presign.ts';

/** Takes the bytes of an object as they arrive. What it throws is thrown to the caller. */
export interface ByteWriter {
  /** Called before the first byte of each attempt, with the ETag of the object. */
  readonly restart: (etag: string | undefined) => void;
  readonly write: (bytes: Uint8Array) => void;
}

/** S3 answers within a tenth of a second; the SDK keeps the rest of the time. */
const IDLE_MS = 2_000;
/**
 * S3 closes a connection that was not used for some seconds. What was closed while this environment was frozen may look open,
 * and a request on it would get no answer.
 */
const KEPT_MS = 10_000;
/** Needs no escaping, in a host name with the certificate of S3 and in a path. */
const PLAIN_BUCKET = /^[a-z0-9-]+$/;
const PLAIN_KEY = /^[\w./-]+$/;

/**
 * @param range the bytes from `start` to before `end`; none of a range that is empty
 * @returns undefined when the SDK should be asked; what the writer has is worth nothing then
 * @throws the signal's reason, an error of the writer
 */
export async function readSigned(
  place: S3Place,
  { bucket, key }: { readonly bucket: string; readonly key: string },
  { start, end, etag }: { readonly start: number; readonly end: number; readonly etag?: string | undefined },
  signal: AbortSignal,
  writer: ByteWriter,
): Promise<{ readonly etag: string | undefined } | undefined> {
  if (end <= start || !PLAIN_BUCKET.test(bucket) || !PLAIN_KEY.test(key)) return undefined;
  const url = objectUrl(bucket, key, place);
  const headers = signedHeaders({
    ...place,
    method: 'GET',
    host: url.host,
    path: url.pathname,
    service: 's3',
    now: Date.now(),
    headers: {
      range: `bytes=${start}-${end - 1}`,
      'x-amz-content-sha256': sha256(''),
      ...(etag === undefined ? {} : { 'if-match': etag }),
    },
    body: '',
  });
  const { default: client } = await (url.protocol === 'https:' ? import('node:https') : import('node:http'));
  const agent = agents.get(url.protocol) ?? new client.Agent({ keepAlive: true, timeout: KEPT_MS });
  agents.set(url.protocol, agent);
  const options = { agent, headers, signal, timeout: IDLE_MS };
  for (;;) {
    const sent = client.request(url, options);
    try {
      return await readPart(sent, end - start, writer);
    } catch (error) {
      if (error instanceof WriterError) throw error.cause;
      signal.throwIfAborted();
      // S3 had closed a connection that this environment kept while it was frozen. A new one has not been reused.
      if (!sent.reusedSocket) return undefined;
    }
  }
}

/** Connections that are kept open, by protocol: an emulator's needs no TLS. */
const agents = new Map<string, Agent>();

class WriterError extends Error {}

/** @throws errors of the connection, WriterError */
function readPart(
  sent: ClientRequest,
  most: number,
  writer: ByteWriter,
): Promise<{ readonly etag: string | undefined } | undefined> {
  return new Promise((resolve, reject) => {
    const fail = (error: Error) => {
      reject(error);
      sent.destroy();
    };
    const pass = (work: () => void) => {
      try {
        work();
      } catch (cause) {
        fail(new WriterError('the writer failed', { cause }));
      }
    };
    sent.on('response', (response) => {
      // A server that ignores the range answers 200, with the whole object.
      if (response.statusCode !== 206) {
        resolve(undefined);
        sent.destroy();
        return;
      }
      let bytes = 0;
      pass(() => writer.restart(response.headers.etag));
      response.on('data', (chunk: Buffer) => {
        bytes += chunk.length;
        if (bytes > most) fail(new Error(`more than ${most} bytes`));
        else pass(() => writer.write(chunk));
      });
      response.on('error', reject);
      response.on('end', () => resolve({ etag: response.headers.etag }));
    });
    sent.on('timeout', () => sent.destroy(new Error(`silent for ${IDLE_MS} ms`)));
    sent.on('error', reject);
    sent.end();
  });
}
