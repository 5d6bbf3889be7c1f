/** Writes a .npy file (version 1) from a shape and numbers. */
const CODES = new Map<unknown, string>([
  [Float32Array, '<f4'],
  [Int32Array, '<i4'],
  [BigInt64Array, '<i8'],
  [Uint8Array, '|u1'],
]);

export function npyBytes(
  shape: readonly number[],
  data: Float32Array | Int32Array | BigInt64Array | Uint8Array,
  isFortran = false,
): Uint8Array {
  const dims = shape.length === 1 ? `${shape[0]},` : shape.join(', ');
  const order = isFortran ? 'True' : 'False';
  const text = `{'descr': '${CODES.get(data.constructor)}', 'fortran_order': ${order}, 'shape': (${dims}), }`;
  const header = text.padEnd(Math.ceil((text.length + 11) / 64) * 64 - 11);
  const head = Buffer.alloc(10);
  head.write('\u0093NUMPY\u0001\u0000', 'latin1');
  head.writeUInt16LE(header.length + 1, 8);
  return Buffer.concat([
    head,
    Buffer.from(`${header}\n`),
    new Uint8Array(data.buffer, data.byteOffset, data.byteLength),
  ]);
}
