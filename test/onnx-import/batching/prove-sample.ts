/** Proofs of small graphs, for the tests of single rules. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { readModel } from '../../../onnx-import/batching/model.ts';
import { type InputAxes, type Proof, proofOf } from '../../../onnx-import/batching/proof.ts';
import { type NodeSpec, onnxModel, type ValueSpec, type WeightSpec } from '../../support/onnx.ts';
import { temporaryFolder } from '../../support/runner.ts';

export const ML = 'ai.onnx.ml';

export interface Sample {
  /** Name to shape; float32, unless the name begins with `i`. */
  readonly inputs?: Readonly<Record<string, readonly (number | string)[]>>;
  readonly nodes: readonly NodeSpec[];
  /** Names of int64 lists. */
  readonly ints?: Readonly<Record<string, readonly number[]>>;
  /** Shapes of float32 weights, which are filled with 0, 1, 2 and so on. */
  readonly floats?: Readonly<Record<string, readonly number[]>>;
  readonly outputs?: readonly string[];
  /** Of each output. onnxruntime needs it, the proof does not. */
  readonly outputShape?: readonly (number | string)[];
  readonly opset?: number;
  readonly axes?: InputAxes;
  readonly extra?: Uint8Array;
  /** Rows of outputs may be on any axis. */
  readonly onAnyAxis?: boolean;
}

export async function prove(t: TestContext, sample: Sample): Promise<Proof> {
  const model = readModel(await writeSample(t, sample));
  return proofOf(model, sample.axes ?? new Map(), sample.onAnyAxis);
}

/** @returns the path of its model */
export async function writeSample(t: TestContext, sample: Sample): Promise<string> {
  const { inputs = { x: ['N', 4] }, nodes, ints = {}, floats = {}, outputs = ['y'], opset = 17 } = sample;
  const dtypeOf = (name: string) => (name.startsWith('i') ? ('int64' as const) : ('float32' as const));
  const spec = ([name, shape]: readonly [string, readonly (number | string)[]]): ValueSpec => ({
    name,
    dtype: dtypeOf(name),
    shape,
  });
  const weights: WeightSpec[] = [
    ...Object.entries(ints).map(([name, values]) => ({
      name,
      dtype: 'int64' as const,
      shape: [values.length],
      data: BigInt64Array.from(values, BigInt),
    })),
    ...Object.entries(floats).map(([name, shape]) => ({
      name,
      dtype: 'float32' as const,
      shape,
      data: Float32Array.from({ length: shape.reduce((a, b) => a * b, 1) }, (_, i) => i),
    })),
  ];
  const model = onnxModel({
    inputs: Object.entries(inputs).map(spec),
    outputs: outputs.map((name) => spec([name, sample.outputShape ?? []])),
    nodes,
    weights,
    opset,
    domains: { [ML]: 3, 'com.microsoft': 1, local: 1 },
  });
  const file = join(await temporaryFolder(t), 'model.onnx');
  writeFileSync(file, Buffer.concat([model, sample.extra ?? new Uint8Array(0)]));
  return file;
}

export const node = (
  op: string,
  inputs: string,
  outputs: string,
  attributes: NodeSpec['attributes'] = {},
  domain?: string,
): NodeSpec => ({
  op,
  inputs: inputs === '' ? [] : inputs.split(' ').map((name) => (name === '-' ? '' : name)),
  outputs: outputs.split(' '),
  attributes,
  ...(domain === undefined ? {} : { domain }),
});
