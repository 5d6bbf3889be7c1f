/**
 * Takes results by leases, in any store: one, a page, or all. A lease takes a result away from all others and can be repeated by
 * its client, so that an answer that gets lost loses nothing.
 */
import { ServingError } from '../contract/errors.ts';
import type { Dequeued, Result } from '../contract/result.ts';
import { parseResult } from './fields.ts';
import type { UseQuery } from './store.ts';

/** How long a leased result can be read again by a client whose answer got lost. */
export const LEASE_MS = 10 * 60 * 1000;
/** Size limit of a lease, in bytes, where the caller sets none. */
export const MAX_BYTES = 32 * 1024 * 1024;
const DRAIN_PAGE = 100;
/** How many lost answers a client remembers. */
const MAX_UNANSWERED = 1_000;

export interface Lease {
  readonly uri: string;
  /** Id of the lease. */
  readonly leaseId: string;
  /** The time to live that was left, in ms: -1 for none, 0 when nothing was leased. */
  readonly leftMs: number;
}

export interface LeasedResult {
  readonly fields: Readonly<Record<string, string>>;
  /** The reason for missing fields: the key has another type, or the result is too large. */
  readonly error: ServingError | undefined;
  /** True if this lease removed the uri from the index. If two clients dequeue a cancelled uri, one of them did. */
  readonly wasListed: boolean;
  /** For `release`. */
  readonly lease: Lease;
}

export interface TakeLimits {
  /** Size limit of all values together; the results above it stay. Default 32 MiB. */
  readonly maxBytes?: number;
  /** A larger first result is reported as `too_large`, stays under its uri and leaves the index. Default no limit. */
  readonly maxBytesOfOne?: number;
  /** Only results of this enqueue. Default any. */
  readonly identity?: string | undefined;
  /** The handling of large results: '' (stay), 'list' (stay and leave the index), or the id of the only one that is taken. Default ''. */
  readonly large?: string | undefined;
}

export interface Leases {
  /**
   * Leases the results of `uris`, in order; of the first ones only, when the size limit is reached.
   * @throws results_unavailable; asking again loses nothing
   */
  take(uris: readonly string[], limits?: TakeLimits): Promise<LeasedResult[]>;
  /**
   * Returns unused results to their uris, for the next client that asks.
   * @throws results_unavailable; then only this client can lease them again
   */
  release(taken: readonly LeasedResult[]): Promise<void>;
  /** Up to `count` uris whose answers were lost, of the leases that named no identity. */
  unanswered(count: number): string[];
}

/** Walks the uris with results, the first to expire first. Walk on when the uris of the page before are taken. */
export type Pages = (count: number, maxBytes: number) => AsyncGenerator<readonly string[]>;

export class Dequeue {
  readonly #leases: Leases;
  readonly #pages: Pages;

  constructor(leases: Leases, pages: Pages) {
    this.#leases = leases;
    this.#pages = pages;
  }

  async take(uri: string, { identity, fetched, use }: UseQuery = {}): Promise<Result | undefined> {
    const [taken] = await this.#leases.take([uri], { identity, large: fetched });
    if (taken?.error) throw taken.error;
    const result = parseResult(uri, taken?.fields ?? {});
    if (!use || !taken || !result) return result;
    try {
      use(result);
    } catch (error) {
      await this.#leases.release([taken]);
      throw error;
    }
    return result;
  }

  /** A large result leaves the index and stays under its uri. */
  async *drain(): AsyncGenerator<Dequeued> {
    const pages = this.#pages(DRAIN_PAGE, MAX_BYTES);
    for (;;) {
      const page = await this.#takeListed(DRAIN_PAGE, {}, pages);
      if (!page) return;
      let used = 0;
      try {
        for (const taken of page) {
          used++;
          const dequeued = dequeuedOf(taken);
          if (dequeued) yield dequeued;
        }
      } finally {
        // A result that cannot be released now is leased again by this store.
        await this.#leases.release(page.slice(used)).catch(() => undefined);
      }
    }
  }

  async takePage(count: number, maxBytes?: number): Promise<Dequeued[] | undefined> {
    const limits = maxBytes === undefined ? {} : { maxBytes, maxBytesOfOne: maxBytes };
    const page = await this.#takeListed(count, limits);
    return page?.flatMap((taken) => dequeuedOf(taken) ?? []);
  }

  /** An entry whose result another client has taken is skipped. */
  async #takeListed(
    count: number,
    limits: TakeLimits = {},
    pages = this.#pages(count, limits.maxBytes ?? MAX_BYTES),
  ): Promise<LeasedResult[] | undefined> {
    const again = this.#leases.unanswered(count);
    const uris: readonly string[] | undefined = again.length > 0 ? again : (await pages.next()).value;
    if (!uris) return undefined;
    return (await this.#leases.take(uris, { ...limits, large: 'list' })).filter(({ wasListed }) => wasListed);
  }
}

/** The ids of leases whose answers were lost, by what was asked for. */
export class Unanswered {
  readonly #leases = new Map<string, string>();

  remember(uri: string, identity: string | undefined, leaseId: string): void {
    const asked = askedKey(uri, identity);
    if (this.#leases.size < MAX_UNANSWERED && !this.#leases.has(asked)) this.#leases.set(asked, leaseId);
  }

  leaseOf(uri: string, identity: string | undefined): string | undefined {
    return this.#leases.get(askedKey(uri, identity));
  }

  forget(uri: string, identity: string | undefined): void {
    this.#leases.delete(askedKey(uri, identity));
  }

  /** Up to `count` uris that were asked for without an identity. */
  uris(count: number): string[] {
    const asked = [...this.#leases.keys()].filter((key) => !key.includes(SEPARATOR));
    return asked.slice(0, count);
  }
}

/** A line feed, which no uri contains. */
const SEPARATOR = '\n';

function askedKey(uri: string, identity: string | undefined): string {
  return identity === undefined ? uri : `${uri}${SEPARATOR}${identity}`;
}

/** True for the id of a large result that was fetched. It is not asked for again. */
export function isFetched(large: string): boolean {
  return large !== '' && large !== 'list';
}

/** In place of a result that is too large for a page. */
export function tooLargeForPage(uri: string): ServingError {
  return new ServingError('too_large', 'the result is too large for a page; query it by its uri', { uri });
}

function dequeuedOf({ lease: { uri }, fields, error }: LeasedResult): Dequeued | undefined {
  if (error) return { uri, error };
  try {
    const result = parseResult(uri, fields);
    return result && { uri, result };
  } catch (failure) {
    return { uri, error: ServingError.from(failure) };
  }
}
