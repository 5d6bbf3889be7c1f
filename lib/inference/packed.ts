/**
 * Records and outcomes on their way between two processes. Small tensors that are alike, as those of a batch mostly are, travel as
 * one block for each input or output: an object for each of them takes V8 ten times as long.
 */
import { allocate, type NumericDType, type Tensor, type TypedArray } from '../contract/tensor.ts';
import type { Inputs, NamedTensor } from '../contract/values.ts';

/** Larger records travel as they are, because a block is a copy more. */
const MOST_BYTES = 16 * 1024;

/** The tensors of `count` records, which differ in nothing but their numbers. */
export interface Packed {
  readonly count: number;
  readonly columns: readonly {
    readonly name: string;
    readonly dtype: NumericDType;
    /** Of one record. */
    readonly shape: readonly number[];
    /** Of all records, one after the other. */
    readonly data: TypedArray;
  }[];
}

export type SentRecords = Packed | readonly Inputs[];

/** @returns undefined for a single record, and for tensors that are not alike, of texts, or large */
export function pack(records: readonly (readonly NamedTensor[])[]): Packed | undefined {
  const [first, second] = records;
  if (!first || !second || bytesOf(first) > MOST_BYTES) return undefined;
  if (!records.every((record) => areAlike(record, first))) return undefined;
  const columns = first.map(({ name, dtype, shape, data: { length } }, column) => {
    const numeric = dtype as NumericDType;
    const data = allocate(numeric, records.length * length);
    for (const [i, record] of records.entries())
      data.set((record[column] as NamedTensor).data as never, i * length);
    return { name, dtype: numeric, shape, data };
  });
  return { count: records.length, columns };
}

/** The tensors of each record, which share the memory of the block. */
export function unpack({ count, columns }: Packed): NamedTensor[][] {
  return Array.from({ length: count }, (_, i) =>
    columns.map(({ name, dtype, shape, data }) => {
      const length = data.length / count;
      return { name, dtype, shape, data: data.subarray(i * length, (i + 1) * length) };
    }),
  );
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

export function unpackRecords(sent: SentRecords): readonly Inputs[] {
  if (!('columns' in sent)) return sent;
  return unpack(sent).map(
    (tensors) => new Map(tensors.map(({ name, ...tensor }) => [name, { kind: 'tensor', tensor }])),
  );
}

/** 0 for texts, which are no bytes. */
function bytesOf(tensors: readonly Tensor[]): number {
  return tensors.reduce((sum, { data }) => sum + ('byteLength' in data ? data.byteLength : 0), 0);
}

function areAlike(record: readonly NamedTensor[], first: readonly NamedTensor[]): boolean {
  return (
    record.length === first.length &&
    record.every(({ name, dtype, shape, data, tokens }, i) => {
      const other = first[i] as NamedTensor;
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
