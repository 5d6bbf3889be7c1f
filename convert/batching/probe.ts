/**
 * Runs rows alone and together, each in each place, and compares every element. It stands behind the proof: a rule or a
 * kernel that is wrong shows here. The model may never have run before, so this runs in a process of its own.
 */
import { availableParallelism } from 'node:os';
import { elementCount, type Tensor } from '../../lib/contract/tensor.ts';
import type { NamedTensor } from '../../lib/contract/values.ts';
import { AS_WRITTEN, type Optimization } from '../../lib/contract/verification.ts';
import { openSession, type Session } from '../../lib/inference/session.ts';
import { RUN_BYTES } from '../../lib/inference/warm-up.ts';
import { feedBytes } from '../../lib/pipeline/batch.ts';
import { type GivenShapes, withGivenSizes } from '../check/given-sizes.ts';
import { FREE_SIZES } from '../check/inputs.ts';
import { messageOf } from '../check/reference.ts';
import { valuesOf } from '../tensor-values.ts';
import { isSameBytes } from '../verify/difference.ts';
import { firstTaken, INTEGER_RANGES, madeUpRow } from './probe-values.ts';
import { rowAt, stackRows } from './rows.ts';

export interface ProbeRequest {
  readonly file: string;
  /** Default: as the model is written. */
  readonly optimization?: Optimization | undefined;
  /** By input name; 0 for those that are missing. */
  readonly inputAxes: readonly (readonly [name: string, axis: number | 'none'])[];
  /** By output name; 0 for those that are missing. */
  readonly outputAxes: readonly (readonly [name: string, axis: number])[];
  /** Rows that the file fixes a run to. */
  readonly fixedRows: number | undefined;
  /** What the user gives where the file leaves sizes free. */
  readonly sizes?: GivenShapes;
  /** Most rows of a run in service. */
  readonly maxRows: number;
  /** About how long all runs may take, in ms. The first runs of each size are made in any case. */
  readonly limitMs: number;
}

export type ProbeReport =
  | { readonly kind: 'agrees' }
  | { readonly kind: 'differs'; readonly reason: string }
  /** The model took no made-up row. */
  | { readonly kind: 'not run'; readonly reason: string };

/** One row: a tensor for each input. */
type Row = readonly Tensor[];
/** What a row gives alone: one tensor for each output. */
type Answer = readonly Tensor[];

/** Rows with all outputs of each alone. */
interface Taken {
  readonly rows: readonly Row[];
  readonly answers: readonly (readonly NamedTensor[])[];
}

/** Rows in any case, however long a run takes. */
const LEAST_ROWS = 4;
/** Small ones first, because every row runs many times. */
const SIZES = FREE_SIZES.toSorted((a, b) => a.spatial - b.spatial);

export async function probeModel(request: ProbeRequest): Promise<ProbeReport> {
  const { file, optimization = AS_WRITTEN } = request;
  const session = await openSession(file, { threads: availableParallelism(), optimization });
  try {
    return await new Probe(session, request).run();
  } finally {
    await session.close();
  }
}

class Probe {
  readonly #session: Session;
  readonly #request: ProbeRequest;
  /** In the session's order. */
  readonly #inputAxes: readonly (number | 'none')[];
  readonly #outputAxes: readonly number[];

  constructor(session: Session, request: ProbeRequest) {
    this.#session = session;
    this.#request = request;
    const [inputs, outputs] = [new Map(request.inputAxes), new Map(request.outputAxes)];
    this.#inputAxes = session.inputs.map(({ name }) => inputs.get(name) ?? 0);
    this.#outputAxes = session.outputs.map(({ name }) => outputs.get(name) ?? 0);
  }

  async run(): Promise<ProbeReport> {
    const start = performance.now();
    const taken = await this.#takenRows();
    if (typeof taken === 'string') return { kind: 'not run', reason: taken };
    const { rows } = taken;
    const lost = taken.answers
      .map((outputs) => this.#shapeProblem(outputs, 1))
      .find((problem) => problem !== undefined);
    if (lost !== undefined) return { kind: 'differs', reason: lost };
    const answers = taken.answers.map((outputs) =>
      outputs.map((output, i) => rowAt(output, this.#outputAxes[i] ?? 0, 0)),
    );
    const known: Spread[] = [];
    const spreads: Spreads = (i) => (known[i] ??= spreadOf(answers.map((answer) => answer[i] as Tensor)));
    const { fixedRows, limitMs } = this.#request;
    const most = Math.min(fixedRows ?? this.#request.maxRows, rowsWithin(rows[0] as Row));
    const counts = [...new Set([2, 3, most])].filter((count) => count >= 2 && count <= most);
    // Each turn moves every row one place on, in runs of every size.
    for (let turn = 0; turn < Math.max(rows.length, most); turn++) {
      for (const count of counts) {
        if (turn >= Math.max(rows.length, count)) continue;
        const order = Array.from({ length: count }, (_, i) => (turn + i) % rows.length);
        const problem = await this.#compare(order, rows, answers, spreads);
        if (problem !== undefined) return { kind: 'differs', reason: problem };
      }
      if (performance.now() - start > limitMs) break;
    }
    return { kind: 'agrees' };
  }

  /** Rows that the model takes, of the first sizes and values that it takes, with what they give alone. */
  async #takenRows(): Promise<Taken | string> {
    const { inputs } = withGivenSizes(this.#session.inputs, [], this.#request.sizes);
    const ways = INTEGER_RANGES.flatMap((integers) => SIZES.map((sizes) => ({ integers, sizes })));
    return firstTaken(ways, (way) =>
      this.#answersOf((number) =>
        inputs.map((spec, input) => {
          const axis = this.#inputAxes[input] ?? 0;
          return madeUpRow(spec, { ...way, axis, row: axis === 'none' ? 0 : number, input });
        }),
      ),
    );
  }

  /** As many rows as runs of all of them fit into the time. @throws where the model does not take one of them */
  async #answersOf(rowOf: (number: number) => Row): Promise<Taken> {
    const { maxRows, fixedRows, limitMs } = this.#request;
    const rows: Row[] = [];
    const answers: (readonly NamedTensor[])[] = [];
    const start = performance.now();
    for (let number = 0; number < Math.max(LEAST_ROWS, fixedRows ?? maxRows); number++) {
      const row = rowOf(number);
      const outputs = await this.#session.run(this.#feeds([row]));
      answers.push(outputs);
      rows.push(row);
      const each = (performance.now() - start) / rows.length;
      if (rows.length >= LEAST_ROWS && each * rows.length * (rows.length + 6) > limitMs) break;
    }
    return { rows, answers };
  }

  /** An output without one place for each row. */
  #shapeProblem(outputs: readonly NamedTensor[], count: number): string | undefined {
    const total = this.#request.fixedRows ?? count;
    const lost = outputs.find(({ shape }, i) => shape[this.#outputAxes[i] ?? 0] !== total);
    return lost && `output "${lost.name}" has the shape [${lost.shape.join(',')}] for ${total} made-up rows`;
  }

  #feeds(rows: readonly Row[]): Tensor[] {
    const { fixedRows } = this.#request;
    return this.#session.inputs.map((_, i) => {
      const axis = this.#inputAxes[i] ?? 0;
      const parts = rows.map((row) => row[i] as Tensor);
      return axis === 'none' ? (parts[0] as Tensor) : stackRows(parts, axis, fixedRows ?? rows.length);
    });
  }

