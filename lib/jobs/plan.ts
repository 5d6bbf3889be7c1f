/** Cuts a table into ranges of whole rows, each a message, by reading it once from its beginning to its end. */
import { badRequest, ServingError } from '../contract/errors.ts';
import { LIMITS } from '../contract/limits.ts';
import { DRY_ROWS } from './begin.ts';
import { unitName } from './cover.ts';
import { RowCutter, type TableFormat } from './cut.ts';
import { checkLines } from './openai/check.ts';
import { keysOf } from './request.ts';
import { readHeader } from './rows.ts';
import type { JobDeps, PlanMessage, RunMessage } from './store.ts';

const MiB = 1024 * 1024;
/** Read at once. */
const PIECE_BYTES = 8 * MiB;
/** Rows and bytes of one message, unless a row alone has more. */
const MOST_ROWS = 10_000;
const MOST_BYTES = 4 * MiB;
/** The first line of a CSV: its columns go with each message. */
const HEADER_BYTES = 256 * 1024;
const BYTE_ORDER_MARK = Buffer.from([0xef, 0xbb, 0xbf]);

/** @param isOver true when no time is left. @returns what is left to be done in another event */
export async function plan(
  message: PlanMessage,
  deps: JobDeps,
  isOver: () => boolean,
): Promise<PlanMessage | undefined> {
  if (message.format === 'parquet') {
    const { planParquet } = await import('./parquet.ts');
    return planParquet(message, deps);
  }
  if (message.endpoint !== undefined && message.at === 0)
    await checkLines(message, message.endpoint, deps, isOver);
  return planTable({ ...message, format: message.format }, deps, isOver);
}

type TableMessage = PlanMessage & { readonly format: TableFormat };

async function planTable(
  message: TableMessage,
  deps: JobDeps,
  isOver: () => boolean,
): Promise<PlanMessage | undefined> {
  const { id, unit, file, format, dryRun = false } = message;
  const head =
    message.at === 0 && file.bytes > 0
      ? await readHead(message, deps)
      : { at: message.at, columns: message.columns };
  const ranges = new Ranges({ ...message, columns: head.columns, at: head.at });
  const cutter = new RowCutter(format);
  // An empty line is the missing value of a table with one column.
  const skipsBlanks = format !== 'csv' || (head.columns?.length ?? 0) > 1;
  const endRow = async (end: number) => {
    if (cutter.isBlank && skipsBlanks) ranges.skip(end);
    else {
      // A row that is not read has a range of its own.
      if (isTooLarge(end - ranges.done) && ranges.rows > 0)
        await sendRange(ranges.take(), deps, dryRun, unit);
      ranges.add(end);
    }
    cutter.begin();
    if (ranges.isFull) await sendRange(ranges.take(), deps, dryRun, unit);
  };
  for (let start = head.at; start < file.bytes; start += PIECE_BYTES) {
    const bytes = await deps.store.read(file, start, Math.min(file.bytes, start + PIECE_BYTES));
    for (let at = cutter.end(bytes, 0); at !== -1; at = cutter.end(bytes, at)) await endRow(start + at);
    if (isOver()) {
      if (ranges.done === head.at)
        throw badRequest(
          `${message.name}: the row after byte ${head.at} has no end in ${start - head.at} bytes: a quote that is not closed?`,
        );
      if (ranges.rows > 0) await sendRange(ranges.take(), deps, dryRun, unit);
      return { ...message, columns: head.columns, at: ranges.done, row: ranges.row };
    }
  }
  if (ranges.done < file.bytes) await endRow(file.bytes);
  if (ranges.rows > 0) await sendRange(ranges.take(), deps, dryRun, unit);
  await deps.store.put(`${keysOf(deps.job, id).ends}${unitName(unit)}-${ranges.row}`, '');
  return undefined;
}

async function sendRange(range: RunMessage, deps: JobDeps, dryRun: boolean, unit: number): Promise<void> {
  if (!dryRun) await deps.send(range);
  else if (unit === 0 && range.row === 0) await deps.send({ ...range, rows: Math.min(range.rows, DRY_ROWS) });
}

/** Collects rows into ranges. */
class Ranges {
  /** The first row of the next range. */
  row: number;
  rows = 0;
  /** The end of the last row. */
  done: number;
  readonly #message: TableMessage;
  #start: number;

  constructor(message: TableMessage) {
    this.#message = message;
    this.row = message.row;
    this.#start = message.at;
    this.done = message.at;
  }

  get isFull(): boolean {
    return this.rows >= MOST_ROWS || this.done - this.#start >= MOST_BYTES;
  }

  add(end: number): void {
    this.rows++;
    this.done = end;
  }

  /** A blank row. */
  skip(end: number): void {
    if (this.rows === 0) this.#start = end;
    this.done = end;
  }

  take(): RunMessage {
    const { id, unit, file, name, format, columns, endpoint } = this.#message;
    const [row, rows, start, end] = [this.row, this.rows, this.#start, this.done];
    this.row += rows;
    this.rows = 0;
    this.#start = end;
    return {
      do: 'run',
      id,
      unit,
      row,
      rows,
      source: { kind: 'table', format, file, name, start, end, columns, endpoint },
    };
  }
}

/** Where the rows begin, and the names of the columns. @throws bad_request for what is not text */
async function readHead({ file, name, format }: TableMessage, { store }: JobDeps) {
  const bytes = await store.read(file, 0, Math.min(file.bytes, HEADER_BYTES));
  const isMarked = BYTE_ORDER_MARK.equals(bytes.subarray(0, 3));
  if (bytes[0] === 0xff || bytes[0] === 0xfe || bytes.subarray(0, 4).includes(0))
    throw badRequest(`${name} is not ${format.toUpperCase()} in UTF-8; save it as UTF-8`);
  const start = isMarked ? 3 : 0;
  if (format !== 'csv' || start === file.bytes) return { at: start, columns: undefined };
  const end = new RowCutter('csv').end(bytes, start);
  if (end === -1 && file.bytes > bytes.length)
    throw badRequest(
      `${name}: the first line, with the names of the columns, has more than ${HEADER_BYTES} bytes`,
    );
  try {
    return {
      at: end === -1 ? file.bytes : end,
      columns: readHeader(bytes.subarray(start, end === -1 ? undefined : end)),
    };
  } catch (error) {
    throw badRequest(`${name}: ${ServingError.from(error).message}`);
  }
}

/** A row that is too large to be read. */
export function isTooLarge(bytes: number): boolean {
  return bytes > LIMITS.payloadBytes;
}
