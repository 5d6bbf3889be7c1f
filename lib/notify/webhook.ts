/**
 * Sends a notice to a webhook, in the form of Standard Webhooks. Only https on port 443 is called, and the address that its name
 * has when the connection is made must be public and is the one that is connected to. Redirects are not followed.
 */
import { createHmac } from 'node:crypto';
import { Agent as HttpAgent, request as httpRequest, type IncomingMessage } from 'node:http';
import { Agent, request as httpsRequest } from 'node:https';
import { isIP, type LookupFunction } from 'node:net';
import { asError, badConfig } from '../contract/errors.ts';
import { SERVER_VERSION } from '../contract/names.ts';
import { isLoopbackUrl, type Notice } from '../contract/notice.ts';
import { isPublicAddress, pinnedTo, systemAddresses } from './public-address.ts';

/** The outcome of an attempt. */
export type Delivery =
  | { readonly ok: true }
  | {
      readonly ok: false;
      readonly reason: string;
      /** The receiver asks to be called no more. */
      readonly isGone?: boolean;
      /** The task that waited for it has ended, so the notice is dropped. */
      readonly isOver?: boolean;
      /** Another attempt would end in the same way. */
      readonly isFinal?: boolean;
      /** Nothing answered, so the next notices will hardly fare better. */
      readonly isAway?: boolean;
      /** When the receiver asks for another attempt. */
      readonly retryAfterSeconds?: number | undefined;
    };

export interface WebhookOptions {
  /** True on one machine: addresses of this machine may be called, on any port and without TLS. */
  readonly allowsLoopback?: boolean;
  /** The addresses of a name. Default: those of the system. */
  readonly resolve?: (host: string) => Promise<readonly string[]>;
  /** True if an address may be connected to. Default `isPublicAddress`. */
  readonly isAllowed?: (address: string) => boolean;
  /** Certificates to trust instead of the system's. */
  readonly ca?: string;
  /** The port that tests call instead of 443. Default 443. */
  readonly port?: number;
  /** The limit of a call, in ms. Default 5,000. */
  readonly timeoutMs?: number;
  /** Wall clock, in ms. */
  readonly now: () => number;
}

const TIMEOUT_MS = 5_000;
/** More of an answer is not read. */
const ANSWER_BYTES = 65_536;
const SECRET_PREFIX = 'whsec_';
/** Bytes of a secret, by Standard Webhooks. */
const SECRET_BYTES = { least: 24, most: 64 };

/**
 * The keys in the text of a secret: `whsec_` and base64. Two with a blank between them sign both, while one replaces the other.
 * @throws bad_config, which never quotes the text
 */
export function secretKeys(text: string): Buffer[] {
  const keys = text.split(/\s+/).filter(Boolean).map(keyOf);
  if (keys.length > 0 && keys.length <= 4 && keys.every((key) => key !== undefined)) return keys;
  throw badConfig(
    `the secret of a webhook: expected ${SECRET_PREFIX} and base64 of ${SECRET_BYTES.least} to ${SECRET_BYTES.most} bytes, as \`echo ${SECRET_PREFIX}$(openssl rand -base64 32)\` makes one`,
  );
}

function keyOf(word: string): Buffer | undefined {
  const text = word.startsWith(SECRET_PREFIX) ? word.slice(SECRET_PREFIX.length) : word;
  if (!/^[A-Za-z0-9+/]+={0,2}$/.test(text)) return undefined;
  const key = Buffer.from(text, 'base64');
  return key.length >= SECRET_BYTES.least && key.length <= SECRET_BYTES.most ? key : undefined;
}

/** The headers by which a receiver knows a message. @param seconds since 1970 */
export function signatureHeaders(id: string, seconds: number, body: string, keys: readonly Buffer[]) {
  const signed = `${id}.${seconds}.${body}`;
  const signatures = keys.map((key) => `v1,${createHmac('sha256', key).update(signed).digest('base64')}`);
  return {
    'webhook-id': id,
    'webhook-timestamp': String(seconds),
    'webhook-signature': signatures.join(' '),
  };
}

export class Webhooks {
  readonly #options: WebhookOptions;
  readonly #agent: Agent;
  readonly #plainAgent = new HttpAgent({ keepAlive: true });

  constructor(options: WebhookOptions) {
    this.#options = options;
    // A connection is to an address that was checked when it was made.
    this.#agent = new Agent({ keepAlive: true, maxCachedSessions: 100 });
  }