  /** What is wrong with a run of these rows, if anything is. */
  async #compare(
    order: readonly number[],
    rows: readonly Row[],
    answers: readonly Answer[],
    spreads: Spreads,
  ): Promise<string | undefined> {
    let outputs: readonly NamedTensor[];
    try {
      outputs = await this.#session.run(this.#feeds(order.map((number) => rows[number] as Row)));
    } catch (error) {
      return `${order.length} made-up rows do not run together (${messageOf(error)})`;
    }
    const lost = this.#shapeProblem(outputs, order.length);
    if (lost !== undefined) return lost;
    for (const [i, output] of outputs.entries()) {
      const axis = this.#outputAxes[i] ?? 0;
      for (const [place, number] of order.entries()) {
        const difference = differenceOf(rowAt(output, axis, place), answers[number]?.[i] as Tensor, () =>
          spreads(i),
        );
        if (difference !== undefined) {
          return `made-up row ${place + 1} of ${order.length} gives another "${output.name}" than alone (${difference})`;
        }
      }
    }
    return undefined;
  }
}

/** Rows whose inputs fit into one run. */
function rowsWithin(row: Row): number {
  return Math.max(2, Math.floor(RUN_BYTES / Math.max(1, feedBytes({ tensors: row }))));
}

/** At each place of an output: how far apart the rows' values are, and the largest of them. */
export interface Spread {
  readonly range: Float64Array;
  readonly largest: Float64Array;
}

/** By output. They are made when the first element differs, as in most models none does. */
type Spreads = (output: number) => Spread;

export function spreadOf(answers: readonly Tensor[]): Spread {
  const length = elementCount(answers[0]?.shape ?? []);
  const [low, high] = [new Float64Array(length).fill(Infinity), new Float64Array(length).fill(-Infinity)];
  for (const answer of answers) {
    const values = valuesOf(answer);
    for (let i = 0; i < length; i++) {
      const value = Number(values[i]);
      if (!Number.isFinite(value)) continue;
      low[i] = Math.min(low[i] as number, value);
      high[i] = Math.max(high[i] as number, value);
    }
  }
  const isKnown = (i: number) => (high[i] as number) >= (low[i] as number);
  return {
    range: high.map((value, i) => (isKnown(i) ? value - (low[i] as number) : 0)),
    largest: high.map((value, i) => (isKnown(i) ? Math.max(Math.abs(value), Math.abs(low[i] as number)) : 0)),
  };
}

/** Kernels for one row and for many add up in another order: a few units in the last place of what they add. */
const RELATIVE = 1e-3;
const OF_RANGE = 1e-4;
const OF_LARGEST = 1e-6;
/** A float16 has 11 bits. */
const FLOAT16 = 30;

/** The first place where the two differ by more than rounding; whole numbers, booleans and texts must be equal. */
export function differenceOf(got: Tensor, alone: Tensor, spreadOfOutput: () => Spread): string | undefined {
  if (got.shape.join() !== alone.shape.join())
    return `of shape [${got.shape.join(',')}], alone [${alone.shape.join(',')}]`;
  if (isSameBytes(got, alone)) return undefined;
  const [a, b] = [valuesOf(got), valuesOf(alone)];
  const isFloat = got.dtype.startsWith('float');
  const factor = got.dtype === 'float16' ? FLOAT16 : 1;
  const spread = spreadOfOutput();
  for (let i = 0; i < b.length; i++) {
    if (Object.is(a[i], b[i]) || a[i] === b[i]) continue;
    const [x, y] = [Number(a[i]), Number(b[i])];
    const tolerance =
      RELATIVE * Math.abs(y) + OF_RANGE * (spread.range[i] ?? 0) + OF_LARGEST * (spread.largest[i] ?? 0);
    if (!isFloat || !(Math.abs(x - y) <= factor * tolerance)) return `${String(a[i])}, alone ${String(b[i])}`;
  }
  return undefined;
}
