/**
 * Makes the benchmark's models and inputs from seeds, the same bytes on every machine: only operations that IEEE 754 rounds
 * exactly (+ - * / sqrt) make the numbers, so that the sha256 of a model does not depend on a math library.
 */

import { createHash } from 'node:crypto';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { elementAt, present } from '../lib/contract/present.ts';
import { type NodeSpec, onnxModel, type WeightSpec } from '../test/support/onnx.ts';

export interface BenchModel {
  readonly name: string;
  readonly about: string;
  /** The model file, alone in its folder. */
  readonly path: string;
  readonly folder: string;
  readonly sha256: string;
  readonly bytes: number;
  readonly input: string;
  readonly output: string;
  /** The shape of one row, without the batch dimension. */
  readonly rowShape: readonly number[];
}

/** Numbers from 0 up to 1, the same for the same seed (mulberry32). */
export function randomNumbers(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** `count` different rows of numbers from -1 to 1, each a float32 that 9 digits of JSON carry exactly. */
export function randomRows(seed: number, rowShape: readonly number[], count: number): Float32Array[] {
  const random = randomNumbers(seed);
  const length = rowShape.reduce((product, dim) => product * dim, 1);
  return Array.from({ length: count }, () => Float32Array.from({ length }, () => random() * 2 - 1));
}

/** The number at the end of a queued record's uri says which row it holds. */
export function rowOfUri(uri: string, rows: number): number {
  return Number(uri.slice(uri.lastIndexOf('-') + 1)) % rows;
}

export class Weights {
  readonly all: WeightSpec[] = [];
  readonly #random: () => number;

  constructor(seed: number) {
    this.#random = randomNumbers(seed);
  }

  /** Uniform, of a variance that keeps the size of what passes through (He). */
  add(name: string, shape: readonly number[], fanIn: number): string {
    const bound = Math.sqrt(6 / fanIn);
    const length = shape.reduce((product, dim) => product * dim, 1);
    const data = Float32Array.from({ length }, () => (this.#random() * 2 - 1) * bound);
    this.all.push({ name, dtype: 'float32', shape, data });
    return name;
  }
}

const layers = (width: number, count: number) => Array.from({ length: count }, () => width);

/** Fully connected layers with ReLU between them. */
function mlp(seed: number, widths: readonly number[]): Uint8Array {
  const weights = new Weights(seed);
  const nodes: NodeSpec[] = [];
  let from = 'features';
  for (const [layer, width] of widths.slice(1).entries()) {
    const last = layer === widths.length - 2;
    const inputs = [from, ...gemmWeights(weights, `fc${layer}`, elementAt(widths, layer, 'widths'), width)];
    const to = last ? 'scores' : `fc${layer}`;
    nodes.push({ op: 'Gemm', inputs, outputs: [to] });
    if (!last) nodes.push({ op: 'Relu', inputs: [to], outputs: [`relu${layer}`] });
    from = `relu${layer}`;
  }
  return modelOf(
    'features',
    [elementAt(widths, 0, 'widths')],
    present(widths.at(-1), 'element of widths'),
    nodes,
    weights,
  );
}

function modelOf(
  input: string,
  rowShape: readonly number[],
  scores: number,
  nodes: readonly NodeSpec[],
  { all }: Weights,
): Uint8Array {
  return onnxModel({
    inputs: [{ name: input, dtype: 'float32', shape: ['N', ...rowShape] }],
    outputs: [{ name: 'scores', dtype: 'float32', shape: ['N', scores] }],
    nodes,
    weights: all,
  });
}

/** The mean of each channel, and one fully connected layer. */
function classifier(weights: Weights, from: string, channels: number, classes: number): NodeSpec[] {
  const inputs = ['flat', ...gemmWeights(weights, 'fc', channels, classes)];
  return [
    { op: 'GlobalAveragePool', inputs: [from], outputs: ['means'] },
    { op: 'Flatten', inputs: ['means'], outputs: ['flat'] },
    { op: 'Gemm', inputs, outputs: ['scores'] },
  ];
}

function gemmWeights(weights: Weights, name: string, from: number, to: number): string[] {
  return [weights.add(`${name}.w`, [from, to], from), weights.add(`${name}.b`, [to], from)];
}

/** 3x3 convolutions with ReLU, all but the first with stride 2. */
function convnet(seed: number, size: number, channels: readonly number[], classes: number): Uint8Array {
  const weights = new Weights(seed);
  const nodes: NodeSpec[] = [];
  let from = 'image';
  for (const [layer, width] of channels.slice(1).entries()) {
    const fanIn = elementAt(channels, layer, 'channels') * 9;
    const w = weights.add(`conv${layer}.w`, [width, elementAt(channels, layer, 'channels'), 3, 3], fanIn);
    const b = weights.add(`conv${layer}.b`, [width], fanIn);
    const stride = layer === 0 ? 1 : 2;
    const attributes = { kernel_shape: [3, 3], strides: [stride, stride], pads: [1, 1, 1, 1] };
    nodes.push({ op: 'Conv', inputs: [from, w, b], outputs: [`conv${layer}`], attributes });
    nodes.push({ op: 'Relu', inputs: [`conv${layer}`], outputs: [`relu${layer}`] });
    from = `relu${layer}`;
  }
  nodes.push(...classifier(weights, from, present(channels.at(-1), 'element of channels'), classes));
  return modelOf('image', [elementAt(channels, 0, 'channels'), size, size], classes, nodes, weights);
}

/**
 * ResNet-50's layers: a 7x7 convolution, 16 blocks of three convolutions with a shortcut, 25.5 million weights. Its batch
 * normalisations are part of the convolutions, as every exporter for inference makes them.
 */
function resnet(seed: number, size: number, classes: number): Uint8Array {
  const weights = new Weights(seed);
  const nodes: NodeSpec[] = [];
  /** A convolution that keeps the size, or halves it; `gain` below 1 keeps the sum of a block from growing. */
  const conv = (
    name: string,
    input: string,
    from: number,
    to: number,
    kernel: number,
    stride: number,
    gain = 1,
  ) => {
    const fanIn = (from * kernel * kernel) / (gain * gain);
    const w = weights.add(`${name}.w`, [to, from, kernel, kernel], fanIn);
    const b = weights.add(`${name}.b`, [to], fanIn);
    const pad = (kernel - 1) / 2;
    const attributes = {
      kernel_shape: [kernel, kernel],
      strides: [stride, stride],
      pads: [pad, pad, pad, pad],
    };
    nodes.push({ op: 'Conv', inputs: [input, w, b], outputs: [name], attributes });
    return name;
  };
  const relu = (input: string) => {
    nodes.push({ op: 'Relu', inputs: [input], outputs: [`${input}.relu`] });
    return `${input}.relu`;
  };
  const pool = { kernel_shape: [3, 3], strides: [2, 2], pads: [1, 1, 1, 1] };
  const first = relu(conv('stem', 'image', 3, 64, 7, 2));
  nodes.push({ op: 'MaxPool', inputs: [first], outputs: ['pooled'], attributes: pool });
  let from = 'pooled';
  let channels = 64;
  for (const [stage, blocks] of [3, 4, 6, 3].entries()) {
    const inner = 64 * 2 ** stage;
    for (let block = 0; block < blocks; block++) {
      const stride = stage > 0 && block === 0 ? 2 : 1;
      const name = `s${stage}b${block}`;
      const narrow = relu(conv(`${name}.in`, from, channels, inner, 1, 1));
      const middle = relu(conv(`${name}.mid`, narrow, inner, inner, 3, stride));
      const wide = conv(`${name}.out`, middle, inner, 4 * inner, 1, 1, 0.5);
      const shortcut = block === 0 ? conv(`${name}.short`, from, channels, 4 * inner, 1, stride) : from;
      nodes.push({ op: 'Add', inputs: [wide, shortcut], outputs: [`${name}.sum`] });
      from = relu(`${name}.sum`);
      channels = 4 * inner;
    }
  }
  nodes.push(...classifier(weights, from, channels, classes));
  return modelOf('image', [3, size, size], classes, nodes, weights);
}

const MODELS = {
  mlp: {
    about: 'MLP 64-256-256-10',
    input: 'features',
    rowShape: [64],
    make: () => mlp(1, [64, 256, 256, 10]),
  },
  // About 1 ms a row on one thread of a 2020s server.
  convnet: {
    about: 'convnet 3x96x96, 32-64-128-256 channels, 10 classes',
    input: 'image',
    rowShape: [3, 96, 96],
    make: () => convnet(2, 96, [3, 32, 64, 128, 256], 10),
  },
  // One row, alone, about 20 ms on one thread; a small input, so that reading it does not count.
  'convnet-20ms': {
    about: 'convnet 3x48x48, 192-384-768-768 channels, 10 classes',
    input: 'image',
    rowShape: [3, 48, 48],
    make: () => convnet(6, 48, [3, 192, 384, 768, 768], 10),
  },
  'mlp-100mb': {
    about: 'MLP 64-1760-...-1760-10, 100 MB',
    input: 'features',
    rowShape: [64],
    make: () => mlp(7, [64, ...layers(1_760, 9), 10]),
  },
  'mlp-400mb': {
    about: 'MLP 64-3520-...-3520-10, 400 MB',
    input: 'features',
    rowShape: [64],
    make: () => mlp(8, [64, ...layers(3_520, 9), 10]),
  },
  'mlp-5mb': {
    about: 'MLP 64-1088-1088-10, 5 MB',
    input: 'features',
    rowShape: [64],
    make: () => mlp(3, [64, 1088, 1088, 10]),
  },
  resnet: {
    about: 'ResNet-50, 3x224x224, 1000 classes, random weights',
    input: 'image',
    rowShape: [3, 224, 224],
    make: () => resnet(4, 224, 1000),
  },
  // A large input and hardly any work: a message of 22 kB, so that a queue that is held in memory would be seen.
  wide: {
    about: 'one layer, 4096-10',
    input: 'features',
    rowShape: [4_096],
    make: () => mlp(5, [4_096, 10]),
  },
} as const;

export type ModelName = keyof typeof MODELS;

export async function makeModel(name: ModelName, root: string): Promise<BenchModel> {
  const { make, ...facts } = MODELS[name];
  return writeModel(root, make(), { name, output: 'scores', ...facts });
}

type Facts = Pick<BenchModel, 'name' | 'about' | 'input' | 'output' | 'rowShape'>;

export async function writeModel(root: string, content: Uint8Array, facts: Facts): Promise<BenchModel> {
  const folder = join(root, facts.name);
  const path = join(folder, 'model.onnx');
  await mkdir(folder, { recursive: true });
  await writeFile(path, content);
  const sha256 = createHash('sha256').update(content).digest('hex');
  return { ...facts, path, folder, sha256, bytes: content.byteLength };
}
