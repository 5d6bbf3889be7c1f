/** Reads tables as MLflow's clients send them: `dataframe_split` with columns and data, `dataframe_records` with an object a row. */
import { badRequest } from '../contract/errors.ts';
import { LIMITS, overLimit } from '../contract/limits.ts';
import { type KeysOf, keysInOrder } from './key-order.ts';
import { kindOf, quoteName } from './quote.ts';

const SPLIT = 'dataframe_split';
const RECORDS = 'dataframe_records';

export type DataframeKey = typeof SPLIT | typeof RECORDS;

interface Dataframe {
  /** An object of values by column, or a list of values where columns have no names. */
  readonly rows: readonly unknown[];
  readonly keysOf: KeysOf;
}

export function dataframeKey(body: Readonly<Record<string, unknown>>): DataframeKey | undefined {
  if (body[SPLIT] !== undefined) return SPLIT;
  return body[RECORDS] === undefined ? undefined : RECORDS;
}

/** @param text from which the order of the columns is read. @throws bad_request, too_large */
export function readDataframe(key: DataframeKey, table: unknown, text: string): Dataframe {
  if (key === SPLIT) return readSplit(table);
  if (!Array.isArray(table)) throw badRequest(`"${key}": expected a list of objects, got ${kindOf(table)}`);
  const odd = table.findIndex((row) => !isRecord(row));
  if (odd !== -1)
    throw badRequest(`"${key}"[${odd}]: expected an object of values by column, got ${kindOf(table[odd])}`);
  return { rows: table, keysOf: keysInOrder(text, RECORDS) };
}

function readSplit(table: unknown): Dataframe {
  const { columns, data } = isRecord(table) ? table : {};
  if (!Array.isArray(data) || !(columns === undefined || Array.isArray(columns)))
    throw badRequest(`"${SPLIT}": expected {"columns":["<name>"],"data":[[<value>]]}, got ${kindOf(table)}`);
  if (data.length > LIMITS.instances) throw overLimit('instances', `${data.length} rows are`, 'a request');
  const names = columns === undefined ? undefined : namesOf(columns);
  const rows = data.map((row: unknown, at) => {
    if (!Array.isArray(row)) throw badRequest(`"${SPLIT}".data[${at}]: expected a list, got ${kindOf(row)}`);
    if (names === undefined) return row;
    if (row.length !== names.length)
      throw badRequest(`"${SPLIT}".data[${at}]: ${row.length} values, and ${names.length} columns`);
    return Object.fromEntries(names.map((name, i) => [name, row[i]]));
  });
  return { rows, keysOf: () => names ?? [] };
}

/** Undefined for the columns 0, 1, 2, … that pandas gives to a table without names. */
function namesOf(columns: readonly unknown[]): string[] | undefined {
  if (columns.length > 0 && columns.every((column, at) => column === at)) return undefined;
  const names = columns.filter((column) => typeof column === 'string');
  if (names.length < columns.length)
    throw badRequest(`"${SPLIT}".columns: expected texts, or 0, 1, 2, … for columns without names`);
  const twice = names.find((name, at) => names.indexOf(name) !== at);
  if (twice !== undefined) throw badRequest(`"${SPLIT}".columns: ${quoteName(twice)} is there twice`);
  return names;
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
