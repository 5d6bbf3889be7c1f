/**
 * The options of a command line that say what a model's files leave open. A TensorFlow name ends in `:0`, which is not a shape,
 * and a size in a shape may be a word. An entry apart from index.ts: a command line shows its help without the rest.
 */
import { type ShapeText, shapeOf } from '../lib/config/import-values.ts';
import { badConfig, type ServingError } from '../lib/contract/errors.ts';
import type { Tolerance } from './samples/compare.ts';
import type { ConvertOptions } from './source/convert-options.ts';

export const MAKING_OPTIONS = {
  input: {
    value: 'name[:shape]',
    multiple: true,
    about:
      'input, with its shape where the file leaves it open: data:N,3,224,224 (a word is a free size); naming another tensor cuts off what comes before it; of an ONNX model the sizes are for its check',
  },
  output: { value: 'name', multiple: true, about: 'output to keep' },
  constant: { value: 'name=number', multiple: true, about: 'input to replace by a number: keep_prob=1' },
  signature: { value: 'name', about: 'signature of a SavedModel (default serving_default)' },
  tag: { value: 'name', multiple: true, about: 'tag of the meta graph of a SavedModel (default serve)' },
  missing: {
    value: 'number',
    about: 'what stands for a missing value in a model of XGBoost, beside NaN: --missing=-999',
  },
  file: { value: 'name', about: 'which model of the directory, where it holds several: --file best.onnx' },
  variant: {
    value: 'name',
    about: 'which variant of the model: quantized takes model_quantized.onnx (default: the plain one)',
  },
  before: {
    value: 'name',
    multiple: true,
    about:
      'ONNX file beside the model that runs before it, joined with it into one: --before preprocessor.onnx',
  },
  reference: {
    value: 'path',
    about:
      'directory with in*.npy and out*.npy, or an .npz: what the outputs must match, or what a golden request records',
  },
  tolerance: {
    value: 'number',
    about:
      'how far outputs may differ (default 0.0001, and 0.001 of the value; of a golden request 0.0001 of the spread)',
  },
} as const;

type Making = typeof MAKING_OPTIONS;

export type MakingValues = {
  readonly [K in keyof Making]?: Making[K] extends { multiple: true } ? readonly string[] : string;
};

/** @throws bad_config naming the option and what was expected */
export function convertOptionsOf(values: MakingValues): ConvertOptions {
  const { input = [], output = [], constant = [], signature, tag = [], missing, file, variant } = values;
  const [before, ...more] = values.before ?? [];
  if (more.length > 0)
    throw badConfig(
      "--before: one file is joined with the model; a longer chain is a worker's, which runs code of yours",
    );
  const inputs = input.map(readInput);
  const constants = constant.map(readConstant);
  for (const [option, names] of [
    ['input', inputs.map(({ name }) => name)],
    ['output', output],
    ['constant', constants.map(([name]) => name)],
    ['tag', tag],
    ['signature', signature === undefined ? [] : [signature]],
  ] as const) {
    assertNames(option, names);
  }
  const shapes = inputs.flatMap(({ name, shape }) => (shape === undefined ? [] : [[name, shape] as const]));
  // An input without a shape chooses the inputs; shapes alone only complete those of the file.
  const isChoice = shapes.length < inputs.length;
  return {
    ...(shapes.length > 0 ? { inputShapes: Object.fromEntries(shapes) } : {}),
    ...(isChoice ? { inputNames: inputs.map(({ name }) => name) } : {}),
    ...(output.length > 0 ? { outputNames: output } : {}),
    ...(constants.length > 0 ? { constants: Object.fromEntries(constants) } : {}),
    ...(signature === undefined ? {} : { signature }),
    ...(missing === undefined ? {} : { missing: missingOf(missing) }),
    ...(file === undefined ? {} : { file }),
    ...(variant === undefined ? {} : { variant }),
    ...(before === undefined ? {} : { before: before.replace(/^\.\//, '') }),
    ...(tag.length > 0 ? { tags: tag } : {}),
  };
}

function readInput(text: string): { name: string; shape: ShapeText | undefined } {
  const colon = text.lastIndexOf(':');
  const after = text.slice(colon + 1);
  if (colon < 0 || /^\d$/.test(after)) return { name: text, shape: undefined };
  // A scalar is written as `data:[]`.
  const shape = after.trim() === '' ? undefined : shapeOf(after);
  if (shape !== undefined) return { name: text.slice(0, colon), shape };
  throw unexpected('input', 'name or name:shape, e.g. data:N,3,224,224', text);
}

function readConstant(text: string): readonly [string, number] {
  const [, name = '', number = ''] = /^(.+)=([^=]+)$/.exec(text) ?? [];
  const value = Number(number);
  if (name !== '' && number.trim() !== '' && Number.isFinite(value)) return [name, value];
  throw unexpected('constant', 'name=number, e.g. keep_prob=1', text);
}

function missingOf(text: string): number {
  const value = Number(text);
  if (text.trim() !== '' && Number.isFinite(value)) return value;
  throw unexpected('missing', 'a number, e.g. -999', text);
}

function assertNames(option: string, names: readonly string[]): void {
  for (const [i, name] of names.entries()) {
    if (name.trim() === '' || name === '__proto__') throw unexpected(option, 'a name', name);
    if (names.indexOf(name) !== i) throw badConfig(`--${option}: ${JSON.stringify(name)} is given twice`);
  }
}

/** Undefined for the default. @throws bad_config */
export function toleranceOf(text: string | undefined): Tolerance | undefined {
  if (text === undefined) return undefined;
  const atol = Number(text);
  if (text.trim() !== '' && Number.isFinite(atol) && atol >= 0) return { atol, rtol: 1e-3 };
  throw unexpected('tolerance', 'a number >= 0', text);
}

/** @param option without its dashes */
function unexpected(option: string, expected: string, got: string): ServingError {
  return badConfig(`--${option}: expected ${expected}, got ${JSON.stringify(got)}`);
}
