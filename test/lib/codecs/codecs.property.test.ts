/** Properties of every input of every codec. Seeded: a failure is repeatable. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { decodeArrowRecord } from '../../../lib/codecs/arrow/record.ts';
import { decodeBase64 } from '../../../lib/codecs/base64.ts';
import { decodeImage } from '../../../lib/codecs/image/image.ts';
import { decodeInstances, instanceText } from '../../../lib/codecs/instances.ts';
import { parseText } from '../../../lib/codecs/json.ts';
import { decodeMessage, encodeMessage } from '../../../lib/codecs/message.ts';
import { decodePointer, encodePointer } from '../../../lib/codecs/pointer.ts';
import { quoteName, quoteNames, quoteValue } from '../../../lib/codecs/quote.ts';
import { encodeTensors, readTensorFile } from '../../../lib/codecs/safetensors.ts';
import { ServingError } from '../../../lib/contract/errors.ts';
import { LIMITS } from '../../../lib/contract/limits.ts';
import { assertUri, resultKey } from '../../../lib/contract/names.ts';
import type { Tensor } from '../../../lib/contract/tensor.ts';
import type { Inputs, Value } from '../../../lib/contract/values.ts';
import { readRequest } from '../../../lib/http/request.ts';
import { nestedTensor } from '../../../lib/pipeline/bind/nested.ts';
import { densify } from '../../../lib/pipeline/bind/sparse.ts';
import { greyPng } from '../../functions/hostile/encoded-images.ts';
import { claims } from '../../functions/hostile/tables/arrow.ts';
import { tensorFile } from '../../functions/hostile/tables/safetensors.ts';
import { encodeArrowRecord } from '../../support/arrow-record.ts';
import fc, { character } from '../../support/fast-check.ts';
import { smallJpeg } from '../../support/jpegs.ts';
import { pictureBytes } from '../../support/pictures.ts';
import { writePng } from '../../support/png.ts';

const RUNS = { seed: 20_261_121, numRuns: 500 } as const;
const LONGEST_MESSAGE = 1_500;

/** The value, or undefined when it was refused properly. */
function orRefusal<T>(work: () => T): T | undefined {
  try {
    return work();
  } catch (error) {
    assert.ok(error instanceof ServingError, `not ours: ${String(error)}`);
    assert.ok(error.status < 500, `${error.code}: ${error.message}`);
    assert.ok(error.message.length <= LONGEST_MESSAGE, `a message of ${error.message.length}`);
    return undefined;
  }
}

/** `original` with some bytes changed, cut or doubled. */
const spoilt = (original: Uint8Array): fc.Arbitrary<Uint8Array> =>
  fc
    .tuple(
      fc.array(fc.tuple(fc.nat(original.length - 1), fc.nat(255)), { maxLength: 8 }),
      fc.nat(original.length),
      fc.nat(40),
    )
    .map(([changes, from, count]) => {
      const bytes = Uint8Array.from(original);
      for (const [at, value] of changes) bytes[at] = value;
      const twice = bytes.subarray(from, from + count);
      return count === 0
        ? bytes.slice(0, from)
        : Buffer.concat([bytes.subarray(0, from), twice, bytes.subarray(from)]);
    });

/** Bytes and characters that a value holds. */
function sizeOf(value: Value): number {
  if (value.kind === 'image') return value.bytes.length;
  if (value.kind === 'text') return value.text.length;
  if (value.kind === 'json' || value.kind === 'value') return 0;
  const { data } = value.kind === 'tensor' ? value.tensor : value.values;
  const own = ArrayBuffer.isView(data) ? data.byteLength : data.reduce((sum, text) => sum + text.length, 0);
  return value.kind === 'sparse' ? own + value.indices.byteLength : own;
}

const totalOf = (inputs: Inputs) => [...inputs.values()].reduce((sum, value) => sum + sizeOf(value), 0);

const float32 = fc
  .tuple(
    fc.array(fc.integer({ min: 1, max: 4 }), { maxLength: 3 }),
    fc.float32Array({ minLength: 64, maxLength: 64 }),
  )
  .map(([shape, values]): Tensor => {
    const count = shape.reduce((product, dim) => product * dim, 1);
    return { dtype: 'float32', shape, data: values.slice(0, count) };
  });

const name = fc
  .string({ minLength: 1, maxLength: 12, unit: 'grapheme' })
  .filter((text) => text !== '__metadata__');
