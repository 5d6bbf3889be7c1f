import assert from 'node:assert/strict';
import { test } from 'node:test';
import { decodeData, decodeMessage, encodeMessage, wireRecord } from '../../../lib/codecs/message.ts';
import { decodePointer, encodePointer } from '../../../lib/codecs/pointer.ts';
import { decodeTensors, encodeTensors, readTensorFile } from '../../../lib/codecs/safetensors.ts';
import { ServingError } from '../../../lib/contract/errors.ts';
import type { Tensor } from '../../../lib/contract/tensor.ts';
import type { Inputs, Value } from '../../../lib/contract/values.ts';
import { type RecordInputs, toInputs } from '../../../sdk/inputs.ts';
import fc from '../../support/fast-check.ts';
import { fixture } from '../../support/fixtures.ts';

async function throughMessage(values: RecordInputs): Promise<Inputs> {
  const { uri, inputs } = decodeMessage(encodeMessage('a:b', await toInputs(values)));
  assert.equal(uri, 'a:b');
  if (inputs instanceof ServingError) throw inputs;
  return inputs;
}

function outcomeOf(decode: () => Inputs): Inputs | string {
  try {
    return decode();
  } catch (error) {
    return (error as Error).message;
  }
}

const tensorOf = (inputs: Inputs, name: string): Tensor => {
  const value = inputs.get(name);
  assert.ok(value?.kind === 'tensor');
  return value.tensor;
};

test('every kind of input, mixed in one record, arrives as it left', async () => {
  const inputs = await throughMessage({
    numbers: [
      [1, 2, 3],
      [4, 5, 6],
    ],
    scalar: 7,
    precise: [0.1],
    ids: BigInt64Array.of(9_007_199_254_740_993n),
    flags: { data: [true, false].map(Number), shape: [2], dtype: 'bool' },
    words: ['hello', 'wörld|bar'],
    nested: [['a', 'b']],
    image: { bytes: Buffer.from([1, 2, 3]) },
    sparse: {
      indices: [
        [0, 1],
        [1, 0],
      ],
      values: [5, 6],
      shape: [2, 3],
    },
  });
  assert.deepEqual(
    [...inputs.keys()],
    ['numbers', 'scalar', 'precise', 'ids', 'flags', 'words', 'nested', 'image', 'sparse'],
  );
  assert.deepEqual(tensorOf(inputs, 'numbers'), {
    dtype: 'float32',
    shape: [2, 3],
    data: Float32Array.of(1, 2, 3, 4, 5, 6),
  });
  assert.deepEqual(tensorOf(inputs, 'scalar'), { dtype: 'float32', shape: [], data: Float32Array.of(7) });
  assert.deepEqual(tensorOf(inputs, 'precise'), { dtype: 'float64', shape: [1], data: Float64Array.of(0.1) });
  assert.deepEqual(tensorOf(inputs, 'ids').data, BigInt64Array.of(9_007_199_254_740_993n));
  assert.deepEqual(tensorOf(inputs, 'flags'), { dtype: 'bool', shape: [2], data: Uint8Array.of(1, 0) });
  assert.deepEqual(tensorOf(inputs, 'words'), { dtype: 'string', shape: [2], data: ['hello', 'wörld|bar'] });
  assert.deepEqual(tensorOf(inputs, 'nested'), { dtype: 'string', shape: [1, 2], data: ['a', 'b'] });
  const image = inputs.get('image');
  assert.deepEqual(image?.kind === 'image' && [...image.bytes], [1, 2, 3]);
  const sparse = inputs.get('sparse');
  assert.ok(sparse?.kind === 'sparse');
  assert.deepEqual(
    [sparse.shape, [...sparse.indices], sparse.indicesShape],
    [
      [2, 3],
      [0, 1, 1, 0],
      [2, 2],
    ],
  );
  assert.deepEqual([...(sparse.values.data as Float32Array)], [5, 6]);
});

