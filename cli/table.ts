/** Tables as CSV files: their rows become records of the queue, or requests of some rows each. */

import { basename } from 'node:path';
import { type Csv, readCsv } from '../lib/codecs/csv.ts';
import type { CsvRow } from '../lib/codecs/csv-reader.ts';
import { ServingError } from '../lib/contract/errors.ts';
import { LIMITS } from '../lib/contract/limits.ts';
import { assertUri } from '../lib/contract/names.ts';
import { elementAt } from '../lib/contract/present.ts';
import type { QueueRecord } from '../sdk/index.ts';
import { wrongUse } from './command.ts';
import { readInput } from './records.ts';

export interface Table extends Csv {
  /** The file's name, for errors and uris. */
  readonly name: string;
}

/** A table, which has to fit into memory several times. Refused: split it. */
const MAX_TABLE_BYTES = 64 * 1024 * 1024;
/** The rows of one request, below the 6 MiB that the service accepts. */
const REQUEST_CHARACTERS = 1024 * 1024;

/** @throws bad_request naming the file and the line; too_large */
export async function readTable(path: string): Promise<Table> {
  const name = path === '-' ? 'stdin' : basename(path);
  const bytes = await readInput(path);
  if (bytes.length > MAX_TABLE_BYTES) {
    throw new ServingError(
      'too_large',
      `${name}: ${bytes.length} bytes are over the limit of ${MAX_TABLE_BYTES}`,
    );
  }
  try {
    return { name, ...readCsv(bytes) };
  } catch (error) {
    const { code, message } = ServingError.from(error);
    throw new ServingError(code, `${name}: ${message}`, { cause: error });
  }
}

/**
 * Each row as a record, with its cells as texts. Its uri is in a column, or else the name of the file and the number of
 * the row.
 * @throws bad_request for a uri that is none, or stands twice, with its line
 */
export function recordsOfTable({ name, columns, rows }: Table, uriColumn: string | undefined): QueueRecord[] {
  const at = columns.indexOf(uriColumn ?? 'uri');
  if (at < 0 && uriColumn !== undefined) {
    throw wrongUse(`${name} has no column ${JSON.stringify(uriColumn)}; its columns: ${columns.join(', ')}`);
  }
  if (at === 0 && columns.length === 1) throw wrongUse(`${name} has no column but that of the uris`);
  const seen = new Set<string>();
  return rows.map(({ cells, line }, i) => {
    const uri =
      at < 0 ? `${name.replace(/\.csv$/i, '')}-${i + 1}` : uriOf(cells[at], `${name}: line ${line}`);
    // A uri has one result, so the second record's would be lost.
    if (seen.has(uri))
      throw new ServingError('bad_request', `${name}: line ${line}: the uri ${uri} stands twice`);
    seen.add(uri);
    const inputs = columns.flatMap((column, k) =>
      k === at ? [] : [[column, [elementAt(cells, k, 'cells')]] as const],
    );
    return { uri, inputs: Object.fromEntries(inputs) };
  });
}

function uriOf(cell: string | undefined, where: string): string {
  try {
    return assertUri(cell);
  } catch (error) {
    const { code, message } = ServingError.from(error);
    throw new ServingError(code, `${where}: ${message}`, { cause: error });
  }
}

/** As many rows at a time as a request takes. */
export function* partsOf(rows: readonly CsvRow[]): Generator<readonly CsvRow[]> {
  let part: CsvRow[] = [];
  let characters = 0;
  for (const row of rows) {
    const own = row.cells.reduce((sum, cell) => sum + cell.length + 3, 0);
    const isFull =
      part.length === LIMITS.instances ||
      (part.length + 1) * row.cells.length > LIMITS.csvCells ||
      characters + own > REQUEST_CHARACTERS;
    if (part.length > 0 && isFull) {
      yield part;
      [part, characters] = [[], 0];
    }
    part.push(row);
    characters += own;
  }
  yield part;
}

export function csvText(columns: readonly string[], rows: readonly CsvRow[]): string {
  const quoted = (cells: readonly string[]) =>
    cells.map((cell) => `"${cell.replaceAll('"', '""')}"`).join(',');
  return [columns, ...rows.map(({ cells }) => cells)].map(quoted).join('\n');
}

/** An error that the service gave for a part of the file, with the line that the row has in the file. */
export function inFile(error: unknown, name: string, part: readonly CsvRow[]): unknown {
  if (!(error instanceof ServingError)) return error;
  const place = /^line (\d+): /.exec(error.message);
  if (!place) return error;
  const sent = lineOffsets(part);
  const row = part[sent.indexOf(Number(place[1]))];
  const message = error.message.slice(place[0].length);
  return new ServingError(error.code, `${name}: line ${row?.line ?? '?'}: ${message}`, { cause: error });
}

/** The line on which each row ends in what was sent: cells may have lines of their own. */
function lineOffsets(part: readonly CsvRow[]): number[] {
  let line = 1;
  return part.map(({ cells }) => {
    line += 1 + cells.reduce((sum, cell) => sum + cell.split('\n').length - 1, 0);
    return line;
  });
}
