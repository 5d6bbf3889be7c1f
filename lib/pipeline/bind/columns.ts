/**
 * Tables: records that give a value for each column, by its name and in any order. A model takes columns as inputs of one
 * element each, or as one input whose last axis are the columns; then the names of these are stored with its version. A
 * cell may be a text, as in CSV; an empty one, or null, is a missing value: NaN.
 */

import { quoteName, quoteNames } from '../../codecs/quote.ts';
import { badInput, ServingError } from '../../contract/errors.ts';
import { isInfinity } from '../../contract/json-numbers.ts';
import { present } from '../../contract/present.ts';
import { allocate, type NumericDType, type Tensor } from '../../contract/tensor.ts';
import type { Inputs, ModelNames, TensorSpec, Value } from '../../contract/values.ts';
import { rowShape } from '../batch/batch-axes.ts';
import { storeFor } from './cast.ts';
import { hasNearName, meantNames } from './match-inputs.ts';

/** A decimal number as CSV files hold it. */
const NUMBER = /^[+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?$/i;
const WHOLE = /^[+-]?\d+$/;
/** Texts that pandas, R and numpy write for a missing value. */
const MISSING: ReadonlySet<string> = new Set(['', 'nan', 'na', 'null']);
const INFINITE = /^([+-]?)inf(?:inity)?$/i;

/** True if the input takes one element per record, which no image is. */
export function isColumn(spec: TensorSpec): boolean {
  if (spec.shape.length === 0) return spec.isScalar ?? false;
  return rowShape(spec).every((dim) => dim === 1) && rowShape(spec).length <= 1;
}

/** True if a number of the input may be missing: null stands for NaN. A picture or a sequence has no missing values. */
export function mayMiss(spec: TensorSpec, names: ModelNames | undefined): boolean {
  return isColumn(spec) || Object.hasOwn(names?.columns ?? {}, spec.name);
}

/** The element of a column. @throws bad_input */
export function cellTensor(text: string, dtype: NumericDType): Tensor {
  const data = allocate(dtype, 1);
  storeFor(dtype)(cellNumber(text, dtype), data, 0);
  return { dtype, shape: [], data };
}

function cellNumber(cell: string, dtype: NumericDType): number | bigint {
  const text = cell.trim();
  const isFloat = dtype.startsWith('float');
  if (MISSING.has(text.toLowerCase())) {
    if (isFloat) return Number.NaN;
    throw badInput(`expected ${dtype}, got no value; a column of whole numbers has no missing values`);
  }
  if (isFloat && INFINITE.test(text)) return text.startsWith('-') ? -Infinity : Infinity;
  if (dtype === 'bool' && /^(?:true|false)$/i.test(text)) return Number(text.toLowerCase() === 'true');
  if (!NUMBER.test(text)) throw badInput(`expected a number (${dtype}), got ${quoteName(cell)}`);
  if (!isFloat && WHOLE.test(text)) return BigInt(text.replace('+', ''));
  const number = Number(text);
  if (Number.isFinite(number)) return number;
  throw badInput(`a number is out of the range of ${dtype}: ${quoteName(cell)}`);
}

/**
 * A record by columns as the model's one input; any other record unchanged.
 * @throws bad_input naming the columns that are missing or unknown, and all that the model has
 */
export function joinColumns(
  inputs: Inputs,
  specs: readonly TensorSpec[],
  { columns }: ModelNames,
  alreadyBatched: boolean,
): Inputs {
  const [spec] = specs;
  if (specs.length !== 1 || spec === undefined || inputs.has(spec.name)) return inputs;
  const names = Object.hasOwn(columns, spec.name) ? columns[spec.name] : undefined;
  if (names === undefined || spec.dtype === 'string') return inputs;
  if (isWholeRow(inputs, names)) return inputs;
  assertColumns(inputs, names);
  const data = allocate(spec.dtype, names.length);
  const store = storeFor(spec.dtype);
  for (const [i, name] of names.entries()) {
    try {
      store(elementOf(present(inputs.get(name), `input ${name}`), spec.dtype), data, i);
    } catch (error) {
      const { code, message } = ServingError.from(error);
      throw new ServingError(code, `column ${quoteName(name)}: ${message}`, { cause: error });
    }
  }
  const shape = alreadyBatched ? [1, names.length] : [names.length];
  return new Map([[spec.name, { kind: 'tensor', tensor: { dtype: spec.dtype, shape, data } }]]);
}

/** One input of any name that means nothing is the whole row, by its position. */
function isWholeRow(inputs: Inputs, names: readonly string[]): boolean {
  return inputs.size === 1 && inputs.binding !== 'name' && !hasNearName(inputs, names);
}

function assertColumns(inputs: Inputs, names: readonly string[]): void {
  const missing = names.filter((name) => !inputs.has(name));
  const known = new Set(names);
  const unknown = [...inputs.keys()].filter((name) => !known.has(name));
  if (missing.length + unknown.length === 0) return;
  const parts = [
    missing.length > 0 ? `missing column ${quoteNames(missing)}` : '',
    unknown.length > 0 ? `unknown column ${quoteNames(unknown)}` : '',
  ];
  throw badInput(
    `${parts.filter(Boolean).join(', ')}; the model's ${names.length} columns are ${quoteNames(names)}${meantNames(unknown, missing)}`,
  );
}

/** The one number of a value. */
function elementOf(value: Value, dtype: NumericDType): number | bigint {
  const content =
    value.kind === 'json'
      ? value.value
      : value.kind === 'text'
        ? value.text
        : value.kind === 'tensor' && value.tensor.data.length === 1
          ? value.tensor.data[0]
          : undefined;
  const cell = Array.isArray(content) && content.length === 1 ? content[0] : content;
  if (typeof cell === 'bigint') return isInfinity(cell) ? Number(cell) : cell;
  if (cell === Infinity || cell === -Infinity) throw badInput(`a number is out of the range of ${dtype}`);
  if (typeof cell === 'number' || typeof cell === 'boolean') return Number(cell);
  if (typeof cell === 'string') return cellNumber(cell, dtype);
  if (cell === null) return cellNumber('', dtype);
  throw badInput('expected one number');
}
