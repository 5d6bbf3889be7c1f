/** Writes protobuf bytes from field numbers and values, for small files and broken ones. */

/** A varint of up to 64 bits, with negative numbers as in protobuf. */
export function varint(value: number | bigint): Buffer {
  let rest = BigInt.asUintN(64, BigInt(value));
  const groups: number[] = [];
  do {
    const more = rest > 0x7fn;
    groups.push(Number(rest & 0x7fn) | (more ? 0x80 : 0));
    rest >>= 7n;
  } while (rest > 0n);
  return Buffer.from(groups);
}

export function tag(field: number, wire: number): Buffer {
  return varint((BigInt(field) << 3n) | BigInt(wire));
}

/** A varint field: int, bool, enum. */
export function int(field: number, value: number | bigint | boolean): Buffer {
  return Buffer.concat([tag(field, 0), varint(typeof value === 'boolean' ? Number(value) : value)]);
}

/** A text, bytes, or a message made of its fields. */
export function bytes(field: number, ...content: readonly (string | Uint8Array)[]): Buffer {
  const body = Buffer.concat(content.map((part) => (typeof part === 'string' ? Buffer.from(part) : part)));
  return Buffer.concat([tag(field, 2), varint(body.length), body]);
}

export function float(field: number, value: number): Buffer {
  const body = Buffer.alloc(4);
  body.writeFloatLE(value);
  return Buffer.concat([tag(field, 5), body]);
}

export function fixed32(field: number, value: number): Buffer {
  const body = Buffer.alloc(4);
  body.writeUInt32LE(value >>> 0);
  return Buffer.concat([tag(field, 5), body]);
}

export function double(field: number, value: number): Buffer {
  const body = Buffer.alloc(8);
  body.writeDoubleLE(value);
  return Buffer.concat([tag(field, 1), body]);
}

/** A packed run of floats. */
export function floats(field: number, values: ArrayLike<number>): Buffer {
  return bytes(field, new Uint8Array(Float32Array.from(values).buffer));
}

/** A packed run of varints. */
export function ints(field: number, values: readonly (number | bigint)[]): Buffer {
  return bytes(field, ...values.map((value) => varint(value)));
}
