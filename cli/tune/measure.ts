/**
 * Measures a model at each point (function, threads, records of an event) within a time limit, and records why a
 * point was skipped. Machines drift, so points take turns in a different order each round. Each has its own process,
 * which is kept for its next turn if memory allows; a point that would exceed memory or time is never started.
 */

import { loadavg } from 'node:os';
import { isErrorCode, ServingError } from '../../lib/contract/errors.ts';
import { LIMITS } from '../../lib/contract/limits.ts';
import { present } from '../../lib/contract/present.ts';
import { neededMB } from '../../onnx-import/lambda-fit.ts';
import type { ChildAnswer, Measured } from './child.ts';
import {
  type Block,
  type Endpoint,
  type MeasuredPoint,
  type ModelFacts,
  type Point,
  pointName,
  type SkippedPoint,
  timesOf,
} from './points.ts';
import { TuneProcess } from './process.ts';
import type { OpenRequest } from './run.ts';

interface MeasureRequest {
  readonly open: Omit<OpenRequest, 'point'>;
  /** Ascending; 1 first. */
  readonly threads: readonly number[];
  readonly endpoints: readonly Endpoint[];
  /** Most records of an event. */
  readonly maxBatch: number;
  /** The most memory of any function considered. */
  readonly mostMB: number;
  readonly limitMs: number;
  readonly signal: AbortSignal;
  /** Called between turns with the time that has passed. */
  readonly onTurn: (ms: number, what: string) => void;
}

export type Measurement = Awaited<ReturnType<typeof measurePoints>>;

/** A point while it is measured. */
interface Running {
  readonly point: Point;
  /** Undefined after it was ended to free memory. */
  process: TuneProcess | undefined;
  readonly blocks: Block[];
  callMs: number;
  peakBytes: number;
  residentBytes: number;
}

const MOST_ROUNDS = 9;
const LEAST_TURN_MS = 40;
const MOST_TURN_MS = 400;
const WARM_MS = 150;
export const SMALLER_FAILED = 'a smaller one was not measured';
/** The first point of each endpoint is measured however long it takes, up to this. */
const FIRST_LIMIT_MS = 120_000;
/** The time that an answer may take beyond the expected one. */
const GRACE_MS = 5_000;
/** The share of free memory that the processes may use. */
const MOST_OF_FREE = 0.6;

/** @throws the error of opening or running the model; the signal's reason */
export async function measurePoints(request: MeasureRequest) {
  const campaign = new Campaign(request);
  const end = () => void campaign.end();
  request.signal.addEventListener('abort', end);
  try {
    return await campaign.run();
  } catch (error) {
    request.signal.throwIfAborted();
    throw error;
  } finally {
    request.signal.removeEventListener('abort', end);
    await campaign.end();
  }
}

/** The numbers of records to measure: powers of two of the rows of one run. */
export function batchSizes(facts: ModelFacts, maxBatch: number) {
  const room = Math.max(1, Math.floor(LIMITS.httpBodyBytes / facts.eventBytes));
  const unit = Math.min(room, facts.shared ? (facts.fixedRows ?? 1) : 1);
  const sizes = [unit];
  for (let size = unit * 2; size <= Math.min(maxBatch, room); size *= 2) sizes.push(size);
  const limit =
    room < maxBatch ? `${room} records of ${facts.eventBytes} bytes fill an event (6 MiB)` : undefined;
  return { sizes, limit };
}

class Campaign {
  readonly #request: MeasureRequest;
  readonly #start = performance.now();
  readonly #until: number;
  readonly #running: Running[] = [];
  readonly #skipped: SkippedPoint[] = [];
  #facts: ModelFacts | undefined;
  /** The time from the last process's start to its first call. */
  #startMs = 500;

  constructor(request: MeasureRequest) {
    this.#request = request;
    this.#until = this.#start + request.limitMs;
  }

