/**
 * Fetches results that are too large for Redis from S3. Over HTTPS the API redirects to the object: its address is all that
 * it takes to read it, so nothing that says who calls is sent there.
 */
import { createHash } from 'node:crypto';
import { badConfig, ServingError } from '../lib/contract/errors.ts';
import { LIMITS, overLimit } from '../lib/contract/limits.ts';
import type { LargePointer, ObjectDigest, Result } from '../lib/contract/result.ts';
import { withContent } from '../lib/redis/result/fields.ts';
import type { S3Client } from '../lib/s3/objects.ts';
import { type Fetch, requestBytes } from './fetch.ts';
import { retrying } from './retries.ts';

/** The limit of one download, of up to 256 MiB. */
const DOWNLOAD_MS = 120_000;

export interface S3Options {
  /** The AWS endpoint. Default: the AWS SDK's own (AWS_ENDPOINT_URL). */
  readonly endpoint?: string | undefined;
  /** Of the bucket. Default: the AWS SDK's own (AWS_REGION). */
  readonly region?: string | undefined;
}

/** A redirect to the object of a large result. */
export interface Redirect extends ObjectDigest {
  readonly location: string;
}

/**
 * @param api the address that redirected: only there `send`, which says who calls, is used again
 * @returns the object's bytes
 * @throws bad_config for an address that is not followed; too_large; timeout; results_unavailable
 */
export async function fetchRedirect(
  { location, bytes, sha256 }: Redirect,
  {
    api,
    send,
    signal,
  }: { readonly api: string; readonly send: Fetch; readonly signal?: AbortSignal | undefined },
): Promise<Uint8Array> {
  const to = new URL(location, api);
  const { protocol, origin } = new URL(api);
  // The address without its signature, which nobody else is to see.
  const shown = `${to.origin}${to.pathname}`;
  if (to.protocol !== 'https:' && to.protocol !== protocol)
    throw badConfig(`${origin} redirects to ${shown}, which is not followed: it is no https`);
  if (bytes > LIMITS.largeAnswerBytes) throw overLimit('largeAnswerBytes', `the result has ${bytes} bytes,`);
  const isOwn = to.origin === origin;
  const bare = retrying((url, init) => fetch(url, init));
  const init: RequestInit = { redirect: 'error', credentials: 'omit', referrerPolicy: 'no-referrer' };
  const asking = { timeoutMs: DOWNLOAD_MS, signal, maxBytes: bytes, shown };
  const answer = await requestBytes(to.href, init, { ...asking, send: isOwn ? send : bare });
  if (!answer.ok) {
    const text = `the large result cannot be fetched: ${shown} answered ${answer.status}`;
    throw new ServingError('results_unavailable', text);
  }
  if (createHash('sha256').update(answer.bytes).digest('hex') === sha256) return answer.bytes;
  throw new ServingError('results_unavailable', `${shown} answered with something else than the result`);
}

/** Reads the objects that Redis points to. S3's client is loaded with the first of them. */
export class LargeReader {
  readonly #options: S3Options;
  #s3: S3Client | undefined;

  constructor({ endpoint, region }: S3Options) {
    this.#options = { endpoint, region };
  }

  /** @throws results_unavailable, which says where the result is */
  async whole(result: Result, large: LargePointer, signal?: AbortSignal): Promise<Result> {
    const { openS3 } = await import('../lib/s3/objects.ts');
    const { readLarge } = await import('../lib/s3/large-results.ts');
    this.#s3 ??= openS3({ ...this.#options, anyRegion: true });
    const bytes = await readLarge(this.#s3, large, { limitMs: DOWNLOAD_MS, signal });
    return withContent(result, large.form, bytes);
  }

  close(): void {
    this.#s3?.destroy();
  }
}
