/** A worker's service over HTTP: its url, the token, and the check of its versions before the first item. */
import { isObject } from '../../lib/codecs/values/read-value.ts';
import { badConfig, ServingError } from '../../lib/contract/errors.ts';
import { type BytesAnswer, type Fetch, malformed, parse, requestBytes } from '../fetch.ts';
import { limited } from '../limit.ts';
import { expect, MAX_FRAME_BYTES, MEDIA_TYPE } from './answers.ts';

const PROTOCOL = 1;

export interface ServiceOptions {
  /** As serviceUrl gives it. */
  readonly url: string;
  readonly protocol: 'obj' | 'npy';
  readonly send: Fetch | undefined;
  readonly mustCheck: boolean;
}

/** @throws bad_config */
export function serviceUrl(text: string): string {
  const url = text.replace(/\/+$/, '');
  if (/^https?:\/\/[^@?#]+$/.test(url) && URL.canParse(url)) return url;
  throw badConfig('url: expected http://host:port');
}

export class Service {
  readonly url: string;
  readonly #protocol: string;
  readonly #send: Fetch | undefined;
  readonly #closed = new AbortController();
  #mustCheck: boolean;
  #checked: Promise<void> | undefined;

  constructor({ url, protocol, send, mustCheck }: ServiceOptions) {
    this.url = url;
    this.#protocol = protocol;
    this.#send = send;
    this.#mustCheck = mustCheck;
  }

  async status(endAt: number, signal?: AbortSignal): Promise<Readonly<Record<string, unknown>>> {
    const { bytes } = await this.get('/status/server', endAt, 'application/json', signal);
    const status = parse(bytes);
    if (!isObject(status)) throw malformed('expected a JSON object');
    return 'error_code' in status && isObject(status['data']) ? status['data'] : status;
  }

  /** @returns the answer, with any status */
  async post(
    body: Buffer<ArrayBuffer>,
    more: Readonly<Record<string, string>>,
    endAt: number,
    signal?: AbortSignal,
  ): Promise<BytesAnswer> {
    if (this.#mustCheck) {
      const checked = (this.#checked ??= this.#check(endAt));
      await limited({ signal }, () => checked);
    }
    const headers = { 'content-type': MEDIA_TYPE, accept: MEDIA_TYPE, ...more };
    return this.#request('/encode', { method: 'POST', body, headers }, endAt, signal);
  }

  async get(path: string, endAt: number, accept: string, signal?: AbortSignal): Promise<BytesAnswer> {
    const ask = () => this.#request(path, { headers: { accept } }, endAt, signal);
    const answer = await ask().catch((error: unknown) => {
      // To read twice does no harm.
      if (error instanceof ServingError && error.code === 'queue_unavailable') return ask();
      throw error;
    });
    return expect(200, this.url, answer);
  }

  close(): void {
    this.#closed.abort(badConfig('the client is closed'));
  }

  #request(path: string, init: RequestInit, endAt: number, signal?: AbortSignal): Promise<BytesAnswer> {
    return requestBytes(
      this.url + path,
      { ...init, redirect: 'manual' },
      {
        timeoutMs: Math.max(1, Math.ceil(endAt - performance.now())),
        signal: signal ? AbortSignal.any([signal, this.#closed.signal]) : this.#closed.signal,
        send: this.#send,
        maxBytes: MAX_FRAME_BYTES,
      },
    );
  }

  async #check(endAt: number): Promise<void> {
    try {
      const { protocol, wkr_protocol: version } = await this.status(endAt);
      // A model takes what it is sent, and has no protocol.
      if (protocol !== undefined && (protocol === 'numpy' ? 'npy' : protocol) !== this.#protocol) {
        throw badConfig(
          `the service speaks the protocol ${JSON.stringify(protocol)}, this client ${this.#protocol}`,
        );
      }
      if (version !== PROTOCOL) {
        throw badConfig(
          `the service has version ${JSON.stringify(version)} of the frames, this client ${PROTOCOL}`,
        );
      }
      this.#mustCheck = false;
    } finally {
      this.#checked = undefined;
    }
  }
}
