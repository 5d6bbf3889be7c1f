/** Takes a protobuf message apart and puts it together again: what is not changed stays as it lies in the file. */
import { badModel, DAMAGED } from '../../../lib/contract/errors.ts';
import { bytes, type Chunk, message } from '../../wire/chunk.ts';

export interface RawField {
  readonly number: number;
  /** The content of a length-delimited field; empty for numbers. */
  readonly content: Uint8Array;
  /** The whole field, tag included. */
  readonly raw: Uint8Array;
}

const MAX_FIELDS = 2_000_000;

/** The fields of one message, as views. @throws bad_model for a message that is cut off */
export function fieldsOf(from: Uint8Array): RawField[] {
  const fields: RawField[] = [];
  let at = 0;
  const varint = () => {
    let value = 0;
    for (let scale = 1; scale <= 2 ** 63; scale *= 128) {
      const byte = from[at++];
      if (byte === undefined) break;
      value += (byte & 0x7f) * scale;
      if (byte < 0x80) return value;
    }
    throw badModel(DAMAGED);
  };
  while (at < from.length) {
    const start = at;
    const tag = varint();
    const wire = tag % 8;
    let length = wire === 1 ? 8 : wire === 5 ? 4 : 0;
    if (wire === 0) varint();
    else if (wire === 2) length = varint();
    else if (length === 0) throw badModel(DAMAGED);
    if (length > from.length - at || fields.length >= MAX_FIELDS) throw badModel(DAMAGED);
    const content = wire === 2 ? from.subarray(at, at + length) : from.subarray(at, at);
    at += length;
    fields.push({ number: Math.floor(tag / 8), content, raw: from.subarray(start, at) });
  }
  return fields;
}

/** The message with every field of this number replaced; `undefined` keeps one, an empty list drops it. */
export function replaceFields(
  from: Uint8Array,
  replace: (field: RawField) => readonly Chunk[] | undefined,
): Chunk {
  return message(fieldsOf(from).flatMap((item) => replace(item) ?? [asIs(item.raw)]));
}

export function asIs(raw: Uint8Array): Chunk {
  return { parts: [raw], length: raw.length };
}

/** A length-delimited field with these bytes as they are. */
export function field(number: number, content: Uint8Array): Chunk {
  return bytes(number, asIs(content));
}