test('a text arrives as the one of a tensor', () => {
  const { inputs } = decodeMessage(encodeMessage('a', new Map([['word', { kind: 'text', text: 'ü|"' }]])));
  assert.ok(!(inputs instanceof ServingError));
  assert.deepEqual(tensorOf(inputs, 'word'), { dtype: 'string', shape: [1], data: ['ü|"'] });
});

test('JSON does not mix with what is binary, in either order', () => {
  const json: [string, Value] = ['j', { kind: 'json', value: 1 }];
  const text: [string, Value] = ['t', { kind: 'text', text: 'a' }];
  assert.throws(() => encodeMessage('a', new Map([text, json])), {
    code: 'bad_request',
    message: 'input "j": JSON and binary inputs do not mix',
  });
  assert.throws(() => encodeMessage('a', new Map([json, text])), {
    code: 'bad_request',
    message: /do not mix/,
  });
});

test('any tensor comes back from a safetensors file, with any name', () => {
  const name = fc
    .string({ minLength: 1, maxLength: 20, unit: 'grapheme' })
    .filter((text) => text !== '__metadata__');
  const tensor = fc.oneof(
    fc
      .float32Array({ maxLength: 20 })
      .map((data): Tensor => ({ dtype: 'float32', shape: [data.length], data })),
    fc
      .int16Array({ maxLength: 20 })
      .map((data): Tensor => ({ dtype: 'int16', shape: [1, data.length], data })),
    fc
      .bigInt64Array({ maxLength: 9 })
      .map((data): Tensor => ({ dtype: 'int64', shape: [data.length], data })),
    fc.uint8Array({ maxLength: 20 }).map((data): Tensor => ({ dtype: 'uint8', shape: [data.length], data })),
    fc
      .array(fc.string(), { maxLength: 5 })
      .map((data): Tensor => ({ dtype: 'string', shape: [data.length], data })),
  );
  fc.assert(
    fc.property(fc.array(fc.tuple(name, tensor), { maxLength: 6 }), (entries) => {
      const tensors = new Map(entries);
      const decoded = decodeTensors(encodeTensors(tensors));
      assert.equal(decoded.size, tensors.size);
      for (const [key, value] of tensors) assert.deepEqual(decoded.get(key), value);
    }),
  );
});

test('the safetensors header is what other tools read', () => {
  const bytes = encodeTensors(
    new Map([['x', { dtype: 'float32', shape: [2], data: Float32Array.of(1, 2) }]]),
  );
  const length = Number(Buffer.from(bytes).readBigUInt64LE(0));
  assert.equal(length % 8, 0);
  assert.deepEqual(JSON.parse(Buffer.from(bytes.subarray(8, 8 + length)).toString()), {
    x: { dtype: 'F32', shape: [2], data_offsets: [0, 8] },
  });
  assert.equal(bytes.byteLength, 8 + length + 8);
});

const header = (json: unknown, body = 0) => {
  const text = Buffer.from(JSON.stringify(json));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(text.byteLength));
  return Buffer.concat([length, text, Buffer.alloc(body)]);
};
const entry = (overrides: object) =>
  header({ x: { dtype: 'F32', shape: [1], data_offsets: [0, 4], ...overrides } }, 4);