const anyValue: fc.Arbitrary<Value> = fc.oneof(
  float32.map((tensor): Value => ({ kind: 'tensor', tensor })),
  fc.uint8Array({ maxLength: 40 }).map((bytes): Value => ({ kind: 'image', bytes })),
  fc.integer({ min: 1, max: 5 }).map(
    (count): Value => ({
      kind: 'sparse',
      shape: [5, 7],
      indices: Int32Array.from({ length: 2 * count }, (_, i) => i % 5),
      indicesShape: [count, 2],
      values: { dtype: 'float32', shape: [count], data: new Float32Array(count).fill(3) },
    }),
  ),
);
const someInputs = fc
  .uniqueArray(fc.tuple(name, anyValue), { selector: ([key]) => key, minLength: 1, maxLength: 5 })
  .map((entries): Inputs => new Map(entries));

test('base64 comes back from every way to write it', () => {
  const written = fc.record({
    bytes: fc.uint8Array({ maxLength: 100 }),
    urlSafe: fc.boolean(),
    padded: fc.boolean(),
    spaces: fc.array(fc.tuple(fc.nat(), fc.constantFrom(' ', '\n', '\r\n', '\t', '\f', '\v')), {
      maxLength: 4,
    }),
  });
  fc.assert(
    fc.property(written, ({ bytes, urlSafe, padded, spaces }) => {
      let text = Buffer.from(bytes).toString('base64');
      if (urlSafe) text = text.replaceAll('+', '-').replaceAll('/', '_');
      if (!padded) text = text.replace(/=+$/, '');
      for (const [at, space] of spaces) {
        const cut = at % (text.length + 1);
        text = text.slice(0, cut) + space + text.slice(cut);
      }
      assert.deepEqual(Buffer.from(decodeBase64(text)), Buffer.from(bytes));
    }),
    RUNS,
  );
});

test('any text is base64 of as many bytes as it can be, or is refused', () => {
  const text = fc.oneof(
    fc.string({ maxLength: 60, unit: character }),
    fc.string({ maxLength: 60, unit: fc.constantFrom(...Array.from('ABCDxyz019+/-_= \n%ŁÁ')) }),
  );
  fc.assert(
    fc.property(text, (given) => {
      const bytes = orRefusal(() => decodeBase64(given));
      if (bytes === undefined) return;
      const digits = given.replaceAll(/[\s=]/g, '');
      assert.match(digits, /^[A-Za-z0-9+/_-]*$/);
      assert.equal(bytes.length, Math.floor((digits.length * 3) / 4));
    }),
    RUNS,
  );
});

test('a record comes back from every wire', () => {
  const uri = fc.string({ minLength: 1, maxLength: 20, unit: 'grapheme' }).filter((text) => {
    return text.isWellFormed() && !/\p{Cc}/u.test(text);
  });
  fc.assert(
    fc.property(uri, someInputs, (given, inputs) => {
      const decoded = decodeMessage(encodeMessage(given, inputs));
      assert.equal(decoded.uri, given);
      assert.ok(decoded.inputs instanceof Map);
      assert.deepEqual(new Set(decoded.inputs.keys()), new Set(inputs.keys()));
      for (const [key, value] of inputs) assert.deepEqual(decoded.inputs.get(key), value);
      const plain = new Map([...inputs].filter(([, value]) => value.kind !== 'image'));
      if (plain.size === 0) return;
      const arrow = decodeArrowRecord(encodeArrowRecord(plain));
      assert.deepEqual([...arrow], [...plain]);
    }),
    RUNS,
  );
});

test('spoilt Arrow gives no more bytes than it has, or is refused', () => {
  const inputs: Inputs = new Map<string, Value>([
    ['a', { kind: 'tensor', tensor: { dtype: 'float32', shape: [2, 2], data: Float32Array.of(1, 2, 3, 4) } }],
    ['b', { kind: 'text', text: 'some text' }],
    ['c', { kind: 'tensor', tensor: { dtype: 'float32', shape: [3], data: Float32Array.of(1, 2, 3) } }],
  ]);
  fc.assert(
    fc.property(spoilt(encodeArrowRecord(inputs)), (bytes) => {
      const decoded = orRefusal(() => decodeArrowRecord(bytes));
      if (decoded) assert.ok(totalOf(decoded) <= bytes.length, `${totalOf(decoded)} of ${bytes.length}`);
    }),
    { ...RUNS, numRuns: 2_000 },
  );
});

