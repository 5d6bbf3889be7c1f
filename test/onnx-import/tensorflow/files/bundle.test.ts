/** TensorFlow's file of variables: tables, blocks, shards and pieces, whole and broken. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { ServingError } from '../../../../lib/contract/errors.ts';
import { Bundle } from '../../../../onnx-import/formats/tensorflow/files/bundle/bundle.ts';
import { crc32c } from '../../../../onnx-import/formats/tensorflow/files/bundle/crc32c.ts';
import { parseSlice, sliceKey } from '../../../../onnx-import/formats/tensorflow/files/bundle/slices.ts';
import { decodeSnappy } from '../../../../onnx-import/formats/tensorflow/files/bundle/snappy.ts';
import { keyOf, readTable } from '../../../../onnx-import/formats/tensorflow/files/bundle/table.ts';
import { ModelFolder } from '../../../../onnx-import/formats/tensorflow/files/folder.ts';
import fc from '../../../support/fast-check.ts';
import { type BundleTensor, bundleFiles, compress, levelTable } from '../../support/bundle.ts';
import { folderOf } from '../../support/folder.ts';
import { bytes, int } from '../../support/protobuf.ts';
import { DT, shape } from '../../support/tensorflow.ts';

function refuses(run: () => unknown, pattern: RegExp): void {
  assert.throws(run, (error: unknown) => {
    assert.ok(error instanceof ServingError, String(error));
    assert.equal(error.code, 'bad_model');
    assert.match(error.message, pattern);
    return true;
  });
}

async function bundleOf(t: TestContext, files: Readonly<Record<string, Uint8Array>>): Promise<Bundle> {
  return new Bundle(new ModelFolder(await folderOf(t, files)), 'v');
}

test('CRC-32C gives the published check values', () => {
  assert.equal(crc32c(Buffer.from('123456789')), 0xe3069283);
  assert.equal(crc32c(new Uint8Array(32)), 0x8a9136aa);
  assert.equal(crc32c(Buffer.from('6789'), crc32c(Buffer.from('12345'))), 0xe3069283);
});

test('a table gives back its entries, over many blocks, shared keys and Snappy', () => {
  const names = Array.from({ length: 40 }, (_, i) => `layer_${i % 7}/kernel_${i}/größe`);
  const entries = new Map(names.map((name, i) => [keyOf(name), Buffer.from(`value ${i} `.repeat(i))]));
  for (const options of [{}, { snappy: true }, { perBlock: 11 }, { snappy: true, perBlock: 40 }]) {
    const table = readTable(levelTable(entries, options), 'v.index');
    assert.equal(table.size, 40);
    for (const [key, value] of entries) assert.ok(value.equals(table.get(key) ?? Buffer.alloc(0)), key);
  }
});

test('Snappy: literals of any length and copies that overlap what they write', () => {
  const both = Buffer.from([8, 0, 97, (0 << 2) | 1, 1, 4, 98, 99, (0 << 2) | 2, 7, 0]);
  assert.equal(Buffer.from(decodeSnappy(both, 100)).toString(), 'aaaaabca');
  const run = Buffer.from([7, 0, 97, (0 << 2) | 1, 1, 4, 98, 99]);
  assert.equal(Buffer.from(decodeSnappy(run, 100)).toString(), 'aaaaabc');
  fc.assert(
    fc.property(fc.string({ maxLength: 300 }), fc.nat(40), (text, times) => {
      const raw = Buffer.from(text.repeat(times) + 'abcdefgh'.repeat(times));
      assert.ok(raw.equals(decodeSnappy(compress(raw), 1 << 20)));
    }),
    { numRuns: 200 },
  );
});

test('Snappy: a block that lies about itself is refused', () => {
  refuses(() => decodeSnappy(Buffer.from([0xff, 0xff, 0xff, 0xff, 0x0f]), 1000), /over the limit of 1000/);
  refuses(() => decodeSnappy(Buffer.from([200, 5, 0, 97]), 1000), /cannot hold a block of 712/);
  refuses(() => decodeSnappy(Buffer.from([4, 0, 97]), 1000), /says 4 bytes and has 1/);
  refuses(() => decodeSnappy(Buffer.from([1, 4, 97, 98]), 1000), /longer than it says/);
  refuses(() => decodeSnappy(Buffer.from([5, 0, 97, 1, 9]), 1000), /outside of itself/);
  refuses(() => decodeSnappy(Buffer.from([9, 32, 97]), 1000), /cut off/);
  refuses(() => decodeSnappy(Buffer.from([]), 1000), /cut off/);
});

test('a cut or changed table is refused or still right, never read wrongly', () => {
  const entries = new Map([
    ['', int(1, 1)],
    ['a', Buffer.from('first')],
    ['ab', Buffer.from('second')],
  ]);
  const file = levelTable(entries, { snappy: true });
  for (let cut = 0; cut < file.length; cut += 1)
    refuses(() => readTable(file.subarray(0, cut), 'v.index'), /v\.index/);
  for (let at = 0; at < file.length; at += 1) {
    const changed = Buffer.from(file);
    changed.writeUInt8((changed.readUInt8(at) + 1) % 256, at);
    try {
      const table = readTable(changed, 'v.index');
      assert.deepEqual([...table.keys()], ['', 'a', 'ab']);
    } catch (error) {
      assert.equal((error as ServingError).code, 'bad_model', `byte ${at}`);
    }
  }
});

test('random bytes before a right footer are refused, never anything else', () => {
  const magic = Buffer.from([0x57, 0xfb, 0x80, 0x8b, 0x24, 0x75, 0x47, 0xdb]);
  fc.assert(
    fc.property(fc.uint8Array({ minLength: 40, maxLength: 120 }), (random) => {
      assert.throws(() => readTable(Buffer.concat([random, magic]), 'v.index'), { code: 'bad_model' });
    }),
    { numRuns: 500 },
  );
});

test('variables come back from the shard they are in', async (t) => {
  const bundle = await bundleOf(
    t,
    bundleFiles(
      'v',
      {
        w: { shape: [2, 3], data: [1, 2, 3, 4, 5, 6] },
        'größe/b': { shape: [], data: [7], shard: 2 },
        empty: { shape: [0, 4], data: [], shard: 1 },
        text: { shape: [], data: Buffer.from('a text') },
      },
      { shards: 3, snappy: true },
    ),
  );
  assert.deepEqual(bundle.read('w'), {
    dtype: 'float32',
    shape: [2, 3],
    data: new Float32Array([1, 2, 3, 4, 5, 6]),
  });
  assert.deepEqual(bundle.read('größe/b').data, new Float32Array([7]));
  assert.deepEqual(bundle.read('empty').shape, [0, 4]);
  assert.deepEqual(bundle.read('text').data, ['a text']);
  assert.equal(bundle.has('nothing'), false);
  assert.deepEqual(bundle.read('w', '2 3 1,1:0,2'), {
    dtype: 'float32',
    shape: [1, 2],
    data: new Float32Array([4, 5]),
  });
  assert.deepEqual(bundle.read('w', '2 3 -:2,1').data, new Float32Array([3, 6]));
  refuses(() => bundle.read('nothing'), /v\.index: variable "nothing": .*is not there/);
  refuses(() => bundle.read('w', '3 3 0,1:-'), /its shape is \[2,3\], expected \[3,3\]/);
});

/** A variable of [4,3] in two pieces, one of three rows and one of a single row, as a partitioned variable is saved. */
function partitioned(lengths: readonly [number, number] = [3, 1]): Record<string, Buffer> {
  const extent = (start: number, length: number): Buffer => bytes(1, int(1, start), int(2, length));
  const full = bytes(1);
  const whole = Buffer.concat([
    int(1, DT.float),
    bytes(2, shape([4, 3])),
    bytes(7, extent(0, lengths[0]), full),
    bytes(7, extent(3, lengths[1]), full),
  ]);
  const pieces: Record<string, BundleTensor> = {};
  const keys = [
    sliceKey('w', [
      { start: 0, length: 3 },
      { start: 0, length: -1 },
    ]),
    sliceKey('w', [
      { start: 3, length: 1 },
      { start: 0, length: -1 },
    ]),
  ];
  const rows = [
    [1, 2, 3, 4, 5, 6, 7, 8, 9],
    [10, 11, 12],
  ];
  for (const [i, data] of rows.entries()) pieces[`piece ${i}`] = { shape: [data.length / 3, 3], data };
  const files = bundleFiles('v', pieces);
  const table = readTable(files['v.index'] as Buffer, 'v.index');
  const entries = new Map([...table].filter(([key]) => !key.startsWith('piece')));
  for (const [i, key] of keys.entries()) entries.set(key, table.get(`piece ${i}`) as Uint8Array);
  entries.set('w', whole);
  return { ...files, 'v.index': levelTable(entries) };
}

