/**
 * Uploads a body that is too large for the gateway to where the API says, which is S3 or the API itself, and names it in a small body. The
 * address is all that it takes to write there, so nothing that says who calls is sent to another origin.
 */
import { DIRECT_BODY_BYTES, over, UPLOAD_BYTES } from '../../lib/contract/client-limits.ts';
import { badConfig, ServingError } from '../../lib/contract/errors.ts';
import { type Answer, type Fetch, globalFetch, malformed, requestBytes } from '../fetch.ts';
import { retrying } from '../retries.ts';
import { hexDigest } from './digest.ts';

/** The limit of one upload, of up to 32 MiB. */
const UPLOAD_MS = 120_000;
const MOST_ANSWER_BYTES = 65_536;

export interface UploadApi {
  readonly url: string;
  /** Says who calls. */
  readonly send: Fetch;
  /** Says nothing of who calls. Default: fetch. */
  readonly bare?: Fetch;
}

/**
 * @param post asks POST /uploads
 * @returns the body, or one that names its upload where it is too large. A service without uploads gets the body itself, and answers 413
 * @throws too_large; bad_config for an address that is not followed; timeout; queue_unavailable
 */
export async function withinGateway(
  body: string,
  { api, post, signal }: { api: UploadApi; post: (body: string) => Promise<Answer>; signal: AbortSignal },
): Promise<string> {
  // A unit of UTF-16 has at most three bytes.
  if (body.length * 3 <= DIRECT_BODY_BYTES) return body;
  const bytes = new TextEncoder().encode(body);
  // Browsers have it on https and on localhost.
  if (bytes.length <= DIRECT_BODY_BYTES || !globalThis.crypto?.subtle) return body;
  if (bytes.length > UPLOAD_BYTES)
    throw over('payloadBytes', UPLOAD_BYTES, `the body is ${bytes.length} bytes,`);
  const sha256 = await hexDigest(bytes);
  const answer = await post(JSON.stringify({ bytes: bytes.length, sha256 })).catch((error: unknown) => {
    const { code } = ServingError.from(error);
    if (code !== 'not_found' && code !== 'bad_config') throw error;
    return undefined;
  });
  if (!answer) return body;
  const { id, url, headers = {} }: UploadJson = Object(answer.body);
  if (typeof id !== 'string' || typeof url !== 'string') throw malformed('it does not say where to upload');
  await put(bytes, new URL(url, api.url), headers, api, signal);
  return JSON.stringify({ payload: id });
}

interface UploadJson {
  readonly id?: unknown;
  readonly url?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
}

async function put(
  body: Uint8Array<ArrayBuffer>,
  to: URL,
  headers: Readonly<Record<string, string>>,
  { url, send, bare = globalFetch }: UploadApi,
  signal: AbortSignal,
): Promise<void> {
  const { protocol, origin } = new URL(url);
  // The address without its signature, which is a secret.
  const shown = `${to.origin}${to.pathname}`;
  if (to.protocol !== 'https:' && to.protocol !== protocol)
    throw badConfig(`${origin} names ${shown} for an upload, which is not https`);
  const init: RequestInit = { method: 'PUT', body, headers, redirect: 'error', credentials: 'omit' };
  const asking = { timeoutMs: UPLOAD_MS, signal, maxBytes: MOST_ANSWER_BYTES, shown };
  const answer = await requestBytes(to.href, init, {
    ...asking,
    send: to.origin === origin ? send : retrying(bare),
  });
  if (answer.ok) return;
  const text = `the body cannot be uploaded: ${shown} answered ${answer.status}`;
  throw new ServingError('queue_unavailable', text);
}
