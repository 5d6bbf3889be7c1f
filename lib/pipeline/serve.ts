/**
 * The path of a record. From the queue: chunks of an event, each decoded, run and saved. From a request: its
 * instances, run and answered together. The run stage is a `Runner`: binding in front of an ONNX model (infer.ts:
 * bind -> batch -> run -> split), or user code. A slot is a record or an error at every stage, and a batch keeps its
 * length and order.
 */

import { inInstance } from '../codecs/instances.ts';
import { ServingError } from '../contract/errors.ts';
import { failedIn } from '../contract/log.ts';
import { DEFAULT_JOB_NAME } from '../contract/names.ts';
import { elementAt } from '../contract/present.ts';
import { sliceTensor } from '../contract/tensor.ts';
import type { Canary, Inputs, NamedTensor, Outcome, Runner, RunPolicy } from '../contract/values.ts';
import { type Scratch, withScratch } from './batch/buffer-pool.ts';
import type { Message } from './chunks.ts';
import { type RunCounts, runCounted } from './counted-runs.ts';
import { type ArchiveDead, type DeadMessage, isExceeded } from './dead-letters.ts';
import { type Deadline, deadlineCheck } from './deadline.ts';
import {
  type Decoded,
  decodeMessages,
  type FinishedRecord,
  isLate,
  type QueuedRecord,
  type ReturnedMessage,
} from './decode.ts';
import { type NamedModel, unknownModel } from './named-models.ts';
import { observeRecords, observeRequest, observeRun } from './observed.ts';
import type { Observers } from './observer.ts';
import { assertOneEach } from './outcomes.ts';
import { byModel, type Side, sidesOf, withRunners } from './sides.ts';

/** The outcome of one chunk. */
export interface RanRecords {
  readonly finished: readonly FinishedRecord[];
  readonly returned: readonly ReturnedMessage[];
  /** Resolves when all reports about running records have ended. Never rejects. */
  readonly notified?: Promise<void>;
  /** Called once outcomes are saved, or cannot be (lib/pipeline/counted-runs.ts). Never rejects. */
  readonly settle?: (() => Promise<void>) | undefined;
}

/** Records that one version of the model ran. */
interface RanBy extends RanRecords {
  readonly version: string;
}

/** The steps of the queue's path. */
export interface Steps {
  decode(chunk: readonly Message[], buffers: Scratch): Decoded;
  /** @returns one entry for each version that ran any of the records */
  run(decoded: Decoded, buffers: Scratch): Promise<readonly RanBy[]>;
  /** @returns ids of the messages to deliver again */
  save(ran: RanBy): Promise<readonly string[]>;
}

/** @returns ids of the messages to deliver again. @throws model_unavailable, results_unavailable */
export async function serveQueue(chunks: AsyncIterable<readonly Message[]>, steps: Steps): Promise<string[]> {
  const again: string[] = [];
  for await (const chunk of chunks) {
    for (const ran of await decodeAndRun(chunk, steps)) again.push(...(await steps.save(ran)));
  }
  return again;
}

/** Releases the decoded chunk before its results are saved, which may wait for Redis. */
function decodeAndRun<T>(
  chunk: readonly Message[],
  steps: Pick<Steps, 'decode'> & { run(decoded: Decoded, buffers: Scratch): Promise<T> },
): Promise<T> {
  return withScratch(async (buffers) => steps.run(steps.decode(chunk, buffers), buffers));
}

/**
 * Serves a request, whose records are answered together.
 * @throws the first failure with its index, even if the run stage does not stop at it
 */
export function serveRequest(
  records: readonly Inputs[],
  runner: Runner,
  policy: RunPolicy,
  observers?: Observers,
): Promise<Outcome[]> {
  if (!observers?.recordsAnswered) return runRequest(records, runner, policy, observers);
  const answer = () => runRequest(records, runner, policy, observers);
  return observeRequest(answer, { records, runner, policy }, observers);
}

async function runRequest(
  records: readonly Inputs[],
  runner: Runner,
  policy: RunPolicy,
  observers: Observers | undefined,
): Promise<Outcome[]> {
  const own = { ...policy, failFast: true };
  const run = () => runner.run(records, own);
  try {
    const outcomes = await (observers ? observeRun(records.length, run, 'request', observers) : run());
    assertOneEach(outcomes, records);
    for (const [index, outcome] of outcomes.entries()) {
      if (!outcome.ok) throw inInstance(outcome.error, index, outcomes.length);
    }
    return outcomes;
  } catch (error) {
    throw failedIn(runner.version, error);
  }
}

