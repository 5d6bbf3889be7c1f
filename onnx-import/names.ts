/** The names of a model's columns and classes, which an import stores beside the model. */
import { writeFile } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import type { ModelNames, TensorSpec } from '../lib/contract/values.ts';
import {
  type FoundLabels,
  labelsBeside,
  NAMES_FILE,
  outputOfLabels,
  readNames,
  textLabels,
  textOf,
} from '../lib/registry/names.ts';
import type { CheckReport } from './check/run.ts';
import type { FoundModel } from './detect.ts';
import { signedColumns } from './mlflow.ts';
import type { OnnxLabels } from './onnx/labels.ts';

const SHOWN_NAMES = 5;
/** What exporters of TensorFlow call the list of classes in the assets of a SavedModel. */
const LABEL_ASSET = /^assets\/[^/]*(label|class)[^/]*\.txt$/i;

export interface WrittenNames {
  readonly isWritten: boolean;
  /** What they are and where they are from, and which were found but fit no output. */
  readonly notes: readonly string[];
}

/** Writes what the source and the files beside it call columns and classes. @param folder that of the ONNX model */
export async function writeNames(
  found: FoundModel,
  folder: string,
  inFile: OnnxLabels,
  own: ModelNames,
  report: CheckReport,
): Promise<WrittenNames> {
  const outputs = producedOutputs(report);
  const stored = await readNames(found.home, []);
  // What a person put beside the model counts before what is in it.
  const lists = [await labelsBeside(found.home), await assetLabels(found), inFile.labels];
  const labels = new Map<string, FoundLabels>();
  const add = (source: string, given: ModelNames['labels']) => {
    for (const [output, list] of Object.entries(given)) {
      if (!labels.has(output)) labels.set(output, { labels: list, source });
    }
  };
  const unfit: string[] = [];
  add(NAMES_FILE, stored.labels);
  add('label_filename of config.pbtxt', found.triton?.labels ?? {});
  for (const list of lists) {
    const output = list && outputOfLabels(list.labels.length, outputs);
    if (list && output !== undefined) add(list.source, { [output]: list.labels });
    else if (list && outputs.length > 0) unfit.push(unfitNote(list, report));
  }
  add('the model file', { ...inFile.byOutput, ...own.labels });
  const signed = signedColumns(found.mlflow ?? {}, own.columns, report.inputs);
  const columns = { ...own.columns, ...signed, ...stored.columns };
  const asList = Object.fromEntries([...labels].map(([name, list]) => [name, list.labels]));
  const notes = [
    ...Object.entries(columns).map(([name, list]) => shownNames('input', name, 'columns', list)),
    ...Array.from(labels, ([name, list]) => shownNames('output', name, 'labels', list.labels, list.source)),
  ];
  if (notes.length > 0) {
    const text = JSON.stringify({ columns, labels: asList }, undefined, 1);
    await writeFile(join(folder, NAMES_FILE), `${text}\n`);
  }
  return { isWritten: notes.length > 0, notes: [...notes, ...unfit] };
}

/** With the last size that a run has shown, where the file leaves it free. */
function producedOutputs({ outputs, produced }: CheckReport): TensorSpec[] {
  return outputs.map((spec) => {
    const size = produced.find(({ name }) => name === spec.name)?.shape.at(-1);
    const isOpen = typeof spec.shape.at(-1) === 'string' && spec.shape.length > 1;
    return isOpen && size !== undefined ? { ...spec, shape: [...spec.shape.slice(0, -1), size] } : spec;
  });
}

async function assetLabels({ kind, directory, files }: FoundModel): Promise<FoundLabels | undefined> {
  const assets = kind === 'tf_saved_model' ? files.filter((name) => LABEL_ASSET.test(name)) : [];
  const [source] = assets;
  if (source === undefined || assets.length > 1) return undefined;
  const text = await textOf(join(directory, dirname(source)), basename(source));
  const labels = text === undefined ? undefined : textLabels(text);
  return labels && { labels, source };
}

function unfitNote({ labels, source }: FoundLabels, { outputs }: CheckReport): string {
  const sizes = outputs.map(({ name, shape }) => `"${name}" has ${shape.at(-1) ?? 'no columns'}`).join(', ');
  return `${source}: ${labels.length} labels, which are not used, for they do not fit exactly one output: ${sizes}; names.json says which output has which`;
}

function shownNames(
  side: string,
  name: string,
  what: string,
  list: readonly string[],
  source?: string,
): string {
  const rest = list.length > SHOWN_NAMES ? ', …' : '';
  const from = source === undefined ? '' : ` (from ${source})`;
  return `${side} "${name}" has ${list.length} ${what}${from}: ${list.slice(0, SHOWN_NAMES).join(', ')}${rest}`;
}
