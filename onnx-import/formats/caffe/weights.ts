/**
 * Reads the blobs of each layer from a caffemodel, by the layer's name. Old files have four legacy dimensions and
 * BigDL writes zeros, so only the number of elements is reliable; it is compared with what the layer needs.
 */
import { badModel } from '../../../lib/contract/errors.ts';
import { widenHalves } from '../../graph/halves.ts';
import { readMessage } from '../../wire/binary.ts';
import {
  bytesOf,
  has,
  messageOf,
  messagesOf,
  numberOf,
  numbersOf,
  plainNumbersOf,
  textOf,
} from '../../wire/message.ts';
import type { Message } from '../../wire/table.ts';
import { NET_WEIGHTS } from './tables.ts';

export interface Blob {
  /** The shape in the file; undefined when it is useless. */
  readonly shape: readonly number[] | undefined;
  /** A view of the file when its numbers are float32. */
  readonly data: Float32Array;
}

export type Weights = ReadonlyMap<string, readonly Blob[]>;

/** @throws bad_model naming `file` and the offset or layer */
export function readWeights(bytes: Uint8Array, file: string): Weights {
  const net = readMessage(bytes, NET_WEIGHTS, { what: file });
  const weights = new Map<string, Blob[]>();
  for (const layer of [...messagesOf(net, 'layers'), ...messagesOf(net, 'layer')]) {
    const old = messageOf(layer, 'layer');
    const name = textOf(layer, 'name') || (old ? textOf(old, 'name') : '');
    const blobs = [...messagesOf(layer, 'blobs'), ...(old ? messagesOf(old, 'blobs') : [])];
    if (blobs.length > 0)
      weights.set(
        name,
        blobs.map((blob, i) => readBlob(blob, `${file}: blob ${i} of layer "${name}"`)),
      );
  }
  return weights;
}

function readBlob(blob: Message, what: string): Blob {
  const data = readNumbers(blob, what);
  const dims = has(blob, 'shape')
    ? plainNumbersOf(messageOf(blob, 'shape') as Message, 'dim')
    : legacyDims(blob);
  if (dims === undefined || dims.some((dim) => dim === 0)) return { shape: undefined, data };
  const size = dims.reduce((product, dim) => product * dim, 1);
  if (!dims.every((dim) => Number.isSafeInteger(dim) && dim > 0) || size !== data.length)
    throw badModel(`${what}: shape [${dims.slice(0, 10).join(',')}] and ${data.length} numbers`);
  return { shape: dims, data };
}

function legacyDims(blob: Message): number[] | undefined {
  const names = ['num', 'channels', 'height', 'width'];
  return names.every((name) => has(blob, name)) ? names.map((name) => numberOf(blob, name)) : undefined;
}

function readNumbers(blob: Message, what: string): Float32Array {
  const single = numbersOf(blob, 'data');
  if (single && single.length > 0) return single as Float32Array;
  const double = numbersOf(blob, 'double_data');
  if (double && double.length > 0) return Float32Array.from(double as Float64Array);
  const raw = bytesOf(blob, 'raw_data');
  // NVIDIA's Caffe stores raw bytes, also in half precision.
  const type = numberOf(blob, 'raw_data_type', -1);
  const size = [8, 4, 2][type];
  if (raw.length === 0 || size === undefined || raw.length % size !== 0)
    throw badModel(`${what}: has no numbers (raw bytes: ${raw.length} of type ${type})`);
  const aligned = raw.slice();
  if (type === 0) return Float32Array.from(new Float64Array(aligned.buffer));
  return type === 1 ? new Float32Array(aligned.buffer) : widenHalves(new Uint16Array(aligned.buffer), 'half');
}
