/**
 * Turns the values of a request to TensorFlow Serving's API into records, and their outcomes into the outputs of one batch. A
 * request is one record of tensors, which runs as a whole, as there. Its rows are records of their own where such a record cannot
 * be: with images, with a model that takes another number of rows, with scalars, and where rows are not known to be counted along the
 * first axis of each input and output.
 */

import { quoteName, quoteNames } from '../../codecs/quote.ts';
import {
  isBytes,
  mapElements,
  type ServingRequest,
  textOf,
} from '../../codecs/tensorflow-serving/request.ts';
import { badInput, ServingError } from '../../contract/errors.ts';
import { LIMITS, overLimit } from '../../contract/limits.ts';
import { elementAt } from '../../contract/present.ts';
import { elementCount, formatShape, type Tensor } from '../../contract/tensor.ts';
import type { Inputs, NamedTensor, Outcome, Runner, TensorSpec, Value } from '../../contract/values.ts';
import { batchAxisOf, batchSize, rowShape } from '../../pipeline/batch/batch-axes.ts';
import { Scratch } from '../../pipeline/batch/buffer-pool.ts';
import { rowsOf, stackTensors } from '../../pipeline/batch/stack.ts';
import { inInput } from '../../pipeline/bind/bind.ts';
import { mayMiss } from '../../pipeline/bind/columns.ts';
import { matchInputs } from '../../pipeline/bind/match-inputs.ts';
import { jsonTensor } from '../../pipeline/bind/numbers.ts';

export interface ServingRecords {
  readonly records: readonly Inputs[];
  /** True if the request is one record, whose outputs keep their batch dimension. */
  readonly isWhole: boolean;
  /** True if the request gives its rows one by one. */
  readonly isList: boolean;
  readonly rows: number;
  /** True if each row came as a single number or text, but the model expects a list with one element. */
  readonly isSqueezed: boolean;
}

interface Column {
  readonly spec: TensorSpec;
  /** Undefined for what all rows share. */
  readonly rows: number | undefined;
  /** Undefined for images. */
  readonly tensor: Tensor | undefined;
  readonly isSqueezed: boolean;
  /** The value of one row. */
  at(row: number): Value;
}

/** @throws bad_input naming the input, too_large */
export function recordsOf(
  request: ServingRequest,
  { inputs: specs = [], outputs = [], hasKnownRows = true, names }: Runner,
): ServingRecords {
  const { values, list } = request;
  const isList = list !== undefined;
  const given: Inputs = new Map(
    Array.from(values, ([name, value]) => [name ?? onlyName(specs), { kind: 'json', value }]),
  );
  const columns: Column[] = [];
  for (const [index, { name, value }] of matchInputs(given, specs, true).entries()) {
    const spec = elementAt(specs, index, 'specs');
    if (value.kind !== 'json') continue; // An optional input that was left out.
    try {
      columns.push(columnOf(value.value, spec, request, mayMiss(spec, names)));
    } catch (error) {
      throw inInput(name, error);
    }
  }
  const rows = Math.max(1, ...columns.map((column) => column.rows ?? 1));
  const isSqueezed = columns.every((column) => column.isSqueezed);
  const isApart = !hasKnownRows || outputs.some((spec) => batchAxisOf(spec) !== 0);
  const isWhole =
    columns.every(({ spec, tensor }) => tensor && (!isList || takesRows(spec, rows))) &&
    (!isList || !isApart);
  if (isWhole) {
    const tensors = columns.map(({ spec, tensor }): [string, Value] => [
      spec.name,
      { kind: 'tensor', tensor: tensor as Tensor },
    ]);
    return { records: [new Map(tensors)], isWhole, isList, rows, isSqueezed };
  }
  const other = columns.find((column) => (column.rows ?? rows) !== rows);
  if (other)
    throw badInput(`input ${quoteName(other.spec.name)}: has ${other.rows} rows, another has ${rows}`);
  if (rows > LIMITS.instances) throw overLimit('instances', `${rows} rows are`, 'a request');
  const records = Array.from({ length: rows }, (_, row) => {
    return new Map(columns.map((column) => [column.spec.name, column.at(row)]));
  });
  return { records, isWhole, isList, rows, isSqueezed };
}

function onlyName(specs: readonly TensorSpec[]): string {
  const needed = specs.filter(({ optional }) => !optional);
  if (needed.length === 1) return elementAt(needed, 0, 'needed').name;
  throw badInput(
    `expected objects of inputs by name, because the model has ${quoteNames(needed.map(({ name }) => name))}`,
  );
}

