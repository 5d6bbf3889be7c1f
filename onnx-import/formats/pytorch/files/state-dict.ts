/** Reads a state_dict: tensors by name. No global of the pickle is resolved, and what is no tensor is left out. */
import type { Tensor } from '../../../../lib/contract/tensor.ts';
import { type Pickled, PickledCall } from '../../../files/pickled.ts';
import { openTorchFile } from './archive.ts';
import { readTensor } from './tensors.ts';

/** @throws bad_model */
export async function readStateDict(folder: string, name: string): Promise<ReadonlyMap<string, Tensor>> {
  const { root, storages } = await openTorchFile(folder, name);
  const items: ReadonlyMap<Pickled, Pickled> =
    root instanceof Map ? root : root instanceof PickledCall ? root.items : new Map();
  const tensors = new Map<string, Tensor>();
  for (const [key, value] of items) {
    if (typeof key === 'string' && value instanceof PickledCall)
      tensors.set(key, readTensor(value, storages));
  }
  return tensors;
}
