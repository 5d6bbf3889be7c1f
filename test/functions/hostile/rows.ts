/** Reads the cases that are text alone. Those whose input is computed stand in the tables themselves. */
import { readFileSync } from 'node:fs';
import type { BodyCase, InstanceCase } from './cases.ts';
import type { ModelName } from './models.ts';

interface Row {
  readonly table: string;
  readonly name: string;
  readonly code: BodyCase[2];
  /** A regular expression. */
  readonly message: string;
  readonly body: string;
  readonly model: ModelName;
  readonly instance: string;
}

function rowsOf(file: string, table: string): Row[] {
  const lines = readFileSync(new URL(`tables/${file}`, import.meta.url), 'utf8').split('\n');
  const rows = lines.filter(Boolean).map((line): Row => JSON.parse(line));
  return rows.filter((row) => row.table === table);
}

export const bodyCases = (file: string, table: string): BodyCase[] =>
  rowsOf(file, table).map(({ name, body, code, message }) => [name, body, code, new RegExp(message)]);

export const instanceCases = (file: string, table: string): InstanceCase[] =>
  rowsOf(file, table).map(({ name, model, instance, code, message }) => [
    name,
    model,
    instance,
    code,
    new RegExp(message),
  ]);
