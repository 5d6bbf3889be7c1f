/** The names of a model's columns and classes, which an import stores beside the model. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { ModelNames } from '../lib/contract/values.ts';
import { NAMES_FILE, readNames } from '../lib/registry/names.ts';
import type { CheckReport } from './check/run.ts';
import type { FoundModel } from './detect.ts';
import { signedColumns } from './mlflow.ts';

const SHOWN_NAMES = 5;

/**
 * Writes what the source and the files beside it call columns and classes.
 * @returns what they are, for the report; undefined when there are no names
 */
export async function writeNames(
  found: FoundModel,
  folder: string,
  own: ModelNames,
  { inputs, outputs }: CheckReport,
): Promise<string[] | undefined> {
  // What a person put beside the model counts before what is in it.
  const beside = await readNames(found.home, outputs);
  const signed = signedColumns(found.mlflow ?? {}, own.columns, inputs);
  const columns = { ...own.columns, ...signed, ...beside.columns };
  const labels = { ...own.labels, ...beside.labels };
  const shown = [...shownNames('input', 'columns', columns), ...shownNames('output', 'labels', labels)];
  if (shown.length === 0) return undefined;
  await writeFile(join(folder, NAMES_FILE), `${JSON.stringify({ columns, labels }, undefined, 1)}\n`);
  return shown;
}

function shownNames(side: string, what: string, lists: ModelNames['labels']): string[] {
  return Object.entries(lists).map(([name, list]) => {
    const rest = list.length > SHOWN_NAMES ? ', …' : '';
    return `${side} "${name}" has ${list.length} ${what}: ${list.slice(0, SHOWN_NAMES).join(', ')}${rest}`;
  });
}