test('a variable saved in pieces is put together, and parts of it are cut from the pieces', async (t) => {
  const bundle = await bundleOf(t, partitioned());
  assert.deepEqual(bundle.read('w').data, new Float32Array([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]));
  assert.deepEqual(bundle.read('w', '4 3 2,2:1,2').data, new Float32Array([8, 9, 11, 12]));
  const broken = await bundleOf(t, partitioned([4, 1]));
  refuses(() => broken.read('w'), /not there/);
  const outside = await bundleOf(t, partitioned([3, 9]));
  refuses(() => outside.read('w'), /outside of it/);
});

test('keys of pieces are written as TensorFlow orders them', () => {
  const key = sliceKey('w', [
    { start: 0, length: -1 },
    { start: 64, length: 300 },
  ]);
  // 0; "w", 0 1; two dimensions; 0, -1; 64, 300.
  assert.equal(
    Buffer.from(key, 'latin1').toString('hex'),
    ['00', '770001', '0102', '80', '7f', 'c040', 'c12c'].join(''),
  );
});

test('parts of tensors that cannot be are refused', () => {
  for (const part of ['4', '4 3 0,1', '4 3 0,9:-', '4 3 -1,2:-', '4 3 a,b:-', 'x y -:-', '4 3 0,1.5:-']) {
    refuses(() => parseSlice(part), /does not specify a part of a tensor/);
  }
  assert.equal(parseSlice(''), undefined);
});

