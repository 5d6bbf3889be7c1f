/**
 * Answers the rows of a message: each becomes a line, an answer or an error, and lines become parts. Rows for which no time is left are
 * another message. What an earlier delivery has answered is not answered again.
 */
import { ServingError } from '../contract/errors.ts';
import { elementAt } from '../contract/present.ts';
import type { Inputs, Outcome, Runner } from '../contract/values.ts';
import { type Deadline, deadlineCheck } from '../pipeline/deadline.ts';
import { observeRun } from '../pipeline/observed.ts';
import { assertOneEach } from '../pipeline/outcomes.ts';
import { runRedelivered } from '../pipeline/poison-isolation.ts';
import { partName, reached, readPart, rowName } from './cover.ts';
import { isBatchId, stemOf } from './openai/batch.ts';
import { Call, type Refusal } from './openai/call.ts';
import { keysOf } from './request.ts';
import type { Slot } from './rows.ts';
import { type Rows, rowsOf } from './sources.ts';
import type { JobDeps, RunMessage } from './store.ts';

/** A part in memory. */
const PART_BYTES = 8 * 1024 * 1024;

export interface Delivery {
  readonly deadline: Deadline;
  /** Deliveries of the message, with this one. */
  readonly attempts: number;
  /** Why the job does not go on; undefined while it does. */
  readonly stop: () => Promise<Stop | undefined>;
}

/** The first counts. A batch that was cancelled or has expired still has a line for each of its requests. */
export const STOPS = ['done', 'failed', 'cancelled', 'expired'] as const;
export type Stop = (typeof STOPS)[number];

/**
 * @returns the message of the rows for which no time is left
 * @throws why the first row has no outcome: the message should be delivered again
 */
export async function runRows(
  message: RunMessage,
  deps: JobDeps,
  delivery: Delivery,
): Promise<RunMessage | undefined> {
  const done = (await reachedRow(message, deps)) - message.row;
  if (done >= message.rows) return undefined;
  const parts = new PartWriter(message, message.row + done, deps);
  const isLate = deadlineCheck(delivery.deadline.remainingMs);
  for await (const rows of rowsOf(message, deps, done)) {
    const stop = await delivery.stop();
    const refusal = stop && refusalOf(message.id, stop);
    if (stop && !refusal) return undefined;
    const lines = refusal
      ? rows.slots.map((slot, i) => refusedLine(message.id, rows, i, slot, refusal))
      : await runSlots(rows, message.id, deps, delivery, parts.isFresh);
    const ended = lines.length;
    for (const line of lines) parts.add(line);
    const isCut = ended < rows.slots.length || isLate();
    // A message that comes again may end the function.
    if (isCut || delivery.attempts > 1 || parts.bytes >= PART_BYTES) await parts.put();
    if (isCut) return rows.rest(ended);
  }
  await parts.put();
  return undefined;
}

/** The first row of a message that no part has. */
async function reachedRow(
  { id, unit, row, rows }: RunMessage,
  { job, bucket, store }: JobDeps,
): Promise<number> {
  const prefix = keysOf(job, id).parts;
  const after = `${prefix}${rowName(unit, row)}`;
  const address = { bucket, key: `${prefix}${rowName(unit, row).slice(0, 7)}` };
  for await (const page of store.pages(address, after)) {
    const parts = page.flatMap(({ key, bytes }) => readPart(key.slice(prefix.length), bytes) ?? []);
    return reached(
      parts.filter((part) => part.row < row + rows),
      row,
    );
  }
  return row;
}

interface Line {
  readonly text: string;
  readonly isError: boolean;
}

/** The code in the lines of requests that do not run, for a batch that ends with a line for each. */
export function refusalOf(id: string, stop: Stop): Refusal | undefined {
  if (!isBatchId(id) || stop === 'done' || stop === 'failed') return undefined;
  return stop === 'cancelled' ? 'batch_cancelled' : 'batch_expired';
}

/** @returns the lines of the rows that have an outcome, up to the first that has none */
async function runSlots(
  rows: Rows,
  id: string,
  deps: JobDeps,
  delivery: Delivery,
  isFirst: boolean,
): Promise<Line[]> {
  return deps.model.use(async (runner) => {
    const groups = rows.slots.map((slot) => recordsOf(slot, runner));
    const records = groups.flat();
    const ran =
      records.length === 0
        ? []
        : await observeRun(records.length, () => runAll(records, runner, delivery), 'queue', deps.observers);
    assertOneEach(ran, records);
    const lines: Line[] = [];
    let next = 0;
    for (const [i, slot] of rows.slots.entries()) {
      const outcomes = ran.slice(next, (next += elementAt(groups, i, 'groups').length));
      const open = outcomes.findIndex(isOpen);
      if (open !== -1) {
        if (i > 0 || !isFirst) break;
        outcomes[open] = { ok: false, error: lastError(outcomes[open], delivery.attempts, deps.most) };
      }
      lines.push(lineOf({ id, rows, i, slot, outcomes, runner }, deps));
    }
    return lines;
  });
}