  /** Never throws. */
  async send({ id, body }: Notice, address: string, keys: readonly Buffer[]): Promise<Delivery> {
    const { now, timeoutMs = TIMEOUT_MS } = this.#options;
    const headers = {
      ...signatureHeaders(id, Math.floor(now() / 1000), body, keys),
      'content-type': 'application/json',
      'content-length': String(Buffer.byteLength(body)),
      'accept-encoding': 'identity',
      'user-agent': `cluster-serving/${SERVER_VERSION}`,
    };
    const late = AbortSignal.timeout(timeoutMs);
    try {
      const url = new URL(address);
      const refusal = this.#refusalOf(url);
      if (refusal) return { ok: false, reason: refusal };
      return deliveryOf(await this.#call(url, headers, body, late));
    } catch (error) {
      const { message } = asError(error);
      const reason = late.aborted ? `no answer within ${timeoutMs} ms` : message;
      return { ok: false, reason, isAway: true };
    }
  }

  close(): void {
    this.#agent.destroy();
    this.#plainAgent.destroy();
  }

  #isHere(url: URL): boolean {
    return this.#options.allowsLoopback === true && isLoopbackUrl(url.href);
  }

  /** A literal address is connected to without a lookup, so it is checked here. */
  #refusalOf(url: URL): string | undefined {
    if (this.#isHere(url)) return undefined;
    const host = url.hostname.replace(/^\[|\]$/g, '');
    if (url.protocol !== 'https:') return 'only https is called';
    // The client would send it on as a header.
    if (url.username !== '' || url.password !== '') return 'an address with a password is not called';
    if (url.port !== '') return 'only port 443 is called';
    return isIP(host) === 0 || this.#isAllowed(host) ? undefined : NOT_PUBLIC;
  }

  #isAllowed(address: string): boolean {
    return (this.#options.isAllowed ?? isPublicAddress)(address);
  }

  async #call(url: URL, headers: Record<string, string>, body: string, late: AbortSignal) {
    const { ca, port = 443 } = this.#options;
    const isHere = this.#isHere(url);
    const isPlain = url.protocol === 'http:';
    const request = isPlain ? httpRequest : httpsRequest;
    const options = {
      method: 'POST',
      headers,
      signal: late,
      agent: isPlain ? this.#plainAgent : this.#agent,
      ...(isHere ? {} : { port, lookup: this.#lookup }),
      ...(ca === undefined ? {} : { ca }),
    };
    for (;;) {
      const sent = request(url, options);
      try {
        return await new Promise<IncomingMessage>((answered, reject) => {
          // From here on an error of the connection changes nothing.
          sent.once('response', (response) => answered(drained(response, late).then(() => response)));
          sent.on('error', reject);
          sent.end(body);
        });
      } catch (error) {
        // A connection that was kept while this environment was frozen. A new one has not been reused.
        if (!sent.reusedSocket || late.aborted) throw error;
      }
    }
  }

  /** Called for each new connection. One address that is not public refuses all of the name. */
  readonly #lookup: LookupFunction = (host, options, found) => {
    const connect = (address: string) => pinnedTo(address)(host, options, found);
    const refuse = (error: unknown) => found(new Error(asError(error).message), '', 0);
    void this.#publicAddress(host).then(connect, refuse);
  };

  async #publicAddress(host: string): Promise<string> {
    const { resolve = systemAddresses } = this.#options;
    const addresses = await resolve(host);
    const [address] = addresses;
    if (address !== undefined && addresses.every((one) => this.#isAllowed(one))) return address;
    throw new Error(NOT_PUBLIC);
  }
}

const NOT_PUBLIC = 'its address is not public';

/** Resolves when the answer has ended, or is too long or too slow to be read; its status counts either way. */
function drained(response: IncomingMessage, late: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    let bytes = 0;
    const end = () => {
      response.destroy();
      resolve();
    };
    response.on('data', (chunk: Buffer) => {
      bytes += chunk.length;
      if (bytes > ANSWER_BYTES) end();
    });
    response.once('end', resolve);
    response.once('error', end);
    late.addEventListener('abort', end, { once: true });
  });
}

function deliveryOf({ statusCode = 0, headers }: IncomingMessage): Delivery {
  if (statusCode >= 200 && statusCode < 300) return { ok: true };
  const reason = `it answered ${statusCode}`;
  if (statusCode === 410) return { ok: false, reason, isGone: true };
  if (statusCode >= 300 && statusCode < 400)
    return { ok: false, reason: `${reason}, a redirect, which is not followed` };
  const seconds = Number(headers['retry-after']);
  return { ok: false, reason, retryAfterSeconds: seconds > 0 ? seconds : undefined };
}
