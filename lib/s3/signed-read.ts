/**
 * Reads a part of an object by one signed request, without the AWS SDK, whose client takes a third of a cold start. Only a
 * plain success counts: redirects, refusals, other regions, broken connections and slow answers are left to the SDK, which
 * repeats the request and knows what each of them means.
 */
import { sha256, signedHeaders } from '../codecs/sigv4.ts';
import { type ByteWriter, Connection, OtherAnswer, WriterError } from './connection.ts';
import { objectUrl, type S3Place } from './presign.ts';

/** Needs no escaping, in a host name with the certificate of S3 and in a path. */
const PLAIN_BUCKET = /^[a-z0-9-]+$/;
const PLAIN_KEY = /^[\w./-]+$/;
/** A value of a header. What has other characters could be more than one. */
const PLAIN_VALUE = /^[\x20-\x7e]*$/;

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
  const lines = Object.entries({ host: url.host, ...headers });
  if (!lines.every(([, value]) => PLAIN_VALUE.test(value))) return undefined;
  const head = lines.map(([name, value]) => `${name}: ${value}\r\n`);
  const request = `GET ${url.pathname} HTTP/1.1\r\n${head.join('')}\r\n`;
  for (;;) {
    const connection = Connection.to(url);
    try {
      return { etag: await connection.read(request, end - start, writer, signal) };
    } catch (error) {
      if (error instanceof WriterError) throw error.cause;
      signal.throwIfAborted();
      // Else S3 had closed a connection that this environment kept while it was frozen. A new one has not been reused.
      if (error instanceof OtherAnswer || !connection.isReused) return undefined;
    }
  }
}
