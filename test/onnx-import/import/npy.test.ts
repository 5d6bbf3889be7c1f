/** Reference data of other tools: .npy and .npz, with what people and broken downloads put into them. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { deflateRawSync } from 'node:zlib';
import { ServingError } from '../../../lib/contract/errors.ts';
import { readNpy, readNpz } from '../../../onnx-import/files/npy.ts';
import fc from '../../support/fast-check.ts';
import { npyBytes } from '../support/npy-bytes.ts';

test('numbers come with dtype and shape, in row-major order', () => {
  const plain = readNpy(npyBytes([2, 3], Float32Array.of(1, 2, 3, 4, 5, 6)), 'a');
  assert.deepEqual(plain, { dtype: 'float32', shape: [2, 3], data: Float32Array.of(1, 2, 3, 4, 5, 6) });
  const fortran = readNpy(npyBytes([2, 3], Float32Array.of(1, 4, 2, 5, 3, 6), true), 'a');
  assert.deepEqual(fortran.data, Float32Array.of(1, 2, 3, 4, 5, 6));
  assert.deepEqual(readNpy(npyBytes([], Int32Array.of(7)), 'a'), {
    dtype: 'int32',
    shape: [],
    data: Int32Array.of(7),
  });
  assert.deepEqual(readNpy(npyBytes([0], new Uint8Array(0)), 'a').shape, [0]);
});

test('texts of numpy come as texts', () => {
  const header = "{'descr': '<U3', 'fortran_order': False, 'shape': (2,), }\n";
  const wide = Buffer.alloc(24);
  for (const [i, letter] of Array.from('ab\0yes').entries())
    wide.writeUInt32LE(letter.codePointAt(0) as number, i * 4);
  const head = Buffer.from(`\u0093NUMPY\u0001\u0000${String.fromCharCode(header.length)}\u0000`, 'latin1');
  const { dtype, data } = readNpy(Buffer.concat([head, Buffer.from(header), wide]), 'a');
  assert.deepEqual([dtype, data], ['string', ['ab', 'yes']]);
});

/** What numpy 2 writes with dtype=object: [['a', 'é' in UTF-8], ['a', '']], and ['a', 3]. */
const OBJECTS =
  'k05VTVBZAQB2AHsnZGVzY3InOiAnfE8nLCAnZm9ydHJhbl9vcmRlcic6IEZhbHNlLCAnc2hhcGUnOiAoMiwgMiksIH0gICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgIAqABJWaAAAAAAAAAIwWbnVtcHkuX2NvcmUubXVsdGlhcnJheZSMDF9yZWNvbnN0cnVjdJSTlIwFbnVtcHmUjAduZGFycmF5lJOUSwCFlEMBYpSHlFKUKEsBSwJLAoaUaAOMBWR0eXBllJOUjAJPOJSJiIeUUpQoSwOMAXyUTk5OSv////9K/////0s/dJRiiV2UKIwBYZRDAsOplGgTjACUZXSUYi4=';
const MIXED_OBJECTS =
  'k05VTVBZAQB2AHsnZGVzY3InOiAnfE8nLCAnZm9ydHJhbl9vcmRlcic6IEZhbHNlLCAnc2hhcGUnOiAoMiwpLCB9ICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgIAqABJWQAAAAAAAAAIwWbnVtcHkuX2NvcmUubXVsdGlhcnJheZSMDF9yZWNvbnN0cnVjdJSTlIwFbnVtcHmUjAduZGFycmF5lJOUSwCFlEMBYpSHlFKUKEsBSwKFlGgDjAVkdHlwZZSTlIwCTziUiYiHlFKUKEsDjAF8lE5OTkr/////Sv////9LP3SUYoldlCiMAWGUSwNldJRiLg==';

