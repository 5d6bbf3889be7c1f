/**
 * Converts small Caffe nets (text, weights, inputs) and runs them in onnxruntime. The binary writer here is
 * independent, so that reader and writer cannot share a mistake.
 */
import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Tensor } from '../../../../lib/contract/tensor.ts';
import { openSession } from '../../../../lib/inference/session.ts';
import { convertCaffe } from '../../../../onnx-import/formats/caffe/convert.ts';
import type { Conversion } from '../../../../onnx-import/formats/conversion.ts';
import { writeOnnx } from '../../../../onnx-import/onnx/write.ts';
import type { ConvertOptions } from '../../../../onnx-import/source/convert-options.ts';

export interface TestBlob {
  readonly shape: readonly number[];
  readonly data: readonly number[] | Float32Array;
}

export type TestWeights = Readonly<Record<string, readonly TestBlob[]>>;

export function varint(value: number): Buffer {
  const bytes: number[] = [];
  let rest = value;
  for (; rest >= 128; rest = Math.floor(rest / 128)) bytes.push((rest % 128) + 128);
  return Buffer.from([...bytes, rest]);
}

export function field(number: number, content: Uint8Array): Buffer {
  return Buffer.concat([varint(number * 8 + 2), varint(content.length), content]);
}

export function floatBytes(values: ArrayLike<number>): Buffer {
  const floats = Float32Array.from(values);
  return Buffer.from(floats.buffer);
}

function blobBytes({ shape, data }: TestBlob): Buffer {
  const dims = field(1, Buffer.concat(shape.map(varint)));
  return Buffer.concat([field(5, floatBytes(data)), field(7, dims)]);
}

/** A caffemodel of `layer` messages. */
export function caffemodel(weights: TestWeights): Buffer {
  const layers = Object.entries(weights).map(([name, blobs]) =>
    field(
      100,
      Buffer.concat([field(1, Buffer.from(name)), ...blobs.map((blob) => field(7, blobBytes(blob)))]),
    ),
  );
  return Buffer.concat(layers);
}

/** Runs `work` with the folder of a net; it is gone afterwards. */
export async function inFolder<T>(
  files: Readonly<Record<string, string | Uint8Array>>,
  work: (folder: string) => Promise<T>,
): Promise<T> {
  const folder = await mkdtemp(join(tmpdir(), 'cs-caffe-'));
  try {
    for (const [name, content] of Object.entries(files)) await writeFile(join(folder, name), content);
    return await work(folder);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

export function convertNet(
  net: string,
  weights: TestWeights | Uint8Array = {},
  options: ConvertOptions = {},
): Promise<Conversion> {
  const bytes = weights instanceof Uint8Array ? weights : caffemodel(weights);
  const model = bytes.length > 0 ? { 'net.caffemodel': bytes } : {};
  return inFolder({ 'net.prototxt': net, ...model }, (folder) => convertCaffe(folder, options));
}

/** The outputs by name. */
export async function runNet(
  net: string,
  weights: TestWeights | Uint8Array,
  inputs: Readonly<Record<string, Tensor>>,
  options: ConvertOptions = {},
): Promise<Readonly<Record<string, Tensor>>> {
  const { graph } = await convertNet(net, weights, options);
  return inFolder({}, async (folder) => {
    const path = join(folder, 'model.onnx');
    await writeOnnx(graph, path, { producerVersion: 'test' });
    const session = await openSession(path, { threads: 1 });
    try {
      const feeds = session.inputs.map(({ name }) => {
        const input = inputs[name];
        if (!input) throw new Error(`the test has no input ${name}`);
        return input;
      });
      const results = await session.run(feeds);
      return Object.fromEntries(results.map((result) => [result.name, result]));
    } finally {
      await session.close();
    }
  });
}

/** `input` and its shape, as a deploy net declares it. */
export function inputText(name: string, shape: readonly number[]): string {
  return `input: "${name}" input_shape { ${shape.map((dim) => `dim: ${dim}`).join(' ')} }\n`;
}

/** Repeatable numbers between -1 and 1. */
export function noise(count: number, seed = 1): Float32Array {
  let state = seed * 2654435761;
  return Float32Array.from({ length: count }, () => {
    state = (Math.imul(state | 0, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 31 - 1;
  });
}

export function tensor(shape: readonly number[], data: ArrayLike<number>): Tensor {
  return { dtype: 'float32', shape, data: Float32Array.from(data) };
}

export function noiseTensor(shape: readonly number[], seed = 1): Tensor {
  return tensor(
    shape,
    noise(
      shape.reduce((product, dim) => product * dim, 1),
      seed,
    ),
  );
}

export function assertClose(actual: Tensor | undefined, expected: Tensor, tolerance = 1e-5): void {
  assert.ok(actual, 'the output is missing');
  assert.deepEqual(actual.shape, expected.shape);
  for (let i = 0; i < expected.data.length; i++) {
    const [got, want] = [Number(actual.data[i]), Number(expected.data[i])];
    const isClose = Math.abs(got - want) <= tolerance * Math.max(1, Math.abs(want));
    assert.ok(isClose, `[${i}]: got ${got}, expected ${want}`);
  }
}
