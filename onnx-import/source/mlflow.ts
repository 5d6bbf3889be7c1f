/**
 * Reads the MLmodel of an MLflow directory: which flavors the model has, where the files of each lie, and what its
 * signature says of the inputs. MLflow 1 to 3 name the same files by other keys and folders. Whatever the file says, no
 * path leads out of the directory.
 */
import { realpath, stat } from 'node:fs/promises';
import { isAbsolute, join, relative, resolve, sep } from 'node:path';
import { readYamlFile } from '../../lib/config/file.ts';
import { isFields, type Value } from '../../lib/config/value.ts';
import { badModel, ServingError } from '../../lib/contract/errors.ts';
import type { ModelNames, TensorSpec } from '../../lib/contract/values.ts';
import type { Shape } from '../graph/value.ts';
import type { ConvertOptions } from './convert-options.ts';
import type { ModelKind } from './kinds.ts';

export const MLMODEL = 'MLmodel';

/** What an MLmodel says of the flavor that is imported. */
export interface MlflowFacts {
  readonly flavor: string;
  /** The model's file, or the folder of the SavedModel, relative to the directory. */
  readonly path: string;
  /** The names of the columns, in order, where each is one number. */
  readonly columns?: readonly string[];
  /** What the import takes where the user says nothing else. */
  readonly defaults: ConvertOptions;
}

interface Flavor {
  readonly name: string;
  /** As MLmodel has it, not yet checked. */
  readonly path: string;
  readonly facts: Pick<MlflowFacts, 'columns' | 'defaults'>;
}

interface Mlmodel {
  /** The flavors that may be read, the preferred one first. */
  readonly readable: readonly Flavor[];
  /** What to do about each other one. */
  readonly others: readonly string[];
}

/** In the order of preference: what is closest to what serves comes first. `paths` are the keys of their files. */
const FLAVORS: Readonly<Record<string, { readonly kind: ModelKind; readonly paths: readonly string[] }>> = {
  onnx: { kind: 'onnx', paths: ['data'] },
  tensorflow: { kind: 'tf_saved_model', paths: ['saved_model_dir', 'data'] },
  keras: { kind: 'tf_saved_model', paths: ['data'] },
  pytorch: { kind: 'pytorch', paths: ['model_data'] },
  xgboost: { kind: 'xgboost', paths: ['data'] },
  lightgbm: { kind: 'lightgbm', paths: ['data'] },
};

const TO_ONNX: ReadonlyMap<string, string> = new Map(
  Object.entries({
    sklearn: 'skl2onnx.to_onnx(mlflow.sklearn.load_model(dir), X[:1]) makes an ONNX model of it',
    catboost:
      'mlflow.catboost.load_model(dir).save_model("model.onnx", format="onnx") makes an ONNX model of it',
    spark: 'onnxmltools.convert_sparkml makes an ONNX model of it',
    sentence_transformers: optimumCall('model.sentence_transformer', 'feature-extraction'),
    fastai: 'torch.jit.trace(learner.model.eval(), example).save("model.pt") makes a TorchScript model of it',
  }),
);
const OTHERWISE = 'its code is Python: export the model to ONNX, or serve the code as a worker';
/** How the objects of scikit-learn are stored, which are code. */
const PICKLED: Readonly<Record<string, string>> = {
  lightgbm: 'mlflow.lightgbm.load_model(dir).booster_.save_model("model.txt") stores it without Python',
  xgboost: 'mlflow.xgboost.load_model(dir).save_model("model.json") stores it without Python',
};

/** The types of signatures that are one number. */
const NUMBERS: ReadonlySet<unknown> = new Set(['double', 'float', 'long', 'integer', 'boolean']);
const DTYPES: ReadonlySet<string> = new Set([
  'float32',
  'float64',
  'int64',
  'int32',
  'int16',
  'int8',
  'uint8',
  'bool',
]);
const MAX_FLAVORS = 50;

