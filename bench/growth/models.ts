/**
 * In: sizes. Out: small models of which one thing grows: the length of an input or an output, the number of inputs,
 * the bytes of the weights.
 * Trap: a model's own work would hide what the path does with its tensors; so it adds, at most, a few numbers.
 */
import { createHash, type Hash } from 'node:crypto';
import { mkdir, open } from 'node:fs/promises';
import { join } from 'node:path';
import { bytes, type Chunk, integer, message, text } from '../../convert/onnx/chunk.ts';
import { type ModelSpec, onnxModel } from '../../test/support/onnx.ts';
import { type BenchModel, randomNumbers, writeModel } from '../models.ts';

/** A model as a point's process is told of it. */
export function modelGiven(model: BenchModel): Record<string, string> {
  return { model: JSON.stringify(model) };
}

export function modelOf(given: Readonly<Record<string, string>>): BenchModel {
  return JSON.parse(given['model'] ?? '') as BenchModel;
}

function write(root: string, name: string, spec: ModelSpec, rowShape: number[]): Promise<BenchModel> {
  const [input = '', output = ''] = [spec.inputs[0]?.name, spec.outputs[0]?.name];
  return writeModel(root, onnxModel(spec), { name, about: name, input, output, rowShape });
}

/** vector: float32 [N, L], any L -> mean: float32 [N, 1]. */
export function meanModel(root: string): Promise<BenchModel> {
  return write(
    root,
    'mean',
    {
      inputs: [{ name: 'vector', dtype: 'float32', shape: ['N', 'L'] }],
      outputs: [{ name: 'mean', dtype: 'float32', shape: ['N', 1] }],
      nodes: [
        {
          op: 'ReduceMean',
          inputs: ['vector'],
          outputs: ['mean'],
          attributes: { axes: [1], keepdims: 1 },
        },
      ],
    },
    [],
  );
}

/** image: float32 [N, 3, H, W], any size -> mean: float32 [N, 3, 1, 1]. */
export function imageModel(root: string): Promise<BenchModel> {
  return write(
    root,
    'image',
    {
      inputs: [{ name: 'image', dtype: 'float32', shape: ['N', 3, 'H', 'W'] }],
      outputs: [{ name: 'mean', dtype: 'float32', shape: ['N', 3, 1, 1] }],
      nodes: [{ op: 'GlobalAveragePool', inputs: ['image'], outputs: ['mean'] }],
    },
    [],
  );
}

/** x: float32 [N, 1] -> y: float32 [N, length], x times 1, 2, 3, ... */
export function longOutputModel(root: string, length: number): Promise<BenchModel> {
  const data = Float32Array.from({ length }, (_, i) => i + 1);
  return write(
    root,
    `output-${length}`,
    {
      inputs: [{ name: 'x', dtype: 'float32', shape: ['N', 1] }],
      outputs: [{ name: 'y', dtype: 'float32', shape: ['N', length] }],
      nodes: [{ op: 'Mul', inputs: ['x', 'factors'], outputs: ['y'] }],
      weights: [{ name: 'factors', dtype: 'float32', shape: [1, length], data }],
    },
    [1],
  );
}

export const inputName = (i: number) => `input_${i}`;

/** `count` inputs of float32 [N, width] -> sum: float32 [N, width]. */
export function manyInputsModel(root: string, count: number, width: number): Promise<BenchModel> {
  const names = Array.from({ length: count }, (_, i) => inputName(i));
  return write(
    root,
    `inputs-${count}`,
    {
      inputs: names.map((name) => ({ name, dtype: 'float32', shape: ['N', width] })),
      outputs: [{ name: 'sum', dtype: 'float32', shape: ['N', width] }],
      nodes: [{ op: 'Sum', inputs: names, outputs: ['sum'] }],
    },
    [width],
  );
}

/** Of the layers of a large model: 4 MiB of weights each. */
const WIDTH = 1_024;
const LAYER_BYTES = WIDTH * WIDTH * 4;
const SEED = 71;

