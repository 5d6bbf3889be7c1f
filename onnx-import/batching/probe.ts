/**
 * Runs rows alone and together, each in each place, and compares every element. It stands behind the proof: a rule or a
 * kernel that is wrong shows here. The model may never have run before, so this runs in a process of its own.
 */
import type { Tensor } from '../../lib/contract/tensor.ts';
import type { NamedTensor } from '../../lib/contract/values.ts';
import { AS_WRITTEN, type Optimization } from '../../lib/contract/verification.ts';
import { openSession, type Session } from '../../lib/inference/session.ts';
import { RUN_BYTES } from '../../lib/inference/warm-up.ts';
import { feedBytes } from '../../lib/pipeline/batch/batch.ts';
import { rounded } from '../samples/difference.ts';
import { type GivenShapes, withGivenSizes } from '../samples/given-sizes.ts';
import { type Hints, hintsOf } from '../samples/hints.ts';
import { FREE_SIZES } from '../samples/inputs.ts';
import {
  firstTaken,
  madeUpRow,
  ofOtherLengths,
  rowsOfAllKinds,
  valuesToMakeUp,
  type Way,
} from '../samples/probe-values.ts';
import { messageOf } from '../samples/reference.ts';
import { rowAt, stackRows } from '../samples/rows.ts';
import { NotFinished, Work } from '../samples/work.ts';
import { Alone } from './alone.ts';

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
}

export type ProbeReport =
  | { readonly kind: 'agrees' }
  | { readonly kind: 'differs'; readonly reason: string }
  /** The machine was too slow. */
  | { readonly kind: 'not finished'; readonly reason: string }
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

/** Sums have one order, whatever the machine. */
const THREADS = 1;
/** Rows in any case, however large a run is. */
const LEAST_ROWS = 4;
/** Operations, about 10 s. The first runs of each size are made in any case. */
const WORK = 1e11;
/** Small ones first, because every row runs many times. */
const SIZES = FREE_SIZES.toSorted((a, b) => a.spatial - b.spatial);

export async function probeModel(request: ProbeRequest): Promise<ProbeReport> {
  const { file, optimization = AS_WRITTEN } = request;
  const work = new Work(file);
  const session = await openSession(file, { threads: THREADS, optimization });
  try {
    return await new Probe(session, request, work, hintsOf(file)).run();
  } catch (error) {
    if (error instanceof NotFinished) return { kind: 'not finished', reason: error.message };
    throw error;
  } finally {
    await session.close();
  }
}

class Probe {
  readonly #session: Session;
  readonly #request: ProbeRequest;
  readonly #work: Work;
  readonly #hints: Hints;
  /** In the session's order. */
  readonly #inputAxes: readonly (number | 'none')[];
  readonly #outputAxes: readonly number[];

  constructor(session: Session, request: ProbeRequest, work: Work, hints: Hints) {
    this.#session = session;
    this.#request = request;
    this.#work = work;
    this.#hints = hints;
    const [inputs, outputs] = [new Map(request.inputAxes), new Map(request.outputAxes)];
    this.#inputAxes = session.inputs.map(({ name }) => inputs.get(name) ?? 0);
    this.#outputAxes = session.outputs.map(({ name }) => outputs.get(name) ?? 0);
  }

  async run(): Promise<ProbeReport> {
    const taken = await this.#takenRows();
    if (typeof taken === 'string') return { kind: 'not run', reason: taken };
    for (const rows of taken) {
      const problem = await this.#problemOf(rows);
      if (problem !== undefined) return { kind: 'differs', reason: problem };
    }
    return { kind: 'agrees' };
  }

  /** What is wrong with runs of these rows, if anything is. */
  async #problemOf(taken: Taken): Promise<string | undefined> {
    const { rows } = taken;
    for (const outputs of taken.answers) {
      const lost = this.#shapeProblem(outputs, 1);
      if (lost !== undefined) return lost;
    }
    const alone = new Alone(
      taken.answers.map((outputs) => this.#rowsAt(outputs, 0)),
      async (number, seed) =>
        this.#rowsAt(
          await this.#session.run(this.#feeds([(rows[number] as Row).map((one) => rounded(one, seed))])),
          0,
        ),
    );
    const { fixedRows } = this.#request;
    const most = Math.min(fixedRows ?? this.#request.maxRows, rowsWithin(rows[0] as Row));
    const counts = [...new Set([2, 3, most])].filter((count) => count >= 2 && count <= most);
    const each = this.#work.run(rows[0] as Row);
    let spent = 0;
    // Each turn moves every row one place on, in runs of every size; after as many turns as rows it begins anew.
    for (let turn = 0; turn < rows.length && spent <= WORK; turn++) {
      for (const count of counts) {
        const order = Array.from({ length: count }, (_, i) => (turn + i) % rows.length);
        const problem = await this.#compare(order, rows, alone);
        if (problem !== undefined) return problem;
        spent += count * each;
        this.#work.assertInTime();
      }
    }
    return undefined;
  }

  /** Rows that the model takes, of the first sizes and values that it takes and of others, with what they give alone. */
  async #takenRows(): Promise<readonly Taken[] | string> {
    const { inputs } = withGivenSizes(this.#session.inputs, [], this.#request.sizes);
    const ways = [...valuesToMakeUp(inputs)].flatMap((way) => SIZES.map((sizes) => ({ ...way, sizes })));
    const axisOf = (input: number) => this.#inputAxes[input] ?? 0;
    const hasFreeSizes = inputs.some(({ shape }, input) =>
      shape.some((dim, axis) => typeof dim === 'string' && axis !== axisOf(input)),
    );
    const { maxRows, fixedRows } = this.#request;
    const answersTo = (way: Way, most: number) =>
      this.#answersOf(most, (number) =>
        inputs.map((spec, input) => {
          const axis = axisOf(input);
          return madeUpRow(spec, {
            ...way,
            hints: this.#hints,
            axis,
            row: axis === 'none' ? 0 : number,
            input,
          });
        }),
      );
    return firstTaken(ways, async (way) => {
      const kinds = Math.max(maxRows, rowsOfAllKinds(this.#hints));
      const first = await answersTo(way, fixedRows ?? kinds);
      return [
        first,
        ...(await ofOtherLengths(way, hasFreeSizes, (other) => answersTo(other, fixedRows ?? kinds))),
      ];
    });
  }

  /** As many rows as fit into the work. @throws where the model does not take one of the first */
  async #answersOf(most: number, rowOf: (number: number) => Row): Promise<Taken> {
    const rows: Row[] = [];
    const answers: (readonly NamedTensor[])[] = [];
    for (let number = 0; number < Math.max(LEAST_ROWS, most); number++) {
      const row = rowOf(number);
      try {
        const feeds = this.#feeds([row]);
        answers.push(await this.#session.run(feeds));
        rows.push(row);
        if (number === 0) await this.#work.learn(feeds);
      } catch (error) {
        if (number < LEAST_ROWS) throw error;
      }
      this.#work.assertInTime();
      const isEnough = this.#work.run(row) * rows.length * (rows.length + 6) > WORK;
      if (rows.length >= LEAST_ROWS && isEnough) break;
    }
    return { rows, answers };
  }

  #rowsAt(outputs: readonly NamedTensor[], place: number): Answer {
    return outputs.map((output, i) => rowAt(output, this.#outputAxes[i] ?? 0, place));
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
  async #compare(order: readonly number[], rows: readonly Row[], alone: Alone): Promise<string | undefined> {
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
        const difference = await alone.difference(rowAt(output, axis, place), number, i);
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
