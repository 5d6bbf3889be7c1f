/** Quantized weights of a pickle: whole numbers with one scale, or one for each place of the first axis. */
import { badModel } from '../../../../lib/contract/errors.ts';
import type { Tensor } from '../../../../lib/contract/tensor.ts';
import {
  type Pickled,
  PickledCall,
  PickledFloat,
  PickledGlobal,
  PickledTuple,
} from '../../../files/pickled.ts';
import { readStored, readTensor, type Storages } from './tensors.ts';

export interface QuantizedTensor {
  /** The distances from the zero point, in float32. */
  readonly tensor: Tensor;
  readonly scales: readonly number[];
}

/** A call of torch that makes a quantized tensor. */
export function isQuantized({ name }: PickledCall): boolean {
  return name === 'torch._utils._rebuild_qtensor';
}

/** @throws bad_model for what has its scales along another axis, or in float */
export function readQuantized(call: PickledCall, storages: Storages): QuantizedTensor {
  const tensor = readStored(call, storages);
  if (tensor.dtype !== 'int8' && tensor.dtype !== 'uint8')
    throw badModel(`a quantized tensor of ${tensor.dtype} is not supported`);
  const { scales, zeroPoints } = stepsOf(call.operands[4], storages);
  const rows = scales.length === 1 ? 1 : (tensor.shape[0] ?? 0);
  if (rows !== scales.length || rows !== zeroPoints.length)
    throw badModel(`a quantized tensor of [${tensor.shape.join(',')}] has ${scales.length} scales`);
  const length = tensor.data.length / rows;
  const data = new Float32Array(tensor.data.length);
  for (const [i, value] of tensor.data.entries())
    data[i] = Number(value) - (zeroPoints[Math.floor(i / length)] ?? 0);
  return { tensor: { dtype: 'float32', shape: tensor.shape, data }, scales };
}

function stepsOf(quantizer: Pickled | undefined, storages: Storages) {
  const [scheme, scale, zeroPoint, axis] = quantizer instanceof PickledTuple ? quantizer.items : [];
  const name = scheme instanceof PickledGlobal ? scheme.name : '';
  if (name === 'torch.per_tensor_affine' && typeof zeroPoint === 'number')
    return {
      scales: [scale instanceof PickledFloat ? Math.fround(scale.value) : Number.NaN],
      zeroPoints: [zeroPoint],
    };
  const isPerChannel = name === 'torch.per_channel_affine' && axis === 0;
  if (!isPerChannel || !(scale instanceof PickledCall) || !(zeroPoint instanceof PickledCall))
    throw badModel(`a quantized tensor of the kind ${name || 'unknown'} is not supported`);
  const numbers = (of: PickledCall) => Array.from(readTensor(of, storages).data, Number);
  return { scales: numbers(scale).map(Math.fround), zeroPoints: numbers(zeroPoint) };
}
