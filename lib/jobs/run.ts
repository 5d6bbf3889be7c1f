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
  /** True once the job was cancelled or has failed. */
  readonly isStopped: () => Promise<boolean>;
}

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
  for await (const rows of rowsOf(message, deps.store, done)) {
    if (await delivery.isStopped()) return undefined;
    const { outcomes, version } = await runSlots(rows.slots, deps, delivery);
    let ended = outcomes.findIndex(isOpen);
    if (ended === -1) ended = outcomes.length;
    if (ended === 0 && parts.isFresh) {
      outcomes[0] = { ok: false, error: lastError(outcomes[0], delivery.attempts, deps.most) };
      ended = 1;
    }
    for (let i = 0; i < ended; i++) parts.add(rows, i, elementAt(outcomes, i, 'outcomes'), version);
    const isCut = ended < outcomes.length || isLate();
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

async function runSlots(slots: readonly Slot[], deps: JobDeps, delivery: Delivery) {
  const records = slots.filter((slot): slot is Inputs => !(slot instanceof ServingError));
  return deps.model.use(async (runner) => {
    const ran =
      records.length === 0
        ? []
        : await observeRun(records.length, () => runAll(records, runner, delivery), 'queue', deps.observers);
    assertOneEach(ran, records);
    let next = 0;
    const outcomes = slots.map(
      (slot): Outcome =>
        slot instanceof ServingError ? { ok: false, error: slot } : elementAt(ran, next++, 'outcomes'),
    );
    return { outcomes, version: runner.version };
  });
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
  #row: number;
  #lines: string[] = [];
  #errors = 0;
  #sinceMs: number;

  constructor(message: RunMessage, row: number, deps: JobDeps) {
    this.#message = message;
    this.#deps = deps;
    this.#row = row;
    this.#sinceMs = deps.observers.now();
  }

  add(rows: Rows, index: number, outcome: Outcome, version: string): void {
    const [file, row] = elementAt(rows.places, index, 'places');
    const text = this.#answerOf(outcome, version);
    const line = `{"file":${JSON.stringify(file)},"row":${row},${text.slice(1)}\n`;
    this.#lines.push(line);
    this.bytes += Buffer.byteLength(line);
    this.isFresh = false;
  }

  #answerOf(outcome: Outcome, version: string): string {
    let failure: unknown;
    try {
      if (outcome.ok) return this.#deps.answerText(outcome, version);
      failure = outcome.error;
    } catch (error) {
      failure = error;
    }
    this.#errors++;
    const { code, publicMessage } = ServingError.from(failure);
    return JSON.stringify({ error: publicMessage, code });
  }

  async put(): Promise<void> {
    if (this.#lines.length === 0) return;
    const { id, unit } = this.#message;
    const { job, bucket, store, observers } = this.#deps;
    const now = observers.now();
    const part = {
      unit,
      row: this.#row,
      rows: this.#lines.length,
      errors: this.#errors,
      ms: now - this.#sinceMs,
    };
    const body = Buffer.from(this.#lines.join(''));
    await store.putObject({ bucket, key: `${keysOf(job, id).parts}${partName(part)}` }, body);
    this.#row += part.rows;
    [this.#lines, this.bytes, this.#errors, this.#sinceMs] = [[], 0, 0, now];
  }
}