export interface LargeModel {
  readonly folder: string;
  readonly bytes: number;
  /** As a model pointer names them (lib/registry/pointer.ts). */
  readonly files: readonly { readonly path: string; readonly bytes: number; readonly sha256: string }[];
}

/**
 * A chain of fully connected layers of 4 MiB, as many as make up `size`, all of the same random numbers but for one of
 * each: onnxruntime keeps equal weights once.
 * @param beside the weights lie in a file of their own, as they must from 2 GB on
 */
export async function largeModel(folder: string, size: number, beside: boolean): Promise<LargeModel> {
  await mkdir(folder, { recursive: true });
  const layers = Math.max(1, Math.round(size / LAYER_BYTES));
  const random = randomNumbers(SEED);
  // Of a variance that keeps the size of what passes through: 500 layers must run neither to infinity nor to nothing.
  const bound = Math.sqrt(3 / WIDTH);
  const layer = Float32Array.from({ length: WIDTH * WIDTH }, () => (random() * 2 - 1) * bound);
  const weights = new Uint8Array(layer.buffer);
  const vary = (part: Uint8Array) => {
    if (part === weights) layer[0] = (random() * 2 - 1) * bound;
  };
  const tensors = Array.from({ length: layers }, (_, i) => weightChunk(`w${i}`, weights, i, beside));
  const nodes = Array.from({ length: layers }, (_, i) =>
    nodeChunk('MatMul', [i === 0 ? 'x' : `h${i}`, `w${i}`], i === layers - 1 ? 'y' : `h${i + 1}`),
  );
  const graph = message([
    ...nodes.map((node) => bytes(1, node)),
    text(2, 'graph'),
    ...tensors.map((tensor) => bytes(5, tensor)),
    bytes(11, valueChunk('x')),
    bytes(12, valueChunk('y')),
  ]);
  const opset = message([text(1, ''), integer(2, 17)]);
  const model = message([integer(1, 8), bytes(7, graph), bytes(8, opset)]);
  const files = [await writeParts(folder, 'model.onnx', model.parts, vary)];
  if (beside) {
    const parts = Array.from({ length: layers }, () => weights);
    files.push(await writeParts(folder, WEIGHTS_FILE, parts, vary));
  }
  return { folder, files, bytes: files.reduce((sum, file) => sum + file.bytes, 0) };
}

const WEIGHTS_FILE = 'weights.bin';

/** @param before is called before each part is written, which it may change */
async function writeParts(
  folder: string,
  path: string,
  parts: readonly Uint8Array[],
  before: (part: Uint8Array) => void,
) {
  const hash: Hash = createHash('sha256');
  const file = await open(join(folder, path), 'w');
  let written = 0;
  try {
    for (const part of parts) {
      before(part);
      hash.update(part);
      await file.writeFile(part);
      written += part.byteLength;
    }
  } finally {
    await file.close();
  }
  return { path, bytes: written, sha256: hash.digest('hex') };
}

/** onnx.proto: TensorProto dims 1, data_type 2, name 8, raw_data 9, external_data 13, data_location 14. */
function weightChunk(name: string, weights: Uint8Array, place: number, beside: boolean): Chunk {
  const head = [integer(1, WIDTH), integer(1, WIDTH), integer(2, 1), text(8, name)];
  if (!beside) return message([...head, bytes(9, { parts: [weights], length: weights.byteLength })]);
  const entry = (key: string, value: string) => bytes(13, message([text(1, key), text(2, value)]));
  return message([
    ...head,
    entry('location', WEIGHTS_FILE),
    entry('offset', String(place * LAYER_BYTES)),
    entry('length', String(LAYER_BYTES)),
    integer(14, 1),
  ]);
}

function nodeChunk(op: string, inputs: readonly string[], output: string): Chunk {
  return message([...inputs.map((name) => text(1, name)), text(2, output), text(4, op)]);
}

/** float32 [N, WIDTH] */
function valueChunk(name: string): Chunk {
  const dims = [bytes(1, message([text(2, 'N')])), bytes(1, message([integer(1, WIDTH)]))];
  const type = message([integer(1, 1), bytes(2, message(dims))]);
  return message([text(1, name), bytes(2, message([bytes(1, type)]))]);
}