function columnOf(value: unknown, spec: TensorSpec, request: ServingRequest, isTable: boolean): Column {
  if (spec.dtype !== 'string' && Array.isArray(value) && isBytes(value[0])) {
    const at = (row: number): Value => ({ kind: 'json', value: value[row] });
    return { spec, rows: value.length, tensor: undefined, isSqueezed: false, at };
  }
  const isText = spec.dtype === 'string';
  const read = jsonTensor(isText ? mapElements(value, textOf) : value, spec.dtype, isTable);
  const isExample = request.list === 'examples';
  const tensor = fitted(read, spec, isExample);
  const isSqueezed = !isExample && read.shape.length === 1 && tensor.shape.length === 2;
  const whole: Value = { kind: 'tensor', tensor };
  const [rows] = tensor.shape;
  if (rows === undefined || (!request.list && batchAxisOf(spec) === 'none'))
    return { spec, rows: undefined, tensor, isSqueezed, at: () => whole };
  const row = { rows: 1, keepsBatchDim: false };
  const at = (index: number): Value => {
    return { kind: 'tensor', tensor: rowsOf({ ...tensor, name: spec.name }, 0, index, row) };
  };
  return { spec, rows, tensor, isSqueezed, at };
}

/**
 * Rows may be single numbers for an input of one element per row: a graph of TensorFlow often takes both. A feature of an
 * example is flat, and has the shape of its input.
 */
function fitted(tensor: Tensor, spec: TensorSpec, isExample: boolean): Tensor {
  if (batchAxisOf(spec) !== 0 || spec.shape.length === 0) return tensor;
  const [rows = 1, ...given] = tensor.shape;
  const row = rowShape(spec);
  const isOne = tensor.shape.length === 1 && row.length === 1 && row[0] === 1;
  const fixed = row.filter((dim) => typeof dim === 'number');
  const isFlat =
    isExample &&
    given.length < 2 &&
    fixed.length === row.length &&
    elementCount(fixed) === elementCount(given);
  return isOne || isFlat ? { ...tensor, shape: [rows, ...fixed] } : tensor;
}

function takesRows(spec: TensorSpec, rows: number): boolean {
  // Each value of an undeclared rank means what it means to POST /predict, where a number may be a scalar.
  const isKnown = batchAxisOf(spec) === 0 && spec.shape.length > 0;
  const size = batchSize(spec);
  return isKnown && (typeof size !== 'number' || size === rows);
}

/** The outputs of rows that are records of their own. @throws model_failed */
export function rowsAnswered(
  outcomes: readonly Outcome[],
  { isSqueezed }: Pick<ServingRecords, 'isSqueezed'>,
): (readonly NamedTensor[])[] {
  return outcomes.map((outcome) => {
    const outputs = tensorsOf(outcome);
    return isSqueezed ? outputs.map((output) => squeezed(output, 0)) : outputs;
  });
}

function tensorsOf(outcome: Outcome): readonly NamedTensor[] {
  if (outcome.ok && outcome.value === undefined) return outcome.outputs;
  throw new ServingError('model_failed', 'the model returned no tensors; ask POST /predict for its value');
}

/** The outputs of the request as one batch. @throws model_failed where rows of their own do not make one */
export function batchOf(
  outcomes: readonly Outcome[],
  asked: ServingRecords,
  specs: Runner['outputs'],
): NamedTensor[] {
  const each = outcomes.map(tensorsOf);
  const outputs = (each[0] ?? []).map((first, index): NamedTensor => {
    const spec = specs?.find(({ name }) => name === first.name);
    const isOnly = !asked.isList && asked.rows === 1 && spec?.batchAxis === 'none';
    if (asked.isWhole || isOnly) return first;
    const parts = each.map((own) => elementAt(own, index, 'own'));
    const odd = parts.find((part) => formatShape(part.shape) !== formatShape(first.shape));
    if (odd || spec?.batchAxis === 'none') {
      const why = odd
        ? `has shape ${formatShape(first.shape)} and ${formatShape(odd.shape)}`
        : 'is not known to follow the rows';
      throw new ServingError(
        'model_failed',
        `output ${quoteName(first.name)}: ${why}, so that the rows make no batch; ask :predict with "instances"`,
      );
    }
    const stacked = stackTensors(
      parts.map((part) => ({ ...part, shape: [1, ...part.shape] })),
      0,
      parts.length,
      new Scratch(),
    );
    return { ...first, ...stacked };
  });
  return asked.isSqueezed ? outputs.map((output) => squeezed(output, 1)) : outputs;
}

/** @param axes in front of a row */
function squeezed(output: NamedTensor, axes: number): NamedTensor {
  const { shape } = output;
  const isOne = shape.length === axes + 1 && shape[axes] === 1;
  return isOne ? { ...output, shape: shape.slice(0, axes) } : output;
}
