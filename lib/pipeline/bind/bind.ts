/**
 * Binds a record's inputs to the model's: one tensor per model input, in the model's order, batch axis included. Which
 * value belongs to which input is decided in match-inputs.ts.
 */

import { decodeBase64 } from '../../codecs/base64.ts';
import { decodeImage, imageTensor } from '../../codecs/image/image.ts';
import { isObject } from '../../codecs/instances.ts';
import { quoteName, quoteNames, quoteValue } from '../../codecs/quote.ts';
import { badInput, ServingError } from '../../contract/errors.ts';
import { contentOf, JsonNumbers } from '../../contract/json-numbers.ts';
import { LIMITS, overLimit } from '../../contract/limits.ts';
import { elementAt } from '../../contract/present.ts';
import type { DType, NumericDType, Tensor, TypedArray } from '../../contract/tensor.ts';
import { NO_TEXT, tokensText } from '../../contract/texts.ts';
import type { Inputs, ModelNames, TensorSpec, Value } from '../../contract/values.ts';
import { batchSize, mayBeScalar, rowShape } from '../batch/batch-axes.ts';
import { castTensor } from './cast.ts';
import { cellTensor, isColumn, joinColumns, mayMiss } from './columns.ts';
import { assertImageSettings, type ImageChoice, imageSettings } from './image-choice.ts';
import { ABSENT, matchInputs, type NamedValue } from './match-inputs.ts';
import { jsonTensor } from './numbers.ts';
import { type CheckedTensor, checkShape, formatSpec } from './shape-check.ts';
import { assertRank, densify, type Sparse } from './sparse.ts';

export interface BindSettings {
  /** The caller's tensors have the batch dimension already. */
  readonly inputAlreadyBatched: boolean;
  /** Also refuses records whose names all differ, instead of binding by position. Default false. */
  readonly byName?: boolean;
  /** Tensors of rows without elements are fed to the model instead of refused. Default false. */
  readonly takesEmpty?: boolean;
  readonly image: ImageChoice;
  /** Names of the model's columns. Default: they have none. */
  readonly names?: ModelNames;
}

export interface Feeds {
  /** One per model input, in the model's order. */
  readonly tensors: readonly Tensor[];
  readonly rows: number;
  /** The outputs keep their batch dimension. */
  readonly keepsBatchDim: boolean;
  /** True: not even proven batching holds for it, because its shape is not the declared one. Default false. */
  readonly runsAlone?: boolean;
}

/**
 * A promise only where an image is decoded: one for every tensor would cost more than the tensor.
 * @throws bad_input naming the input, what was expected and what came
 */
export function bindRecord(
  inputs: Inputs,
  specs: readonly TensorSpec[],
  settings: BindSettings,
): Feeds | Promise<Feeds> {
  const { names, inputAlreadyBatched } = settings;
  const joined = names ? joinColumns(inputs, specs, names, inputAlreadyBatched) : inputs;
  const values = matchInputs(joined, specs, settings.byName);
  const fitted: CheckedTensor[] = [];
  let runsAlone = false;
  const take = (made: Tensor, value: Value, spec: TensorSpec) => {
    const fit = fitTo(made, value, spec, settings);
    fitted.push(fit);
    if (fit.tensor.shape.length > 0 && mayBeScalar(spec)) runsAlone = true;
  };
  const bindFrom = (first: number): Feeds | Promise<Feeds> => {
    for (let i = first; i < specs.length; i++) {
      const { name, value } = elementAt(values, i, 'values');
      const spec = elementAt(specs, i, 'specs');
      if (value === ABSENT) {
        fitted.push(noTexts(elementAt(fitted, 0, 'fitted')));
        continue;
      }
      const refuse = (error: unknown): never => {
        throw inInput(name, error);
      };
      try {
        const made = toTensor(value, spec, settings);
        if (made instanceof Promise) {
          return made.then((tensor) => take(tensor, value, spec)).then(() => bindFrom(i + 1), refuse);
        }
        take(made, value, spec);
      } catch (error) {
        refuse(error);
      }
    }
    return {
      tensors: fitted.map((fit) => fit.tensor),
      rows: commonRows(fitted, specs, values),
      keepsBatchDim: fitted.every((fit) => fit.keepsBatchDim),
      runsAlone,
    };
  };
  return bindFrom(0);
}

