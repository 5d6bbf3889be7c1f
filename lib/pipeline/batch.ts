/**
 * Runs bound records together and gives each its outcome, in order, its outputs without their batch axes. An output
 * without one (a detector that returns [M,7]) belongs to the only record of its run and stays as it is. A failed run is
 * halved until the poison record is alone.
 */

import { quoteName } from '../codecs/quote.ts';
import { ServingError } from '../contract/errors.ts';
import {
  allocate,
  bytesPerElement,
  elementCount,
  formatShape,
  type Tensor,
  type TypedArray,
  viewBytes,
} from '../contract/tensor.ts';
import type { BatchAxis, NamedTensor, Outcome } from '../contract/values.ts';
import { withoutAxis } from './batch-axes.ts';
import type { Feeds } from './bind.ts';
import { type Scratch, withScratch } from './buffer-pool.ts';

export interface BatchSettings {
  /** Most rows of one run. */
  readonly maxRows: number;
  /** The most input bytes bound at a time and in one run. A larger record runs alone. */
  readonly maxBytes: number;
  /** Rows the model's inputs are fixed to; undefined when the batch dimension is free. */
  readonly fixedRows?: number | undefined;
  /** False when records must not share a run. */
  readonly separable: boolean;
  /** In the model's order. Default 0 for each. */
  readonly outputAxes?: readonly BatchAxis[];
}

/** Tensors in the model's input order -> outputs in the model's output order. */
export type RunTensors = (feeds: readonly Tensor[]) => Promise<readonly NamedTensor[]>;

type Slot = Feeds | ServingError;

/**
 * Never throws because of a record: an error in a slot stays, and a failed run becomes the outcome of its records.
 */
export async function runBatch(
  slots: readonly Slot[],
  settings: BatchSettings,
  run: RunTensors,
): Promise<Outcome[]> {
  const outcomes = slots.map((slot): Outcome | undefined =>
    slot instanceof ServingError ? { ok: false, error: slot } : undefined,
  );
  for (const group of plan(slots, settings)) {
    const records = group.map((index) => slots[index] as Feeds);
    const results = await runGroup(records, settings, run);
    for (const [i, index] of group.entries()) outcomes[index] = results[i];
  }
  return outcomes as Outcome[];
}

/** The indexes of the records in each run, in order: equal row shapes, within the row and byte limits. */
function plan(slots: readonly Slot[], settings: BatchSettings): number[][] {
  const open = new Map<string, { indexes: number[]; rows: number; bytes: number }>();
  const groups: number[][] = [];
  for (const [index, slot] of slots.entries()) {
    if (slot instanceof ServingError) continue;
    if (!settings.separable) {
      groups.push([index]);
      continue;
    }
    const key = signature(slot);
    const bytes = feedBytes(slot);
    const group = open.get(key);
    const most = settings.fixedRows ?? settings.maxRows;
    if (group && group.rows + slot.rows <= most && group.bytes + bytes <= settings.maxBytes) {
      group.indexes.push(index);
      group.rows += slot.rows;
      group.bytes += bytes;
      continue;
    }
    const fresh = { indexes: [index], rows: slot.rows, bytes };
    open.set(key, fresh);
    groups.push(fresh.indexes);
  }
  return groups;
}

function signature(bound: Feeds): string {
  return bound.tensors.map((tensor) => tensor.shape.slice(1).join('x')).join(';');
}

/** The bytes of a record's tensors, with 16 per text. */
export function feedBytes(bound: Feeds): number {
  let bytes = 0;
  for (const tensor of bound.tensors) {
    bytes += tensor.dtype === 'string' ? tensor.data.length * 16 : (tensor.data as TypedArray).byteLength;
  }
  return bytes;
}

async function runGroup(
  records: readonly Feeds[],
  settings: BatchSettings,
  run: RunTensors,
): Promise<Outcome[]> {
  try {
    const rows = records.reduce((sum, record) => sum + record.rows, 0);
    const outputs = await withScratch((scratch) => run(stack(records, settings.fixedRows, scratch)));
    return split(outputs, records, { total: settings.fixedRows ?? rows, axes: settings.outputAxes ?? [] });
  } catch (error) {
    // A retryable error is not caused by a record, so the run is not halved.
    const passing = error instanceof ServingError && error.retryable;
    if (records.length === 1 || passing) return records.map(() => ({ ok: false, error: runError(error) }));
    const middle = records.length >> 1;
    const left = await runGroup(records.slice(0, middle), settings, run);
    const right = await runGroup(records.slice(middle), settings, run);
    return [...left, ...right];
  }
}