test('spoilt safetensors give no more bytes than they have, or are refused', () => {
  const file = encodeTensors(
    new Map<string, Tensor>([
      ['a', { dtype: 'float32', shape: [2, 2], data: Float32Array.of(1, 2, 3, 4) }],
      ['b', { dtype: 'uint8', shape: [5], data: Uint8Array.of(1, 2, 3, 4, 5) }],
      ['c', { dtype: 'string', shape: [2], data: ['x', 'yz'] }],
    ]),
    { 'kind:b': 'image' },
  );
  fc.assert(
    fc.property(spoilt(file), (bytes) => {
      const decoded = orRefusal(() => readTensorFile(bytes));
      if (!decoded) return;
      const values = [...decoded.tensors].map(([key, tensor]): [string, Value] => [
        key,
        { kind: 'tensor', tensor },
      ]);
      assert.ok(totalOf(new Map(values)) <= bytes.length);
    }),
    { ...RUNS, numRuns: 2_000 },
  );
});

test('columns and tensors that claim any part of a body give no more bytes than it has, or are refused', () => {
  const BODY = 64;
  const claim = fc.record({ at: fc.nat(BODY + 4), elements: fc.nat(BODY / 4 + 1) });
  const some = fc.array(claim, { minLength: 1, maxLength: 6 });
  fc.assert(
    fc.property(some, (columns) => {
      const arrow = orRefusal(() => decodeArrowRecord(claims(columns, BODY)));
      if (arrow) assert.ok(totalOf(arrow) <= BODY, `${totalOf(arrow)} bytes of ${BODY} in Arrow`);
      const header = columns.map(({ at, elements }, i) => {
        return [`t${i}`, { dtype: 'F32', shape: [elements], data_offsets: [at, at + 4 * elements] }];
      });
      const file = orRefusal(() => readTensorFile(tensorFile(Object.fromEntries(header), BODY)));
      if (!file) return;
      const tensors = [...file.tensors].map(([key, tensor]): [string, Value] => [
        key,
        { kind: 'tensor', tensor },
      ]);
      assert.ok(totalOf(new Map(tensors)) <= BODY, `more than ${BODY} bytes of safetensors`);
    }),
    RUNS,
  );
});

test('a spoilt message is a record, or is refused under its uri, or has none', () => {
  const tensor: Value = {
    kind: 'tensor',
    tensor: { dtype: 'float32', shape: [2], data: Float32Array.of(1, 2) },
  };
  const good = Buffer.from(encodeMessage('the uri', new Map([['x', tensor]])));
  const anything = fc.oneof(
    spoilt(good).map((bytes) => Buffer.from(bytes).toString('latin1')),
    fc.json(),
    fc.record({ uri: fc.constant('u'), data: fc.anything(), serde: fc.anything() }).map((record) => {
      const text = orUndefined(() => JSON.stringify(record));
      return text ?? 'null';
    }),
  );
  fc.assert(
    fc.property(anything, (body) => {
      const decoded = orRefusal(() => decodeMessage(body));
      if (decoded?.inputs instanceof ServingError) {
        const { inputs } = decoded;
        assert.ok(inputs.status < 500, inputs.message);
        assert.ok(inputs.message.length <= LONGEST_MESSAGE);
      }
    }),
    { ...RUNS, numRuns: 2_000 },
  );
});

function orUndefined<T>(work: () => T): T | undefined {
  try {
    return work();
  } catch {
    return undefined;
  }
}

test('a pointer comes back, and nothing else is one', () => {
  const key = fc.string({ minLength: 1, maxLength: 90, unit: fc.constantFrom(...Array.from('aZ09-_/.%')) });
  fc.assert(
    fc.property(fc.string({ minLength: 1, maxLength: 20 }), key, fc.json(), (uri, last, json) => {
      const body = encodePointer(uri, `payloads/job/${last}`);
      const found = decodePointer(body, 'job');
      const isPointer = /^[\w-]{1,80}$/.test(last) && orUndefined(() => assertUri(uri)) !== undefined;
      assert.deepEqual(found, isPointer ? { uri, key: `payloads/job/${last}` } : undefined);
      assert.equal(decodePointer(body, 'other'), undefined);
      decodePointer(json, 'job');
    }),
    RUNS,
  );
});

