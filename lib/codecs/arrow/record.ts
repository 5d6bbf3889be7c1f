/**
 * Reads a request record from an Arrow stream: its inputs, one per column, in order, as views of the given bytes. Three
 * writers lay out one tensor in three ways (1 row; 4 rows holding one child each; lists of one item each with more
 * lists than rows), so a tensor is the leaf values of its children, and their offsets and validity are ignored.
 *
 * - A record is one batch; the old server silently dropped all but the first, this refuses them.
 * - A bare number (the Scala front end's scalar) is a tensor of shape []; so is a struct with one value and an empty
 *   shape (the Python client's 0-d array). An empty shape with any other number of values is an error.
 * - A filled indiceShape makes a tensor sparse, so a sparse tensor without values stays sparse.
 * - A text column may have more rows (a record that mixes text and 4-row tensors), the others null.
 */

import { badRequest, ServingError } from '../../contract/errors.ts';
import { LIMITS, overLimit } from '../../contract/limits.ts';
import { elementAt } from '../../contract/present.ts';
import {
  elementCount,
  formatShape,
  type NumericDType,
  type Tensor,
  type TypedArray,
} from '../../contract/tensor.ts';
import type { Inputs, Value } from '../../contract/values.ts';
import { quoteName } from '../quote.ts';
import { type ArrowField, formatType } from './schema.ts';
import { type ArrowBatch, readArrowStream } from './stream.ts';

/**
 * @throws bad_request naming the column, what was expected and what came; too_large over the limits
 */
export function decodeArrowRecord(bytes: Uint8Array): Inputs {
  const { fields, batches } = readArrowStream(bytes);
  const batch = batches[0];
  if (batch === undefined || batches.length > 1) {
    throw badRequest(`Arrow record: expected one record batch, got ${batches.length}`);
  }
  if (fields.length === 0) throw badRequest('Arrow record: expected a column per input, got none');
  if (fields.length > LIMITS.inputsPerRecord) {
    throw overLimit('inputsPerRecord', `Arrow record: ${fields.length} inputs are`);
  }
  const inputs = new Map<string, Value>();
  for (const field of fields) {
    try {
      if (field.name.length > LIMITS.inputNameLength) {
        throw overLimit('inputNameLength', 'its name is', 'characters');
      }
      if (inputs.has(field.name)) throw badRequest('expected one column of this name, got two');
      inputs.set(field.name, decodeColumn(batch, field));
    } catch (error) {
      throw inColumn(field, error);
    }
  }
  return inputs;
}

function inColumn(field: ArrowField, error: unknown): unknown {
  if (!(error instanceof ServingError)) return error;
  const message = `Arrow column ${quoteName(field.name)} (${formatType(field)}): ${error.message}`;
  return new ServingError(error.code, message, { cause: error });
}

function decodeColumn(batch: ArrowBatch, field: ArrowField): Value {
  switch (field.type) {
    case 'struct':
      return decodeStruct(batch, field);
    case 'utf8':
    case 'large_utf8':
      return { kind: 'text', text: oneText(batch, field) };
    case 'list':
    case 'large_list': {
      assertRows(batch, field);
      return { kind: 'tensor', tensor: leafOf(batch, field) };
    }
    default: {
      assertRows(batch, field);
      return {
        kind: 'tensor',
        tensor: { dtype: field.type, shape: [], data: numbersOf(batch, field, field.type) },
      };
    }
  }
}

function assertRows(batch: ArrowBatch, field: ArrowField): void {
  const rows = batch.lengthOf(field);
  if (rows !== 1) throw badRequest(`expected 1 row, got ${rows}`);
}

function oneText(batch: ArrowBatch, field: ArrowField): string {
  const rows = batch.lengthOf(field);
  const nulls = batch.nullsOf(field);
  if (rows === 0 || nulls !== rows - 1 || !batch.validityOf(field)(0)) {
    throw badRequest(`expected one cell, the first, got ${rows} with ${nulls} of them null`);
  }
  return elementAt(batch.textsOf(field, 1), 0, 'the column');
}

interface Parts {
  indiceData?: ArrowField;
  indiceShape?: ArrowField;
  data?: ArrowField;
  shape?: ArrowField;
}

