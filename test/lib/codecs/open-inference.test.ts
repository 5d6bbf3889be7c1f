/** The codec of the Open Inference Protocol: what it reads, and what it refuses with which words. */
import assert from 'node:assert/strict';
import { describe, it, test } from 'node:test';
import {
  decodeIndexRequest,
  decodeInference,
  jsonLengthOf,
} from '../../../lib/codecs/open-inference/request.ts';
import { binaryTensor, DATATYPES } from '../../../lib/codecs/open-inference/tensor.ts';
import { readTexts, textsLength, writeTexts } from '../../../lib/codecs/open-inference/texts.ts';
import { ServingError } from '../../../lib/contract/errors.ts';
import {
  bytesPerElement,
  type DType,
  isNumericDType,
  type TypedArray,
} from '../../../lib/contract/tensor.ts';
import fc, { character } from '../../support/fast-check.ts';
import { bytesOf, inferRequest, type SentTensor, textBytes } from '../../support/open-inference.ts';

const RUNS = { seed: 20_261_121, numRuns: 200 } as const;

const PAIR: SentTensor = { name: 'x', datatype: 'FP32', shape: [1, 2], data: [1, 2] };
const BINARY: SentTensor = {
  name: 'x',
  datatype: 'FP32',
  shape: [1, 2],
  bytes: bytesOf(Float32Array.of(1, 2)),
};

function decode({ body, headers }: ReturnType<typeof inferRequest>) {
  return decodeInference(body, jsonLengthOf(headers['inference-header-content-length']));
}

/** A request whose JSON is anything. */
function jsonBody(json: unknown, ...tail: Uint8Array[]) {
  const head = Buffer.from(JSON.stringify(json));
  return { body: Buffer.concat([head, ...tail]), length: tail.length > 0 ? head.length : undefined };
}

test('every dtype has a datatype of its own, and BF16, which no model gives, is none of them', () => {
  assert.equal(new Set(Object.values(DATATYPES)).size, Object.keys(DATATYPES).length);
  assert.ok(!Object.values(DATATYPES).includes('BF16'));
});

test('BF16 is widened to float32, bit by bit', () => {
  const halves = [0x3f80, 0xc049, 0x0000, 0x8000, 0x0001, 0x7f7f, 0x7f80, 0xff80, 0x7fc1];
  const bytes = Buffer.from(Uint16Array.from(halves).buffer);
  // At an odd place, as tensors of other inputs leave it.
  const placed = Buffer.concat([Buffer.of(0), bytes]).subarray(1);
  const { dtype, data } = binaryTensor('x', 'BF16', [3, 3], placed);
  assert.equal(dtype, 'float32');
  const { buffer } = data as Float32Array;
  assert.deepEqual(
    Array.from(new Uint32Array(buffer)),
    halves.map((half) => half * 2 ** 16),
  );
  assert.deepEqual(Array.from(data as Float32Array).slice(0, 2), [1, -3.140625]);
  assert.throws(
    () => binaryTensor('x', 'BF16', [2], Buffer.alloc(8)),
    /BF16 \[2\] takes 4 bytes, and 8 came/,
  );
});

test('binary tensors follow the JSON in the order of the inputs, those with JSON data between them', () => {
  const { inputs } = decode(
    inferRequest([
      { name: 'a', datatype: 'UINT8', shape: [3], bytes: Uint8Array.of(1, 2, 3) },
      { name: 'b', datatype: 'INT32', shape: [2], data: [7, 8] },
      { name: 'c', datatype: 'FP64', shape: [1, 1], bytes: bytesOf(Float64Array.of(0.5)) },
    ]),
  );
  assert.deepEqual(inputs, [
    { name: 'a', tensor: { dtype: 'uint8', shape: [3], data: Uint8Array.of(1, 2, 3) } },
    { name: 'b', dtype: 'int32', shape: [2], data: [7, 8] },
    { name: 'c', tensor: { dtype: 'float64', shape: [1, 1], data: Float64Array.of(0.5) } },
  ]);
});

test('a tensor that is aligned in the body is a view of it', () => {
  const bytes = bytesOf(Float32Array.of(1, 2));
  const json = JSON.stringify({
    inputs: [{ name: 'x', datatype: 'FP32', shape: [2], parameters: { binary_data_size: 8 } }],
  });
  for (const [pad, shares] of [
    [(4 - (json.length % 4)) % 4, true],
    [((4 - (json.length % 4)) % 4) + 1, false],
  ] as const) {
    const memory = new Uint8Array(Buffer.concat([Buffer.from(json + ' '.repeat(pad)), bytes]));
    const [input] = decodeInference(memory, json.length + pad).inputs;
    assert.ok(input && 'tensor' in input);
    assert.deepEqual(input.tensor.data, Float32Array.of(1, 2));
    assert.equal((input.tensor.data as TypedArray).buffer === memory.buffer, shares);
  }
});