test('a PNG of any size, kind and interlacing decodes to its pixels', async () => {
  const kind = fc.constantFrom([8, 0], [8, 2], [8, 4], [8, 6], [16, 0], [16, 2]) as fc.Arbitrary<
    [number, number]
  >;
  const size = fc.integer({ min: 1, max: 12 });
  await fc.assert(
    fc.asyncProperty(
      size,
      size,
      kind,
      fc.boolean(),
      async (width, height, [depth, colourType], interlaced) => {
        const samples = { 0: 1, 2: 3, 4: 2, 6: 4 }[colourType] ?? 1;
        const level = (x: number, y: number, channel: number) => (x * 31 + y * 17 + channel * 5) % 256;
        const sample = (x: number, y: number) =>
          Array.from({ length: samples }, (_, channel) => level(x, y, channel) * (depth === 16 ? 257 : 1));
        const pixels = await decodeImage(writePng({ width, height, depth, colourType, interlaced, sample }));
        assert.deepEqual(
          [pixels.width, pixels.height, pixels.data.length],
          [width, height, 3 * width * height],
        );
        const grey = samples < 3;
        for (let y = 0; y < height; y++)
          for (let x = 0; x < width; x++)
            for (let channel = 0; channel < 3; channel++)
              assert.equal(pixels.data[(y * width + x) * 3 + channel], level(x, y, grey ? 0 : channel));
      },
    ),
    { ...RUNS, numRuns: 100 },
  );
});

/** Every way in which BMP, GIF and TIFF store pixels, spoilt. */
const SPOILT_PICTURES = [
  'bmp-4-h40',
  'bmp-16-565-h40-0',
  'bmp-24-h124-top',
  'bmp-rle4-5',
  'bmp-rle8-delta',
  'gif-6',
  'gif-25',
  'tiff-palette-32773-1',
  'tiff-rgba-8-3',
  'tiff-grey-alpha-32946-0',
  'tiff-orientation-6-5',
];

test('a spoilt image decodes within the limits, or is refused', async () => {
  const images = [
    greyPng(9, 7),
    smallJpeg('baseline420').bytes,
    smallJpeg('progressive').bytes,
    ...SPOILT_PICTURES.map(pictureBytes),
  ];
  for (const image of images) {
    await fc.assert(
      fc.asyncProperty(spoilt(image), async (bytes) => {
        try {
          const { width, height, data } = await decodeImage(bytes);
          assert.ok(width * height <= LIMITS.imagePixels);
          assert.equal(data.length, 3 * width * height);
        } catch (error) {
          if (error instanceof assert.AssertionError) throw error;
          orRefusal(() => {
            throw error;
          });
        }
      }),
      { ...RUNS, numRuns: 300 },
    );
  }
});

test('a nested array of any shape is its elements in row-major order', () => {
  fc.assert(
    fc.property(float32, ({ shape, data }) => {
      const elements = [...(data as Float32Array)].map((value) => (Number.isFinite(value) ? value : 1));
      const nest = (dims: readonly number[], flat: readonly number[]): unknown => {
        if (dims.length === 0) return flat[0];
        const each = flat.length / (dims[0] as number);
        return Array.from({ length: dims[0] as number }, (_, i) =>
          nest(dims.slice(1), flat.slice(i * each, (i + 1) * each)),
        );
      };
      const tensor = nestedTensor(nest(shape, elements), 'float32');
      assert.deepEqual(tensor, { dtype: 'float32', shape, data: Float32Array.from(elements) });
    }),
    RUNS,
  );
});

test('any JSON value is a tensor of each dtype, or is refused', () => {
  const dtypes = ['float32', 'float16', 'int8', 'uint64', 'bool', 'string'] as const;
  fc.assert(
    fc.property(fc.jsonValue({ maxDepth: 6 }), fc.constantFrom(...dtypes), (value, dtype) => {
      const tensor = orRefusal(() => nestedTensor(value, dtype));
      if (tensor) assert.ok(tensor.data.length <= JSON.stringify(value).length);
    }),
    { ...RUNS, numRuns: 1_000 },
  );
});

test('a sparse tensor is its points, whichever way its indices lie, or is refused', () => {
  const dim = fc.integer({ min: 1, max: 5 });
  const point = fc.tuple(fc.integer({ min: -1, max: 5 }), fc.integer({ min: -1, max: 5 }));
  fc.assert(
    fc.property(
      dim,
      dim,
      fc.array(point, { minLength: 1, maxLength: 4 }),
      fc.boolean(),
      (rows, columns, points, byPoint) => {
        const values = Float32Array.from(points, (_, i) => i + 1);
        const indices = byPoint
          ? points.flat()
          : [...points.map(([row]) => row), ...points.map(([, column]) => column)];
        const sparse = {
          shape: [rows, columns],
          indices,
          indicesShape: byPoint ? [points.length, 2] : [2, points.length],
          values: { dtype: 'float32' as const, shape: [points.length], data: values },
        };
        const dense = orRefusal(() => densify(sparse, 'float32', byPoint));
        const isInside = points.every(
          ([row, column]) => row >= 0 && row < rows && column >= 0 && column < columns,
        );
        const isDistinct = new Set(points.map(String)).size === points.length;
        assert.equal(dense !== undefined, isInside && isDistinct);
        if (!dense) return;
        const expected = new Float32Array(rows * columns);
        for (const [i, [row, column]] of points.entries())
          expected[row * columns + column] = values[i] as number;
        assert.deepEqual(dense.data, expected);
      },
    ),
    RUNS,
  );
});

