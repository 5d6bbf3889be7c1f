/**
 * Records and outcomes on their way between two processes. Small tensors that are alike, as those of a batch mostly are, travel as
 * one block for each input or output: an object for each of them takes V8 ten times as long.
 */

import { withBinding } from '../codecs/instances.ts';
import { contentOf } from '../contract/json-numbers.ts';
import { elementAt } from '../contract/present.ts';
import {
  allocate,
  copyElements,
  isNumericDType,
  type NumericDType,
  type Tensor,
} from '../contract/tensor.ts';
import type { Binding, Inputs, NamedTensor, TensorSpec } from '../contract/values.ts';
import type { Block } from '../pipeline/bind/block.ts';
import { flattened, hasExactly } from '../pipeline/bind/flatten.ts';
import { nestedBlock } from '../pipeline/bind/nested-block.ts';

/** Larger records travel unchanged, because a block is one more copy. */
const MOST_BYTES = 16 * 1024;

export type SentRecords = Block | readonly Inputs[];

/** @returns undefined for a single record, and for tensors that are not alike, of texts, or large */
export function pack(records: readonly (readonly NamedTensor[])[]): Block | undefined {
  const [first, second] = records;
  if (!first || !second || bytesOf(first) > MOST_BYTES) return undefined;
  if (!records.every((record) => areAlike(record, first))) return undefined;
  const columns = first.map(({ name, dtype, shape, data: { length } }, column) => {
    const numeric = dtype as NumericDType;
    const data = allocate(numeric, records.length * length);
    for (const [i, record] of records.entries())
      copyElements(elementAt(record, column, 'the record').data, data, i * length);
    return { name, dtype: numeric, shape, data };
  });
  return { count: records.length, columns };
}

/** The tensors of each record, which share the memory of the block. */
export function unpack({ count, columns }: Block): NamedTensor[][] {
  return Array.from({ length: count }, (_, i) =>
    columns.map(({ name, dtype, shape, data }) => {
      const length = data.length / count;
      return { name, dtype, shape, data: data.subarray(i * length, (i + 1) * length) };
    }),
  );
}

/** Nested numbers of JSON go straight into the block. @param specs the inputs of the model, as which they bind */
export function packFor(records: readonly Inputs[], specs: readonly TensorSpec[]): SentRecords {
  return packJson(records, specs) ?? packRecords(flattened(records, specs));
}

/** @returns undefined for records that are anything else than nested numbers of one shape, named as the inputs */
function packJson(records: readonly Inputs[], specs: readonly TensorSpec[]): Block | undefined {
  if (!records.every((record) => hasExactly(record, specs))) return undefined;
  const columns: Block['columns'][number][] = [];
  for (const { name, dtype } of specs) {
    if (!isNumericDType(dtype)) return undefined;
    const values: unknown[] = [];
    for (const record of records) {
      const value = record.get(name);
      const content = value?.kind === 'json' ? contentOf(value) : undefined;
      if (!Array.isArray(content)) return undefined;
      values.push(content);
    }
    try {
      columns.push({ name, dtype, ...nestedBlock(values, dtype) });
    } catch {
      // The caller knows the model, so it explains the error and names the value.
      return undefined;
    }
  }
  return { count: records.length, columns };
}

export function packRecords(records: readonly Inputs[]): SentRecords {
  const tensors: NamedTensor[][] = [];
  for (const record of records) {
    const own: NamedTensor[] = [];
    for (const [name, value] of record) {
      if (value.kind !== 'tensor') return records;
      own.push({ name, ...value.tensor });
    }
    tensors.push(own);
  }
  return pack(tensors) ?? records;
}

/** How each record binds, which a Map does not take to another process; undefined where it does not matter. */
export function bindingsOf(
  records: readonly Inputs[],
  specs: readonly TensorSpec[] = [],
): (Binding | undefined)[] | undefined {
  const matters = records.some((record) => record.binding !== undefined && !hasExactly(record, specs));
  return matters ? records.map(({ binding }) => binding) : undefined;
}

export function unpackRecords(
  sent: SentRecords,
  bindings: readonly (Binding | undefined)[] = [],
): readonly Inputs[] {
  const records: readonly Inputs[] =
    'columns' in sent
      ? unpack(sent).map(
          (tensors) => new Map(tensors.map(({ name, ...tensor }) => [name, { kind: 'tensor', tensor }])),
        )
      : sent;
  for (const [i, binding] of bindings.entries()) withBinding(elementAt(records, i, 'records'), binding);
  return records;
}

/** 0 for texts, which are not bytes. */
function bytesOf(tensors: readonly Tensor[]): number {
  return tensors.reduce((sum, { data }) => sum + ('byteLength' in data ? data.byteLength : 0), 0);
}

function areAlike(record: readonly NamedTensor[], first: readonly NamedTensor[]): boolean {
  return (
    record.length === first.length &&
    record.every(({ name, dtype, shape, data, tokens }, i) => {
      const other = elementAt(first, i, 'first');
      return (
        dtype !== 'string' &&
        dtype === other.dtype &&
        name === other.name &&
        tokens === undefined &&
        data.length === other.data.length &&
        shape.length === other.shape.length &&
        shape.every((dim, axis) => dim === other.shape[axis])
      );
    })
  );
}
