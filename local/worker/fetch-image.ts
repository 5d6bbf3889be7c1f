/**
 * Fetches an image for POST /encode_img_url. A caller must not reach through this service what only this machine can
 * reach (the metadata of a cloud, the router, a neighbor's port): hosts are allowed by name, and the address that the
 * name has at that moment must be public and is the one that is connected to.
 */
import { lookup as lookupHost } from 'node:dns/promises';
import type { IncomingMessage } from 'node:http';
import { request as httpsRequest } from 'node:https';
import { BlockList, isIP } from 'node:net';
import { badRequest, ServingError } from '../../lib/contract/errors.ts';
import { LIMITS, overLimit } from '../../lib/contract/limits.ts';

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

/** IPv4 addresses that are not of the public internet (IANA's registry of special purposes), and multicast. */
const SPECIAL_V4 = [
  '0.0.0.0/8',
  '10.0.0.0/8',
  '100.64.0.0/10',
  '127.0.0.0/8',
  '169.254.0.0/16',
  '172.16.0.0/12',
  '192.0.0.0/24',
  '192.0.2.0/24',
  '192.88.99.0/24',
  '192.168.0.0/16',
  '198.18.0.0/15',
  '198.51.100.0/24',
  '203.0.113.0/24',
  '224.0.0.0/3',
];
/** Within 2000::/3, which holds every public IPv6 address. The first three carry IPv4 addresses. */
const SPECIAL_V6 = ['2001::/23', '2002::/16', '2001:db8::/32', '3fff::/20'];

const special = listOf([...SPECIAL_V4, ...SPECIAL_V6]);
const unicast = listOf(['2000::/3']);

function listOf(ranges: readonly string[]): BlockList {
  const list = new BlockList();
  for (const range of ranges) {
    const [address = '', bits] = range.split('/');
    list.addSubnet(address, Number(bits), familyOf(address));
  }
  return list;
}

function familyOf(address: string): 'ipv4' | 'ipv6' {
  return isIP(address) === 6 ? 'ipv6' : 'ipv4';
}

export function isPublicAddress(address: string): boolean {
  if (isIP(address) === 0) return false;
  const family = familyOf(address);
  return !special.check(address, family) && (family === 'ipv4' || unicast.check(address, family));
}

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
    const pinned = { address, family: isIP(address) };
    httpsRequest(url, {
      agent: false,
      signal: late,
      headers: { accept: 'image/jpeg, image/png, image/webp', 'accept-encoding': 'identity' },
      // The name is not resolved again: it could have another address by now.
      lookup: (_host, { all }, found) =>
        all ? found(null, [pinned]) : found(null, pinned.address, pinned.family),
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

async function systemAddresses(host: string): Promise<string[]> {
  return (await lookupHost(host, { all: true })).map(({ address }) => address);
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