/** @throws bad_input */
function fitTo(made: Tensor, value: Value, spec: TensorSpec, settings: BindSettings): CheckedTensor {
  const tensor = castTensor(made, spec.dtype);
  if (tensor.dtype === 'string' && !isTokens(value, spec, settings)) assertTexts(tensor.data);
  return checkShape(tensor, spec, settings.inputAlreadyBatched, settings.takesEmpty);
}

/** An input of unknown rank may be a scalar that came as [1], so it counts rows only where no other input does. */
function commonRows(
  fitted: readonly CheckedTensor[],
  specs: readonly TensorSpec[],
  values: readonly NamedValue[],
): number {
  let rows = 0;
  for (const [i, spec] of specs.entries()) {
    if (batchSize(spec) !== undefined) rows = Math.max(rows, elementAt(fitted, i, 'fitted').rows);
  }
  if (rows === 0) return Math.max(1, ...fitted.map((fit) => fit.rows));
  for (const [i, spec] of specs.entries()) {
    const own = elementAt(fitted, i, 'fitted').rows;
    if (own === rows || batchSize(spec) === undefined) continue;
    throw badInput(
      `input ${quoteName(elementAt(values, i, 'values').name)}: has ${own} rows where another input has ${rows}`,
    );
  }
  return rows;
}

/**
 * onnxruntime takes texts as C strings in UTF-8; it would silently cut them at a NUL and replace half a character.
 */
function assertTexts(texts: readonly string[]): void {
  for (const text of texts) {
    if (text.includes('\0') || !text.isWellFormed()) {
      throw badInput(`expected text without NUL characters and lone surrogates, got ${quoteName(text)}`);
    }
  }
}

function noTexts({ rows, keepsBatchDim }: CheckedTensor): CheckedTensor {
  const data = new Array<string>(rows).fill(NO_TEXT);
  return { tensor: { dtype: 'string', shape: [rows], data }, rows, keepsBatchDim };
}

/** Clients of which a text alone is a path send a text as a list of one. */
function oneText(tensor: Tensor, { isText }: TensorSpec, { inputAlreadyBatched }: BindSettings): Tensor {
  const isList = isText && !inputAlreadyBatched && tensor.shape.length === 1 && tensor.data.length === 1;
  return isList ? { ...tensor, shape: [] } : tensor;
}

/** True if a record brings the tokens of its text. */
function isTokens(value: Value, { isText }: TensorSpec, { inputAlreadyBatched }: BindSettings): boolean {
  if (!isText || inputAlreadyBatched || value.kind !== 'tensor') return false;
  const { dtype, shape, data } = value.tensor;
  return /^u?int(32|64)$/.test(dtype) && shape.length === 1 && data.length > 0;
}

export function inInput(name: string, error: unknown): ServingError {
  const known = ServingError.from(error);
  if (known.code === 'internal') return known;
  return new ServingError(known.code, `input ${quoteName(name)}: ${known.message}`, { cause: error });
}

function toTensor(value: Value, spec: TensorSpec, settings: BindSettings): Tensor | Promise<Tensor> {
  const { image } = settings;
  switch (value.kind) {
    case 'tensor':
      if (!isTokens(value, spec, settings)) return cellOf(oneText(value.tensor, spec, settings), spec);
      return { dtype: 'string', shape: [], data: [tokensText(value.tensor.data as TypedArray)] };
    case 'image':
      return toImage(value.bytes, spec, image);
    case 'text':
      if (spec.dtype !== 'string') {
        return isColumn(spec) ? cellTensor(value.text, spec.dtype) : toImage(value.text, spec, image);
      }
      return textTensor(value.text, spec);
    case 'sparse':
      return densifyFor(value, spec, settings, false);
    case 'json':
      return fromJson(contentOf(value), spec, settings);
    case 'value':
      throw badInput('a value for a worker; the job serves a model, which takes tensors');
  }
}

