/** Requests whose results wait at the service under the client's identity, and what came of them. */
import { isCount } from '../../lib/codecs/values/frame.ts';
import { isObject } from '../../lib/codecs/values/read-value.ts';
import { malformed } from '../fetch.ts';
import { type CallOptions, sleep } from '../limit.ts';
import { MEDIA_TYPE, readFrame, readResult, type WKRResult } from './answers.ts';
import type { Service } from './service.ts';

const WAIT_SECONDS = 20;
/** Between two looks at a service that does not wait. */
const LOOK_MS = 250;

/** A loop that sends. */
export interface Sending {
  isDone: boolean;
  isStopped: boolean;
  error?: unknown;
}

export class PendingResults {
  /** Ids by their marked form: of requests without a result, and those of them that the service has accepted. */
  readonly #pending = new Map<string, string>();
  readonly #accepted = new Set<string>();
  readonly #arrived: WKRResult[] = [];
  readonly #waiting: (() => void)[] = [];
  readonly #service: Service;
  readonly #identity: string;
  readonly #timeoutMs: number;
  #asking: Promise<void> | undefined;
  #cursor = 0;

  constructor(service: Service, identity: string, timeoutMs: number) {
    this.#service = service;
    this.#identity = identity;
    this.#timeoutMs = timeoutMs;
  }

  get ids(): string[] {
    return [...this.#pending.values(), ...this.#arrived.map(({ id }) => id)];
  }

  has(marked: string): boolean {
    return this.#pending.has(marked);
  }

  /** Runs `send` for a request, whose result may come before `send` returns. */
  async during(marked: string, id: string, send: () => Promise<void>): Promise<void> {
    this.#pending.set(marked, id);
    try {
      await send();
      if (this.#pending.has(marked)) this.#accepted.add(marked);
    } catch (error) {
      this.#pending.delete(marked);
      throw error;
    } finally {
      this.wake();
    }
  }

  /** Waits until fewer than `most` are pending. */
  async room(most: number, sending: Sending): Promise<void> {
    while (this.#pending.size + this.#arrived.length >= most && !sending.isStopped) await this.#change();
  }

  /** Gives results to the next caller of `take`. */
  add(...results: readonly WKRResult[]): void {
    this.#arrived.unshift(...results);
    this.wake();
  }

  wake(): void {
    for (const resolve of this.#waiting.splice(0)) resolve();
  }

  /** Yields results until none is pending and nothing is sent any more. @throws timeout when none came in time */
  async *take(sending?: Sending, { timeoutMs, signal }: CallOptions = {}): AsyncGenerator<WKRResult> {
    const wake = () => this.wake();
    signal?.addEventListener('abort', wake);
    try {
      for (let endAt = this.#end(timeoutMs); ; ) {
        signal?.throwIfAborted();
        const result = this.#arrived.shift();
        if (result) {
          this.wake();
          yield result;
          endAt = this.#end(timeoutMs);
        } else if (this.#accepted.size > 0) {
          this.#asking ??= this.#receive(endAt).finally(() => {
            this.#asking = undefined;
          });
          // The change may be that the signal is aborted. What is asked for then waits for the next caller.
          await Promise.race([this.#asking, this.#change()]);
        } else if (this.#pending.size > 0 || sending?.isDone === false) await this.#change();
        else return;
      }
    } finally {
      signal?.removeEventListener('abort', wake);
    }
  }

  async #receive(endAt: number): Promise<void> {
    const askedAt = performance.now();
    const wait = Math.max(0, Math.min(WAIT_SECONDS, Math.floor((endAt - askedAt) / 1000)));
    const path = `/results/${this.#identity}?after=${this.#cursor}&wait=${wait}`;
    const { header, reader } = readFrame(await this.#service.get(path, endAt, MEDIA_TYPE), 'results');
    const { cursor, results } = header;
    if (!isCount(cursor) || cursor < this.#cursor || !Array.isArray(results)) throw malformed('the results');
    const own = results.flatMap((result: unknown) => {
      if (!isObject(result) || typeof result['id'] !== 'string') throw malformed('a result has no id');
      // Those of other clients with this identity stay unread.
      const id = this.#pending.get(result['id']);
      return id === undefined ? [] : [[result['id'], readResult(id, result['outcome'], reader)] as const];
    });
    const hasMore = cursor > this.#cursor;
    this.#cursor = cursor;
    for (const [marked, result] of own) {
      this.#accepted.delete(marked);
      if (this.#pending.delete(marked)) this.#arrived.push(result);
    }
    this.wake();
    const leftMs = Math.min(LOOK_MS - (performance.now() - askedAt), endAt - performance.now());
    if (!hasMore && leftMs > 0) await sleep(leftMs);
  }

  #change(): Promise<void> {
    return new Promise((resolve) => this.#waiting.push(resolve));
  }

  #end(timeoutMs = this.#timeoutMs): number {
    return performance.now() + timeoutMs;
  }
}

/** Ids sort as numbers, others behind them. */
export function byNumber(a: WKRResult, b: WKRResult): number {
  const [x, y] = [a, b].map(({ id }) => (/^\d+$/.test(id) ? BigInt(id) : undefined));
  if (x !== undefined && y !== undefined) return x < y ? -1 : 1;
  if (x === undefined && y === undefined) return a.id < b.id ? -1 : 1;
  return x === undefined ? 1 : -1;
}
