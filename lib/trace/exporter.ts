/**
 * Sends spans to their receiver. No answer waits for it beyond a limit, and none fails because of it: what does not fit into
 * the buffer or is not taken is dropped, and a receiver that is silent or refuses is reported once, and then left alone for
 * a while.
 */
import { asError } from '../contract/errors.ts';
import { otlpBody, type Span } from './otlp.ts';
import type { TraceSettings } from './settings.ts';

interface ExporterOptions extends Pick<TraceSettings, 'url' | 'headers' | 'resource' | 'timeoutMs'> {
  /** True: spans are sent every second. False: only when asked, because the process is frozen in between. */
  readonly isPeriodic: boolean;
  readonly warn: (message: string) => void;
}

/** Spans that wait at most, and those of one request. */
const MAX_WAITING = 2_048;
const PER_REQUEST = 512;
const SEND_EVERY_MS = 1_000;
const PAUSE_MS = 30_000;
/** At most this much of an answer is read. */
const MAX_ANSWER_BYTES = 65_536;

export class Exporter {
  readonly #options: ExporterOptions;
  readonly #waiting: Span[] = [];
  #sending: Promise<void> | undefined;
  #timer: NodeJS.Timeout | undefined;
  #stop = new AbortController();
  #pausedUntil = 0;
  #isWarned = false;

  constructor(options: ExporterOptions) {
    this.#options = options;
  }

  add(span: Span): void {
    if (this.#waiting.length >= MAX_WAITING) return;
    this.#waiting.push(span);
    if (!this.#options.isPeriodic) return;
    if (this.#waiting.length >= PER_REQUEST) void this.#send();
    else this.#schedule(SEND_EVERY_MS);
  }

  /** Sends what waits. A request that takes longer than `limitMs` is aborted; its receiver has its spans, or is away. */
  async sendWithin(limitMs: number): Promise<void> {
    // They wait for an answer that has more time.
    if (limitMs > 0) await this.close(limitMs);
  }

  /** As sendWithin, with at least one attempt. */
  async close(limitMs: number): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const late = () => this.#stop.abort(new Error(`no answer within ${limitMs} ms`));
    const timer = setTimeout(late, limitMs);
    await this.#send();
    clearTimeout(timer);
    if (this.#stop.signal.aborted) this.#stop = new AbortController();
  }

  #schedule(ms: number): void {
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined;
      void this.#send();
    }, ms).unref();
  }

  #send(): Promise<void> {
    this.#sending ??= this.#sendAll().finally(() => {
      this.#sending = undefined;
    });
    return this.#sending;
  }

  /** Never throws. */
  async #sendAll(): Promise<void> {
    while (this.#waiting.length > 0 && performance.now() >= this.#pausedUntil) {
      const problem = await this.#post(this.#waiting.splice(0, PER_REQUEST));
      if (problem === undefined) this.#isWarned = false;
      else this.#pause(problem);
    }
    if (this.#waiting.length > 0 && this.#options.isPeriodic) this.#schedule(PAUSE_MS);
  }

  #pause(problem: string): void {
    this.#pausedUntil = performance.now() + PAUSE_MS;
    if (this.#isWarned) return;
    this.#isWarned = true;
    this.#options.warn(`${this.#options.url} takes no spans: ${problem}; requests go on without them`);
  }

  /** @returns why the receiver did not take them. They are not sent again, because it may have them. */
  async #post(spans: readonly Span[]): Promise<string | undefined> {
    const { url, headers, resource, timeoutMs } = this.#options;
    try {
      const signal = AbortSignal.any([AbortSignal.timeout(timeoutMs), this.#stop.signal]);
      const body = otlpBody(resource, spans);
      const answer = await fetch(url, { method: 'POST', headers, body, redirect: 'error', signal });
      // An answer that was read leaves its connection open for the next request.
      let bytes = 0;
      for await (const chunk of answer.body ?? []) if ((bytes += chunk.length) > MAX_ANSWER_BYTES) break;
      return answer.ok ? undefined : `HTTP ${answer.status}`;
    } catch (error) {
      const { message, cause } = asError(error);
      return cause instanceof Error ? cause.message || cause.name : message;
    }
  }
}