/** A column's cell that came as a text. */
function cellOf(tensor: Tensor, spec: TensorSpec): Tensor {
  const isCell = tensor.dtype === 'string' && spec.dtype !== 'string' && tensor.data.length === 1;
  if (!isCell || !isColumn(spec)) return tensor;
  return cellTensor(elementAt(tensor.data, 0, 'tensor.data'), spec.dtype);
}

/** The old wire format joins a list of strings with a bar. An input of one text per record takes it unchanged. */
function textTensor(text: string, spec: TensorSpec): Tensor {
  const isOne = spec.isScalar || (batchSize(spec) !== undefined && isColumn(spec));
  if (isOne) return { dtype: 'string', shape: [], data: [text] };
  const items = text.split('|');
  return { dtype: 'string', shape: [items.length], data: items };
}

function fromJson(value: unknown, spec: TensorSpec, settings: BindSettings): Tensor | Promise<Tensor> {
  const { image } = settings;
  if (typeof value === 'string' && spec.dtype !== 'string') {
    return isColumn(spec) ? cellTensor(value, spec.dtype) : toImage(value, spec, image);
  }
  if (!isObject(value) || value instanceof JsonNumbers) {
    return oneText(jsonTensor(value, spec.dtype, mayMiss(spec, settings.names)), spec, settings);
  }
  if (typeof value['b64'] === 'string') return toImage(value['b64'], spec, image);
  const { shape, data, indices } = value;
  if ('b64' in value) throw badInput(`"b64": expected a text, got ${quoteValue(value['b64'])}`);
  if (!Array.isArray(shape) || !Array.isArray(data) || !Array.isArray(indices)) {
    throw badInput(
      `expected ${spec.dtype} ${formatSpec(rowShape(spec))}, {"b64"} or a sparse {"shape","data","indices"}, got an object with [${quoteNames(Object.keys(value))}]`,
    );
  }
  const odd = shape.findIndex((dim) => !Number.isSafeInteger(dim) || dim < 0);
  if (odd !== -1) {
    throw badInput(`sparse shape: expected whole numbers from 0 to 2^53, got ${quoteValue(shape[odd])}`);
  }
  const flat = partOf('indices', indices, 'int32');
  const values = partOf('data', data, spec.dtype);
  const sparse = {
    shape: shape as number[],
    indices: flat.data as Int32Array,
    indicesShape: flat.shape,
    values,
  };
  return densifyFor(sparse, spec, settings, true);
}

function partOf(name: string, value: unknown, dtype: DType): Tensor {
  try {
    return jsonTensor(value, dtype);
  } catch (error) {
    const { code, message } = ServingError.from(error);
    throw new ServingError(code, `sparse ${name}: ${message}`, { cause: error });
  }
}

/** A mismatching shape is refused before its zeros are allocated: a few bytes can promise 256 MiB of them. */
function densifyFor(sparse: Sparse, spec: TensorSpec, settings: BindSettings, pointsFirst: boolean): Tensor {
  assertRank(sparse.shape);
  checkShape({ shape: sparse.shape }, spec, settings.inputAlreadyBatched);
  return densify(sparse, spec.dtype, pointsFirst);
}

async function toImage(encoded: string | Uint8Array, spec: TensorSpec, choice: ImageChoice): Promise<Tensor> {
  const settings = imageSettings(spec, choice);
  assertImageSettings(spec, settings);
  const bytes = typeof encoded === 'string' ? imageBytes(encoded) : encoded;
  // Decoding blocks the thread, so others get a turn between two images.
  await new Promise((resolve) => setImmediate(resolve));
  const pixels = await decodeImage(bytes);
  return imageTensor(pixels, settings, spec.dtype as NumericDType);
}

/** Base64, with or without a `data:` prefix. @throws bad_input, too_large */
export function imageBytes(text: string): Uint8Array {
  if (text.length > (LIMITS.imageBytes * 4) / 3 + 1024) {
    throw overLimit('imageBytes', `an image of ${text.length} characters is`, 'bytes');
  }
  try {
    return decodeBase64(text.startsWith('data:') ? text.slice(text.indexOf(',') + 1) : text);
  } catch (error) {
    const { message } = ServingError.from(error);
    throw badInput(`expected a base64 image: ${message}`, { cause: error });
  }
}