function decodeStruct(batch: ArrowBatch, field: ArrowField): Value {
  const { indiceData, indiceShape, data, shape } = partsOf(field);
  if (data === undefined || shape === undefined) throw badRequest('expected the fields "data" and "shape"');
  const indicesShape = indiceShape === undefined ? [] : dimensionsOf(batch, indiceShape);
  const indices = indiceData === undefined ? NO_INDICES : indicesOf(batch, indiceData);
  const dims = dimensionsOf(batch, shape);
  const values = leafOf(batch, data);
  if (indicesShape.length === 0 && indices.length === 0) {
    const count = elementCount(dims, LIMITS.tensorElements);
    if (count !== values.data.length) {
      throw badRequest(`shape ${formatShape(dims)} means ${count} values, data has ${values.data.length}`);
    }
    return { kind: 'tensor', tensor: { ...values, shape: dims } };
  }
  assertSparse(dims, indices, indicesShape, values);
  return { kind: 'sparse', shape: dims, indices, indicesShape, values };
}

const NO_INDICES = new Int32Array(0);

function partsOf(field: ArrowField): Parts {
  const parts: Parts = {};
  for (const child of field.children) {
    const { name } = child;
    if (name !== 'indiceData' && name !== 'indiceShape' && name !== 'data' && name !== 'shape') {
      throw badRequest(`unknown field ${quoteName(name)}; expected indiceData, indiceShape, data, shape`);
    }
    if (parts[name] !== undefined) throw badRequest(`expected one field "${name}", got two`);
    parts[name] = child;
  }
  return parts;
}

/** Checks what does not depend on the orientation of the indices; the rest is checked when they are expanded. */
function assertSparse(
  dims: readonly number[],
  indices: Int32Array,
  indicesShape: readonly number[],
  values: Pick<Tensor, 'dtype' | 'data'>,
): void {
  elementCount(dims, LIMITS.tensorElements);
  if (values.dtype === 'string') throw badRequest('expected numbers in a sparse tensor, got text');
  const count = values.data.length;
  if (count > LIMITS.sparseValues) throw overLimit('sparseValues', `${count} sparse values are`);
  if (elementCount(indicesShape) !== indices.length || indicesShape.length === 0) {
    throw badRequest(
      `indiceShape ${formatShape(indicesShape)} does not fit the ${indices.length} values of indiceData`,
    );
  }
  if (indices.length !== count * dims.length) {
    throw badRequest(
      `expected ${count * dims.length} indices for ${count} values of shape ${formatShape(dims)}, got ${indices.length}`,
    );
  }
}

/** The item values of a list; its offsets are ignored. */
function leafOf(batch: ArrowBatch, list: ArrowField): Tensor {
  const leaf = list.children[0];
  if ((list.type !== 'list' && list.type !== 'large_list') || leaf === undefined) {
    throw badRequest(`expected a list in "${list.name}", got ${formatType(list)}`);
  }
  const { type } = leaf;
  if (type === 'utf8' || type === 'large_utf8') {
    assertNoNulls(batch, leaf);
    const texts = batch.textsOf(leaf, batch.lengthOf(leaf));
    return { dtype: 'string', shape: [texts.length], data: texts };
  }
  if (type === 'list' || type === 'large_list' || type === 'struct') {
    throw badRequest(`expected numbers or text in a list, got ${formatType(list)}`);
  }
  const data = numbersOf(batch, leaf, type);
  return { dtype: type, shape: [data.length], data };
}

function numbersOf(batch: ArrowBatch, field: ArrowField, dtype: NumericDType): TypedArray {
  assertNoNulls(batch, field);
  return batch.numbersOf(field, dtype);
}

function assertNoNulls(batch: ArrowBatch, leaf: ArrowField): void {
  const nulls = batch.nullsOf(leaf);
  if (nulls !== 0) throw badRequest(`expected no null values, got ${nulls}`);
}

/** A shape: few whole numbers >= 0. */
function dimensionsOf(batch: ArrowBatch, list: ArrowField): number[] {
  const { data } = leafOf(batch, list);
  if (data.length > LIMITS.tensorRank) {
    throw overLimit('tensorRank', `${list.name}: ${data.length} dimensions are`);
  }
  return wholeNumbers(data, list);
}

function indicesOf(batch: ArrowBatch, list: ArrowField): Int32Array {
  const { data } = leafOf(batch, list);
  if (data instanceof Int32Array) return data;
  return Int32Array.from(wholeNumbers(data, list));
}

/** Int32 in all known records; any integers are accepted. */
function wholeNumbers(data: Tensor['data'], list: ArrowField): number[] {
  return Array.from(data, (value: number | bigint | string) => {
    const number = typeof value === 'string' ? NaN : Number(value);
    if (!Number.isInteger(number) || number < 0 || number > 0x7fff_ffff) {
      throw badRequest(`${list.name}: expected whole numbers from 0 to 2147483647, got ${value}`);
    }
    return number;
  });
}
