/**
 * Reads a part of an object by one signed request, without the AWS SDK, whose client takes a third of a cold start. Only a
 * plain success counts: redirects, refusals, other regions, broken connections and slow answers are left to the SDK, which
 * repeats the request and knows what each of them means.
 */
import type { Agent, ClientRequest } from 'node:http';
import { sha256, signedHeaders } from '../codecs/sigv4.ts';
import { objectUrl, type S3Place } from './presign.ts';

interface Part {
  readonly bytes: Uint8Array;
  readonly etag: string | undefined;
}

/** S3 answers within a tenth of a second; the SDK keeps the rest of the time. */
const IDLE_MS = 2_000;
/** Needs no escaping, in a host name with the certificate of S3 and in a path. */
const PLAIN_BUCKET = /^[a-z0-9-]+$/;
const PLAIN_KEY = /^[\w./-]+$/;

/**
 * @param range the bytes from `start` to before `end`; none of a range that is empty
 * @returns undefined when the SDK should be asked
 * @throws the signal's reason
 */
export async function readSigned(
  place: S3Place,
  { bucket, key }: { readonly bucket: string; readonly key: string },
  { start, end, etag }: { readonly start: number; readonly end: number; readonly etag?: string | undefined },
  signal: AbortSignal,
): Promise<Part | undefined> {
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
  const agent = agents.get(url.protocol) ?? new client.Agent({ keepAlive: true });
  agents.set(url.protocol, agent);
  const options = { agent, headers, signal, timeout: IDLE_MS };
  for (;;) {
    const sent = client.request(url, options);
    try {
      return await partOf(sent, end - start);
    } catch {
      signal.throwIfAborted();
      // S3 had closed a connection that this environment kept while it was frozen. A new one has not been reused.
      if (!sent.reusedSocket) return undefined;
    }
  }
}

/** Connections that are kept open, by protocol: an emulator's needs no TLS. */
const agents = new Map<string, Agent>();

/** @throws errors of the connection only */
function partOf(sent: ClientRequest, most: number): Promise<Part | undefined> {
  return new Promise((resolve, reject) => {
    sent.on('response', (response) => {
      // A server that ignores the range answers 200, with the whole object.
      if (response.statusCode !== 206) {
        resolve(undefined);
        sent.destroy();
        return;
      }
      const chunks: Buffer[] = [];
      let bytes = 0;
      response.on('data', (chunk: Buffer) => {
        chunks.push(chunk);
        bytes += chunk.length;
        if (bytes <= most) return;
        reject(new Error(`more than ${most} bytes`));
        sent.destroy();
      });
      response.on('error', reject);
      response.on('end', () => resolve({ bytes: Buffer.concat(chunks), etag: response.headers.etag }));
    });
    sent.on('timeout', () => sent.destroy(new Error(`silent for ${IDLE_MS} ms`)));
    sent.on('error', reject);
    sent.end();
  });
}