/** Reports that records are running. The returned function is called when they have run. */
export interface RunningReports {
  begin(records: readonly RunningRecord[]): (() => Promise<void>) | Promise<() => Promise<void>>;
}

export type RunningRecord = Pick<QueuedRecord, 'uri' | 'enqueue'>;

/** Where finished records go. */
export interface Sink {
  /**
   * @param model the version of the model that ran them; "" for none
   * @returns ids of messages whose results could not be saved. @throws when none could
   */
  save(finished: readonly FinishedRecord[], model: string): Promise<readonly string[]>;
}

/** How records end that ran too often, and messages that cannot be read. */
export interface Endings {
  readonly runs: RunCounts;
  readonly archive: ArchiveDead;
}

/** Without endings, records are run as often as they are delivered. */
export interface StepParts extends Partial<Endings> {
  readonly runner: Runner;
  /** The runner of a version that takes a share of the records. */
  readonly canary?: (Pick<Canary, 'takes'> & { readonly runner: Runner }) | undefined;
  /** The name under which records may name the job's own model. */
  readonly jobName?: string | undefined;
  /** Finds a further model. Default: there are none. @throws not_found, model_unavailable */
  readonly findModel?: ((name: string) => Promise<NamedModel>) | undefined;
  readonly running: RunningReports;
  readonly sink: Sink;
  readonly deadline: Deadline;
  readonly observers: Observers;
}

export function queueSteps(parts: StepParts): Steps {
  const { runs, observers } = parts;
  let stopRun: (() => void) | undefined;
  return {
    decode(chunk, buffers) {
      stopRun = observers.start('run');
      return decodeMessages(chunk, buffers, runs?.most);
    },
    async run(decoded, buffers) {
      const { own, named } = byModel(decoded, parts.jobName);
      const ran = own ? await runSides(own, buffers, parts) : [];
      for (const [name, records] of named) ran.push(...(await runNamed(name, records, buffers, parts)));
      // Messages for which no time was left did not run.
      if (decoded.records.length > 0 || !isLate(decoded)) stopRun?.();
      return ran;
    },
    async save(ran) {
      const stopWrite = observers.start('write');
      const again = await saveRan(ran, parts);
      if (!isLate(ran)) stopWrite();
      observers.chunkServed?.(ran);
      return again;
    },
  };
}

async function runSides(decoded: Decoded, buffers: Scratch, parts: StepParts): Promise<RanBy[]> {
  const ran: RanBy[] = [];
  for (const side of sidesOf(decoded, parts)) ran.push(await runSide(side, buffers, parts));
  return ran;
}

/** The records of a further model. What keeps it from running fails them alone. */
async function runNamed(
  name: string,
  records: readonly QueuedRecord[],
  buffers: Scratch,
  parts: StepParts,
): Promise<RanBy[]> {
  const decoded: Decoded = { records, finished: [], returned: [] };
  try {
    if (!parts.findModel) throw unknownModel(name, parts.jobName ?? DEFAULT_JOB_NAME);
    const { model, observers } = await parts.findModel(name);
    return await withRunners(model, (runners) =>
      runSides(decoded, buffers, { ...parts, canary: undefined, ...runners, observers }),
    );
  } catch (thrown) {
    const error = ServingError.from(thrown);
    const outcomes = records.map((): Outcome => ({ ok: false, error }));
    return [{ ...sortOutcomes(decoded, outcomes, buffers), version: '' }];
  }
}

async function runSide(
  { decoded, runner }: Side,
  buffers: Scratch,
  { running, ...parts }: StepParts,
): Promise<RanBy> {
  const { version } = runner;
  const stop = await running.begin(decoded.records);
  const { outcomes, settle } = await runQueued(decoded.records, { ...parts, running, runner });
  const notified = stop();
  if (parts.observers.recordsAnswered) observeRecords(decoded.records, outcomes, version, parts.observers);
  return { ...sortOutcomes(decoded, outcomes, buffers), version, notified, settle };
}