test('a large text that is no deeper than a tensor parses as JSON.parse does, and a deeper one is refused', () => {
  const text = fc.string({
    maxLength: 30,
    unit: fc.constantFrom('[', '{', '"', '\\', ']', '}', 'é', '😀', '\u0122'),
  });
  const many = `${'[],'.repeat(100_001)}0`;
  const padding = ' '.repeat(800_000);
  fc.assert(
    fc.property(fc.array(text, { maxLength: 8 }), fc.integer({ min: 1, max: 60 }), (texts, depth) => {
      const inner = `${'['.repeat(depth)}${']'.repeat(depth)}`;
      const json = `[${padding}${many},${JSON.stringify(texts)},${inner}]`;
      const parsed = orRefusal(() => parseText(json)) as unknown[] | undefined;
      // One level is the list around it.
      assert.equal(parsed !== undefined, depth + 1 <= 2 * LIMITS.tensorRank);
      if (parsed) assert.deepEqual(parsed.at(-2), texts);
    }),
    { ...RUNS, numRuns: 40 },
  );
});

test('any body in any encoding is at most 6 MiB of text or bytes, or is refused', () => {
  const body = fc.oneof(
    fc.string({ unit: character }).map((text) => ({ text, isBase64Encoded: false })),
    fc.string().map((text) => ({ text, isBase64Encoded: true })),
    fc.uint8Array({ maxLength: 99 }).chain((bytes) =>
      spoilt(gzipSync(bytes)).map((zipped) => ({
        text: Buffer.from(zipped).toString('base64'),
        isBase64Encoded: true,
      })),
    ),
  );
  const encoding = fc.oneof(fc.constantFrom('gzip', 'GZIP ', 'identity', ''), fc.string());
  fc.assert(
    fc.property(
      body,
      fc.option(encoding, { nil: undefined }),
      ({ text, isBase64Encoded }, contentEncoding) => {
        const request = readRequest({
          headers: contentEncoding === undefined ? {} : { 'content-encoding': contentEncoding },
          requestContext: { http: { method: 'POST' } },
          rawPath: '/predict',
          body: text,
          isBase64Encoded,
        } as unknown as Parameters<typeof readRequest>[0]);
        const read = orRefusal(() => request.body());
        if (read !== undefined) assert.ok(Buffer.byteLength(read) <= LIMITS.httpBodyBytes);
      },
    ),
    RUNS,
  );
});

test('any text is instances, or is refused; what is read can be written as a message', () => {
  const text = fc.oneof(
    fc.string(),
    fc.json(),
    fc.array(fc.dictionary(fc.string(), fc.jsonValue())).map((instances) => JSON.stringify({ instances })),
  );
  fc.assert(
    fc.property(text, (body) => {
      const instances = orRefusal(() => decodeInstances(body));
      if (!instances) return;
      for (const instance of instances) {
        const [again] = decodeInstances(instanceText(instance));
        assert.deepEqual([...(again ?? [])], [...instance]);
      }
    }),
    RUNS,
  );
});

test('two uris never share a key, and what a message quotes is short', () => {
  const uri = fc.string({ maxLength: 30, unit: character });
  fc.assert(
    fc.property(
      uri,
      uri,
      fc.array(fc.string({ maxLength: 300 }), { maxLength: 20 }),
      fc.anything(),
      (a, b, names, value) => {
        const [one, two] = [a, b].map((text) => orRefusal(() => resultKey('job', assertUri(text))));
        if (one !== undefined && two !== undefined) assert.equal(one === two, a === b);
        for (const text of names) assert.ok(quoteName(text).length <= 6 * 80 + 5);
        assert.ok(quoteNames(names).length <= 8 * (6 * 80 + 7) + 20);
        assert.ok(quoteValue(value).length <= 6 * 80 + 5);
      },
    ),
    RUNS,
  );
});