const BROKEN: [string, Uint8Array][] = [
  ['nothing', Buffer.alloc(0)],
  ['a header length beyond the end', Buffer.from([255, 255, 255, 255, 255, 255, 255, 255, 1])],
  ['a header that is not JSON', Buffer.concat([Buffer.from([2, 0, 0, 0, 0, 0, 0, 0]), Buffer.from('{x')])],
  ['a header that is a list', header([])],
  ['an unknown dtype', entry({ dtype: 'F8' })],
  ['a shape that does not agree', entry({ shape: [2] })],
  ['a negative dimension', entry({ shape: [-1] })],
  ['a fractional dimension', entry({ shape: [0.5] })],
  ['offsets beyond the end', entry({ data_offsets: [0, 400], shape: [100] })],
  ['offsets turned round', entry({ data_offsets: [4, 0] })],
  ['one offset', entry({ data_offsets: [0] })],
  ['metadata that is not a text', header({ __metadata__: { a: 1 } })],
  ['an entry that is a number', header({ x: 1 })],
  [
    'text that is not JSON',
    header(
      { __metadata__: { 'kind:x': 'strings:1' }, x: { dtype: 'U8', shape: [1], data_offsets: [0, 1] } },
      1,
    ),
  ],
  [
    '257 tensors',
    header(
      Object.fromEntries(
        Array.from({ length: 257 }, (_, i) => [`t${i}`, { dtype: 'U8', shape: [0], data_offsets: [0, 0] }]),
      ),
    ),
  ],
];
for (const [name, bytes] of BROKEN) {
  test(`a safetensors file with ${name} is refused`, () => {
    assert.throws(() => readTensorFile(bytes), {
      code: 'bad_request',
      message: /not a readable safetensors file/,
    });
  });
}

test('a shape of 10^18 elements is refused before anything is allocated', () => {
  assert.throws(() => readTensorFile(entry({ shape: [1e9, 1e9] })), { code: 'too_large' });
});

/** Every codec, as the error for an unknown one lists them, so that a new one is in the tests below. */
function codecs(): string[] {
  const { inputs } = decodeMessage(JSON.stringify({ uri: 'u', data: '', serde: 'none' }));
  assert.ok(inputs instanceof ServingError);
  return Array.from(
    inputs.message.replace(/^.*expected /, '').matchAll(/"(.+?)"/g),
    ([, name]) => name as string,
  );
}

test('the error for an unknown serde lists every codec', () => {
  const names = codecs();
  assert.ok(names.length >= 3, names.join());
  for (const serde of names) {
    const { inputs } = decodeMessage(JSON.stringify({ uri: 'u', data: '', serde }));
    if (inputs instanceof ServingError) assert.doesNotMatch(inputs.message, /^serde /);
  }
});

test('no bytes make the message decoder throw anything but our error', () => {
  const good = encodeMessage(
    'u',
    new Map([
      ['x', { kind: 'tensor', tensor: { dtype: 'float32', shape: [2], data: Float32Array.of(1, 2) } }],
    ]),
  );
  const anything = fc.oneof(
    fc.string(),
    fc.json(),
    fc
      .record({
        uri: fc.oneof(fc.string(), fc.anything()),
        data: fc.oneof(fc.string(), fc.base64String(), fc.anything()),
        serde: fc.constantFrom(...codecs(), 'x', 3),
      })
      .map((record) => {
        try {
          return JSON.stringify(record);
        } catch {
          return '{}';
        }
      }),
    fc
      .tuple(fc.nat(good.length - 1), fc.nat(255))
      .map(([at, byte]) => good.slice(0, at) + String.fromCharCode(byte) + good.slice(at + 1)),
  );
  fc.assert(
    fc.property(anything, (body) => {
      try {
        const { uri, inputs } = decodeMessage(body);
        assert.ok(uri.length > 0);
        if (inputs instanceof ServingError) assert.notEqual(inputs.code, 'internal', inputs.stack);
      } catch (error) {
        assert.ok(error instanceof ServingError, String(error));
        assert.equal(error.code, 'bad_request');
      }
    }),
    { numRuns: 3000 },
  );
});

