/**
 * Fetches a large result from where the API redirects to. That address is all that it takes to read it, so nothing that says
 * who calls is sent there.
 */
import { LARGE_ANSWER_BYTES, over } from '../../lib/contract/client-limits.ts';
import { badConfig, ServingError } from '../../lib/contract/errors.ts';
import type { ObjectDigest } from '../../lib/contract/result.ts';
import { type Fetch, requestBytes } from '../fetch.ts';
import { retrying } from '../retries.ts';
import { hexDigest } from './digest.ts';

/** The limit of one download, of up to 256 MiB. */
export const DOWNLOAD_MS = 120_000;

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
    bare,
    signal,
  }: {
    readonly api: string;
    readonly send: Fetch;
    /** Says nothing of who calls. */
    readonly bare: Fetch;
    readonly signal?: AbortSignal | undefined;
  },
): Promise<Uint8Array> {
  const to = new URL(location, api);
  const { protocol, origin } = new URL(api);
  // The address without its signature, which is a secret.
  const shown = `${to.origin}${to.pathname}`;
  if (to.protocol !== 'https:' && to.protocol !== protocol)
    throw badConfig(`${origin} redirects to ${shown}, which is not followed: it is not https`);
  if (bytes > LARGE_ANSWER_BYTES)
    throw over('largeAnswerBytes', LARGE_ANSWER_BYTES, `the result has ${bytes} bytes,`);
  const isOwn = to.origin === origin;
  const init: RequestInit = { redirect: 'error', credentials: 'omit', referrerPolicy: 'no-referrer' };
  const asking = { timeoutMs: DOWNLOAD_MS, signal, maxBytes: bytes, shown };
  const answer = await requestBytes(to.href, init, { ...asking, send: isOwn ? send : retrying(bare) });
  if (!answer.ok) {
    const text = `the large result cannot be fetched: ${shown} answered ${answer.status}`;
    throw new ServingError('results_unavailable', text);
  }
  if ((await hexDigest(answer.bytes)) === sha256) return answer.bytes;
  throw new ServingError('results_unavailable', `${shown} answered with something else than the result`);
}
