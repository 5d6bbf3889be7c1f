/**
 * Measures a model at each point (function, threads, records of an event) within a time limit, and says why a point was
 * skipped. Machines drift, so points take turns, in another order each round. Each has a process of its own, which stays
 * for its next turn where memory allows; a point that would not fit memory or time is never started.
 */
import { loadavg } from 'node:os';
import { neededMB } from '../../convert/lambda-fit.ts';
import { ServingError } from '../../lib/contract/errors.ts';
import { LIMITS } from '../../lib/contract/limits.ts';
import type { Measured } from './child.ts';
import {
  type Door,
  type MeasuredPoint,
  type ModelFacts,
  type Point,
  pointName,
  type SkippedPoint,
} from './points.ts';
import type { TuneProcess } from './process.ts';
import type { OpenRequest } from './run.ts';
import { failureOf, measuredPoint, type Running, startRunning } from './running.ts';

interface MeasureRequest extends Omit<OpenRequest, 'point'> {
  /** Ascending; 1 first. */
  readonly threads: readonly number[];
  /** Which functions. */
  readonly doors: readonly Door[];
  /** Most records of an event. */
  readonly maxBatch: number;
  /** More memory than this no function in question has. */
  readonly mostMB: number;
  readonly limitMs: number;
}

export interface Measurement {
  readonly facts: ModelFacts;
  readonly points: readonly MeasuredPoint[];
  readonly skipped: readonly SkippedPoint[];
  /** Why batches end where they do, where it is not --max-batch. */
  readonly batchLimit: string | undefined;
  readonly rounds: number;
  readonly tookMs: number;
  /** Processes that wanted to run here, in the minute before and after. */
  readonly load: readonly [before: number, after: number];
}

interface MeasureHooks {
  readonly signal: AbortSignal;
  /** @param share from 0 to 1, of the time */
  readonly onTurn: (share: number, what: string) => void;
  /** Monotonic, in ms. */
  readonly now: () => number;
}

const MOST_ROUNDS = 9;
const LEAST_TURN_MS = 40;
const MOST_TURN_MS = 400;
const WARM_MS = 150;
/** A point of which nothing else is to be said. */
export const SMALLER_FAILED = 'a smaller one was not measured';
/** The first of each door are measured however long they take, up to this. */
const FIRST_LIMIT_MS = 120_000;
/** What answering takes over what was expected. */
const GRACE_MS = 5_000;
/** Of the memory that is free here. */
const MOST_OF_FREE = 0.6;

/** @throws what the model cannot be opened or run with; the signal's reason */
export async function measurePoints(request: MeasureRequest, hooks: MeasureHooks): Promise<Measurement> {
  const campaign = new Campaign(request, hooks);
  const end = () => void campaign.end();
  hooks.signal.addEventListener('abort', end);
  try {
    hooks.signal.throwIfAborted();
    return await campaign.run();
  } catch (error) {
    hooks.signal.throwIfAborted();
    throw error;
  } finally {
    hooks.signal.removeEventListener('abort', end);
    await campaign.end();
  }
}

/** How many records an event may have: powers of two of what one run takes. */
export function batchSizes(
  facts: ModelFacts,
  maxBatch: number,
): { sizes: number[]; limit: string | undefined } {
  const room = Math.max(1, Math.floor(LIMITS.httpBodyBytes / facts.eventBytes));
  const unit = Math.min(room, facts.shared ? (facts.fixedRows ?? 1) : 1);
  const most = Math.min(maxBatch, room);
  const sizes = [unit];
  for (let size = unit * 2; size <= most; size *= 2) sizes.push(size);
  const limit =
    room < maxBatch ? `${room} records of ${facts.eventBytes} bytes fill an event (6 MiB)` : undefined;
  return { sizes, limit };
}

class Campaign {
  readonly #request: MeasureRequest;
  readonly #hooks: MeasureHooks;
  readonly #start: number;
  readonly #until: number;
  readonly #running: Running[] = [];
  readonly #skipped: SkippedPoint[] = [];
  #facts: ModelFacts | undefined;
  /** From starting a process to its first call, the last time. */
  #startMs = 500;

  constructor(request: MeasureRequest, hooks: MeasureHooks) {
    this.#request = request;
    this.#hooks = hooks;
    this.#start = hooks.now();
    this.#until = this.#start + request.limitMs;
  }