const UNREADABLE: [string, object, RegExp][] = [
  ['no data', { uri: 'u' }, /^data: expected a text/],
  ['data that is not base64', { uri: 'u', data: '***' }, /^base64: unexpected "\*" at position 0/],
  ['data that is not Arrow', { uri: 'u', data: 'AAAA' }, /./],
  [
    'an unknown serde',
    { uri: 'u', data: 'AAAA', serde: 'pickle' },
    /serde "pickle": expected "arrow", "stream" or "safetensors"/,
  ],
  [
    'two instances',
    { uri: 'u', serde: 'stream', data: '{"instances":[{"a":1},{"a":2}]}' },
    /holds one instance, got 2/,
  ],
];
for (const [name, record, expected] of UNREADABLE) {
  test(`a message with ${name} keeps its uri, so that its error has a place`, () => {
    const { uri, inputs } = decodeMessage(JSON.stringify(record));
    assert.equal(uri, 'u');
    assert.ok(inputs instanceof ServingError);
    assert.match(inputs.message, expected);
  });
}

test('a pointer is one only right under the payload prefix of its job', () => {
  assert.deepEqual(decodePointer(encodePointer('u', 'payloads/job/abc-1'), 'job'), {
    uri: 'u',
    key: 'payloads/job/abc-1',
  });
  for (const key of [
    'payloads/other/abc',
    'payloads/job/',
    'payloads/job/../x',
    'payloads/job/a/b',
    'models/job/x',
    '',
    'payloads/job/a b',
  ]) {
    assert.equal(decodePointer(encodePointer('u', key), 'job'), undefined, key);
  }
  assert.equal(decodePointer('{"pointer":', 'job'), undefined);
});

test('every record that the old Python client wrote is read through the message', async (t) => {
  const golden = await fixture(t, 'fixtures/zoo/derived/enqueue_wire_golden.json');
  if (!golden) return;
  const { ok } = JSON.parse(golden.toString()) as {
    ok: { name: string; fields: { uri: string; data: string } }[];
  };
  const kinds = ok.map(({ name, fields }) => {
    const { uri, inputs } = decodeMessage(JSON.stringify(fields));
    assert.equal(uri, fields.uri);
    if (inputs instanceof ServingError) throw inputs;
    return `${name}: ${[...inputs].map(([input, { kind }]) => `${input} ${kind}`).join(', ')}`;
  });
  assert.deepEqual(kinds, [
    'dense_1d: a tensor',
    'dense_2d: tensor2 tensor',
    'dense_two_inputs: t1 tensor, t2 tensor',
    'dense_scalar_0d: x tensor',
    'dense_float64_cast: x tensor',
    'dense_4d_batch: t tensor',
    'sparse_2d: input sparse',
    'string_list: user_define_key text',
    'string_list_single: k text',
    'image_b64_bytes: user_define_key text',
    'image_two: img1 text, img2 text',
  ]);
});

test('a large message whose data is escaped, or not the first "data" of its text, is read as JSON reads it', () => {
  const bytes = Buffer.from(
    encodeTensors(
      new Map([['x', { dtype: 'uint8', shape: [3_000], data: new Uint8Array(3_000).fill(255) }]]),
    ),
  );
  const base64 = bytes.toString('base64');
  assert.ok(base64.includes('/') && base64.length > 2_048);
  const whole = (body: string) => {
    const { inputs } = decodeMessage(body);
    if (inputs instanceof ServingError) throw inputs;
    return tensorOf(inputs, 'x').data.length;
  };
  // Some writers escape the slash, as JSON allows.
  const escaped = JSON.stringify({ uri: 'a', serde: 'safetensors', data: base64 }).replaceAll('/', '\\/');
  assert.equal(whole(escaped), 3_000);
  const nested = JSON.stringify({ uri: 'a', more: { data: 'AAAA' }, serde: 'safetensors', data: base64 });
  assert.equal(whole(nested), 3_000);
});