test('texts in an array of objects come as texts, and other objects are refused', () => {
  const texts = readNpy(Buffer.from(OBJECTS, 'base64'), 'a');
  assert.deepEqual(texts, { dtype: 'string', shape: [2, 2], data: ['a', 'é', 'a', ''] });
  const refused = { code: 'bad_model', message: /its elements are objects; expected numbers or texts/ };
  assert.throws(() => readNpy(Buffer.from(MIXED_OBJECTS, 'base64'), 'a'), refused);
  const cut = Buffer.from(OBJECTS, 'base64').subarray(0, -9);
  assert.throws(() => readNpy(cut, 'a.npy'), { code: 'bad_model', message: /a\.npy: the pickle is cut off/ });
});

test('what is cut, of another byte order or of another length is refused', () => {
  const bytes = npyBytes([4], new Float32Array(4));
  for (const length of [0, 5, 11, 40, bytes.length - 1, bytes.length - 4]) {
    assert.throws(
      () => readNpy(bytes.subarray(0, length), 'f.npy'),
      (error: ServingError) => /bad_/.test(error.code),
    );
  }
  const swapped = Buffer.from(Buffer.from(bytes).toString('latin1').replace('<f4', '>f4'), 'latin1');
  assert.throws(() => readNpy(swapped, 'f.npy'), {
    code: 'bad_model',
    message: /f\.npy: .*>f4; expected little-endian/,
  });
});

test('random bytes with the right beginning end in an error of ours and in nothing else', () => {
  const bytes = npyBytes([2], new Float32Array(2));
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 120 }), fc.nat(bytes.length), (noise, at) => {
      const hostile = Buffer.concat([bytes.subarray(0, at), noise]);
      for (const read of [readNpy, readNpz]) {
        try {
          read(hostile, 'x');
        } catch (error) {
          assert.ok(error instanceof ServingError, String(error));
        }
      }
    }),
    { numRuns: 300 },
  );
});

function zipOf(entries: readonly (readonly [string, Uint8Array])[], claim?: number): Buffer {
  const parts: Buffer[] = [];
  const directory: Buffer[] = [];
  let offset = 0;
  for (const [name, content] of entries) {
    const packed = deflateRawSync(content);
    const local = Buffer.alloc(30);
    local.writeUInt32LE(0x04_03_4b_50, 0);
    local.writeUInt16LE(name.length, 26);
    const central = Buffer.alloc(46);
    central.writeUInt32LE(0x02_01_4b_50, 0);
    central.writeUInt16LE(8, 10);
    central.writeUInt32LE(packed.length, 20);
    central.writeUInt32LE(claim ?? content.length, 24);
    central.writeUInt16LE(name.length, 28);
    central.writeUInt32LE(offset, 42);
    parts.push(local, Buffer.from(name), packed);
    directory.push(central, Buffer.from(name));
    offset += 30 + name.length + packed.length;
  }
  const end = Buffer.alloc(22);
  end.writeUInt32LE(0x06_05_4b_50, 0);
  end.writeUInt16LE(entries.length, 10);
  end.writeUInt32LE(offset, 16);
  return Buffer.concat([...parts, ...directory, end]);
}

test('an npz gives its arrays by name; one that unpacks to more than it says is refused', () => {
  const entries = [
    ['in_x.npy', npyBytes([2], Float32Array.of(1, 2))],
    ['out_y.npy', npyBytes([1], Int32Array.of(3))],
  ] as const;
  const tensors = readNpz(zipOf(entries), 'r.npz');
  assert.deepEqual([...tensors.keys()], ['in_x', 'out_y']);
  assert.deepEqual(tensors.get('out_y')?.data, Int32Array.of(3));
  const bomb = zipOf([['in.npy', new Uint8Array(100_000)]], 100);
  assert.throws(() => readNpz(bomb, 'r.npz'), { code: 'bad_model', message: /r\.npz/ });
  assert.throws(() => readNpz(Buffer.from('no zip'), 'r.npz'), {
    code: 'bad_model',
    message: /no \.npz file/,
  });
});
