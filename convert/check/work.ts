/**
 * Limits that count work. How much a run is, is estimated from the model and its inputs, so that it is the same on every
 * machine: a verdict must not depend on how busy one is. Time is only the last resort, and a caller hears of it.
 */
import { stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { Tensor } from '../../lib/contract/tensor.ts';
import { readModel } from '../batching/model.ts';
import { readOnnxFacts } from '../onnx/facts.ts';

/** Bytes of a weight. */
const WEIGHT_BYTES = 4;
/** A weight is used once for a token, and about once for so many numbers. */
const NUMBERS = 256;
/** Opening a session takes as long as so many operations, for each byte of the model. */
const OPENING = 1_000;
const MOST_MS = 240_000;

/** The time ran out before the work did. */
export class NotFinished extends Error {}

/** Estimated operations of a model, and how many more may be spent. */
export class Work {
  readonly #bytes: number;
  readonly #nodes: number;
  readonly #endMs: number;
  readonly #ms: number;

  private constructor(bytes: number, nodes: number, ms: number) {
    this.#bytes = bytes;
    this.#nodes = nodes;
    this.#ms = ms;
    this.#endMs = performance.now() + ms;
  }

  /** @param ms for all of it */
  static async of(file: string, ms = MOST_MS): Promise<Work> {
    return new Work(await modelBytes(file), readModel(file).graph.nodes.length, ms);
  }

  /** Of one run. */
  run(feeds: readonly Tensor[]): number {
    const places = feeds.map(({ dtype, data }) => data.length / (dtype.startsWith('float') ? NUMBERS : 1));
    const elements = feeds.reduce((sum, { data }) => sum + data.length, 0);
    const weights = this.#bytes / WEIGHT_BYTES;
    return (
      weights *
        Math.max(
          1,
          places.reduce((sum, count) => sum + count, 0),
        ) +
      this.#nodes * elements
    );
  }

  get opening(): number {
    return this.#bytes * OPENING;
  }

  /** @throws NotFinished when the machine was too slow for it */
  assertInTime(): void {
    if (performance.now() <= this.#endMs) return;
    throw new NotFinished(
      `it did not finish within ${this.#ms / 1000} s; try again on a machine that is less busy`,
    );
  }
}

/** With its external weights. */
export async function modelBytes(file: string): Promise<number> {
  const { externalFiles } = await readOnnxFacts(file);
  const paths = [file, ...externalFiles.map((name) => join(dirname(file), name))];
  const stats = await Promise.all(paths.map((path) => stat(path).catch(() => ({ size: 0 }))));
  return stats.reduce((sum, { size }) => sum + size, 0);
}