test('what is optional may be null, and hints and unknown parameters are ignored', () => {
  const parameters = { priority: 3, sequence_id: 0, mine: { a: [1] }, binary_data_output: null };
  const { body } = jsonBody({
    id: null,
    parameters,
    outputs: null,
    inputs: [{ ...PAIR, parameters: { content_type: 'np', binary_data_size: null } }],
  });
  assert.deepEqual(decodeInference(body, undefined), {
    id: undefined,
    inputs: [{ name: 'x', dtype: 'float32', shape: [1, 2], data: [1, 2] }],
    outputs: undefined,
    binary: false,
    timeoutMs: undefined,
  });
});

test('integers of 64 bits have all their digits, in JSON too, and other numbers are as before', () => {
  const big = (datatype: string, ...numbers: string[]) =>
    `{"name":"${datatype}","datatype":"${datatype}","shape":[${numbers.length}],"data":[${numbers.join(',')}]}`;
  const read = (...inputs: string[]) =>
    decodeInference(`{"inputs":[${inputs.join(',')}]}`, undefined).inputs.map((input) =>
      'data' in input ? input.data : undefined,
    );
  const signed = big(
    'INT64',
    '9223372036854775807',
    '-9223372036854775808',
    '-9007199254740993',
    '1',
    'true',
  );
  const floats = big('FP64', '9007199254740993', '12345678901234567890.5');
  assert.deepEqual(read(floats, signed, big('UINT64', '18446744073709551615', '2')), [
    [9_007_199_254_740_993n, 12_345_678_901_234_567_000],
    [9_223_372_036_854_775_807n, -9_223_372_036_854_775_808n, -9_007_199_254_740_993n, 1, true],
    [18_446_744_073_709_551_615n, 2],
  ]);
  // With a point, an exponent or more digits than 64 bits have, it stays a number, which is refused where it is stored.
  assert.deepEqual(read(big('INT64', '9007199254740993.0', '1e16', '1'.repeat(21))), [
    [9_007_199_254_740_992, 1e16, Number('1'.repeat(21))],
  ]);
});

test('a timeout is in microseconds, and 0 is none', () => {
  const timeoutOf = (timeout: unknown) => decode(inferRequest([PAIR], { parameters: { timeout } })).timeoutMs;
  assert.deepEqual([0, null, 1_500].map(timeoutOf), [undefined, undefined, 1.5]);
});

test('a request for the index may be empty, and says whether only what is ready is wanted', () => {
  const read = (body: string) => decodeIndexRequest(body);
  assert.deepEqual(['', '{}', '{"ready":null}', '{"ready":false}', '{"ready":true}'].map(read), [
    false,
    false,
    false,
    false,
    true,
  ]);
  assert.throws(
    () => read('{"ready":1}'),
    /^ServingError: the request: ready: expected true or false, got 1$/,
  );
  assert.throws(() => read('[]'), /the body: expected an object, got an array/);
});

test('binary_data of an output overrides binary_data_output of the request', () => {
  const outputs = [
    { name: 'a' },
    { name: 'b', parameters: { binary_data: false, classification: 2 } },
    { name: 'c', parameters: { binary_data: true } },
  ];
  for (const all of [true, false, undefined]) {
    const read = decode(inferRequest([PAIR], { outputs, parameters: { binary_data_output: all } }));
    assert.deepEqual(read.outputs, [
      { name: 'a', binary: all ?? false, classes: undefined },
      { name: 'b', binary: false, classes: 2 },
      { name: 'c', binary: true, classes: undefined },
    ]);
    assert.equal(read.binary, all ?? false);
  }
  assert.equal(decode(inferRequest([PAIR], { outputs: [] })).outputs, undefined);
});

