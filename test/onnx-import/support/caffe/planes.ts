/** Converts between N,C,H,W tensors and functions of their indices, so that tests can use plain loops. */
import type { Tensor } from '../../../../lib/contract/tensor.ts';
import { tensor } from './net.ts';

/** A new N,C,H,W tensor from a function of its indices. */
export function make(
  shape: readonly number[],
  at: (n: number, c: number, y: number, x: number) => number,
): Tensor {
  const [n = 1, c = 1, h = 1, w = 1] = shape;
  const data = new Float32Array(n * c * h * w);
  let i = 0;
  for (let a = 0; a < n; a++)
    for (let b = 0; b < c; b++)
      for (let y = 0; y < h; y++) for (let x = 0; x < w; x++) data[i++] = at(a, b, y, x);
  return tensor(shape, data);
}

/** Reads an element; undefined outside of the plane. */
export function reader({ shape, data }: Tensor) {
  const [, c = 1, h = 1, w = 1] = shape;
  return (n: number, channel: number, y: number, x: number): number | undefined =>
    y < 0 || x < 0 || y >= h || x >= w ? undefined : (data[((n * c + channel) * h + y) * w + x] as number);
}
