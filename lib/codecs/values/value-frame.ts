/** One value as bytes: a frame with nothing else in it. What is stored beside a result's text, for our own clients. */
import type { WorkerValue } from '../../contract/worker-values.ts';
import { encodeFrame, type Frame, FrameDecoder, ProtocolError } from './frame.ts';
import { ValueReader } from './read-value.ts';
import { ValueWriter } from './write-value.ts';

/** @throws TypeError with the path of what cannot be sent, RangeError when it is over the limits of a frame */
export function encodeValue(value: WorkerValue): Uint8Array {
  const writer = new ValueWriter();
  const json = writer.write(value, 'value');
  return Buffer.concat(encodeFrame({ value: json }, writer.blocks));
}

/** @returns the only frame. Its blocks cannot be larger than the bytes, so that no memory is taken for more. @throws ProtocolError */
export function decodeFrame(bytes: Uint8Array): Frame {
  const decoder = new FrameDecoder(bytes.byteLength);
  const frames = decoder.push(bytes);
  const { value: frame } = frames.next();
  // A million frames fit into the bytes of one, so the others are not read.
  if (!frame || !frames.next().done) throw new ProtocolError('malformed frame: expected one');
  decoder.end();
  return frame;
}

/** @throws ProtocolError */
export function decodeValue(bytes: Uint8Array): WorkerValue {
  const frame = decodeFrame(bytes);
  if (!('value' in frame.header)) throw new ProtocolError('malformed value: expected a frame with a value');
  const values = new ValueReader(frame.blocks);
  const value = values.read(frame.header['value']);
  values.end();
  return value;
}
