/**
 * Requests to the hub of Hugging Face, or to a server with its API. The token goes to the hub alone, not to the hosts that
 * it redirects to, and stands in no message.
 */
import { asError, badConfig, badModel, modelUnavailable, ServingError } from '../../lib/contract/errors.ts';

export const HUB = 'https://huggingface.co';
/** Redirects of one request to the hub of Hugging Face. Refused with `model_unavailable`. */
const MAX_REDIRECTS = 5;
/** JSON of one answer of the hub. Refused with `model_unavailable`. */
const MAX_JSON_BYTES = 16_777_216;
/** Without a byte for this long, a request has failed. */
const STALL_MS = 60_000;
const REDIRECTS = [301, 302, 303, 307, 308];

export interface HubClientOptions {
  /** Default: the hub itself. */
  readonly endpoint?: string | undefined;
  readonly token?: string | undefined;
  readonly signal?: AbortSignal | undefined;
  /** Replaced in tests. */
  readonly stallMs?: number | undefined;
}

interface HubResponse {
  readonly response: Response;
  readonly chunks: AsyncIterable<Uint8Array>;
  /** For a response that is not read. */
  readonly close: () => Promise<void>;
}

export class HubClient {
  readonly endpoint: URL;
  readonly #token: string | undefined;
  readonly #signal: AbortSignal | undefined;
  readonly #stallMs: number;

