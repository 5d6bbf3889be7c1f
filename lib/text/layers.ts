/**
 * What sentence-transformers does to the vector of a text: dense layers, layer normalization, and scaling to length 1, in any
 * order. Their weights lie beside the model, in a file that an import writes.
 */
import { readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { decodeTensors } from '../codecs/safetensors.ts';
import { asError, badModel } from '../contract/errors.ts';
import type { Tensor } from '../contract/tensor.ts';

export const LAYERS_FILE = 'text-layers.safetensors';
/** A dense layer of 8,192 by 8,192. */
export const MOST_LAYER_BYTES = 256 * 1024 * 1024;
export const MOST_LAYERS = 16;

export type Vector = Float64Array | Float32Array;

type Change = (value: number) => number;

const CHANGES = {
  Identity: (value: number) => value,
  Tanh: Math.tanh,
  ReLU: (value: number) => (value > 0 || Number.isNaN(value) ? value : 0),
  Sigmoid: (value: number) => 1 / (1 + Math.exp(-value)),
  SiLU: (value: number) => value / (1 + Math.exp(-value)),
} satisfies Record<string, Change>;

export type LayerActivation = keyof typeof CHANGES;
export const LAYER_ACTIVATIONS = Object.keys(CHANGES).filter(isActivation);

export function isActivation(name: string): name is LayerActivation {
  return Object.hasOwn(CHANGES, name);
}

export type Layer =
  | { readonly kind: 'dense'; readonly width: number; readonly activation: LayerActivation }
  | { readonly kind: 'layer_norm' }
  | { readonly kind: 'normalize' };

export function isLayer(value: unknown): value is Layer {
  const { kind, width, activation }: Readonly<Record<string, unknown>> = Object(value);
  if (kind === 'dense') return Number.isSafeInteger(width) && isActivation(String(activation));
  return kind === 'layer_norm' || kind === 'normalize';
}

/** The names of a layer's tensors in the file, by its place in the chain. */
export const weightName = (place: number) => `${place}.weight`;
export const biasName = (place: number) => `${place}.bias`;

export type Chain = (vector: Float64Array) => Float64Array;

/** The layers of a model directory as one function. @throws bad_model for a file that does not fit them */
export async function readChain(folder: string, layers: readonly Layer[]): Promise<Chain> {
  const hasWeights = layers.some(({ kind }) => kind !== 'normalize');
  return chainOf(layers, hasWeights ? await readTensors(join(folder, LAYERS_FILE)) : new Map());
}

async function readTensors(path: string): Promise<ReadonlyMap<string, Tensor>> {
  try {
    const { size } = await stat(path);
    if (size > MOST_LAYER_BYTES) throw badModel(`${size} bytes are over the limit of ${MOST_LAYER_BYTES}`);
    return decodeTensors(await readFile(path));
  } catch (error) {
    throw badModel(`${path}: ${asError(error).message}; import the model again`, { cause: error });
  }
}

/** @throws bad_model */
export function chainOf(layers: readonly Layer[], tensors: ReadonlyMap<string, Tensor>): Chain {
  const steps = layers.map((layer, place): Chain => {
    if (layer.kind === 'normalize') return normalized;
    const [weight, bias] = [tensors.get(weightName(place)), tensors.get(biasName(place))];
    return layer.kind === 'dense'
      ? dense(layer, floats(weight, place), bias && floats(bias, place))
      : layerNorm(floats(weight, place), floats(bias, place));
  });
  return (vector) => steps.reduce((done, step) => step(done), vector);
}

function floats(tensor: Tensor | undefined, place: number): Float32Array {
  if (tensor?.data instanceof Float32Array) return tensor.data;
  throw badModel(`${LAYERS_FILE}: layer ${place} has no weights of float32; import the model again`);
}

function dense(
  { width, activation }: Layer & { readonly kind: 'dense' },
  weight: Float32Array,
  bias?: Float32Array,
): Chain {
  const change: Change = CHANGES[activation];
  return (vector) => {
    const { length } = vector;
    if (weight.length !== width * length) throw mismatch(weight.length, length);
    const result = new Float64Array(width);
    for (let row = 0; row < width; row++) {
      const start = row * length;
      let sum = bias?.[row] ?? 0;
      for (let i = 0; i < length; i++) sum += Number(weight[start + i]) * Number(vector[i]);
      result[row] = change(sum);
    }
    return result;
  };
}

/** With the epsilon of torch.nn.LayerNorm, which sentence-transformers does not change. */
function layerNorm(weight: Float32Array, bias: Float32Array): Chain {
  return (vector) => {
    const { length } = vector;
    if (weight.length !== length || bias.length !== length) throw mismatch(weight.length, length);
    const mean = vector.reduce((sum, value) => sum + value, 0) / length;
    const variance = vector.reduce((sum, value) => sum + (value - mean) ** 2, 0) / length;
    const scale = 1 / Math.sqrt(variance + 1e-5);
    return Float64Array.from(
      vector,
      (value, i) => (value - mean) * scale * Number(weight[i]) + Number(bias[i]),
    );
  };
}

function mismatch(weights: number, length: number) {
  return badModel(
    `${LAYERS_FILE}: a layer of ${weights} weights got a vector of ${length} numbers; import the model again`,
  );
}

/** As torch.nn.functional.normalize. */
export function normalized(vector: Vector): Float64Array {
  let squares = 0;
  for (const value of vector) squares += value * value;
  const length = Math.max(Math.sqrt(squares), 1e-12);
  return Float64Array.from(vector, (value) => value / length);
}
