/** Stacks the tensors of records into one, and takes each record's rows out of an output, along any axis. */
import { elementAt } from '../../contract/present.ts';
import {
  allocate,
  bytesPerElement,
  copyElements,
  elementCount,
  type Tensor,
  viewBytes,
} from '../../contract/tensor.ts';
import type { NamedTensor } from '../../contract/values.ts';
import type { Feeds } from '../bind/bind.ts';
import { withoutAxis } from './batch-axes.ts';
import type { Scratch } from './buffer-pool.ts';

/**
 * Tensors whose shapes differ only on the axis, as one with `total` rows. Rows that only fill up a fixed batch are zeros
 * or empty texts.
 */
export function stackTensors(
  parts: readonly Tensor[],
  axis: number,
  total: number,
  scratch: Scratch,
): Tensor {
  const { dtype, shape: own } = elementAt(parts, 0, 'parts');
  const shape = own.with(axis, total);
  const outer = elementCount(shape.slice(0, axis));
  const inner = elementCount(shape.slice(axis + 1));
  if (dtype === 'string') {
    const data: string[] = [];
    for (let at = 1; at <= outer; at++) {
      for (const part of parts) for (const text of block(part, at, outer)) data.push(String(text));
      while (data.length < at * total * inner) data.push('');
    }
    return { dtype, shape, data };
  }
  const size = bytesPerElement(dtype);
  const data = viewBytes(dtype, scratch.take(outer * total * inner * size));
  let offset = 0;
  for (let at = 1; at <= outer; at++) {
    for (const part of parts) {
      const values = block(part, at, outer);
      copyElements(values, data, offset);
      offset += values.length;
    }
    const end = at * total * inner;
    // The memory still has its previous content.
    if (offset < end) new Uint8Array(data.buffer, data.byteOffset).fill(0, offset * size, end * size);
    offset = end;
  }
  return { dtype, shape, data };
}

/** The elements of a tensor that lie side by side: one of `outer` equal blocks, counted from 1. */
function block({ data }: Tensor, at: number, outer: number): Tensor['data'] {
  if (outer === 1) return data;
  const length = data.length / outer;
  const [start, end] = [(at - 1) * length, at * length];
  return ArrayBuffer.isView(data) ? data.subarray(start, end) : data.slice(start, end);
}

/** The rows of a record, which start at `start`: a view where they lie side by side, else a copy. */
export function rowsOf(
  { name, dtype, shape, data, tokens: counts, wholeTokens: whole, logits: scores }: NamedTensor,
  axis: number,
  start: number,
  { rows, keepsBatchDim }: Pick<Feeds, 'rows' | 'keepsBatchDim'>,
): NamedTensor {
  const total = elementAt(shape, axis, 'shape');
  const own = keepsBatchDim ? shape.with(axis, rows) : withoutAxis(shape, axis);
  const tokens = counts?.slice(start, start + rows);
  const logits = scores?.slice(start, start + rows);
  const wholeTokens = whole?.slice(start, start + rows);
  const facts = {
    name,
    shape: own,
    ...(tokens && { tokens }),
    ...(wholeTokens && { wholeTokens }),
    ...(logits && { logits }),
  };
  const outer = axis === 0 ? 1 : elementCount(shape.slice(0, axis));
  const inner = elementCount(shape.slice(axis + 1));
  const length = rows * inner;
  const from = (at: number) => (at * total + start) * inner;
  if (dtype === 'string') {
    if (rows === total) return { ...facts, dtype, data };
    const taken = Array.from({ length: outer }, (_, at) => data.slice(from(at), from(at) + length));
    return { ...facts, dtype, data: taken.flat() };
  }
  if (rows === total) return { ...facts, dtype, data };
  if (outer === 1) return { ...facts, dtype, data: data.subarray(from(0), from(0) + length) };
  const taken = allocate(dtype, outer * length);
  for (let at = 0; at < outer; at++) {
    copyElements(data.subarray(from(at), from(at) + length), taken, at * length);
  }
  return { ...facts, dtype, data: taken };
}
