/**
 * Limits that count work: the operations of a run, which are the same on every machine. A verdict must not depend on how
 * busy one is. One time limit stays as a backstop, and reaching it is an error.
 */
import { stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { Tensor } from '../../lib/contract/tensor.ts';
import { readOnnxFacts } from '../onnx/facts.ts';
import { operationsOf } from './operations.ts';

/** Opening a session takes as long as so many operations, for each byte of the model. */
const OPENING = 50;
const MOST_MS = 240_000;

/** The time ran out before the work did. */
export class NotFinished extends Error {}

/** The operations of a model, and the time for all that is done with it. */
export class Work {
  readonly #file: string;
  readonly #ms: number;
  readonly #endMs: number;
  #counted = { operations: 0, elements: 1 };

  constructor(file: string, ms = MOST_MS) {
    this.#file = file;
    this.#ms = ms;
    this.#endMs = performance.now() + ms;
  }

  /** Counts the operations of one run. @param feeds that the model takes */
  async learn(feeds: readonly Tensor[]): Promise<void> {
    const operations = await operationsOf(this.#file, feeds);
    this.#counted = { operations, elements: Math.max(1, elementsOf(feeds)) };
  }

  /** Of a run on these, which may be larger than those that were counted. */
  run(feeds: readonly Tensor[]): number {
    const { operations, elements } = this.#counted;
    return operations * (elementsOf(feeds) / elements);
  }

  async opening(): Promise<number> {
    const { externalFiles } = await readOnnxFacts(this.#file);
    return (await modelBytes(this.#file, externalFiles)) * OPENING;
  }

  /** @throws NotFinished when the machine was too slow for it */
  assertInTime(): void {
    if (performance.now() <= this.#endMs) return;
    throw new NotFinished(
      `it did not finish within ${this.#ms / 1000} s; try again when the machine is less busy`,
    );
  }
}

/** Of all inputs. */
export function elementsOf(feeds: readonly Tensor[]): number {
  return feeds.reduce((sum, { data }) => sum + data.length, 0);
}

/** With its external weights. */
export async function modelBytes(file: string, externalFiles: readonly string[]): Promise<number> {
  const paths = [file, ...externalFiles.map((name) => join(dirname(file), name))];
  const stats = await Promise.all(paths.map((path) => stat(path).catch(() => ({ size: 0 }))));
  return stats.reduce((sum, { size }) => sum + size, 0);
}