/** @param file the MLmodel. @throws bad_model when it is none */
export function readMlmodel(file: string): Mlmodel {
  const root = yamlOf(file);
  const flavors = keysOf(fieldOf(root, 'flavors'));
  if (flavors.length === 0 || flavors.length > MAX_FLAVORS) {
    throw badModel(`${file}: expected "flavors:" with 1 to ${MAX_FLAVORS} of them, found ${flavors.length}`);
  }
  const inputs = inputsOf(textOf(fieldOf(fieldOf(root, 'signature'), 'inputs')), file);
  const readable = Object.entries(FLAVORS).flatMap(([name, { paths }]): Flavor[] => {
    const flavor = fieldOf(fieldOf(root, 'flavors'), name);
    const [path] = paths.map((key) => textOf(fieldOf(flavor, key))).filter((text) => text !== undefined);
    if (path === undefined) {
      if (!flavors.includes(name)) return [];
      throw badModel(`${file}: the flavor ${name} does not say where its files are (${paths.join(' or ')})`);
    }
    return [{ name, path, facts: factsOf(name, flavor, inputs) }];
  });
  const others = flavors.filter((name) => !Object.hasOwn(FLAVORS, name) && name !== 'python_function');
  const advice = others.map(
    (name) => `${shown(name)}: ${adviceOnFlavor(name, fieldOf(fieldOf(root, 'flavors'), name))}`,
  );
  const isCode = readable.length + others.length === 0;
  return { readable, others: isCode ? [`python_function: ${OTHERWISE}`] : advice };
}

/** optimum looks for the task on the hub, so a folder needs it. */
function optimumCall(folder: string, task: string): string {
  return `\`optimum-cli export onnx --model ${folder} --task ${task} onnx/\` makes an ONNX model of it`;
}

function adviceOnFlavor(name: string, flavor: Value | undefined): string {
  if (name !== 'transformers') return TO_ONNX.get(name) ?? OTHERWISE;
  const task = textOf(fieldOf(flavor, 'task')) ?? '';
  const folder = textOf(fieldOf(flavor, 'model_binary')) ?? '';
  return optimumCall(
    /^\w[\w.-]{0,60}$/.test(folder) ? folder : 'model',
    /^[a-z\d-]{1,60}$/.test(task) ? task : 'TASK',
  );
}

/** Whether a flavor may hold a model of this kind. */
export function isOfFlavor(name: string, kind: ModelKind): boolean {
  return FLAVORS[name]?.kind === kind;
}

/** Why none of the flavors is imported. */
export function noFlavor(home: string, problems: readonly string[]): ServingError {
  const read = Object.keys(FLAVORS).join(', ');
  return badModel(
    `model directory ${home}: its MLmodel names no flavor that can be imported (${read}): ${problems.join('; ')}`,
  );
}

export function unreadableFlavor({ name, path }: Flavor, advice: string | undefined): string {
  const pickled = /\.(pkl|pickle|joblib|skops)$/i.test(path) ? PICKLED[name] : undefined;
  return `${name}: ${shown(path)} holds no model that is read; ${pickled ?? advice ?? OTHERWISE}`;
}

/**
 * @param path relative to the directory
 * @returns the absolute path of what is there, and whether it is a folder
 * @throws bad_model for a path that leads out of the directory, also by a link, or to nothing
 */
export async function pathWithin(home: string, path: string) {
  const refused = (what: string) =>
    badModel(`model directory ${home}: ${MLMODEL} names ${shown(path)}, ${what}`);
  const parts = path.split(/[/\\]/);
  if (isAbsolute(path) || /^[a-z]+:/i.test(path) || parts.includes('..')) {
    throw refused('which is no path within the directory');
  }
  const full = join(home, path);
  await assertWithin(home, full).catch((error: unknown) => {
    if (error instanceof ServingError) throw error;
    throw refused('which is not there; copy the whole directory of the model');
  });
  const found = await stat(full);
  // Reading a pipe would wait forever.
  if (!found.isDirectory() && !found.isFile()) throw refused('which is no file');
  return { full, isFolder: found.isDirectory() };
}

/** @throws bad_model for a link that leads out of the directory; the file system's error when nothing is there */
export async function assertWithin(home: string, full: string): Promise<void> {
  const way = relative(await realpath(home), await realpath(full));
  if (way !== '..' && !way.startsWith(`..${sep}`) && !isAbsolute(way)) return;
  throw badModel(`${full} is a link that leads out of the model directory; put a copy in its place`);
}

/**
 * What the signature calls the columns of the model's one input. The model's own names count before it: MLflow hands a
 * model its columns in the order of the signature, and the model looks for its own.
 */
