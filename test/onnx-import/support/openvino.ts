/** Small OpenVINO models for tests: the XML is written from layers, the weights from typed arrays. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Tensor } from '../../../lib/contract/tensor.ts';
import type { NamedTensor } from '../../../lib/contract/values.ts';
import { openSession } from '../../../lib/inference/session.ts';
import { convertIr } from '../../../onnx-import/formats/openvino/convert.ts';
import type { Body } from '../../../onnx-import/graph/value.ts';
import { writeOnnx } from '../../../onnx-import/onnx/write.ts';
import type { ConvertOptions } from '../../../onnx-import/source/convert-options.ts';

export interface LayerText {
  readonly id: number;
  readonly name?: string;
  readonly type: string;
  readonly opset?: string;
  readonly data?: Readonly<Record<string, string | number>>;
  /** The layers that its inputs come from, each from its only output. */
  readonly from?: readonly number[];
  /** Sizes of each output. */
  readonly shapes?: readonly (readonly number[])[];
  readonly precision?: string;
  readonly blobs?: Readonly<Record<string, readonly [offset: number, bytes: number]>>;
  readonly inner?: string;
}

/** Outputs have the ports 10, 11 and so on. */
const FIRST_OUTPUT = 10;

function portText(id: number, shape: readonly number[], precision: string): string {
  return `<port id="${id}" precision="${precision}">${shape.map((dim) => `<dim>${dim}</dim>`).join('')}</port>`;
}

export function netText(version: number, layers: readonly LayerText[]): string {
  const shapeOf = new Map(layers.map(({ id, shapes }) => [id, shapes?.[0] ?? []]));
  const texts = layers.map((layer) => {
    const {
      id,
      name = `layer${id}`,
      type,
      opset,
      data = {},
      from = [],
      shapes = [],
      precision = 'FP32',
    } = layer;
    const inputs = from.map((source, i) => portText(i, shapeOf.get(source) ?? [], precision));
    const outputs = shapes.map((shape, i) => portText(FIRST_OUTPUT + i, shape, precision));
    const attributes = Object.entries(data).map(([key, value]) => ` ${key}="${value}"`);
    const blobs = Object.entries(layer.blobs ?? {}).map(
      ([key, [at, size]]) => `<${key} offset="${at}" size="${size}"/>`,
    );
    return (
      `<layer id="${id}" name="${name}" type="${type}"${version >= 10 ? ` version="${opset ?? 'opset1'}"` : ` precision="${precision}"`}>` +
      `<data${attributes.join('')}/><input>${inputs.join('')}</input><output>${outputs.join('')}</output>` +
      `<blobs>${blobs.join('')}</blobs>${layer.inner ?? ''}</layer>`
    );
  });
  const edges = layers.flatMap(({ id, from = [] }) =>
    from.map(
      (source, i) =>
        `<edge from-layer="${source}" from-port="${FIRST_OUTPUT}" to-layer="${id}" to-port="${i}"/>`,
    ),
  );
  return `<?xml version="1.0"?><net name="net" version="${version}"><layers>${texts.join('')}</layers><edges>${edges.join('')}</edges></net>`;
}

export function filesOf(xml: string, weights: Uint8Array = new Uint8Array()) {
  return { xml: { name: 'net.xml', text: xml }, weights: { name: 'net.bin', bytes: weights } };
}

export function floats(...numbers: readonly number[]): Tensor {
  return { dtype: 'float32', shape: [numbers.length], data: Float32Array.from(numbers) };
}

export function shaped(shape: readonly number[], ...numbers: readonly number[]): Tensor {
  return { ...floats(...numbers), shape };
}

export function bytesOf(...arrays: readonly (Float32Array | BigInt64Array | Int32Array)[]): Uint8Array {
  return Buffer.concat(
    arrays.map(({ buffer, byteOffset, byteLength }) => new Uint8Array(buffer, byteOffset, byteLength)),
  );
}

/** Runs a graph with inputs in its order. */
export async function runGraph(graph: Body, inputs: readonly Tensor[]): Promise<readonly NamedTensor[]> {
  const folder = await mkdtemp(join(tmpdir(), 'cs-openvino-'));
  try {
    await writeOnnx(graph, join(folder, 'model.onnx'), { producerVersion: '' });
    const session = await openSession(join(folder, 'model.onnx'), { threads: 1 });
    try {
      return await session.run(inputs);
    } finally {
      await session.close();
    }
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** The numbers of the first output, of the model with a free batch where there is one. */
export async function answerOf(
  xml: string,
  inputs: readonly Tensor[],
  weights?: Uint8Array,
  options: ConvertOptions = {},
): Promise<{ shape: readonly number[]; data: readonly number[] }> {
  const [first] = await runGraph(convertIr(filesOf(xml, weights), options).graph, inputs);
  return { shape: first?.shape ?? [], data: Array.from(first?.data ?? [], Number) };
}
