/** The frames between a client and a worker's service. Everything of an answer is checked. */
import { encodeFrame, FrameDecoder, type Header, ProtocolError } from '../../lib/codecs/values/frame.ts';
import { isObject, ValueReader } from '../../lib/codecs/values/read-value.ts';
import { ValueWriter } from '../../lib/codecs/values/write-value.ts';
import { errorCodeOf, ServingError } from '../../lib/contract/errors.ts';
import type { WorkerValue } from '../../lib/contract/worker-values.ts';
import { type BytesAnswer, errorOf, malformed } from '../fetch.ts';

/** A frame, in both directions. Thrown as `too_large`. */
export const MAX_FRAME_BYTES = 32 * 1024 * 1024;
export const MEDIA_TYPE = 'application/x-wkr';

/** A result that was fetched. `value` is null where there is an error. */
export interface WKRResult {
  readonly id: string;
  readonly value: WorkerValue;
  readonly error?: Error;
}

/** @throws TypeError with the path of what cannot be sent; too_large */
export function writeItem(
  value: WorkerValue,
  identity: string,
  id: string,
  isNpy: boolean,
): Buffer<ArrayBuffer> {
  const writer = new ValueWriter();
  const json = writer.write(value, 'value');
  if (isNpy && !(isObject(json) && json['$t'] === 'ndarray')) {
    throw new TypeError('value: the protocol npy sends tensors');
  }
  const chunks = encodeFrame({ type: 'encode', identity, id, value: json }, writer.blocks);
  const size = chunks.reduce((total, { byteLength }) => total + byteLength, 0);
  if (size <= MAX_FRAME_BYTES) return Buffer.concat(chunks);
  throw new ServingError('too_large', `value: ${size} bytes are over the limit of ${MAX_FRAME_BYTES}`);
}

/** @throws the error of the answer, when it has another status */
export function expect(status: number, url: string, answer: BytesAnswer): BytesAnswer {
  if (answer.status === status) return answer;
  throw answer.ok ? malformed(`the service answered ${answer.status}`) : errorOf(url, answer);
}

export function readFrame(answer: BytesAnswer, type: string): { header: Header; reader: ValueReader } {
  if (mediaTypeOf(answer) !== MEDIA_TYPE)
    throw malformed(`expected ${MEDIA_TYPE}: is it the url of a worker's service?`);
  return guarded(() => {
    const decoder = new FrameDecoder();
    const [frame, ...more] = decoder.push(answer.bytes);
    decoder.end();
    if (!frame || more.length > 0 || frame.header['type'] !== type)
      throw malformed(`expected a frame ${type}`);
    return { header: frame.header, reader: new ValueReader(frame.blocks) };
  });
}

export function readResult(id: string, outcome: unknown, reader: ValueReader, isLast = false): WKRResult {
  return guarded(() => {
    if (!isObject(outcome) || Object.keys(outcome).length !== 1) throw malformed('an outcome');
    if (Object.hasOwn(outcome, 'value')) {
      const value = reader.read(outcome['value']);
      if (isLast) reader.end();
      return { id, value };
    }
    const { error } = outcome;
    const { code, message } = isObject(error) ? error : {};
    if (typeof code !== 'string' || typeof message !== 'string') throw malformed('an error');
    return {
      id,
      value: null,
      error: new ServingError(errorCodeOf(code) ?? 'internal', message.slice(0, 4_096)),
    };
  });
}

function guarded<T>(read: () => T): T {
  try {
    return read();
  } catch (error) {
    if (error instanceof ProtocolError) throw malformed(error.message, error);
    throw error;
  }
}

/** Without its parameters. */
function mediaTypeOf({ headers }: BytesAnswer): string {
  return (headers.get('content-type') ?? '').split(';', 1).join().trim();
}