test('a large message is read as JSON.parse reads it, wherever its data ends, with any text around it', () => {
  const inputs: Inputs = new Map([
    ['x', { kind: 'tensor', tensor: { dtype: 'uint8', shape: [3_000], data: new Uint8Array(3_000) } }],
  ]);
  const { data, serde } = JSON.parse(encodeMessage('a', inputs)) as Record<string, string>;
  const long = 'x'.repeat(2_000);
  const bodies = [
    `{"uri":"ü😀","data":"${data}","serde":"${serde}"}`,
    `{"serde":"${serde}","uri":"a","data": "${data}"}`,
    `{"uri":"a","data":"${data}","serde":"${serde}","note":"${long}"}`,
    `{"uri":"a","data":"${data}","note":"${long}","serde":"${serde}"}`,
    `{"uri":"a","data":"${data}","data":"${data?.slice(4)}","serde":"${serde}"}`,
    `{"uri":"a","data":"${data?.slice(4)}","data":"${data}","serde":"${serde}"}`,
    `{"uri":"a","inner":{"data":"${data}"},"data":"","serde":"${serde}"}`,
    `{"uri":"a","data":"${data}\\n","serde":"${serde}"}`,
    `{"uri":"a","data":"${data}!","serde":"${serde}"}`,
    `{"uri":"a","data":"${data}Ł${data}","serde":"${serde}"}`,
    `{"uri":"a","data":"${data?.slice(0, 2_500)}==${data}","serde":"${serde}"}`,
    `{"uri":"a","data":"${data}"}`,
    `{"uri":"a","data":"${data}","serde":"pickle"}`,
    `{"uri":"a","data":"${data}","serde":7}`,
    `{"uri":"a","data":"{\\"instances\\":[{\\"x\\":\\"${long}\\"}]}","serde":"stream"}`,
  ];
  for (const body of bodies) {
    const record = JSON.parse(body) as Record<string, unknown>;
    const wanted = outcomeOf(() => decodeData(wireRecord(record)));
    const { uri, inputs: read } = decodeMessage(body);
    assert.equal(uri, record['uri']);
    assert.deepEqual(read instanceof ServingError ? read.message : read, wanted, body.slice(0, 60));
  }
  for (const body of [bodies[0]?.slice(0, -1), bodies[0]?.replace('"uri"', '"url"')]) {
    assert.throws(() => decodeMessage(body ?? ''), { code: 'bad_request' });
  }
});

test('files of the same length are told apart by their headers, and those with the same header by their bytes', () => {
  const tensor: Tensor = { dtype: 'int16', shape: [2], data: Int16Array.of(7, 8) };
  for (const name of ['x', 'y', 'x']) {
    const named: Map<string, Tensor> = new Map([[name, tensor]]);
    assert.deepEqual(decodeTensors(encodeTensors(named)), named);
  }
  const files = [1, 2, 3].map((value) =>
    encodeTensors(new Map([['x', { dtype: 'int16', shape: [2], data: Int16Array.of(value, -value) }]])),
  );
  for (const file of [...files, ...files.toReversed()]) {
    const value = new DataView(file.buffer).getInt16(file.length - 4, true);
    const shape = [2];
    const data = Int16Array.of(value, -value);
    assert.deepEqual(decodeTensors(file), new Map([['x', { dtype: 'int16', shape, data }]]));
    assert.throws(() => decodeTensors(file.subarray(0, -1)), { code: 'bad_request' });
  }
});

test('an input may be called __proto__, and a header that is not UTF-8 is refused', () => {
  const tensor: Tensor = { dtype: 'uint8', shape: [1], data: Uint8Array.of(7) };
  assert.deepEqual(
    [...decodeTensors(encodeTensors(new Map([['__proto__', tensor]])))],
    [['__proto__', tensor]],
  );
  const file = Buffer.from(encodeTensors(new Map([['é', tensor]])));
  // The second byte of the é may not follow the first.
  file[file.indexOf(0xc3) + 1] = 0x28;
  assert.throws(() => decodeTensors(file), { code: 'bad_request' });
});

test('a body that is longer than any pointer is a record', () => {
  const pointer = encodePointer('u', 'payloads/job/abc');
  assert.ok(decodePointer(`${pointer}${' '.repeat(100)}`, 'job'));
  assert.equal(decodePointer(`${pointer}${' '.repeat(10_000)}`, 'job'), undefined);
});
