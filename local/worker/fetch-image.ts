/**
 * Fetches an image for POST /encode_img_url. A caller must not reach through this service what only this machine can
 * reach (the metadata of a cloud, the router, a neighbor's port): hosts are allowed by name, and the address that the
 * name has at that moment must be public and is the one that is connected to.
 */
import type { IncomingMessage } from 'node:http';
import { request as httpsRequest } from 'node:https';
import { isIP } from 'node:net';
import { badRequest, ServingError } from '../../lib/contract/errors.ts';
import { LIMITS, overLimit } from '../../lib/contract/limits.ts';
import { isPublicAddress, pinnedTo, systemAddresses } from '../../lib/notify/public-address.ts';

export interface FetchImageOptions {
  /** Host names, with a port other than 443 as `name:port`; lower case. */
  readonly allowedHosts: readonly string[];
  /** The addresses of a name. Default: those of the system. */
  readonly resolve?: (host: string) => Promise<readonly string[]>;
  /** True if an address may be connected to. Default `isPublicAddress`. */
  readonly isAllowed?: (address: string) => boolean;
  /** Certificates to trust instead of the system's. */
  readonly ca?: string;
  /** How long a fetch may take, in ms. Default 10,000. */
  readonly timeoutMs?: number;
}

const TIMEOUT_MS = 10_000;
/** Fetches at once. */
const MOST_FETCHES = 16;

export function imageFetcher(options: FetchImageOptions): (url: string) => Promise<Uint8Array> {
  const { timeoutMs = TIMEOUT_MS } = options;
  let running = 0;
  return async (text) => {
    const url = allowedUrl(text, options.allowedHosts);
    if (running >= MOST_FETCHES) {
      throw new ServingError('rate_limited', `${running} images are being fetched`, { retryAfterSeconds: 1 });
    }
    running++;
    const late = AbortSignal.timeout(timeoutMs);
    try {
      return await Promise.race([fetchPinned(url, options, late), rejection(late)]);
    } catch (error) {
      if (error instanceof ServingError) throw error;
      if (late.aborted) throw new ServingError('timeout', `the image did not come within ${timeoutMs} ms`);
      // The reason could tell what is behind a name.
      throw badRequest('the image cannot be fetched: its server cannot be reached', { cause: error });
    } finally {
      running--;
    }
  };
}

function rejection(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)));
}

function allowedUrl(text: string, allowedHosts: readonly string[]): URL {
  const url = URL.parse(text);
  if (!url) throw badRequest('img_url: expected an https address');
  if (url.protocol !== 'https:') throw forbidden('only https addresses are fetched');
  if (url.username !== '' || url.password !== '')
    throw forbidden('an address with a password is not fetched');
  if (!allowedHosts.includes(url.host)) {
    throw forbidden(
      'its host is not allowed; list it under worker.allowImgHost in config.yaml, or start with -allow_img_host',
    );
  }
  return url;
}

async function fetchPinned(url: URL, options: FetchImageOptions, late: AbortSignal): Promise<Uint8Array> {
  const { resolve = systemAddresses, isAllowed = isPublicAddress, ca } = options;
  const host = url.hostname.replace(/^\[|\]$/g, '');
  const addresses = isIP(host) === 0 ? await resolve(host) : [host];
  const [address] = addresses;
  if (address === undefined || !addresses.every(isAllowed)) throw forbidden('its address is not public');
  const response = await new Promise<IncomingMessage>((answered, reject) => {
    httpsRequest(url, {
      agent: false,
      signal: late,
      headers: { accept: 'image/jpeg, image/png, image/webp', 'accept-encoding': 'identity' },
      lookup: pinnedTo(address),
      ...(ca === undefined ? {} : { ca }),
    })
      .once('response', answered)
      .on('error', reject)
      .end();
  });
  try {
    return await readImage(response);
  } finally {
    response.destroy();
  }
}

async function readImage(response: IncomingMessage): Promise<Uint8Array> {
  const { statusCode = 0, headers } = response;
  if (statusCode >= 300 && statusCode < 400) throw forbidden('its server redirects, which is not followed');
  if (statusCode !== 200) throw badRequest(`the image cannot be fetched: its server answers ${statusCode}`);
  if ((headers['content-encoding'] ?? 'identity') !== 'identity') {
    throw badRequest('the image cannot be fetched: its server compresses it');
  }
  assertSize(Number(headers['content-length'] ?? 0));
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of response as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    assertSize(bytes);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks, bytes);
}

function assertSize(bytes: number): void {
  if (bytes > LIMITS.smallImageBytes) throw overLimit('smallImageBytes', 'the image is', 'bytes');
}

function forbidden(why: string): ServingError {
  return new ServingError('forbidden', `img_url is refused: ${why}`);
}
