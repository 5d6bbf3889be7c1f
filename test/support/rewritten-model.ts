/** A model whose answer onnxruntime changes when it optimizes it. */
import { onnxModel } from './onnx.ts';

const one = (value: number) => Float32Array.of(value);

/**
 * y = x in this order: times 1e30, a convolution by 1e-30, times 1e-30, times 1e30. ConvMulFusion makes one weight of
 * the two small ones, 1e-60, which no float32 holds, and y becomes 0.
 */
export const rewrittenModel = onnxModel({
  inputs: [{ name: 'x', dtype: 'float32', shape: ['N', 1, 1, 1] }],
  outputs: [{ name: 'y', dtype: 'float32', shape: ['N', 1, 1, 1] }],
  nodes: [
    { op: 'Mul', inputs: ['x', 'up'], outputs: ['large'] },
    { op: 'Conv', inputs: ['large', 'weight'], outputs: ['convolved'] },
    { op: 'Mul', inputs: ['convolved', 'down'], outputs: ['small'] },
    { op: 'Mul', inputs: ['small', 'up'], outputs: ['y'] },
  ],
  weights: [
    { name: 'weight', dtype: 'float32', shape: [1, 1, 1, 1], data: one(1e-30) },
    { name: 'down', dtype: 'float32', shape: [1, 1, 1], data: one(1e-30) },
    { name: 'up', dtype: 'float32', shape: [1], data: one(1e30) },
  ],
});
