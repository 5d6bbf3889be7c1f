/** Turns a model's output into an answer: vectors of tokens become one vector, and scores of classes probabilities. */
import { ServingError } from '../contract/errors.ts';
import { formatShape, type Tensor } from '../contract/tensor.ts';
import { float16Value } from '../pipeline/bind/cast.ts';
import { type Chain, normalized, type Vector } from './layers.ts';
import type { Activation, Pooling, TextSettings } from './settings.ts';

/** One row of the answer for each row of the output. @param chain what changes a vector before it is scaled @throws model_failed for an output of another shape */
export function answersOf(
  output: Tensor,
  mask: readonly Uint8Array[],
  settings: TextSettings,
  chain?: Chain,
): Float32Array[] {
  const { shape } = output;
  const rank = settings.pooling.length > 0 ? 3 : 2;
  const [rows, width = 0] = [mask.length, shape.at(-1)];
  if (shape.length !== rank || shape[0] !== rows || (rank === 3 && shape[1] !== mask[0]?.length)) {
    throw new ServingError(
      'model_failed',
      `the output "${settings.output}" is of shape ${formatShape(shape)}`,
    );
  }
  const values = floatsOf(output);
  const length = values.length / rows;
  return mask.map((tokens, row) => {
    const own = values.subarray(row * length, (row + 1) * length);
    const vector = settings.pooling.length > 0 ? pooled(own, width, tokens, settings.pooling) : own;
    if (settings.kind === 'classes') return activated(vector, settings.activation);
    const changed = chain ? chain(Float64Array.from(vector)) : vector;
    const whole = settings.normalize ? normalized(changed) : changed;
    // As sentence-transformers: what is cut off is cut off last.
    return Float32Array.from(whole.subarray(0, settings.dimensions));
  });
}

function floatsOf({ dtype, data }: Tensor): Vector {
  if (data instanceof Float32Array || data instanceof Float64Array) return data;
  if (data instanceof Uint16Array) return Float32Array.from(data, float16Value);
  throw new ServingError('model_failed', `expected an output of floats, got ${dtype}`);
}

/** Sums are made of doubles, so that the order of tokens does not show. */
function pooled(values: Vector, width: number, mask: Uint8Array, poolings: readonly Pooling[]): Float64Array {
  const result = new Float64Array(width * poolings.length);
  for (const [i, pooling] of poolings.entries()) {
    pool(values, width, mask, pooling, result.subarray(i * width, (i + 1) * width));
  }
  return result;
}

function pool(values: Vector, width: number, mask: Uint8Array, pooling: Pooling, into: Float64Array): void {
  const only = pooling === 'cls' ? mask.indexOf(1) : pooling === 'lasttoken' ? mask.lastIndexOf(1) : -1;
  if (only >= 0) {
    into.set(values.subarray(only * width, (only + 1) * width));
    return;
  }
  if (pooling === 'max') into.fill(-Infinity);
  let weights = 0;
  for (const [token, counts] of mask.entries()) {
    if (counts === 0) continue;
    const weight = pooling === 'weightedmean' ? token + 1 : 1;
    weights += weight;
    for (let i = 0; i < width; i++) {
      const value = values[token * width + i] as number;
      into[i] = pooling === 'max' ? Math.max(into[i] as number, value) : (into[i] as number) + weight * value;
    }
  }
  if (pooling === 'max') return;
  const divisor = pooling === 'mean_sqrt_len_tokens' ? Math.sqrt(weights) : weights;
  for (let i = 0; i < width; i++) into[i] = (into[i] as number) / Math.max(divisor, 1e-9);
}

export function activated(scores: Vector, activation: Activation): Float32Array {
  if (activation === 'none') return Float32Array.from(scores);
  if (activation === 'sigmoid') return Float32Array.from(scores, (score) => 1 / (1 + Math.exp(-score)));
  const most = Math.max(...scores);
  const powers = Float64Array.from(scores, (score) => Math.exp(score - most));
  const sum = powers.reduce((total, power) => total + power, 0);
  return Float32Array.from(powers, (power) => power / sum);
}
