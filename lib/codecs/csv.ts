/**
/**
 * Tables as CSV (RFC 4180, but for blanks around cells): the first line names the columns, each row is a record. Only the
 * model knows what a cell is. 6 MiB may be six million cells or empty lines, so what is too much is refused while it is read.
 */
import { badRequest, ServingError } from '../contract/errors.ts';
import { LIMITS, overLimit } from '../contract/limits.ts';
import type { Inputs, Value } from '../contract/values.ts';
import { CsvReader, type CsvRow } from './csv-reader.ts';
import { longName, withBinding } from './instances.ts';
import { quoteName } from './quote.ts';
import { decodeUtf8, utf8Problem } from './utf8.ts';

export interface Csv {
  readonly columns: readonly string[];
  /** With a cell per column. */
  readonly rows: readonly CsvRow[];
}

/**
 * @param mostRows the limit of its rows; a table for a request has one, and `csvCells` too
 * @throws bad_request naming the line; too_large
 */
export function readCsv(body: Uint8Array | string, mostRows?: 'instances' | 'recordsPerBody'): Csv {
  const text = textOf(body);
  assertCommas(text);
  const reader = new CsvReader(text);
  const columns = columnsOf(reader);
  const rows: CsvRow[] = [];
  for (;;) {
    // An empty line is the missing value of a table with one column.
    if (columns.length > 1) reader.skipEmptyLines();
    const row = reader.read(columns.length);
    if (row === undefined) break;
    const { cells, line } = row;
    if (columns.length > 1 && cells.length === 1 && cells[0] === '') continue;
    if (cells.length !== columns.length) {
      const count = cells.length > columns.length ? `at least ${cells.length}` : cells.length;
      throw badRequest(`line ${line}: ${count} cells, expected ${columns.length} as in the first line`);
    }
    rows.push(row);
    if (mostRows) assertFits(rows.length, columns.length, mostRows);
  }
  if (rows.length === 0) throw badRequest('the CSV has no rows below the names of its columns');
  return { columns, rows };
}

function assertFits(rows: number, columns: number, mostRows: 'instances' | 'recordsPerBody'): void {
  if (rows > LIMITS[mostRows]) throw overLimit(mostRows, `at least ${rows} rows are`, 'a request');
  if (rows * columns > LIMITS.csvCells) {
    throw overLimit('csvCells', `at least ${rows} rows of ${columns} cells are`, 'cells');
  }
}

function textOf(body: Uint8Array | string): string {
  const text = typeof body === 'string' ? body : decodeUtf8(body);
  if (text !== undefined) return text;
  throw badRequest(`the CSV cannot be read: ${utf8Problem(body as Uint8Array)}`);
}

/** Where Windows writes decimals with a comma, Excel separates by semicolons. @throws bad_request */
function assertCommas(text: string): void {
  const [line = ''] = text.split(/[\r\n]/, 1);
  const unquoted = line.replaceAll(/"[^"]*"/g, '').trim();
  const by = unquoted.includes(';') ? 'semicolons' : unquoted.includes('\t') ? 'tabs' : undefined;
  if (by !== undefined && !unquoted.includes(','))
    throw badRequest(`line 1: separated by ${by}: save as CSV UTF-8 (comma)`);
}

/** The names in the first line. @throws bad_request, too_large */
export function readColumns(text: string): readonly string[] {
  assertCommas(text);
  return columnsOf(new CsvReader(text));
}

function columnsOf(reader: CsvReader): readonly string[] {
  const head = reader.read(LIMITS.csvColumns);
  if (head === undefined) throw badRequest('the CSV is empty; expected a line with the names of the columns');
  if (head.cells.length > LIMITS.csvColumns) {
    throw overLimit('csvColumns', `line 1: at least ${head.cells.length} columns are`);
  }
  const columns = head.cells;
  const names = new Set<string>();
  for (const [i, name] of columns.entries()) {
    if (name === '') throw badRequest(`line 1: column ${i + 1} has no name (pandas: to_csv(index=False))`);
    if (name.length > LIMITS.inputNameLength) throw longName(name, 'line 1: ');
    if (names.has(name)) throw badRequest(`line 1: the column ${quoteName(name)} stands twice`);
    names.add(name);
  }
  return columns;
}

/** The rows as records, with their lines. @throws as `readCsv`; too_large over LIMITS.instances */
export function decodeCsv(body: Uint8Array | string): {
  readonly records: Inputs[];
  readonly lines: number[];
} {
  const { columns, rows } = readCsv(body, 'instances');
  const records = rows.map(({ cells }) => inputsOfRow(columns, cells));
  return { records, lines: rows.map(({ line }) => line) };
}

/** Its names come from a header, but another model's table may have the same, so they bind by name only. */
export function inputsOfRow(columns: readonly string[], cells: readonly string[]): Inputs {
  const inputs = new Map(
    columns.map((name, i): [string, Value] => [name, { kind: 'json', value: cells[i] }]),
  );
  return withBinding(inputs, 'name');
}

/** An error of one of several instances, with its line instead of its index. */
export function atLine(error: ServingError, lines: readonly number[]): ServingError {
  const index = /^instances\[(\d+)\]: /.exec(error.message);
  const line = lines[index ? Number(index[1]) : 0];
  if (line === undefined || (!index && lines.length > 1)) return error;
  const message = `line ${line}: ${error.message.slice(index?.[0].length ?? 0)}`;
  return new ServingError(error.code, message, { cause: error });
}