describe('what is wrong is refused, with what was expected and what came', () => {
  const binary = (change: object, tail = BINARY.bytes as Uint8Array) => {
    const { bytes: _, ...x } = BINARY;
    return jsonBody({ inputs: [{ ...x, parameters: { binary_data_size: 8 }, ...change }] }, tail);
  };
  const json = (change: object) => jsonBody({ inputs: [{ ...PAIR, ...change }] });
  const asked = (parameters: object) => jsonBody({ inputs: [PAIR], parameters });
  const cases: readonly [
    string,
    { body: Uint8Array | string; length: number | undefined },
    string,
    RegExp,
  ][] = [
    ['no bytes', { body: Buffer.alloc(0), length: undefined }, 'bad_request', /empty; expected \{"inputs"/],
    ['an array', jsonBody([]), 'bad_request', /^the body: expected an object, got an array$/],
    ['no inputs', jsonBody({}), 'bad_request', /^"inputs": expected an array, got nothing$/],
    ['inputs as an object', jsonBody({ inputs: {} }), 'bad_request', /expected an array, got an object/],
    ['empty inputs', jsonBody({ inputs: [] }), 'bad_request', /"inputs" is empty/],
    [
      'an input that is a text',
      jsonBody({ inputs: ['x'] }),
      'bad_request',
      /^inputs\[0\]: expected an object/,
    ],
    ['no name', json({ name: undefined }), 'bad_request', /^inputs\[0\]\.name: expected a text, got nothing/],
    ['a long name', json({ name: 'x'.repeat(257) }), 'too_large', /257 characters.*inputNameLength/],
    ['a name twice', jsonBody({ inputs: [PAIR, PAIR] }), 'bad_request', /^inputs\[1\]: "x" is there twice/],
    ['257 inputs', jsonBody({ inputs: Array(257).fill(0) }), 'too_large', /257 inputs.*inputsPerRecord/],
    [
      'no datatype',
      json({ datatype: undefined }),
      'bad_input',
      /datatype nothing is not served; expected one of BOOL/,
    ],
    ['BF16 as JSON', json({ datatype: 'BF16' }), 'bad_input', /input "x": BF16 travels in binary data only/],
    ['a lower-case datatype', json({ datatype: 'fp32' }), 'bad_input', /"fp32" is not served/],
    ['__proto__ as datatype', json({ datatype: '__proto__' }), 'bad_input', /"__proto__" is not served/],
    [
      'no shape',
      json({ shape: undefined }),
      'bad_request',
      /^input "x": "shape": expected an array, got nothing/,
    ],
    [
      '-1 in a shape',
      json({ shape: [-1, 2] }),
      'bad_request',
      /expected whole numbers from 0 to 2\^53, got -1/,
    ],
    ['half in a shape', json({ shape: [0.5] }), 'bad_request', /got 0\.5/],
    ['2^53 in a shape', json({ shape: [2 ** 53] }), 'bad_request', /got 9007199254740992/],
    ['a text in a shape', json({ shape: ['1'] }), 'bad_request', /got a string/],
    ['17 dimensions', json({ shape: Array(17).fill(1) }), 'too_large', /17 dimensions.*tensorRank/],
    ['neither data nor size', json({ data: undefined }), 'bad_request', /expected "data", or a parameter/],
    [
      'data and size',
      json({ parameters: { binary_data_size: 8 } }),
      'bad_request',
      /has "data" and "binary_data/,
    ],
    [
      'parameters as a list',
      json({ parameters: [] }),
      'bad_request',
      /"parameters": expected an object, got an/,
    ],
    [
      'a size that is a text',
      binary({ parameters: { binary_data_size: '8' } }),
      'bad_request',
      /whole number of/,
    ],
    ['a size below 0', binary({ parameters: { binary_data_size: -8 } }), 'bad_request', /got -8/],
    ['a size of 4.5', binary({ parameters: { binary_data_size: 4.5 } }), 'bad_request', /got 4\.5/],
    [
      'a size over the body',
      binary({ parameters: { binary_data_size: 9 } }),
      'bad_request',
      /is 9, and 8 bytes are left/,
    ],
    [
      'a size that is not the shape',
      binary({ shape: [3] }),
      'bad_input',
      /FP32 \[3\] takes 12 bytes, and 8 came/,
    ],
    [
      'a shape of 2^52 elements',
      binary({ shape: [2 ** 26, 2 ** 26] }),
      'too_large',
      /over the limit of 67108864/,
    ],
    ['bytes left over', binary({}, Buffer.alloc(12)), 'bad_request', /^4 bytes are left over/],
    [
      '2 as a flag',
      binary({ datatype: 'BOOL', shape: [8] }, Buffer.alloc(8, 2)),
      'bad_input',
      /0 and 1 \(BOOL\), got 2/,
    ],
    [
      'shared memory',
      json({ parameters: { shared_memory_region: 'a' } }),
      'bad_request',
      /shared memory is not served/,
    ],
    ['an id of 7', jsonBody({ id: 7, inputs: [PAIR] }), 'bad_request', /^"id": expected a text, got 7/],
    [
      'a long id',
      jsonBody({ id: 'x'.repeat(1025), inputs: [PAIR] }),
      'too_large',
      /"id" has 1025 characters/,
    ],
    [
      'outputs as a text',
      jsonBody({ inputs: [PAIR], outputs: 'y' }),
      'bad_request',
      /"outputs": expected an array/,
    ],
    [
      'an output twice',
      jsonBody({ inputs: [PAIR], outputs: [{ name: 'y' }, { name: 'y' }] }),
      'bad_request',
      /outputs\[1\]: "y" is there twice/,
    ],
    [
      'binary_data as 1',
      jsonBody({ inputs: [PAIR], outputs: [{ name: 'y', parameters: { binary_data: 1 } }] }),
      'bad_request',
      /output "y": binary_data: expected true or false, got 1/,
    ],
    [
      'shared memory for an output',
      jsonBody({ inputs: [PAIR], outputs: [{ name: 'y', parameters: { shared_memory_byte_size: 4 } }] }),
      'bad_request',
      /output "y": shared memory/,
    ],
    ['a sequence', asked({ sequence_id: 7 }), 'bad_request', /^sequences \(sequence_id\) are not served/],
    ['a sequence by a text', asked({ sequence_id: 'a' }), 'bad_request', /^sequences/],
    ['the start of a sequence', asked({ sequence_start: true }), 'bad_request', /^sequences/],
    ['the end of a sequence', asked({ sequence_end: true }), 'bad_request', /^sequences/],
    [
      'a priority below 0',
      asked({ priority: -1 }),
      'bad_request',
      /priority: expected a whole number, got -1/,
    ],
    [
      'a timeout of a text',
      asked({ timeout: '1' }),
      'bad_request',
      /timeout: expected a whole number, got a string/,
    ],
    [
      "Triton's own",
      asked({ triton_final_response: true }),
      'bad_request',
      /"triton_final_response" is not served/,
    ],
    [
      'binary_data_output as a text',
      asked({ binary_data_output: 'yes' }),
      'bad_request',
      /binary_data_output: expected true or false, got a/,
    ],
    [
      'binary without the header',
      { body: binary({}).body, length: undefined },
      'bad_request',
      /UTF-8; where binary tensors follow, the header inference-header-content-length says how long/,
    ],
    [
      'a size without bytes',
      { ...binary({}, Buffer.alloc(0)), length: undefined },
      'bad_request',
      /0 bytes are left behind the JSON; inference-header/,
    ],
    [
      'a header over the body',
      { ...binary({}), length: 1_000 },
      'bad_request',
      /-length is 1000, the body has \d+ bytes/,
    ],
    ['a header that cuts the JSON', { ...binary({}), length: 20 }, 'bad_request', /the body is not JSON/],
    [
      'binary in a text',
      { body: `${JSON.stringify({ inputs: [] })}abcd`, length: 13 },
      'bad_request',
      /in a body of text; send them with content-type: application\/octet-stream/,
    ],
  ];
  for (const [name, { body, length }, code, message] of cases) {
    it(name, () => {
      assert.throws(
        () => decodeInference(body, length),
        (error) => {
          assert.ok(error instanceof ServingError, String(error));
          assert.match(error.message, message);
          assert.equal(error.code, code);
          return true;
        },
      );
    });
  }
});

test('the header is a whole number of bytes, or the request is refused', () => {
  assert.equal(jsonLengthOf(undefined), undefined);
  assert.equal(jsonLengthOf('0'), 0);
  assert.equal(jsonLengthOf('152'), 152);
  for (const header of ['', ' 1', '-1', '1.5', '1e3', '0x10', '12,12', '9'.repeat(16)]) {
    assert.throws(() => jsonLengthOf(header), { code: 'bad_request', message: /expected a whole number/ });
  }
});

describe('binary BYTES', () => {
  it('keeps every text, empty ones and byte order marks too', () => {
    const texts = ['', 'a', 'wörld', '\ufeffmark', '😀'];
    const bytes = textBytes(texts);
    assert.deepEqual(readTexts(bytes, texts.length), texts);
    assert.equal(textsLength(texts), bytes.length);
    const written = Buffer.alloc(bytes.length + 3);
    assert.equal(writeTexts(texts, written, 3), written.length);
    assert.deepEqual(written.subarray(3), bytes);
  });

  const refused: readonly [string, Uint8Array, number, RegExp][] = [
    [
      'more elements than bytes',
      Buffer.alloc(8),
      67_108_864,
      /67108864 BYTES elements do not fit into 8 bytes/,
    ],
    ['a length over the end', Buffer.from([5, 0, 0, 0, 1]), 1, /BYTES element 0 ends behind the 5 bytes/],
    ['a length of 4 GB', Buffer.from([255, 255, 255, 255]), 1, /BYTES element 0 ends behind/],
    ['an element too few', textBytes(['a', 'b']), 1, /1 BYTES elements take 5 bytes, and 10 came/],
    [
      'a length cut off',
      Buffer.concat([textBytes(['abcd']), Buffer.alloc(2)]),
      2,
      /BYTES element 1 ends behind/,
    ],
    ['no UTF-8', Buffer.from([1, 0, 0, 0, 255]), 1, /BYTES element 0 is not UTF-8 text/],
  ];
  for (const [name, bytes, count, message] of refused) {
    it(`refuses ${name}`, () => {
      assert.throws(() => readTexts(bytes, count), { code: 'bad_input', message });
    });
  }
});

const dtypes = fc.constantFrom(...(Object.keys(DATATYPES) as DType[]));
const shapes = fc.array(fc.nat(3), { maxLength: 4 });
const countOf = (shape: readonly number[]) => shape.reduce((product, dim) => product * dim, 1);

const tensors = fc.tuple(dtypes, shapes).chain(([dtype, shape]) => {
  const count = countOf(shape);
  const bytes = isNumericDType(dtype)
    ? fc.uint8Array({
        minLength: count * bytesPerElement(dtype),
        maxLength: count * bytesPerElement(dtype),
        ...(dtype === 'bool' ? { max: 1 } : {}),
      })
    : fc.array(fc.string({ unit: character }), { minLength: count, maxLength: count }).map(textBytes);
  return bytes.map((content) => ({ datatype: DATATYPES[dtype], shape, bytes: content }));
});

test('tensors that go in as bytes come out with the same bytes, in any mixture and alignment', () => {
  const requests = fc.array(tensors, { minLength: 1, maxLength: 5 });
  fc.assert(
    fc.property(requests, fc.string(), (list, id) => {
      const sent = list.map((tensor, index) => ({ name: `x${index}`, ...tensor }));
      const read = decode(inferRequest(sent, { id }));
      assert.equal(read.id, id);
      assert.equal(read.inputs.length, sent.length);
      for (const [i, input] of read.inputs.entries()) {
        const { name, datatype, shape, bytes } = sent[i] as (typeof sent)[number];
        assert.ok('tensor' in input);
        const { tensor } = input;
        assert.deepEqual([input.name, DATATYPES[tensor.dtype], tensor.shape], [name, datatype, shape]);
        const same = tensor.dtype === 'string' ? textBytes(tensor.data) : bytesOf(tensor.data);
        assert.deepEqual(same, Buffer.from(bytes));
      }
    }),
    RUNS,
  );
});

test('a request that is cut, or has any of its bytes changed, is read or refused, and nothing else', () => {
  const good = inferRequest([
    BINARY,
    { name: 's', datatype: 'BYTES', shape: [2], bytes: textBytes(['a', 'bc']) },
  ]);
  const length = Number(good.headers['inference-header-content-length']);
  const at = fc.nat(good.body.length - 1);
  const changed = fc.oneof(
    at.map((end) => good.body.subarray(0, end)),
    {
      weight: 4,
      arbitrary: fc.tuple(at, fc.nat(255)).map(([place, byte]) => {
        const body = Buffer.from(good.body);
        body[place] = byte;
        return body;
      }),
    },
    fc.uint8Array({ maxLength: 200 }),
  );
  const lengths = fc.oneof(
    { weight: 8, arbitrary: fc.constant(length) },
    fc.nat(good.body.length + 5),
    fc.constant(undefined),
  );
  let readable = 0;
  fc.assert(
    fc.property(changed, lengths, (body, jsonLength) => {
      try {
        decodeInference(body, jsonLength);
        readable++;
      } catch (error) {
        assert.ok(error instanceof ServingError, String(error));
        assert.ok(['bad_request', 'bad_input', 'too_large'].includes(error.code), error.message);
      }
    }),
    { ...RUNS, numRuns: 2_000 },
  );
  assert.ok(readable > 50, `${readable} were readable`);
});

test('a binary tensor takes exactly the bytes of its shape: one element more or less is refused', () => {
  const bytes = (count: number) => bytesOf(new Float32Array(count));
  const ask = (count: number) =>
    decode(inferRequest([{ name: 'x', datatype: 'FP32', shape: [2], bytes: bytes(count) }]));
  assert.equal(ask(2).inputs.length, 1);
  for (const count of [1, 3]) {
    const message = new RegExp(`FP32 \\[2\\] takes 8 bytes, and ${4 * count} came`);
    assert.throws(() => ask(count), { code: 'bad_input', message });
  }
});