async function saveRan({ finished, returned, version, notified, settle }: RanBy, parts: StepParts) {
  const { deadline, runs, archive, sink } = parts;
  const dead = deadOf({ finished, returned }, runs?.most);
  const lost = dead && archive && (await archive(dead, deadlineCheck(deadline.remainingMs)));
  const savable = lost ? finished.filter(({ id }) => !lost.has(id)) : finished;
  const again = lost ? returned.filter(({ id, dead: isDead }) => !isDead || lost.has(id)) : returned;
  try {
    const ids = isLate({ finished, returned }) ? [] : sink.save(savable, version);
    const [unsaved] = await Promise.all([ids, notified]);
    const unarchived = lost ? finished.filter(({ id }) => lost.has(id)) : [];
    return [...[...again, ...unarchived].map(({ id }) => id), ...unsaved];
  } finally {
    if (settle && deadline.remainingMs() > 0) await settle();
  }
}

/** Undefined where all messages live on or have an outcome. */
function deadOf({ finished, returned }: RanRecords, most = 0): DeadMessage[] | undefined {
  if (!finished.some(({ outcome }) => isExceeded(outcome)) && !returned.some(({ dead }) => dead))
    return undefined;
  const exhausted = finished.filter(({ outcome }) => isExceeded(outcome));
  return [
    ...exhausted.map(({ id }) => ({ id, attempts: most })),
    ...returned.flatMap(({ dead }) => dead ?? []),
  ];
}

/** New records run in this process; redelivered ones are counted, and run in an isolated process. */
async function runQueued(records: readonly QueuedRecord[], { deadline, runs, ...parts }: StepParts) {
  const runner = observedRunner(parts.runner, parts.observers);
  if (records.some(({ attempts }) => attempts > 1)) return runCounted(records, runner, deadline, runs);
  const inputs = records.map((record) => record.inputs);
  const outcomes = await runner.run(inputs, { isOver: deadlineCheck(deadline.remainingMs) });
  return { outcomes, settle: undefined };
}

/** A runner of the queue, each of whose runs is observed. */
function observedRunner(runner: Runner, observers: Observers): Runner {
  const runIsolated = runner.runIsolated?.bind(runner);
  const told = (records: readonly Inputs[], run: () => Promise<Outcome[]>) =>
    observeRun(records.length, run, 'queue', observers);
  return {
    version: runner.version,
    run: (records, policy) => told(records, () => runner.run(records, policy)),
    ...(runIsolated && {
      runIsolated: (records, limitMs) => told(records, () => runIsolated(records, limitMs)),
    }),
    close: () => runner.close(),
  };
}

/** Runs records and returns as many outcomes. */
export type RunRecords = (records: readonly Inputs[]) => Promise<Outcome[]>;

/** Decodes and runs messages of the queue without saving results. Never throws because of a record. */
export function runMessages(messages: readonly Message[], run: RunRecords): Promise<RanRecords> {
  return decodeAndRun(messages, {
    decode: decodeMessages,
    run: async (decoded, buffers) =>
      sortOutcomes(decoded, await run(decoded.records.map(({ inputs }) => inputs)), buffers),
  });
}

/** Sorts outcomes: a retryable failure returns the message to the queue, anything else finishes the record. */
function sortOutcomes(decoded: Decoded, outcomes: readonly Outcome[], buffers: Scratch): RanRecords {
  assertOneEach(outcomes, decoded.records);
  const finished = [...decoded.finished];
  const returned = [...decoded.returned];
  for (const [i, { id, enqueue, uri }] of decoded.records.entries()) {
    const outcome = elementAt(outcomes, i, 'outcomes');
    if (!outcome.ok && outcome.error.retryable)
      returned.push({ id, error: outcome.error, trace: enqueue.trace });
    else finished.push({ id, enqueue, uri, outcome: detached(outcome, buffers) });
  }
  return { finished, returned };
}

/** A runner may return its input, as a pass-through does. That memory is reused, so it is copied. */
function detached(outcome: Outcome, buffers: Scratch): Outcome {
  if (!outcome.ok || !outcome.outputs.some(({ data }) => buffers.owns(data))) return outcome;
  return {
    ok: true,
    outputs: outcome.outputs.map((output): NamedTensor => {
      return buffers.owns(output.data) ? { ...output, ...sliceTensor(output) } : output;
    }),
  };
}