export function signedColumns(
  { columns }: Pick<MlflowFacts, 'columns'>,
  own: ModelNames['columns'],
  [input, ...others]: readonly TensorSpec[],
): ModelNames['columns'] {
  if (columns === undefined || input === undefined || others.length > 0 || input.dtype === 'string')
    return {};
  if (input.shape.length !== 2 || input.shape[1] !== columns.length) return {};
  const isUnnamed = (own[input.name] ?? []).every((name, i) => name === `f${i}` || name === `Column_${i}`);
  return isUnnamed ? { [input.name]: columns } : {};
}

function yamlOf(file: string): Value {
  try {
    return readYamlFile(file, 'flavors:');
  } catch (error) {
    throw badModel(ServingError.from(error).message, { cause: error });
  }
}

/** MLflow writes each key once; of several the last counts, as in Python. */
function fieldOf(value: Value | undefined, key: string): Value | undefined {
  if (value === undefined || !isFields(value)) return undefined;
  return value.fields.findLast((field) => field.key === key)?.value;
}

function keysOf(value: Value | undefined): string[] {
  return value !== undefined && isFields(value) ? [...new Set(value.fields.map(({ key }) => key))] : [];
}

function textOf(value: Value | undefined): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined;
}

/** An input of a signature: a column of a table, or a tensor whose free sizes are -1. */
interface SignedInput {
  readonly type?: unknown;
  readonly name?: unknown;
  readonly 'tensor-spec'?: { readonly dtype?: unknown; readonly shape?: unknown };
}

function inputsOf(text: string | undefined, file: string): readonly SignedInput[] {
  if (text === undefined) return [];
  let inputs: unknown;
  try {
    inputs = JSON.parse(text);
  } catch (error) {
    throw badModel(`${file}: signature.inputs is not JSON: ${(error as Error).message}`, { cause: error });
  }
  const isList = Array.isArray(inputs) && inputs.every((each) => typeof each === 'object' && each !== null);
  return isList ? (inputs as SignedInput[]) : [];
}

function factsOf(
  flavor: string,
  settings: Value | undefined,
  inputs: readonly SignedInput[],
): Flavor['facts'] {
  const names = inputs.map(({ name }) => name).filter((name) => typeof name === 'string');
  const isTable = inputs.length > 0 && inputs.every(({ type }) => NUMBERS.has(type));
  const columns = isTable && new Set(names).size === inputs.length ? names : undefined;
  // MLflow hands PyTorch a table as one float32 tensor.
  const shapes = isTable ? [['float32', 1, inputs.length]] : inputs.map(shapeOf);
  const isWhole = shapes.length > 0 && shapes.every((shape) => shape !== undefined);
  const tags = fieldOf(settings, 'meta_graph_tags');
  const signature = textOf(fieldOf(settings, 'signature_def_key'));
  return {
    ...(columns === undefined ? {} : { columns }),
    defaults: {
      ...(flavor === 'pytorch' && isWhole ? { shapesInOrder: shapes } : {}),
      ...(Array.isArray(tags) && tags.every((tag) => typeof tag === 'string') ? { tags } : {}),
      ...(signature === undefined ? {} : { signature }),
    },
  };
}

/** The shape of a tensor, for one row: its type, then its sizes. */
function shapeOf({ type, 'tensor-spec': { dtype, shape } = {} }: SignedInput): Shape | undefined {
  if (type !== 'tensor' || typeof dtype !== 'string' || !DTYPES.has(dtype) || !Array.isArray(shape))
    return undefined;
  const sizes = shape.map((size: unknown, axis) => {
    if (size === -1) return axis === 0 ? 1 : `free${axis}`;
    return Number.isSafeInteger(size) && (size as number) > 0 ? (size as number) : undefined;
  });
  return sizes.includes(undefined) ? undefined : [dtype, ...(sizes as Shape)];
}

/** A name in the file may contain control sequences of a terminal. */
function shown(text: string): string {
  return JSON.stringify(text.length > 200 ? `${text.slice(0, 200)}…` : text).replaceAll(/[^ -~]/gu, '?');
}

/** The path of what was found, relative to the directory. */
export function pathOf(home: string, full: string): string {
  return relative(resolve(home), full).split(sep).join('/');
}
