/** The rows of a message, a few at a time: of a range of a table, of a group of rows of Parquet, or pictures. */
import { UNNAMED } from '../codecs/instances.ts';
import { badRequest } from '../contract/errors.ts';
import { LIMITS, overLimit } from '../contract/limits.ts';
import { RowCutter } from './cut.ts';
import { Call } from './openai/call.ts';
import { readCsvRow, readNdjsonRow, type Slot } from './rows.ts';
import type { JobDeps, JobStore, RunMessage } from './store.ts';

/** Some rows that follow each other. */
export interface Rows {
  readonly slots: readonly Slot[];
  /** The name of each row's file, and its number there from 1. */
  readonly places: readonly (readonly [file: string, row: number])[];
  /** The message of what is left once `count` of them are done; undefined when nothing is. */
  rest(count: number): RunMessage | undefined;
}

/** Records that run together, and the bytes of their rows, unless one row alone has more. */
const ROWS = 512;
const BYTES = 4 * 1024 * 1024;
/** Pictures become a thousand times their bytes. */
const PICTURES = 16;

/** @param done rows at the beginning that have answers. @throws conflict when a file is not what it was */
export async function* rowsOf(
  message: RunMessage,
  deps: Pick<JobDeps, 'store' | 'endpoint'>,
  done: number,
): AsyncGenerator<Rows> {
  const { source } = message;
  const { store } = deps;
  if (source.kind === 'table') yield* tableRows(message, source, deps, done);
  else if (source.kind === 'picture') yield* pictures(message, source, store, done);
  else {
    const { parquetRows } = await import('./parquet.ts');
    for await (const { slots, first } of parquetRows(message, source, store, done))
      yield {
        slots,
        places: slots.map((_, i) => [source.name, message.row + first + i + 1] as const),
        rest: (count) => after(message, first + count),
      };
  }
}

/** The message without its first rows. */
function after(message: RunMessage, count: number): RunMessage | undefined {
  if (count >= message.rows) return undefined;
  return { ...message, row: message.row + count, rows: message.rows - count };
}

type Source<Kind> = Extract<RunMessage['source'], { readonly kind: Kind }>;

async function* tableRows(
  message: RunMessage,
  source: Source<'table'>,
  deps: Pick<JobDeps, 'store' | 'endpoint'>,
  done: number,
): AsyncGenerator<Rows> {
  const { file, name, format, start, end, columns = [] } = source;
  const endpoint = source.endpoint && deps.endpoint(source.endpoint);
  // The first row of the next rows, and where each of them ends.
  let first = done;
  let begin = 0;
  let ends: number[] = [];
  let slots: Slot[] = [];
  let records = 0;
  const take = (): Rows => {
    const own = { first, begin, ends, slots };
    [first, begin, ends, slots, records] = [first + slots.length, ends.at(-1) ?? begin, [], [], 0];
    return {
      slots: own.slots,
      places: own.slots.map((_, i) => [name, message.row + own.first + i + 1] as const),
      rest(count) {
        const rest = after(message, own.first + count);
        return rest && { ...rest, source: { ...source, start: start + (own.ends[count - 1] ?? own.begin) } };
      },
    };
  };
  if (message.rows === 1 && end - start > LIMITS.payloadBytes) {
    slots.push(overLimit('payloadBytes', `the row is ${end - start} bytes,`));
    yield take();
    return;
  }
  const read = (row: Uint8Array): Slot => {
    if (source.endpoint && endpoint) return Call.read(row, source.endpoint, endpoint);
    return format === 'csv' ? readCsvRow(row, columns) : readNdjsonRow(row);
  };
  const bytes = await deps.store.read(file, start, end);
  const cutter = new RowCutter(format);
  const skipsBlanks = format !== 'csv' || columns.length > 1;
  let left = done;
  for (let from = 0; from < bytes.length && first + slots.length < message.rows; cutter.begin()) {
    const found = cutter.end(bytes, from);
    const to = found === -1 ? bytes.length : found;
    const row = bytes.subarray(from, to);
    from = to;
    if (cutter.isBlank && skipsBlanks) continue;
    if (left > 0) {
      begin = to;
      left--;
      continue;
    }
    const slot = read(row);
    slots.push(slot);
    ends.push(to);
    // A request may have a thousand records.
    records += slot instanceof Call ? Math.max(1, slot.records.length) : 1;
    if (records >= ROWS || to - begin >= BYTES) yield take();
  }
  if (slots.length > 0) yield take();
}

async function* pictures(
  message: RunMessage,
  { bucket, files }: Source<'picture'>,
  store: JobStore,
  done: number,
): AsyncGenerator<Rows> {
  // A message that goes on names all, and has the last of them left.
  const left = files.slice(files.length - message.rows);
  for (let at = done; at < left.length; at += PICTURES) {
    const group = left.slice(at, at + PICTURES);
    const slots = await Promise.all(
      group.map(async ([key, etag, bytes]): Promise<Slot> => {
        if (bytes === 0) return badRequest('the file is empty');
        if (bytes > LIMITS.imageBytes) return overLimit('imageBytes', `the picture is ${bytes} bytes,`);
        const read = await store.read({ bucket, key, etag, bytes }, 0, bytes);
        return new Map([[UNNAMED, { kind: 'image', bytes: read }]]);
      }),
    );
    const places = group.map(([, , , name]) => [name, 1] as const);
    yield { slots, places, rest: (count) => after(message, at + count) };
  }
}
