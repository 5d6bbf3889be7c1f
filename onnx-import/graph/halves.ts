/** 16-bit floats as float32: few kernels of onnxruntime take them on a processor, and Node before 24 has no array of them. */
import type { Tensor, TypedArray } from '../../lib/contract/tensor.ts';

/** All elements in row-major order: numbers, bigints for 64-bit integers, or texts. */
export function valuesOf({ dtype, data }: Tensor): TypedArray | readonly string[] {
  if (dtype !== 'float16') return data;
  return widenHalves(new Uint16Array(data.buffer, data.byteOffset, data.length), 'half');
}

/** Widens 16-bit floats to float32. */
export function widenHalves(halves: Uint16Array, kind: 'half' | 'bfloat16'): Float32Array {
  const floats = new Float32Array(halves.length);
  const bits = new Uint32Array(floats.buffer);
  const wide = kind === 'bfloat16' ? undefined : halfTable();
  for (let i = 0; i < halves.length; i += 1) {
    const half = halves[i] ?? 0;
    bits[i] = wide === undefined ? half << 16 : (wide[half] ?? 0);
  }
  return floats;
}

let table: Uint32Array | undefined;

/** The float32 bits of every half. */
function halfTable(): Uint32Array {
  if (table !== undefined) return table;
  const floats = new Float32Array(1 << 16);
  for (let half = 0; half < floats.length; half += 1) {
    const exponent = (half >> 10) & 31;
    const fraction = half & 1023;
    const sign = half & 0x8000 ? -1 : 1;
    if (exponent === 0) floats[half] = sign * fraction * 2 ** -24;
    else if (exponent < 31) floats[half] = sign * (1024 + fraction) * 2 ** (exponent - 25);
    else floats[half] = fraction === 0 ? sign * Number.POSITIVE_INFINITY : Number.NaN;
  }
  table = new Uint32Array(floats.buffer);
  return table;
}
