/**
 * Runs records that arrived as one block without taking it apart: what binds for the first record binds for all, because they
 * differ in nothing but their numbers. Everything that is not as simple is left to `infer`.
 */
import type { NumericDType, Tensor, TypedArray } from '../../contract/tensor.ts';
import type { BatchAxis, Inputs, NamedTensor, TensorSpec } from '../../contract/values.ts';
import { type BatchSettings, mostRows, type RunTensors, timed } from '../batch/batch.ts';
import { withoutAxis } from '../batch/batch-axes.ts';
import { type BindSettings, bindRecord, type Feeds } from './bind.ts';

/** The tensors of `count` records, which differ in nothing but their numbers. */
export interface Block {
  readonly count: number;
  readonly columns: readonly {
    readonly name: string;
    readonly dtype: NumericDType;
    /** The shape of one record. */
    readonly shape: readonly number[];
    /** The data of all records, one after the other. */
    readonly data: TypedArray;
  }[];
}

interface Signature {
  readonly inputs: readonly TensorSpec[];
  readonly outputs: readonly TensorSpec[];
}

/** @returns the outputs; undefined when `infer` should run the records: nothing is known of them then */
export async function inferBlock(
  block: Block,
  { inputs, outputs }: Signature,
  settings: BindSettings & BatchSettings,
  run: RunTensors,
): Promise<Block | undefined> {
  const { count } = block;
  const follow = outputs.every(({ dtype }, i) => dtype !== 'string' && isFirst(settings.outputAxes, i));
  if (!follow) return undefined;
  try {
    const first = bindRecord(firstOf(block), inputs, settings);
    if (first instanceof Promise || !mayRunAsBlock(first, block, settings)) return undefined;
    const feeds = first.tensors.map(({ shape }, i): Tensor => {
      const { dtype, data } = columnOf(block, inputs[i]?.name);
      return { dtype, shape: shape.with(0, count), data };
    });
    return outputBlock(await timed(count, feeds, settings, run), count, first);
  } catch {
    return undefined;
  }
}

function isFirst(axes: readonly BatchAxis[] = [], i: number): boolean {
  return (axes[i] ?? 0) === 0;
}

function firstOf({ count, columns }: Block): Inputs {
  return new Map(
    columns.map(({ name, dtype, shape, data }) => {
      const tensor = { dtype, shape, data: data.subarray(0, data.length / count) };
      return [name, { kind: 'tensor', tensor }];
    }),
  );
}

function columnOf({ columns }: Block, name: string | undefined): Block['columns'][number] {
  const column = columns.find((each) => each.name === name);
  if (!column) throw new Error('bound by position');
  return column;
}

/** True if each record is one row, along the first axis, and its tensors are the memory of the block. */
function mayRunAsBlock(first: Feeds, { count, columns }: Block, settings: BatchSettings): boolean {
  const { separable, maxBytes, fixedRows = count, inputAxes } = settings;
  const bytes = columns.reduce((sum, { data }) => sum + data.byteLength, 0);
  return (
    (separable || count === 1) &&
    !first.runsAlone &&
    fixedRows === count &&
    count <= mostRows(settings) &&
    bytes <= maxBytes &&
    first.tensors.length === columns.length &&
    first.tensors.every(
      ({ shape, data }, i) =>
        shape[0] === 1 &&
        isFirst(inputAxes, i) &&
        columns.some((column) => 'buffer' in data && column.data.buffer === data.buffer),
    )
  );
}

/** @returns undefined for outputs that do not follow the rows */
function outputBlock(
  outputs: readonly NamedTensor[],
  count: number,
  { keepsBatchDim }: Feeds,
): Block | undefined {
  const columns: Block['columns'][number][] = [];
  for (const { name, dtype, shape, data, tokens } of outputs) {
    if (dtype === 'string' || tokens || shape[0] !== count) return undefined;
    const own = keepsBatchDim ? shape.with(0, 1) : withoutAxis(shape, 0);
    columns.push({ name, dtype, shape: own, data });
  }
  return { count, columns };
}
