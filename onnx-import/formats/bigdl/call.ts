/**
 * One module with its input while it is converted. An activity is a tensor or a table (a list) of activities. The
 * first dimension of a free batch is a name; BigDL tells a batch from a single record by the number of dimensions.
 */
import { badModel } from '../../../lib/contract/errors.ts';
import { elementCount, formatShape } from '../../../lib/contract/tensor.ts';
import { BATCH, BatchBound } from '../../graph/batch.ts';
import type { GraphBuilder } from '../../graph/builder.ts';
import { reshape } from '../../graph/layout.ts';
import { known } from '../../graph/shapes.ts';
import type { Attributes, Dim, Shape, Value } from '../../graph/value.ts';
import type { Module } from './module.ts';
import type { Weights } from './tensors.ts';

export type Activity = Value | readonly Activity[];

const ROWS = /^(?:(\d+)\*)?N$/;

/** How many rows each record has along a dimension: 1 for N, 5 for 5*N; undefined for other dimensions. */
export function rowsOf(dim: Dim): number | undefined {
  const match = typeof dim === 'string' ? ROWS.exec(dim) : undefined;
  return match ? Number(match[1] ?? 1) : undefined;
}

/** The dimension with this many rows for each record. */
export function rows(count: number): Dim {
  return count === 1 ? BATCH : `${count}*${BATCH}`;
}

/** What the modules of a model share while they are converted. */
export interface Job {
  /** Whether the batch is free. */
  readonly isFree: boolean;
  /** The major version of BigDL that saved the file. */
  readonly version: number;
  readonly note: (text: string) => void;
  /** Notes what a module takes. @throws bad_model when another module writes over it */
  readonly overwrites: (module: Module, input: Activity) => void;
  /** Converts a module, recording what is wrong with it. @throws an error without details when it cannot */
  readonly run: (module: Module, input: Activity, g: GraphBuilder) => Activity;
}

/** Converts one type of module. */
export type Rule = (call: Call) => Activity;

export function isTable(activity: Activity): activity is readonly Activity[] {
  return Array.isArray(activity);
}

export class Call {
  readonly module: Module;
  readonly activity: Activity;
  readonly g: GraphBuilder;
  readonly job: Job;

  constructor(module: Module, activity: Activity, g: GraphBuilder, job: Job) {
    this.module = module;
    this.activity = activity;
    this.g = g;
    this.job = job;
  }

  get hint(): string {
    return this.module.name;
  }

  /** The input, which must be a tensor. */
  get input(): Value {
    if (isTable(this.activity)) throw badModel(`needs a tensor, got a table of ${this.activity.length}`);
    return this.activity;
  }

  get rank(): number {
    return known(this.input).length;
  }

  get table(): readonly Activity[] {
    if (isTable(this.activity)) return this.activity;
    throw badModel('needs a table, got a tensor');
  }

  /** The tensors of the table. */
  tensors(count?: number): Value[] {
    const { table } = this;
    if (table.some(isTable) || table.length === 0 || (count !== undefined && table.length !== count))
      throw badModel(`needs ${count ?? 'some'} tensors, got a table of ${table.length}`);
    return table as Value[];
  }

  run(module: Module, input: Activity, g = this.g): Activity {
    return this.job.run(module, input, g);
  }

  /** Like `run`, where the result must be a tensor. */
  value(module: Module, input: Activity): Value {
    const result = this.run(module, input);
    if (!isTable(result)) return result;
    throw badModel(`"${module.name}" makes a table, expected a tensor`);
  }

  one(op: string, inputs: readonly (Value | undefined)[], attributes: Attributes = {}): Value {
    return this.g.one(op, inputs, attributes, this.hint);
  }

  /** An operation whose result has a known shape. */
  shaped(op: string, inputs: readonly (Value | undefined)[], attributes: Attributes, shape: Shape): Value {
    const results = [{ dtype: (inputs[0] as Value).dtype, shape }];
    return this.g.add(op, inputs, attributes, { hint: this.hint, results })[0] as Value;
  }

  scalar(value: number): Value {
    return this.g.scalar('float32', value);
  }

  /** Declares that the module mixes the records of a batch. */
  bindBatch(): void {
    if (this.job.isFree) throw new BatchBound();
  }

  /** Declares that the module mixes what lies along an axis. */
  bindAt(axis: number, value = this.input): void {
    const dim = known(value)[axis];
    if (dim !== undefined && rowsOf(dim) !== undefined) this.bindBatch();
  }

  reshape(value: Value, shape: Shape): Value {
    return reshape(this, value, shape);
  }

  transpose(value: Value, perm: readonly number[]): Value {
    return perm.every((axis, i) => axis === i) ? value : this.one('Transpose', [value], { perm });
  }

  /**
   * The i-th weights, which have this shape in the file, as a constant of the shape `as`.
   * @throws bad_model when they are missing or of another size
   */
  weight(i: number, shape: readonly number[], as = shape): Value {
    const weights = this.module.parameters[i];
    if (!weights) throw badModel(`has no weights number ${i + 1}`);
    return this.constant(weights, shape, as);
  }

  /** The weights must have this shape; ones do not matter. */
  constant(weights: Weights, shape: readonly number[], as = shape): Value {
    const bare = (dims: readonly number[]) => dims.filter((dim) => dim !== 1).join();
    if (elementCount(shape) !== weights.data.length || bare(shape) !== bare(weights.shape))
      throw badModel(`has weights of [${weights.shape.join(',')}], expected [${shape.join(',')}]`);
    return this.g.constant({ dtype: 'float32', shape: as, data: weights.data }, `${this.hint}/weights`);
  }

  /**
   * An axis counted from 1, or from the end when it is negative. `records` is the rank without a batch; an input with
   * one dimension more has one, and the axis is counted without it.
   */
  axis(dimension: number, records = -1, value = this.input): number {
    const rank = known(value).length;
    const at =
      dimension < 0 ? rank + dimension : dimension - 1 + (records > 0 && rank === records + 1 ? 1 : 0);
    if (Number.isInteger(at) && at >= 0 && at < rank) return at;
    throw badModel(`dimension ${dimension} is outside of ${formatShape(known(value))}`);
  }

  /** @throws bad_model unless the input has one of these ranks */
  expectRank(...ranks: readonly number[]): void {
    if (!ranks.includes(this.rank))
      throw badModel(
        `needs an input of ${ranks.join(' or ')} dimensions, got ${formatShape(known(this.input))}`,
      );
  }

  /** Runs `compute` on a batch: a single record becomes a batch of one and back. */
  batched(rank: number, compute: (value: Value) => Value): Value {
    this.expectRank(rank, rank - 1);
    if (this.rank === rank) return compute(this.input);
    const made = compute(this.reshape(this.input, [1, ...known(this.input)]));
    return this.reshape(made, known(made).slice(1));
  }

  /** Runs `compute` with the channels first, whatever the module's format is. */
  channelsFirst(value: Value, isLast: boolean, compute: (value: Value) => Value): Value {
    if (!isLast) return compute(value);
    const rank = known(value).length;
    const spatial = Array.from({ length: rank - 2 }, (_, i) => i + 1);
    const made = compute(this.transpose(value, [0, rank - 1, ...spatial]));
    return this.transpose(made, [0, ...spatial.map((axis) => axis + 1), 1]);
  }
}

export function sameShape(a: Shape, b: Shape): boolean {
  return a.length === b.length && a.every((dim: Dim, i) => dim === b[i]);
}
