/**
 * Reads the inputs and outputs of a SignatureDef by their public names, sorted as TensorFlow does. Sparse and ragged
 * tensors are refused with their names.
 */
import { badModel } from '../../../../lib/contract/errors.ts';
import { has, mapOf, messageOf, numberOf, textOf } from '../../../wire/message.ts';
import type { Message, MessageMap } from '../../../wire/table.ts';
import type { NamedTensor } from './names.ts';
import { splitGraphInput } from './raw.ts';
import { readShape } from './tensor.ts';
import { tfType } from './types.ts';

export interface Signature {
  readonly inputs: readonly NamedTensor[];
  readonly outputs: readonly NamedTensor[];
}

export function readSignature(signature: Message, name: string, file: string): Signature {
  const where = `${file}: signature "${name}"`;
  return {
    inputs: readTensors(mapOf(signature, 'inputs'), where),
    outputs: readTensors(mapOf(signature, 'outputs'), where),
  };
}

function readTensors(tensors: MessageMap, where: string): NamedTensor[] {
  const sorted = [...(tensors as ReadonlyMap<string, Message>)].toSorted(([a], [b]) => (a < b ? -1 : 1));
  return sorted.map(([name, info]) => {
    if (has(info, 'coo_sparse') || has(info, 'composite_tensor')) {
      throw badModel(`${where}: "${name}" is a sparse or composite tensor, which is not supported`);
    }
    const tensor = splitGraphInput(textOf(info, 'name'));
    const type = numberOf(info, 'dtype');
    const shape = messageOf(info, 'tensor_shape');
    return {
      name,
      tensor,
      ...(type === 0 ? {} : { dtype: tfType(type) }),
      ...(shape === undefined ? {} : { shape: readShape(shape) }),
    };
  });
}