  constructor({ endpoint = HUB, token, signal, stallMs = STALL_MS }: HubClientOptions) {
    this.endpoint = endpointOf(endpoint);
    // A token with a line break would be a header of its own.
    this.#token = token?.trim() || undefined;
    if (this.#token !== undefined && !/^[\x21-\x7e]+$/.test(this.#token))
      throw badConfig('HF_TOKEN: expected the letters and digits of a token, got other characters');
    this.#signal = signal;
    this.#stallMs = stallMs;
  }

  /** @param path below the endpoint, or the address of a next page, which must be of the endpoint */
  async json(path: string): Promise<{ readonly value: unknown; readonly next: string | undefined }> {
    const { response, chunks } = await this.open(path);
    const parts: Uint8Array[] = [];
    let bytes = 0;
    for await (const chunk of chunks) {
      if ((bytes += chunk.length) > MAX_JSON_BYTES)
        throw modelUnavailable(`${this.#shown(path)}: more than ${MAX_JSON_BYTES} bytes of JSON`);
      parts.push(chunk);
    }
    const next = /<([^>]+)>\s*;\s*rel="?next"?/i.exec(response.headers.get('link') ?? '')?.[1];
    try {
      return { value: JSON.parse(Buffer.concat(parts).toString()), next };
    } catch {
      throw modelUnavailable(`${this.#shown(path)}: expected JSON; check HF_ENDPOINT`);
    }
  }

  /**
   * @param from the first byte that is wanted
   * @throws bad_config with advice for 401, 403, 404 and 429; model_unavailable for what may pass
   */
  async open(path: string, from = 0): Promise<HubResponse> {
    const stall = new AbortController();
    const timer = setTimeout(() => stall.abort(), this.#stallMs);
    const signals = [stall.signal, this.#signal].filter((signal) => signal !== undefined);
    try {
      const url = this.#urlOf(path);
      const response = await this.#follow(url, from, AbortSignal.any(signals));
      if (response.status !== 200 && response.status !== 206) {
        await response.body?.cancel();
        throw refusalOf(response, this.#shown(path), this.#token !== undefined);
      }
      const close = async () => {
        clearTimeout(timer);
        await response.body?.cancel();
      };
      return { response, chunks: this.#read(path, response, timer), close };
    } catch (error) {
      clearTimeout(timer);
      throw this.#failureOf(error, path);
    }
  }

  async *#read(path: string, { body }: Response, timer: NodeJS.Timeout): AsyncGenerator<Uint8Array> {
    try {
      for await (const chunk of body ?? []) {
        timer.refresh();
        yield chunk;
      }
    } catch (error) {
      throw this.#failureOf(error, path);
    } finally {
      clearTimeout(timer);
    }
  }

  async #follow(start: URL, from: number, signal: AbortSignal): Promise<Response> {
    let url = start;
    for (let redirects = 0; redirects <= MAX_REDIRECTS; redirects++) {
      const isHub = url.origin === this.endpoint.origin;
      const response = await fetch(url, {
        redirect: 'manual',
        signal,
        headers: {
          'user-agent': 'cluster-serving',
          // Sizes and ranges are of the bytes as they are.
          'accept-encoding': 'identity',
          ...(from > 0 ? { range: `bytes=${from}-` } : {}),
          ...(isHub && this.#token !== undefined ? { authorization: `Bearer ${this.#token}` } : {}),
        },
      });
      if (!REDIRECTS.includes(response.status)) return response;
      await response.body?.cancel();
      const to = response.headers.get('location') ?? '';
      if (!URL.canParse(to, url.href)) throw modelUnavailable('a redirect leads nowhere');
      const next = new URL(to, url);
      const isSafe = next.protocol === 'https:' || (next.protocol === 'http:' && url.protocol === 'http:');
      if (!isSafe) throw badModel(`a redirect leads to ${next.protocol}//${next.host}, which is not https`);
      url = next;
    }
    throw modelUnavailable(`more than ${MAX_REDIRECTS} redirects`);
  }

  #urlOf(path: string): URL {
    if (!/^https?:/i.test(path)) return new URL(`${this.endpoint.href.replace(/\/$/, '')}${path}`);
    const url = URL.canParse(path) ? new URL(path) : undefined;
    if (url?.origin === this.endpoint.origin) return url;
    throw badModel(`the next page of the list is on another host, ${url?.host}`);
  }

  #failureOf(error: unknown, path: string): Error {
    if (this.#signal?.aborted) return asError(this.#signal.reason);
    if (error instanceof ServingError) {
      const isShown = error.message.startsWith(this.endpoint.origin);
      const text = isShown ? error.message : `${this.#shown(path)}: ${error.message}`;
      return new ServingError(error.code, text, { cause: error });
    }
    const { name, message, cause } = asError(error);
    if (name === 'AbortError')
      return modelUnavailable(`${this.#shown(path)}: no byte for ${this.#stallMs / 1000} s`);
    const code = cause instanceof Error && 'code' in cause ? String(cause.code) : '';
    const why = cause instanceof Error ? cause.message || code : message;
    return modelUnavailable(`${this.#shown(path)}: ${why}; HF_ENDPOINT names another server`, {
      cause: error,
    });
  }

  /** Without the query, where signed addresses have their secret. */
  #shown(path: string): string {
    const url = this.#urlOf(path);
    return `${url.origin}${url.pathname}`;
  }
}

function endpointOf(text: string): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  const isPlain = url && /^https?:$/.test(url.protocol) && url.username === '' && url.search === '';
  if (url && isPlain) return url;
  throw badConfig(`HF_ENDPOINT: expected an address such as ${HUB}, without a user and a query`);
}

function refusalOf({ status, headers }: Response, where: string, hasToken: boolean): ServingError {
  const kind = headers.get('x-error-code') ?? '';
  if (kind === 'GatedRepo')
    return badConfig(
      `${where}: the model is gated; accept its terms on its page in a browser, and set HF_TOKEN to a token of that account`,
    );
  if (kind === 'RevisionNotFound')
    return badConfig(`${where}: there is no such revision; name a branch, a tag or a commit behind the @`);
  if (status === 401 || status === 403) {
    const token = hasToken
      ? 'HF_TOKEN is not allowed to read it: give the token read access to it, or make another one'
      : 'it is private, or there is none of this name; check the name, or set HF_TOKEN to a token that may read it';
    return badConfig(`${where}: status ${status}; ${token}`);
  }
  if (status === 404)
    return badConfig(`${where}: status 404; there is none of this name, or HF_TOKEN may not see it`);
  if (status === 429) {
    const after = /^\d{1,6}$/.exec(headers.get('retry-after') ?? '')?.[0];
    const wait = after === undefined ? 'in a few minutes' : `in ${after} s`;
    const more = hasToken ? '' : '; with HF_TOKEN more requests are allowed';
    return badConfig(`${where}: status 429, too many requests; try again ${wait}${more}`);
  }
  return modelUnavailable(`${where}: status ${status}; expected 200`);
}
