/** Small models of which one thing grows. */
import { type ModelSpec, onnxModel } from '../../test/support/onnx.ts';
import { type BenchModel, Weights, writeModel } from '../models.ts';

const LAYER = 1_024;

const GROWING = {
  /** vector: float32 [N, L], any L -> mean: float32 [N, 1] */
  mean: () => ({
    inputs: [{ name: 'vector', dtype: 'float32', shape: ['N', 'L'] }],
    outputs: [{ name: 'mean', dtype: 'float32', shape: ['N', 1] }],
    nodes: [
      { op: 'ReduceMean', inputs: ['vector'], outputs: ['mean'], attributes: { axes: [1], keepdims: 1 } },
    ],
  }),
  /** x: float32 [N, 1] -> y: float32 [N, size], x times 1, 2, 3, ... */
  output: (size) => {
    const data = Float32Array.from({ length: size }, (_, i) => i + 1);
    return {
      inputs: [{ name: 'x', dtype: 'float32', shape: ['N', 1] }],
      outputs: [{ name: 'y', dtype: 'float32', shape: ['N', size] }],
      nodes: [{ op: 'Mul', inputs: ['x', 'factors'], outputs: ['y'] }],
      weights: [{ name: 'factors', dtype: 'float32', shape: [1, size], data }],
    };
  },
  /** A chain of layers of 4 MiB, `size` bytes together. They differ, because onnxruntime keeps equal weights once. */
  layers: (size) => {
    const count = Math.max(1, Math.round(size / (LAYER * LAYER * 4)));
    const weights = new Weights(71);
    const nodes = Array.from({ length: count }, (_, i) => ({
      op: 'MatMul',
      inputs: [i === 0 ? 'x' : `h${i}`, weights.add(`w${i}`, [LAYER, LAYER], 2 * LAYER)],
      outputs: [i === count - 1 ? 'y' : `h${i + 1}`],
    }));
    const value = (name: string) => ({ name, dtype: 'float32' as const, shape: ['N', LAYER] });
    return { inputs: [value('x')], outputs: [value('y')], nodes, weights: weights.all };
  },
} as const satisfies Readonly<Record<string, (size: number) => ModelSpec>>;

export function growingModel(kind: keyof typeof GROWING, size: number, root: string): Promise<BenchModel> {
  const spec: ModelSpec = GROWING[kind](size);
  const [input = '', output = ''] = [spec.inputs[0]?.name, spec.outputs[0]?.name];
  const name = `${kind}-${size}`;
  return writeModel(root, onnxModel(spec), { name, about: name, input, output, rowShape: [] });
}
