/**
 * Moves what clients of the original Cluster Serving write into a Redis stream to the job's queue, so that they work
 * unchanged. An entry is removed from the stream when the queue has its record: a bridge that is killed loses nothing, and
 * what it had read goes to another one.
 */
import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import { setTimeout as delay } from 'node:timers/promises';
import { badConfig, type ErrorCode, ServingError } from '../../lib/contract/errors.ts';
import type { SentRecord } from '../../lib/pipeline/submit.ts';
import { RedisConnection } from '../../lib/redis/connection.ts';
import { type DeadEntry, StreamConsumer, type StreamEntry } from '../../lib/redis/stream.ts';
import { countOf, recordOf } from './record.ts';

export interface BridgeOptions {
  /** The Redis of the stream. */
  readonly redisUrl: string;
  readonly stream: string;
  /** Sends a record to the queue. @throws ServingError */
  readonly send: (record: SentRecord) => Promise<void>;
  readonly warn: (message: string) => void;
  readonly onMoved?: (moved: Moved) => void;
  /** Entries that another bridge read and did not finish for so long are taken from it. Default 60 s. */
  readonly claimAfterMs?: number | undefined;
  /** Ends when nothing was left to read. */
  readonly once?: boolean;
}

/** Entries since the start. */
export interface Moved {
  readonly enqueued: number;
  readonly dead: number;
}

export interface Bridge {
  /** Resolves when the bridge has ended, rejects when it cannot work. */
  readonly ended: Promise<Moved>;
  /** Finishes what is being sent. */
  close(): Promise<void>;
}

/** The group of all bridges of a stream. Clients of the original create `serving`, which its server reads. */
export const GROUP = 'cluster-serving';
const FORMER_GROUP = 'serving';

const ENTRIES = 64;
const BLOCK_MS = 1_000;
const TIMEOUT_MS = 5_000;
const CLAIM_AFTER_MS = 60_000;
const FIRST_PAUSE_MS = 100;
const MAX_PAUSE_MS = 10_000;
/** Between reads of a server that does not block, as the embedded one. */
const POLL_MS = 100;
/** What another attempt with the same record cannot change. */
const RECORD_FAULTS: readonly ErrorCode[] = ['bad_request', 'bad_input', 'too_large'];

/** Opens the stream. @throws results_unavailable when Redis does not answer; bad_config when it is in cluster mode */
export async function startBridge(options: BridgeOptions): Promise<Bridge> {
  const { redisUrl, stream } = options;
  const timeouts = { connectTimeoutMs: TIMEOUT_MS, commandTimeoutMs: TIMEOUT_MS + BLOCK_MS };
  const connection = new RedisConnection(redisUrl, timeouts);
  const consumer = `${hostname()}-${process.pid}-${randomUUID().slice(0, 8)}`;
  const reader = new StreamConsumer(connection, { stream, group: GROUP, consumer });
  const stop = new AbortController();
  try {
    await assertNoCluster(connection, redisUrl);
    await createGroup(reader, options);
  } catch (error) {
    await connection.close();
    throw error;
  }
  const ended = new Mover(reader, options, stop.signal).run();
  const closed = ended.catch(() => undefined).then(() => connection.close());
  return {
    ended,
    async close() {
      stop.abort();
      const other = new RedisConnection(redisUrl, timeouts);
      // Not awaited: a Redis that does not answer must not hold the end up longer than the read itself.
      void reader.interrupt(other);
      await closed.then(() => other.close());
    },
  };
}

/** The list of dead entries may be on another node than the stream, and clients of the original know no slots. */
async function assertNoCluster(connection: RedisConnection, url: string): Promise<void> {
  // A user may be forbidden to ask.
  const facts = await connection.use((redis) => redis.info('cluster').catch(() => ''), true);
  if (!/^cluster_enabled:1/m.test(facts)) return;
  throw badConfig(
    `Redis at ${new URL(url).host} is in cluster mode, which clients of the original Cluster Serving cannot use: ` +
      'give the bridge the Redis that they write to',
  );
}

/** Begins where the server of the original ended, if it ever read this stream, and else at the first entry. */
async function createGroup(reader: StreamConsumer, { stream, warn }: BridgeOptions): Promise<void> {
  const groups = await reader.groups();
  if (groups.some(({ name }) => name === GROUP)) return;
  const former = groups.find(({ name, consumers }) => name === FORMER_GROUP && consumers > 0);
  if (former && former.pending > 0)
    warn(`stream ${stream}: ${countOf(former.pending)} that a former server read will not be enqueued again`);
  await reader.createGroup(former?.lastId ?? '0');
}

