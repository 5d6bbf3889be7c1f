/**
 * Parquet: a group of rows is a message, because its columns are read as a whole. Loaded for files of this format only. Columns of
 * anything but plain numbers, texts, truths and bytes are refused, because nothing says how a model would take them.
 */
import { brotliDecompressSync, gunzipSync, zstdDecompressSync } from 'node:zlib';
import {
  type AsyncBuffer,
  type FileMetaData,
  parquetMetadataAsync,
  parquetRead,
  type SchemaElement,
} from 'hyparquet';
import { isPicture } from '../codecs/image/signatures.ts';
import { withBinding } from '../codecs/instances.ts';
import { quoteName } from '../codecs/quote.ts';
import { decodeUtf8 } from '../codecs/utf8.ts';
import { asError, badRequest, ServingError } from '../contract/errors.ts';
import { jsonValue } from '../contract/json-numbers.ts';
import { LIMITS, overLimit } from '../contract/limits.ts';
import type { Value } from '../contract/values.ts';
import { DRY_ROWS } from './begin.ts';
import { unitName } from './cover.ts';
import { keysOf } from './request.ts';
import type { Slot } from './rows.ts';
import type { JobDeps, JobFile, JobStore, PlanMessage, RunMessage } from './store.ts';

/** The columns of a group of rows are in memory, and take several times this as values. */
const GROUP_BYTES = 64 * 1024 * 1024;
/** Truths and texts that repeat take a bit in the file, and as values as much as any other. */
const GROUP_CELLS = GROUP_BYTES / 8;
const ROWS = 512;
const COMPRESSORS = {
  GZIP: unzip(gunzipSync),
  BROTLI: unzip(brotliDecompressSync),
  ZSTD: unzip(zstdDecompressSync),
};

/** The bytes of a page, and no more than it says: a small file may be gigabytes. */
function unzip(decompress: (input: Uint8Array, options: { maxOutputLength: number }) => Buffer) {
  return (input: Uint8Array, length: number) =>
    new Uint8Array(decompress(input, { maxOutputLength: Math.max(1, Math.min(length, GROUP_BYTES)) }));
}

export async function planParquet(message: PlanMessage, deps: JobDeps): Promise<undefined> {
  const { id, unit, file, name, dryRun = false } = message;
  const metadata = await metadataOf(file, name, deps.store);
  let row = 0;
  for (const [i, group] of metadata.row_groups.entries()) {
    if (group.total_byte_size > GROUP_BYTES)
      throw badRequest(
        `${name}: the rows of group ${i} are ${group.total_byte_size} bytes, over the limit of ${GROUP_BYTES}; write smaller groups (pandas: to_parquet(row_group_size=50000))`,
      );
    const rows = Number(group.num_rows);
    if (rows * group.columns.length > GROUP_CELLS)
      throw badRequest(
        `${name}: the rows of group ${i} have ${rows * group.columns.length} cells, over the limit of ${GROUP_CELLS}; write smaller groups (pandas: to_parquet(row_group_size=50000))`,
      );
    const some = dryRun ? Math.min(rows, DRY_ROWS) : rows;
    const isMeant = rows > 0 && (!dryRun || (unit === 0 && row === 0));
    if (isMeant)
      await deps.send({ do: 'run', id, unit, row, rows: some, source: { kind: 'parquet', file, name } });
    row += rows;
  }
  await deps.store.put(`${keysOf(deps.job, id).ends}${unitName(unit)}-${row}`, '');
}

/** Rows of a message from the one after `done` on. @throws bad_request, conflict */
export async function* parquetRows(
  { row, rows }: RunMessage,
  { file, name }: { readonly file: JobFile; readonly name: string },
  store: Pick<JobStore, 'read'>,
  done: number,
): AsyncGenerator<{ readonly slots: Slot[]; readonly first: number }> {
  const metadata = await metadataOf(file, name, store);
  const source = bufferOf(file, store);
  const columns = metadata.schema.slice(1).map(({ name: column }) => column);
  let found: unknown[][] = [];
  await reading(name, source, () =>
    parquetRead({
      file: source,
      metadata,
      rowStart: row + done,
      rowEnd: row + rows,
      compressors: COMPRESSORS,
      utf8: false,
      parsers: { stringFromBytes: textOf },
      onComplete: (read) => {
        found = read;
      },
    }),
  );
  for (let at = 0; at < found.length; at += ROWS)
    yield { slots: found.slice(at, at + ROWS).map((values) => slotOf(columns, values)), first: done + at };
}