function runError(error: unknown): ServingError {
  if (error instanceof ServingError) return error;
  const message = error instanceof Error ? error.message : String(error);
  return new ServingError('model_failed', `the model failed on this record: ${message}`, { cause: error });
}

/** Stacks records of equal row shape into one set of tensors; a single record is not copied. */
function stack(records: readonly Feeds[], fixedRows: number | undefined, scratch: Scratch): Tensor[] {
  const first = records[0] as Feeds;
  const rows = records.reduce((sum, record) => sum + record.rows, 0);
  const total = fixedRows ?? rows;
  if (records.length === 1 && rows === total) return [...first.tensors];
  return first.tensors.map((tensor, i) => {
    const shape = [total, ...tensor.shape.slice(1)];
    const rowLength = elementCount(tensor.shape.slice(1));
    if (tensor.dtype === 'string') {
      const data = records.flatMap((record) => record.tensors[i]?.data as readonly string[]);
      while (data.length < total * rowLength) data.push('');
      return { dtype: tensor.dtype, shape, data };
    }
    const bytes = scratch.take(total * rowLength * bytesPerElement(tensor.dtype));
    const data = viewBytes(tensor.dtype, bytes);
    let offset = 0;
    for (const record of records) {
      const part = record.tensors[i]?.data as TypedArray;
      data.set(part as never, offset);
      offset += part.length;
    }
    // Rows that only fill up a fixed batch are zeros, not previous content of the memory.
    if (offset < data.length) data.fill((typeof data[0] === 'bigint' ? 0n : 0) as never, offset);
    return { dtype: tensor.dtype, shape, data };
  });
}

interface Split {
  /** Rows of the run. */
  readonly total: number;
  readonly axes: readonly BatchAxis[];
}

/** Gives each record its rows of the outputs. @throws model_failed when an output has another number of rows */
function split(
  outputs: readonly NamedTensor[],
  records: readonly Feeds[],
  { total, axes }: Split,
): Outcome[] {
  const [only] = records;
  if (records.length === 1 && only?.keepsBatchDim) return [{ ok: true, outputs }];
  for (const [i, output] of outputs.entries()) assertRows(output, axes[i] ?? 0, records.length, total);
  let row = 0;
  return records.map((record) => {
    const start = row;
    row += record.rows;
    return { ok: true, outputs: outputs.map((output, i) => rowsOf(output, axes[i] ?? 0, start, record)) };
  });
}

function assertRows({ name, shape }: NamedTensor, axis: BatchAxis, records: number, total: number): void {
  if (axis === 'none' ? records === 1 : shape[axis] === total) return;
  const where = axis === 'none' ? 'no batch axis' : `${total} on axis ${axis}, one for each row`;
  throw new ServingError(
    'model_failed',
    `output ${quoteName(name)} ${formatShape(shape)}: expected ${where}; if it does not follow the rows, set outputs: {${quoteName(name)}: {batchAxis: none}}`,
  );
}

/** A view where the rows of a record lie side by side, else a copy. */
function rowsOf(output: NamedTensor, axis: BatchAxis, start: number, record: Feeds): NamedTensor {
  if (axis === 'none') return output;
  const { name, dtype, shape } = output;
  const { rows, keepsBatchDim } = record;
  const outer = elementCount(shape.slice(0, axis));
  const inner = elementCount(shape.slice(axis + 1));
  const total = shape[axis] as number;
  const part = (at: number) => {
    const from = (at * total + start) * inner;
    return [from, from + rows * inner] as const;
  };
  const own = keepsBatchDim ? shape.with(axis, rows) : withoutAxis(shape, axis);
  if (dtype === 'string') {
    const texts = output.data as readonly string[];
    const data = Array.from({ length: outer }, (_, at) => texts.slice(...part(at))).flat();
    return { name, dtype, shape: own, data };
  }
  const values = output.data as TypedArray;
  if (rows === total) return { name, dtype, shape: own, data: values };
  if (outer === 1) return { name, dtype, shape: own, data: values.subarray(...part(0)) };
  const data = allocate(dtype, outer * rows * inner);
  for (let at = 0; at < outer; at++) data.set(values.subarray(...part(at)) as never, at * rows * inner);
  return { name, dtype, shape: own, data };
}