class Mover {
  readonly #reader: StreamConsumer;
  readonly #options: BridgeOptions;
  readonly #stop: AbortSignal;
  readonly #claimAfterMs: number;
  #claimedAt = Number.NEGATIVE_INFINITY;
  #enqueued = 0;
  #dead = 0;

  constructor(reader: StreamConsumer, options: BridgeOptions, stop: AbortSignal) {
    this.#reader = reader;
    this.#options = options;
    this.#stop = stop;
    this.#claimAfterMs = options.claimAfterMs ?? CLAIM_AFTER_MS;
  }

  async run(): Promise<Moved> {
    while (!this.#stop.aborted) {
      const beganAt = performance.now();
      const entries = await this.#persistently(() => this.#next());
      if (entries === undefined) break;
      if (entries.length > 0) await this.#move(entries);
      else if (this.#options.once) break;
      else await stopsWithin(Math.max(0, beganAt + POLL_MS - performance.now()), this.#stop);
    }
    return this.#moved();
  }

  #moved(): Moved {
    return { enqueued: this.#enqueued, dead: this.#dead };
  }

  async #next(): Promise<StreamEntry[]> {
    try {
      return await this.#claimOrRead();
    } catch (error) {
      // Somebody deleted the stream, as FLUSHALL does.
      if (!/NOGROUP|no such key/i.test((error as Error).message)) throw error;
      await this.#reader.createGroup('0');
      return [];
    }
  }

  async #claimOrRead(): Promise<StreamEntry[]> {
    if (performance.now() - this.#claimedAt >= this.#claimAfterMs) {
      const claimed = await this.#reader.claim(ENTRIES, this.#claimAfterMs);
      if (claimed.length > 0) return claimed;
      this.#claimedAt = performance.now();
      await this.#reader.forgetConsumers(this.#claimAfterMs);
    }
    return this.#reader.read(ENTRIES, this.#options.once ? 1 : BLOCK_MS);
  }

  async #move(entries: readonly StreamEntry[]): Promise<void> {
    const dead: DeadEntry[] = [];
    let left = entries;
    // What was not sent when the bridge stops stays pending in the stream.
    await this.#persistently(async () => {
      const outcomes = await Promise.all(left.map((entry) => this.#send(entry)));
      const sent = left.filter((_, i) => outcomes[i] === undefined);
      const failed = left.flatMap((entry, i) => (outcomes[i] ? [{ entry, error: outcomes[i] }] : []));
      const refused = failed.filter(({ error }) => isRecordFault(error));
      const others = failed.filter(({ error }) => !isRecordFault(error));
      dead.push(...refused.map(({ entry, error }) => ({ entry, reason: error.message })));
      left = others.map(({ entry }) => entry);
      await this.#reader.remove(sent);
      this.#enqueued += sent.length;
      if (others[0]) throw others[0].error;
    });
    await this.#persistently(() => this.#reader.reject(dead));
    this.#dead += dead.length;
    this.#options.onMoved?.(this.#moved());
  }

  async #send(entry: StreamEntry): Promise<ServingError | undefined> {
    try {
      await this.#options.send(recordOf(entry));
      return undefined;
    } catch (error) {
      return ServingError.from(error);
    }
  }

  /** Repeats what fails until it succeeds. @returns undefined when the bridge was stopped before */
  async #persistently<T>(work: () => Promise<T>): Promise<T | undefined> {
    for (let pauseMs = FIRST_PAUSE_MS; ; pauseMs = Math.min(2 * pauseMs, MAX_PAUSE_MS)) {
      try {
        return await work();
      } catch (error) {
        const known = ServingError.from(error);
        if (!known.retryable) throw known;
        if (pauseMs === FIRST_PAUSE_MS)
          this.#options.warn(`stream ${this.#options.stream}: ${known.message}; it is tried again`);
        if (await stopsWithin(pauseMs, this.#stop)) return undefined;
      }
    }
  }
}

function isRecordFault({ code }: ServingError): boolean {
  return RECORD_FAULTS.includes(code);
}

function stopsWithin(ms: number, signal: AbortSignal): Promise<boolean> {
  return delay(ms, false, { signal }).catch(() => true);
}
