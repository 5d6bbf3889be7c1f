/** Compares the answers of rows in a batch with their answers alone, with a tolerance for rounding. */
import { elementCount, type Tensor } from '../../lib/contract/tensor.ts';
import { valuesOf } from '../graph/halves.ts';
import { isSameBytes } from '../samples/difference.ts';

/** Kernels for one row and for many add up in another order: a few units in the last place of what they add. */
const RELATIVE = 1e-3;
const OF_RANGE = 1e-4;
const OF_LARGEST = 1e-6;
/** A float16 has 11 bits. */
const FLOAT16 = 30;
/** Rounding inside the model moves its outputs as far as rounding of its inputs does, a few times over. */
const OF_NOISE = 8;
const SEEDS = [0, 1, 2];

type Answer = readonly Tensor[];

export class Alone {
  readonly #answers: readonly Answer[];
  readonly #roundedAnswer: (row: number, seed: number) => Promise<Answer>;
  readonly #rounded = new Map<number, readonly Answer[]>();

  /** @param roundedAnswer what a row answers alone when its inputs are moved by a rounding */
  constructor(answers: readonly Answer[], roundedAnswer: (row: number, seed: number) => Promise<Answer>) {
    this.#answers = answers;
    this.#roundedAnswer = roundedAnswer;
  }

  /** Undefined where a row answers as it does alone. */
  async difference(got: Tensor, row: number, output: number): Promise<string | undefined> {
    const alone = this.#answers[row]?.[output] as Tensor;
    // Rows are made up in pairs of one scale: larger ones say nothing of what rounding does to it.
    const pair = [row, row % 2 === 0 ? row + 1 : row - 1].flatMap(
      (one) => this.#answers[one]?.[output] ?? [],
    );
    const first = differenceOf(got, alone, () => tolerancesOf(pair));
    if (first === undefined) return undefined;
    const noise = noiseOf(alone, await this.#roundedAnswers(row, output));
    return differenceOf(got, alone, () =>
      tolerancesOf(pair).map((one, i) => one + OF_NOISE * (noise[i] ?? 0)),
    );
  }

  /** Rarely needed, as in most models no element differs. */
  async #roundedAnswers(row: number, output: number): Promise<readonly Tensor[]> {
    const answers: Answer[] = [...(this.#rounded.get(row) ?? [])];
    for (const seed of SEEDS.slice(answers.length)) answers.push(await this.#roundedAnswer(row, seed));
    this.#rounded.set(row, answers);
    return answers.map((answer) => answer[output] as Tensor);
  }
}

/** The largest change of each element. */
function noiseOf(alone: Tensor, others: readonly Tensor[]): Float64Array {
  const noise = new Float64Array(elementCount(alone.shape));
  if (alone.dtype === 'string') return noise;
  const values = valuesOf(alone);
  for (const other of others) {
    if (other.data.length !== noise.length) continue;
    const moved = valuesOf(other);
    for (let i = 0; i < noise.length; i++) {
      const distance = Math.abs(Number(moved[i]) - Number(values[i]));
      if (distance > (noise[i] ?? 0)) noise[i] = distance;
    }
  }
  return noise;
}

/**
 * What rounding may do to each element, by how far apart the answers to alike rows are, and by how large. Whole numbers are not
 * rounded.
 */
export function tolerancesOf(answers: readonly Tensor[]): Float64Array {
  const length = elementCount(answers[0]?.shape ?? []);
  if (!answers[0]?.dtype.startsWith('float')) return new Float64Array(length);
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
  return high.map((most, i) => {
    const least = low[i] as number;
    if (most < least) return 0;
    return OF_RANGE * (most - least) + OF_LARGEST * Math.max(Math.abs(most), Math.abs(least));
  });
}

/** The first place where the two differ by more than the tolerance. Texts must be equal, whole numbers but for the noise of the model. */
export function differenceOf(got: Tensor, alone: Tensor, tolerances: () => Float64Array): string | undefined {
  if (got.shape.join() !== alone.shape.join())
    return `of shape [${got.shape.join(',')}], alone [${alone.shape.join(',')}]`;
  if (isSameBytes(got, alone)) return undefined;
  const [a, b] = [valuesOf(got), valuesOf(alone)];
  const factor = got.dtype === 'float16' ? FLOAT16 : 1;
  const relative = got.dtype.startsWith('float') ? RELATIVE : 0;
  let allowed: Float64Array | undefined;
  for (let i = 0; i < b.length; i++) {
    if (Object.is(a[i], b[i]) || a[i] === b[i]) continue;
    const [x, y] = [Number(a[i]), Number(b[i])];
    allowed ??= tolerances();
    const tolerance = relative * Math.abs(y) + (allowed[i] ?? 0);
    if (got.dtype === 'string' || !(Math.abs(x - y) <= factor * tolerance))
      return `${String(a[i])}, alone ${String(b[i])}`;
  }
  return undefined;
}
