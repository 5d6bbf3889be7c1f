/** Makes a worker's item of a record: its only input, or a dict of them. */

import { DEFAULT_IMAGE, decodeImage, imageTensor } from '../codecs/image/image.ts';
import { isTensorLike } from '../codecs/values/tensor-like.ts';
import { badInput } from '../contract/errors.ts';
import { contentOf, JsonNumbers } from '../contract/json-numbers.ts';
import { LIMITS } from '../contract/limits.ts';
import { elementAt } from '../contract/present.ts';
import type { Inputs, Value } from '../contract/values.ts';
import { EncodedImage, isEncodedImage, type WorkerValue } from '../contract/worker-values.ts';
import { jsonTensor } from '../pipeline/bind/numbers.ts';
import { densify } from '../pipeline/bind/sparse.ts';
import type { ImageForm, Open } from './messages.ts';

export interface ItemSettings {
  readonly imageAs: ImageForm;
  readonly transferProto: Open['transferProto'];
}

/** @throws bad_input and the errors of reading an image */
export async function itemOf(record: Inputs, settings: ItemSettings): Promise<WorkerValue> {
  const values = await Promise.all([...record.values()].map((value) => valueOf(value, settings)));
  if (settings.transferProto === 'npy') {
    const wrong = values.findIndex((value) => !isTensorLike(value));
    if (wrong >= 0)
      throw badInput(`input ${JSON.stringify([...record.keys()][wrong])}: this worker takes arrays`);
  }
  const [only, ...more] = values;
  if (only !== undefined && more.length === 0) return only;
  return Object.fromEntries([...record.keys()].map((name, i) => [name, elementAt(values, i, 'values')]));
}

async function valueOf(value: Value, settings: ItemSettings): Promise<WorkerValue> {
  switch (value.kind) {
    case 'tensor':
      return value.tensor;
    case 'sparse':
      return densify(value, value.values.dtype, false);
    case 'image':
      return imageOf(value.bytes, settings);
    case 'text':
      return value.text;
    case 'json':
      // The result of JSON.parse is a valid value.
      return settings.transferProto === 'npy' ? arrayOf(contentOf(value)) : (value.value as WorkerValue);
    case 'value':
      return isEncodedImage(value.value) ? imageOf(value.value.bytes, settings) : value.value;
  }
}

/** Numbers of JSON, as the model's own clients send them to a worker of arrays: float32, which models compute in. */
function arrayOf(value: unknown): WorkerValue {
  return jsonTensor(value, 'float32');
}

/** `rgb` is decoded here, so that both languages get the same pixels; the other forms are made by the worker's process. */
async function imageOf(bytes: Uint8Array, { imageAs }: ItemSettings): Promise<WorkerValue> {
  if (imageAs !== 'rgb') return new EncodedImage(bytes);
  const pixels = await decodeImage(bytes);
  return imageTensor(pixels, { ...DEFAULT_IMAGE, channels: 'rgb', layout: 'hwc' }, 'uint8');
}

/** Records with the same key can be stacked: arrays of one dtype and shape. Others share no batch. */
export function stackKey(record: Inputs): string {
  return [...record.values()].map(keyOfValue).join(';');
}

function keyOfValue(value: Value): string {
  if (value.kind === 'tensor') return `${value.tensor.dtype} ${value.tensor.shape.join(',')}`;
  if (value.kind === 'sparse') return `${value.values.dtype} ${value.shape.join(',')}`;
  if (value.kind === 'value') {
    const { value: item } = value;
    return isTensorLike(item) ? `${item.dtype} ${item.shape.join(',')}` : typeof item;
  }
  return value.kind === 'json' ? `float32 ${shapeOf(contentOf(value)).join(',')}` : value.kind;
}

/**
 * Takes the shape from the first items of nested lists. If the others differ, no array can be made, and the item fails
 * alone.
 */
function shapeOf(value: unknown): readonly number[] {
  if (value instanceof JsonNumbers) return value.shape;
  const shape: number[] = [];
  for (let at = value; Array.isArray(at) && shape.length <= LIMITS.tensorRank; at = at[0])
    shape.push(at.length);
  return shape;
}
