/**
 * Creates the weights of deterministic fillers, constant and bilinear. Caffe also fills missing weights at random, so
 * a net whose weights have other names would run and return noise; here that is an error.
 */
import type { Tensor } from '../../../lib/contract/tensor.ts';
import { MAX_FOLDED_ELEMENTS, tensorOf } from '../../graph/numbers.ts';

export interface Filler {
  readonly type: string;
  readonly value: number;
}

/** Returns undefined for a random filler. */
export function fill(filler: Filler, shape: readonly number[]): Tensor | undefined {
  const length = shape.reduce((product, dim) => product * dim, 1);
  if (length > MAX_FOLDED_ELEMENTS) return undefined;
  if (filler.type === 'constant')
    return tensorOf('float32', shape, new Float32Array(length).fill(filler.value));
  const [height, width] = shape.slice(-2);
  if (filler.type !== 'bilinear' || shape.length !== 4 || height !== width || !width) return undefined;
  const factor = Math.ceil(width / 2);
  const center = (2 * factor - 1 - (factor % 2)) / (2 * factor);
  const values = new Float32Array(length);
  for (let i = 0; i < length; i++) {
    const x = i % width;
    const y = Math.floor(i / width) % width;
    values[i] = (1 - Math.abs(x / factor - center)) * (1 - Math.abs(y / factor - center));
  }
  return tensorOf('float32', shape, values);
}