  async run(): Promise<Measurement> {
    const { threads, doors, maxBatch } = this.#request;
    const before = loadavg()[0] ?? 0;
    const first = threads[0] as number;
    const isPredicting = doors.includes('predict');
    await this.#begin({ door: doors[0] as Door, threads: first, records: 1 }, true);
    const facts = this.#facts as ModelFacts;
    const { sizes, limit } = batchSizes(facts, maxBatch);
    const isBatching = doors.includes('batch');
    const events = isBatching ? sizes.map((records) => ({ door: 'batch', records }) as const) : [];
    if (isPredicting && events[0]) await this.#begin({ ...events[0], threads: first }, true);
    const requests = isPredicting ? [{ door: 'predict', records: 1 } as const] : [];
    for (const each of [...requests, ...events]) {
      for (const count of threads) {
        const point = { ...each, threads: count };
        if (!this.#isDone(point)) await this.#begin(point);
      }
    }
    const rounds = await this.#rounds();
    if (this.#running.length === 0) {
      throw new ServingError('model_failed', `nothing could be measured: ${this.#skipped[0]?.reason}`);
    }
    return {
      facts,
      points: this.#running.map(measuredPoint),
      skipped: this.#skipped,
      batchLimit: isBatching ? limit : undefined,
      rounds,
      tookMs: this.#hooks.now() - this.#start,
      load: [before, loadavg()[0] ?? 0],
    };
  }

  async end(): Promise<void> {
    for (const { process } of this.#running) await process?.end();
  }

  #isDone({ door, threads, records }: Point): boolean {
    const isSame = (other: Point) =>
      other.door === door && other.threads === threads && other.records === records;
    return this.#running.some(({ point }) => isSame(point)) || this.#skipped.some(isSame);
  }

  /** A point's first turn, in a new process. @param isFirst it is measured whatever it takes, or the reason is told */
  async #begin(point: Point, isFirst = false): Promise<void> {
    this.#hooks.signal.throwIfAborted();
    const reason = isFirst ? undefined : this.#reasonAgainst(point);
    if (reason !== undefined) return this.#skip(point, reason);
    const running = startRunning(point);
    // From now on it is ended with all others.
    this.#running.push(running);
    const begin = this.#hooks.now();
    const { file, shapeless, sizes, data, job } = this.#request;
    const limitMs = isFirst ? FIRST_LIMIT_MS : Math.max(GRACE_MS, this.#until - begin + GRACE_MS);
    this.#tell(point);
    const told = await (running.process as TuneProcess).ask(
      { open: { file, shapeless, sizes, data, job, point } },
      limitMs,
    );
    if (!('facts' in told)) {
      if (this.#facts === undefined) throw failureOf(told);
      return this.#drop(running, failureOf(told).message);
    }
    this.#facts ??= told.facts;
    this.#startMs = this.#hooks.now() - begin;
    // A function is compiled by V8 after some hundred calls; a slow model has its two.
    const warm = await this.#ask(running, WARM_MS, limitMs);
    if (!warm) return;
    running.callMs = warm.block.callMs.at(-1) as number;
    await this.#turn(running);
    await this.#makeRoom();
  }

  /** By what a smaller one took. */
  #reasonAgainst(point: Point): string | undefined {
    const { mostMB, limitMs } = this.#request;
    const smaller = this.#running.findLast(
      ({ point: other, blocks }) =>
        other.door === point.door &&
        blocks.length > 0 &&
        (other.threads === point.threads || point.records === 1),
    );
    const failed = this.#skipped.some(
      ({ door, threads, records }) =>
        door === point.door && threads === point.threads && records < point.records,
    );
    if (failed) return SMALLER_FAILED;
    const growth = smaller ? point.records / smaller.point.records : 1;
    const expectedMs = this.#startMs + 5 * (smaller?.callMs ?? 0) * growth;
    if (this.#hooks.now() + expectedMs > this.#until) {
      return `no time left of ${Math.round(limitMs / 1000)} s; --seconds gives more`;
    }
    if (!smaller) return undefined;
    const needs = neededMB({ points: [{ rows: 1, peakBytes: smaller.peakBytes }] }, 1);
    if (growth > 1 && needs > mostMB) return `half as many need ${needs} MB already`;
    if (smaller.residentBytes * growth > process.availableMemory() * MOST_OF_FREE) {
      return 'it may not fit the free memory of this machine';
    }
    return undefined;
  }

  async #rounds(): Promise<number> {
    let rounds = 1;
    while (rounds < MOST_ROUNDS && this.#hooks.now() < this.#until) {
      const alive = this.#running.filter(({ process }) => process !== undefined);
      const from = Math.floor((rounds * alive.length) / MOST_ROUNDS);
      const order = [...alive.slice(from), ...alive.slice(0, from)];
      let turns = 0;
      for (const running of rounds % 2 === 0 ? order : order.reverse()) {
        if (this.#hooks.now() + 3 * running.callMs > this.#until) continue;
        await this.#turn(running, alive.length);
        turns++;
      }
      if (turns === 0) break;
      rounds++;
    }
    return rounds;
  }

  async #turn(running: Running, others = 20): Promise<void> {
    const left = Math.max(0, this.#until - this.#hooks.now());
    const measureMs = Math.min(MOST_TURN_MS, Math.max(LEAST_TURN_MS, left / (others * MOST_ROUNDS)));
    this.#tell(running.point);
    const told = await this.#ask(running, measureMs, 2 * measureMs + 20 * running.callMs + GRACE_MS);
    if (!told) return;
    const { block, peakBytes, residentBytes } = told;
    running.blocks.push(block);
    running.peakBytes = Math.max(running.peakBytes, peakBytes);
    running.residentBytes = residentBytes;
  }

  /** Undefined where the point fails, which is then no point any more. */
  async #ask(running: Running, measureMs: number, limitMs: number): Promise<Measured | undefined> {
    const told = await (running.process as TuneProcess).ask({ measureMs }, limitMs);
    if ('measured' in told) return told.measured;
    this.#drop(running, failureOf(told).message);
    return undefined;
  }

  /** Those that take most have had their only turn. */
  async #makeRoom(): Promise<void> {
    const alive = this.#running.filter(({ process }) => process !== undefined);
    let taken = alive.reduce((sum, { residentBytes }) => sum + residentBytes, 0);
    const most = (process.availableMemory() + taken) * MOST_OF_FREE;
    for (const running of alive.toSorted((a, b) => b.residentBytes - a.residentBytes)) {
      if (taken <= most) return;
      taken -= running.residentBytes;
      await running.process?.end();
      running.process = undefined;
    }
  }

  #drop(running: Running, reason: string): void {
    this.#running.splice(this.#running.indexOf(running), 1);
    this.#skip(running.point, reason);
  }

  #skip(point: Point, reason: string): void {
    this.#hooks.signal.throwIfAborted();
    this.#skipped.push({ ...point, reason });
  }

  #tell(point: Point): void {
    const share = (this.#hooks.now() - this.#start) / this.#request.limitMs;
    this.#hooks.onTurn(Math.min(1, share), pointName(point));
  }
}
