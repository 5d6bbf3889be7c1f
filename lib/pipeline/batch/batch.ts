/**
 * Runs bound records together and gives each its outcome, in order, its outputs without their batch axes. An output
 * without one (a detector that returns [M,7]) belongs to the only record of its run and stays unchanged. A failed run
 * is halved until the poison record is alone.
 */

import { quoteName } from '../../codecs/quote.ts';
import { ServingError } from '../../contract/errors.ts';
import { elementAt } from '../../contract/present.ts';
import { formatShape, type Tensor, type TypedArray } from '../../contract/tensor.ts';
import type { BatchAxis, NamedTensor, Outcome } from '../../contract/values.ts';
import type { Feeds } from '../bind/bind.ts';
import { withoutAxis } from './batch-axes.ts';
import { type Scratch, withScratch } from './buffer-pool.ts';
import type { RunSize } from './run-size.ts';
import { rowsOf, stackTensors } from './stack.ts';

export interface BatchSettings {
  /** Most rows of one run. */
  readonly maxRows: number;
  /** The most input bytes bound at a time and in one run. A larger record runs alone. */
  readonly maxBytes: number;
  /** Finds how many of these rows a run has. Default: as many as there are. */
  readonly runSize?: RunSize | undefined;
  /** Rows the model's inputs are fixed to; undefined when the batch dimension is free. */
  readonly fixedRows?: number | undefined;
  /** False when records must not share a run. */
  readonly separable: boolean;
  /** In the model's order. Default 0 for each. */
  readonly inputAxes?: readonly BatchAxis[];
  readonly outputAxes?: readonly BatchAxis[];
}

/** Tensors in the model's input order -> outputs in the model's output order. */
export type RunTensors = (
  feeds: readonly Tensor[],
  isOver?: () => boolean,
) => Promise<readonly NamedTensor[]>;

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

interface Group {
  readonly first: Feeds;
  readonly indexes: number[];
  rows: number;
  bytes: number;
}

/** The indexes of the records in each run, in order: equal row shapes and shared inputs, within the row and byte limits. */
function plan(slots: readonly Slot[], settings: BatchSettings): number[][] {
  const { inputAxes = [] } = settings;
  const most = mostRows(settings);
  /** By row shapes: the last group for each content of the shared inputs. */
  const open = new Map<string, Group[]>();
  const groups: number[][] = [];
  for (const [index, slot] of slots.entries()) {
    if (slot instanceof ServingError) continue;
    if (!settings.separable || slot.runsAlone) {
      groups.push([index]);
      continue;
    }
    const key = signature(slot, inputAxes);
    const bytes = feedBytes(slot);
    const alike = open.get(key) ?? [];
    const at = alike.findIndex(({ first }) => isSharedEqual(first, slot, inputAxes));
    const group = alike[at];
    if (group && group.rows + slot.rows <= most && group.bytes + bytes <= settings.maxBytes) {
      group.indexes.push(index);
      group.rows += slot.rows;
      group.bytes += bytes;
      continue;
    }
    const fresh = { first: slot, indexes: [index], rows: slot.rows, bytes };
    alike[at === -1 ? alike.length : at] = fresh;
    open.set(key, alike);
    groups.push(fresh.indexes);
  }
  return groups;
}

/** The most rows of the next run. */
export function mostRows({ fixedRows, maxRows, runSize }: BatchSettings): number {
  return fixedRows ?? Math.min(maxRows, runSize?.rows ?? maxRows);
}

/** A scalar has no axis that could count rows. */
function axisOf({ shape }: Tensor, axis: BatchAxis = 0): BatchAxis {
  return shape.length === 0 ? 'none' : axis;
}

function signature({ tensors }: Feeds, axes: readonly BatchAxis[]): string {
  const shapes = tensors.map((tensor, i) => {
    const axis = axisOf(tensor, axes[i]);
    return axis === 'none' ? `=${tensor.shape.join('x')}` : withoutAxis(tensor.shape, axis).join('x');
  });
  return shapes.join(';');
}

/** True if the values of inputs that a run has once are equal, bit for bit. */
function isSharedEqual(a: Feeds, b: Feeds, axes: readonly BatchAxis[]): boolean {
  return a.tensors.every(
    (tensor, i) =>
      axisOf(tensor, axes[i]) !== 'none' || isEqual(tensor, elementAt(b.tensors, i, 'b.tensors')),
  );
}

function isEqual(a: Tensor, b: Tensor): boolean {
  if (a.dtype === 'string') return a.data.every((text, i) => text === b.data[i]);
  return bytesOf(a).equals(bytesOf(b));
}

function bytesOf({ data }: Tensor): Buffer {
  const { buffer, byteOffset, byteLength } = data as TypedArray;
  return Buffer.from(buffer, byteOffset, byteLength);
}

/** The bytes of a record's tensors, with 16 per text. */
export function feedBytes(bound: Pick<Feeds, 'tensors'>): number {
  let bytes = 0;
  for (const tensor of bound.tensors) {
    bytes += tensor.dtype === 'string' ? tensor.data.length * 16 : tensor.data.byteLength;
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
    const outputs = await withScratch((scratch) =>
      timed(rows, stack(records, settings, scratch), settings, run),
    );
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

export async function timed(
  rows: number,
  feeds: readonly Tensor[],
  { runSize }: BatchSettings,
  run: RunTensors,
): Promise<readonly NamedTensor[]> {
  if (!runSize) return run(feeds);
  const startedMs = runSize.now();
  const outputs = await run(feeds);
  runSize.ran(rows, runSize.now() - startedMs);
  return outputs;
}

function runError(error: unknown): ServingError {
  if (error instanceof ServingError) return error;
  const message = error instanceof Error ? error.message : String(error);
  return new ServingError('model_failed', `the model failed on this record: ${message}`, { cause: error });
}

/** Stacks records of equal row shape into one set of tensors; a single record is not copied. */
function stack(
  records: readonly Feeds[],
  { fixedRows, inputAxes = [] }: BatchSettings,
  scratch: Scratch,
): Tensor[] {
  const first = elementAt(records, 0, 'records');
  const rows = records.reduce((sum, record) => sum + record.rows, 0);
  const total = fixedRows ?? rows;
  if (records.length === 1 && rows === total) return [...first.tensors];
  return first.tensors.map((tensor, i) => {
    const axis = axisOf(tensor, inputAxes[i]);
    if (axis === 'none') return tensor;
    return stackTensors(
      records.map(({ tensors }) => elementAt(tensors, i, 'tensors')),
      axis,
      total,
      scratch,
    );
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
  if (only?.keepsBatchDim && only.rows === total)
    return [{ ok: true, outputs, place: { row: 0, rows: total } }];
  for (const [i, output] of outputs.entries()) assertRows(output, axes[i] ?? 0, records.length, total);
  let row = 0;
  return records.map((record) => {
    const start = row;
    row += record.rows;
    return {
      ok: true,
      place: { row: start, rows: total },
      outputs: outputs.map((output, i) => {
        const axis = axes[i] ?? 0;
        return axis === 'none' ? output : rowsOf(output, axis, start, record);
      }),
    };
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