async function metadataOf(file: JobFile, name: string, store: Pick<JobStore, 'read'>): Promise<FileMetaData> {
  const source = bufferOf(file, store);
  const metadata = await reading(name, source, () => parquetMetadataAsync(source));
  const [, ...columns] = metadata.schema;
  if (columns.length === 0) throw badRequest(`${name} has no columns`);
  if (columns.length > LIMITS.csvColumns)
    throw overLimit('csvColumns', `${name}: ${columns.length} columns are`);
  for (const column of columns) {
    const problem = problemOf(column);
    if (problem !== undefined) throw badRequest(`${name}: column ${quoteName(column.name)} is ${problem}`);
  }
  return metadata;
}

const PLAIN = /^U?INT_(8|16|32|64)$|^UTF8$|^ENUM$/;
const LOGICAL: readonly string[] = ['STRING', 'ENUM', 'INTEGER', 'FLOAT16'];

function problemOf({
  type,
  repetition_type,
  num_children,
  converted_type,
  logical_type,
}: SchemaElement): string | undefined {
  if (repetition_type === 'REPEATED' || num_children !== undefined)
    return 'nested, which no input takes: write a column for each value, or NDJSON';
  const kind = logical_type?.type ?? converted_type ?? type;
  const isPlain =
    (logical_type === undefined || LOGICAL.includes(logical_type.type)) &&
    (converted_type === undefined || PLAIN.test(converted_type)) &&
    type !== 'INT96' &&
    (type !== 'FIXED_LEN_BYTE_ARRAY' || logical_type?.type === 'FLOAT16');
  return isPlain ? undefined : `of type ${kind}, which no input takes: write it as a number or a text`;
}

/** A file to be read, and why S3 did not give it. */
interface Source extends AsyncBuffer {
  failure?: { readonly error: unknown };
}

/** Its errors as those of the file. An error of reading from S3 is none, whatever it is called, and comes again. */
async function reading<T>(name: string, source: Source, read: () => Promise<T>): Promise<T> {
  try {
    return await read();
  } catch (error) {
    if (source.failure) throw source.failure.error;
    if (error instanceof ServingError) throw error;
    throw badRequest(`${name} cannot be read as Parquet: ${asError(error).message}`);
  }
}

function bufferOf(file: JobFile, store: Pick<JobStore, 'read'>): Source {
  const source: Source = {
    byteLength: file.bytes,
    async slice(start, end = file.bytes) {
      const from = start < 0 ? Math.max(0, file.bytes + start) : start;
      try {
        const bytes = await store.read(file, from, Math.min(end, file.bytes));
        return new Uint8Array(bytes).buffer;
      } catch (error) {
        source.failure = { error };
        throw error;
      }
    },
  };
  return source;
}

/** The bytes themselves where they are not valid UTF-8. */
function textOf(bytes: Uint8Array | undefined): unknown {
  return bytes && (decodeUtf8(bytes) ?? bytes);
}

function slotOf(columns: readonly string[], values: readonly unknown[]): Slot {
  const inputs = new Map<string, Value>();
  for (const [i, name] of columns.entries()) {
    const value = values[i];
    if (value === null || value === undefined) return badRequest(`column ${quoteName(name)} has no value`);
    if (!(value instanceof Uint8Array)) inputs.set(name, jsonValue(plainOf(value)));
    else if (isPicture(value)) inputs.set(name, { kind: 'image', bytes: value });
    else {
      const text = decodeUtf8(value);
      if (text === undefined)
        return badRequest(`column ${quoteName(name)} is neither a picture nor text in UTF-8`);
      inputs.set(name, jsonValue(text));
    }
  }
  // As the columns of a CSV.
  return withBinding(inputs, 'name');
}

/** A whole number as JSON has it: a bigint where a number would round it. */
function plainOf(value: unknown): unknown {
  return typeof value === 'bigint' && Number.isSafeInteger(Number(value)) ? Number(value) : value;
}
