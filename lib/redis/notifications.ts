/**
 * Wakes waiting callers when a message is published on a channel. A connection that subscribes can run no other command,
 * so all callers share a second connection. A message can be lost while it reconnects, so each wait also ends from time to
 * time to look again.
 */
import type { Redis } from 'ioredis';
import { leave } from '../contract/under-way.ts';
import type { RedisConnection } from './connection.ts';

/** The longest delay that a lost message causes, in ms. */
const LOOK_AGAIN_MS = 5_000;

interface Subscription {
  /** Resolves at the next message, or after a while. @throws the signal's reason */
  next(signal: AbortSignal): Promise<void>;
  stop(): void;
}

export class ResultNotifications {
  readonly #connection: RedisConnection;
  readonly #listeners = new Map<string, Set<() => void>>();
  #subscriber: Promise<Redis> | undefined;

  constructor(connection: RedisConnection) {
    this.#connection = connection;
  }

  /** Resolves when Redis has confirmed the subscription. @throws results_unavailable */
  async subscribe(channel: string): Promise<Subscription> {
    let heard = false;
    let wake: () => void = () => undefined;
    const onMessage = () => {
      heard = true;
      wake();
    };
    const listeners = this.#listeners.get(channel) ?? new Set();
    listeners.add(onMessage);
    this.#listeners.set(channel, listeners);
    const stop = () => {
      listeners.delete(onMessage);
      if (listeners.size > 0 || this.#listeners.get(channel) !== listeners) return;
      this.#listeners.delete(channel);
      if (this.#subscriber) leave(this.#subscriber.then((redis) => redis.unsubscribe(channel)));
    };
    try {
      await this.#subscribe(channel);
    } catch (error) {
      stop();
      throw error;
    }
    return {
      stop,
      next: (signal) =>
        new Promise((resolve, reject) => {
          const done = (settle: () => void) => {
            clearTimeout(timer);
            signal.removeEventListener('abort', onAbort);
            heard = false;
            wake = () => undefined;
            settle();
          };
          const onAbort = () => done(() => reject(signal.reason as Error));
          const timer = setTimeout(() => done(resolve), LOOK_AGAIN_MS);
          if (signal.aborted) return onAbort();
          signal.addEventListener('abort', onAbort);
          wake = () => done(resolve);
          if (heard) wake();
        }),
    };
  }

  async #subscribe(channel: string): Promise<void> {
    const isKept = this.#subscriber !== undefined;
    this.#subscriber ??= this.#connection.subscriber(
      (heardOn) => {
        for (const onMessage of this.#listeners.get(heardOn) ?? []) onMessage();
      },
      () => this.#listeners.size > 0,
    );
    try {
      await (await this.#subscriber).subscribe(channel);
    } catch (error) {
      this.close();
      // A connection that was kept may have broken without a word while the environment was frozen.
      if (isKept) return this.#subscribe(channel);
      throw this.#connection.unavailable(error);
    }
  }

  close(): void {
    if (this.#subscriber) leave(this.#subscriber.then((redis) => redis.disconnect()));
    this.#subscriber = undefined;
  }
}