test('an index that lies about its data is refused before memory is taken', async (t) => {
  const lies: [BundleTensor, RegExp][] = [
    [{ shape: [2 ** 30], data: [1] }, /it has 4 bytes, its shape says 4294967296/],
    [{ shape: [2 ** 30, 2 ** 30], data: [1] }, /over the limit/],
    [
      { shape: [1], data: [1], entry: { offset: 2 ** 50 } },
      /v\.data-00000-of-00001 has 4 bytes.*is it cut off/,
    ],
    [{ shape: [1], data: [1], entry: { shard: 7 } }, /data file 7, there are 1/],
    [{ shape: [1], data: [1], entry: { shard: -1 } }, /data file -1/],
    [{ shape: [1], data: [1], entry: { crc: 1 } }, /do not have their checksum/],
    [{ shape: [-1], data: [1] }, /shape that is not known/],
    [{ shape: [-5], data: [1] }, /a dimension must be/],
  ];
  for (const [tensor, pattern] of lies) {
    const bundle = await bundleOf(t, bundleFiles('v', { w: tensor }));
    refuses(() => bundle.read('w'), pattern);
  }
});

test('a missing or cut data file is refused with its name', async (t) => {
  const { 'v.index': index } = bundleFiles('v', { w: { shape: [1], data: [1] } });
  const bundle = await bundleOf(t, { 'v.index': index as Buffer });
  refuses(() => bundle.read('w'), /v\.data-00000-of-00001 is missing/);
  const cut = await bundleOf(t, { 'v.index': index as Buffer, 'v.data-00000-of-00001': Buffer.alloc(2) });
  refuses(() => cut.read('w'), /has 2 bytes, 4 bytes at 0 were expected/);
});

test('an index without a header, or of the other byte order, is refused', async (t) => {
  await assert.rejects(
    bundleOf(t, { 'v.index': levelTable(new Map([['a', Buffer.from('x')]])) }),
    /no header/,
  );
  const big = levelTable(new Map([['', Buffer.concat([int(1, 1), int(2, 1)])]]));
  await assert.rejects(bundleOf(t, { 'v.index': big }), /big-endian/);
  const many = levelTable(new Map([['', int(1, 2 ** 31 - 1)]]));
  await assert.rejects(bundleOf(t, { 'v.index': many }), /2147483647 data files/);
});

test('names that lead out of the directory are refused', async (t) => {
  const folder = new ModelFolder(await folderOf(t, { 'v.index': '' }));
  for (const name of ['../secret', '/etc/hostname', 'a/../../b', 'a\0b']) {
    refuses(() => folder.read(name), /outside of the model's directory/);
  }
  refuses(() => folder.read('absent'), /absent is missing/);
  refuses(() => folder.read('.'), /is missing/);
});
