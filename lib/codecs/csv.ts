/**
 * Tables as CSV (RFC 4180, but for blanks around cells): the first line names the columns, each row is a record. Only the
 * model knows what a cell is.
 */
import { CsvError, parse } from 'csv-parse/sync';
import { badRequest, ServingError } from '../contract/errors.ts';
import { LIMITS, overLimit } from '../contract/limits.ts';
import type { Inputs, Value } from '../contract/values.ts';
import { longName, withBinding } from './instances.ts';
import { quoteName } from './quote.ts';

export interface CsvRow {
  /** Where it ends; lines count from 1. */
  readonly line: number;
  /** One per column. */
  readonly cells: readonly string[];
}

export interface Csv {
  readonly columns: readonly string[];
  readonly rows: readonly CsvRow[];
}

/** @throws bad_request naming the line; too_large */
export function readCsv(body: Uint8Array | string): Csv {
  const [head, ...lines] = parsed(body);
  if (head === undefined) throw badRequest('the CSV is empty; expected a line with the names of the columns');
  const columns = head.cells;
  assertColumns(columns);
  // An empty line is the missing value of a table with one column.
  const rows = lines.filter(({ cells }) => columns.length === 1 || cells.length > 1 || cells[0] !== '');
  const other = rows.find(({ cells }) => cells.length !== columns.length);
  if (other) {
    throw badRequest(
      `line ${other.line}: ${other.cells.length} cells, expected ${columns.length} as in the first line`,
    );
  }
  if (rows.length === 0) throw badRequest('the CSV has no rows below the names of its columns');
  return { columns, rows };
}

function parsed(body: Uint8Array | string): CsvRow[] {
  const lines: CsvRow[] = [];
  try {
    parse(textOf(body), {
      bom: true,
      // Blanks around a cell do not count, in names, numbers and texts alike; a text that has some is written in quotes.
      trim: true,
      relax_column_count: true,
      onRecord: (cells: readonly string[], { lines: line }: { readonly lines: number }) => {
        lines.push({ cells, line });
        return null;
      },
    });
    return lines;
  } catch (error) {
    if (!(error instanceof CsvError)) throw error;
    throw badRequest(`the CSV cannot be read: ${error.message}`, { cause: error });
  }
}

function textOf(body: Uint8Array | string): string {
  try {
    return typeof body === 'string' ? body : new TextDecoder('utf-8', { fatal: true }).decode(body);
  } catch (error) {
    throw badRequest('the CSV is not valid UTF-8', { cause: error });
  }
}

function assertColumns(columns: readonly string[]): void {
  if (columns.length > LIMITS.csvColumns) {
    throw overLimit('csvColumns', `line 1: ${columns.length} columns are`);
  }
  for (const [i, name] of columns.entries()) {
    if (name === '') throw badRequest(`line 1: column ${i + 1} has no name (pandas: to_csv(index=False))`);
    if (name.length > LIMITS.inputNameLength) throw longName(name, 'line 1: ');
    if (columns.indexOf(name) !== i) throw badRequest(`line 1: the column ${quoteName(name)} stands twice`);
  }
}

/** The rows as records, with their lines. @throws as `readCsv`; too_large over LIMITS.instances */
export function decodeCsv(body: Uint8Array | string): {
  readonly records: Inputs[];
  readonly lines: number[];
} {
  const { columns, rows } = readCsv(body);
  if (rows.length > LIMITS.instances) throw overLimit('instances', `${rows.length} rows are`, 'a request');
  const records = rows.map(({ cells }) => inputsOfRow(columns, cells));
  return { records, lines: rows.map(({ line }) => line) };
}

/** Its names are the header's, which is no header of another model's table: they bind by name only. */
export function inputsOfRow(columns: readonly string[], cells: readonly string[]): Inputs {
  const inputs = new Map(
    columns.map((name, i): [string, Value] => [name, { kind: 'json', value: cells[i] }]),
  );
  return withBinding(inputs, 'name');
}

/** An error of one of several instances, with its line in place of its index. */
export function atLine(error: ServingError, lines: readonly number[]): ServingError {
  const index = /^instances\[(\d+)\]: /.exec(error.message);
  const line = lines[index ? Number(index[1]) : 0];
  if (line === undefined || (!index && lines.length > 1)) return error;
  const message = `line ${line}: ${error.message.slice(index?.[0].length ?? 0)}`;
  return new ServingError(error.code, message, { cause: error });
}