function recordsOf(slot: Slot, runner: Runner): readonly Inputs[] {
  if (slot instanceof ServingError) return [];
  return slot instanceof Call ? slot.recordsFor(runner) : [slot];
}

interface Answered {
  /** The job's. */
  readonly id: string;
  readonly rows: Rows;
  readonly i: number;
  readonly slot: Slot;
  readonly outcomes: readonly Outcome[];
  readonly runner: Runner;
}

function lineOf({ id, rows, i, slot, outcomes, runner }: Answered, deps: JobDeps): Line {
  const [file, row] = elementAt(rows.places, i, 'places');
  if (slot instanceof Call) return slot.answered(requestId(id, row), outcomes, runner);
  const { text, isError } = plainAnswer(slot, outcomes[0], runner.version, deps);
  return { text: `{"file":${JSON.stringify(file)},"row":${row},${text.slice(1)}`, isError };
}

function plainAnswer(slot: Slot, outcome: Outcome | undefined, version: string, deps: JobDeps): Line {
  let failure: unknown = slot;
  try {
    if (outcome?.ok) return { text: deps.answerText(outcome, version), isError: false };
    if (outcome) failure = outcome.error;
  } catch (error) {
    failure = error;
  }
  const { code, publicMessage } = ServingError.from(failure);
  return { text: JSON.stringify({ error: publicMessage, code }), isError: true };
}

function refusedLine(id: string, rows: Rows, i: number, slot: Slot, refusal: Refusal): Line {
  if (!(slot instanceof Call)) throw new TypeError('a row of a batch is a request');
  const [, row] = elementAt(rows.places, i, 'places');
  return slot.refused(requestId(id, row), refusal);
}

/** The same in each delivery. */
function requestId(id: string, row: number): string {
  return `${stemOf(id)}_${row}`;
}

/** New rows run in this process, and those that come again in one that can be killed. */
function runAll(
  records: readonly Inputs[],
  runner: Runner,
  { deadline, attempts }: Delivery,
): Promise<Outcome[]> {
  const runIsolated = runner.runIsolated?.bind(runner);
  if (attempts > 1 && runIsolated) return runRedelivered(records, runIsolated, deadline, attempts);
  return runner.run(records, { isOver: deadlineCheck(deadline.remainingMs) });
}

/** True for a row that may have another outcome later. */
function isOpen(outcome: Outcome): boolean {
  return !outcome.ok && outcome.error.retryable;
}

/** @throws the error of a row that should be tried again */
function lastError(outcome: Outcome | undefined, attempts: number, most: number): ServingError {
  const error =
    outcome?.ok === false ? outcome.error : new ServingError('internal', 'the row has no outcome');
  if (attempts < most || error.code === 'model_unavailable') throw error;
  return new ServingError(
    'max_receives_exceeded',
    `the row failed ${attempts} times; at last: ${error.publicMessage}`,
  );
}

/** Collects lines, and writes them as parts. */
class PartWriter {
  bytes = 0;
  /** False once a line was added. */
  isFresh = true;
  readonly #message: RunMessage;
  readonly #deps: JobDeps;
  readonly #isBatch: boolean;
  #row: number;
  #rows = 0;
  #lines: string[] = [];
  /** The errors of a batch. */
  #refused: string[] = [];
  #errors = 0;
  #sinceMs: number;

  constructor(message: RunMessage, row: number, deps: JobDeps) {
    this.#message = message;
    this.#deps = deps;
    this.#isBatch = isBatchId(message.id);
    this.#row = row;
    this.#sinceMs = deps.observers.now();
  }

  add({ text, isError }: Line): void {
    const line = `${text}\n`;
    if (isError) this.#errors++;
    this.#rows++;
    (isError && this.#isBatch ? this.#refused : this.#lines).push(line);
    this.bytes += Buffer.byteLength(line);
    this.isFresh = false;
  }

  async put(): Promise<void> {
    if (this.#rows === 0) return;
    const { id, unit } = this.#message;
    const { job, bucket, store, observers } = this.#deps;
    const now = observers.now();
    const lines = Buffer.from(this.#lines.join(''));
    const refused = Buffer.from(this.#refused.join(''));
    const part = {
      unit,
      row: this.#row,
      rows: this.#rows,
      errors: this.#errors,
      ms: now - this.#sinceMs,
      apart: refused.length,
    };
    const key = `${keysOf(job, id).parts}${partName(part)}`;
    await store.putObject({ bucket, key }, Buffer.concat([lines, refused]));
    this.#row += part.rows;
    [this.#lines, this.#refused, this.#rows] = [[], [], 0];
    [this.bytes, this.#errors, this.#sinceMs] = [0, 0, now];
  }
}