  async run() {
    const { threads: counts, endpoints, maxBatch } = this.#request;
    const before = loadavg()[0] ?? 0;
    const [threads = 1] = counts;
    const [endpoint = 'batch'] = endpoints;
    await this.#begin({ endpoint, threads, records: 1 }, true);
    const facts = present(this.#facts, 'facts of the model');
    const { sizes, limit } = batchSizes(facts, maxBatch);
    const isBatching = endpoints.includes('batch');
    const events = isBatching ? sizes.map((records) => ({ endpoint: 'batch', records }) as const) : [];
    if (endpoint === 'predict' && events[0]) await this.#begin({ ...events[0], threads }, true);
    for (const each of [...(endpoint === 'predict' ? [{ endpoint, records: 1 }] : []), ...events]) {
      for (const count of counts) await this.#begin({ ...each, threads: count });
    }
    const rounds = await this.#rounds();
    if (this.#running.length === 0) {
      throw new ServingError('model_failed', `nothing could be measured: ${this.#skipped[0]?.reason}`);
    }
    return {
      facts,
      points: this.#running.map(measuredPoint),
      skipped: this.#skipped,
      /** The limit of the batches, unless --max-batch sets one. */
      batchLimit: isBatching ? limit : undefined,
      rounds,
      tookMs: performance.now() - this.#start,
      /** Load average of the minute before and after. */
      load: [before, loadavg()[0] ?? 0],
    };
  }

  async end(): Promise<void> {
    for (const { process } of this.#running) await process?.end();
  }

  /** A point's first turn, in a new process, unless it had one. @param isFirst measures it however long it takes */
  async #begin(point: Point, isFirst = false): Promise<void> {
    this.#request.signal.throwIfAborted();
    const name = pointName(point);
    const begun = [...this.#running.map((running) => running.point), ...this.#skipped];
    if (begun.some((other) => pointName(other) === name)) return;
    const reason = isFirst ? undefined : this.#reasonAgainst(point);
    if (reason !== undefined) return this.#skip(point, reason);
    const process = new TuneProcess();
    const running = { point, process, blocks: [], callMs: 0, peakBytes: 0, residentBytes: 0 };
    this.#running.push(running);
    const begin = performance.now();
    const limitMs = isFirst ? FIRST_LIMIT_MS : Math.max(GRACE_MS, this.#until - begin + GRACE_MS);
    this.#request.onTurn(begin - this.#start, name);
    const answer = await process.ask({ open: { ...this.#request.open, point } }, limitMs);
    if (!('facts' in answer)) {
      if (this.#facts === undefined) throw failureOf(answer);
      return this.#drop(running, answer);
    }
    this.#facts ??= answer.facts;
    this.#startMs = performance.now() - begin;
    // V8 compiles a function after some hundred calls; a slow model gets two.
    const warm = await this.#ask(running, WARM_MS, limitMs);
    if (!warm) return;
    running.callMs = present(warm.block.callMs.at(-1), 'element of warm.block.callMs');
    await this.#turn(running);
    await this.#makeRoom();
  }

  /** Judges by the results of a smaller point. */
  #reasonAgainst({ endpoint, threads, records }: Point): string | undefined {
    const { mostMB, limitMs } = this.#request;
    const isSmaller = (other: Point) =>
      other.endpoint === endpoint && other.threads === threads && other.records < records;
    if (this.#skipped.some(isSmaller)) return SMALLER_FAILED;
    const smaller = this.#running.findLast(
      ({ point, blocks }) =>
        point.endpoint === endpoint && blocks.length > 0 && (point.threads === threads || records === 1),
    );
    const growth = smaller ? records / smaller.point.records : 1;
    const expectedMs = this.#startMs + 5 * (smaller?.callMs ?? 0) * growth;
    if (performance.now() + expectedMs > this.#until) {
      return `no time left of ${Math.round(limitMs / 1000)} s; --seconds gives more`;
    }
    if (!smaller) return undefined;
    const needs = neededMB({ points: [{ rows: 1, peakBytes: smaller.peakBytes }] }, 1);
    if (growth > 1 && needs > mostMB) return `half as many need ${needs} MB already`;
    const isTooLarge = smaller.residentBytes * growth > process.availableMemory() * MOST_OF_FREE;
    return isTooLarge ? 'it may not fit the free memory of this machine' : undefined;
  }

  async #rounds(): Promise<number> {
    let rounds = 1;
    while (rounds < MOST_ROUNDS && performance.now() < this.#until) {
      const alive = this.#running.filter(({ process }) => process !== undefined);
      const from = Math.floor((rounds * alive.length) / MOST_ROUNDS);
      const order = [...alive.slice(from), ...alive.slice(0, from)];
      let turns = 0;
      for (const running of rounds % 2 === 0 ? order : order.reverse()) {
        if (performance.now() + 3 * running.callMs > this.#until) continue;
        await this.#turn(running, alive.length);
        turns++;
      }
      if (turns === 0) break;
      rounds++;
    }
    return rounds;
  }

  async #turn(running: Running, others = 20): Promise<void> {
    const left = Math.max(0, this.#until - performance.now());
    const measureMs = Math.min(MOST_TURN_MS, Math.max(LEAST_TURN_MS, left / (others * MOST_ROUNDS)));
    this.#request.onTurn(performance.now() - this.#start, pointName(running.point));
    const measured = await this.#ask(running, measureMs, 2 * measureMs + 20 * running.callMs + GRACE_MS);
    if (!measured) return;
    running.blocks.push(measured.block);
    running.peakBytes = Math.max(running.peakBytes, measured.peakBytes);
    running.residentBytes = measured.residentBytes;
  }

  /** Returns undefined when the point fails, and drops it. */
  async #ask(running: Running, measureMs: number, limitMs: number): Promise<Measured | undefined> {
    const answer = await present(running.process, 'process').ask({ measureMs }, limitMs);
    if ('measured' in answer) return answer.measured;
    this.#drop(running, answer);
    return undefined;
  }

  /** Ends the largest processes; their points get no further turn. */
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

  #drop(running: Running, answer: ChildAnswer): void {
    this.#running.splice(this.#running.indexOf(running), 1);
    this.#skip(running.point, failureOf(answer).message);
  }

  #skip(point: Point, reason: string): void {
    this.#request.signal.throwIfAborted();
    this.#skipped.push({ ...point, reason });
  }
}

/** The error of an unexpected answer. */
function failureOf(answer: ChildAnswer): ServingError {
  if (!('failed' in answer))
    return new ServingError('internal', 'the process that measures answered out of turn');
  const { code, message } = answer.failed;
  return new ServingError(isErrorCode(code) ? code : 'internal', message);
}

function measuredPoint({ point, blocks, peakBytes }: Running): MeasuredPoint {
  const calls = blocks.flatMap(({ callMs }) => callMs).length;
  return {
    ...point,
    cpuMs: blocks.reduce((sum, { cpuMs }) => sum + cpuMs, 0) / calls,
    meanMs: blocks.reduce((sum, { wallMs }) => sum + wallMs, 0) / calls,
    model: timesOf(blocks.map(({ modelMs }) => modelMs)),
    call: timesOf(blocks.map(({ callMs }) => callMs)),
    blocks: blocks.length,
    peakBytes,
    neededMB: neededMB({ points: [{ rows: 1, peakBytes }] }, 1),
  };
}
