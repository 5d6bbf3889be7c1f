/** Lines of captures: what is written is read back to the last bit, and what must not be written is not there. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { readHeader, readLine } from '../../../../lib/codecs/capture/read.ts';
import { captureLine, headerLine } from '../../../../lib/codecs/capture/write.ts';
import { parseExactly } from '../../../../lib/codecs/json.ts';
import type { CaptureFacts } from '../../../../lib/contract/capture.ts';
import { JsonNumbers, jsonValue } from '../../../../lib/contract/json-numbers.ts';
import type { NamedTensor, Outcome, Value } from '../../../../lib/contract/values.ts';
import fc from '../../../support/fast-check.ts';

const FACTS: CaptureFacts = { at: 1_700_000_000_123, source: 'queue', id: 'a "uri"\u2028é' };
const ALL = { include: ['*'], leaveOut: [] };

function written(values: ReadonlyMap<string, Value>, outcome?: Outcome, columns = ALL) {
  const line = captureLine(FACTS, [values], outcome && [outcome], columns);
  assert.ok(!line.includes('\n'));
  const { records, ...facts } = readLine(line);
  assert.deepEqual({ ...facts, form: facts.form }, { ...FACTS, form: undefined });
  const [record] = records;
  assert.ok(record);
  return record;
}

const NUMBERS = [0, -0, 1.5, -1e-45, 3.4e38, Math.PI, Number.NaN, Infinity, -Infinity];

describe('a captured value', () => {
  test('of JSON is read back as it was, in any nesting', () => {
    const leaf = fc.oneof(
      fc.double(),
      fc.integer(),
      fc.boolean(),
      fc.string(),
      fc.bigInt({ min: 2n ** 53n, max: 2n ** 64n - 1n }),
    );
    const { nested } = fc.letrec((tie) => ({
      nested: fc.oneof(leaf, fc.array(tie('nested'), { maxLength: 4 })),
    }));
    fc.assert(
      fc.property(nested, fc.string(), (content, name) => {
        const record = written(new Map([[name, jsonValue(plain(content))]]));
        const value = record.inputs.get(name);
        assert.deepEqual(value?.kind === 'json' && value.value, plain(content));
      }),
    );
  });

  test('of many numbers is the text that was sent', () => {
    const text = '[[0.10, -0.0,\n 1e-7], [1, 2, 30000000000000000001]]';
    const parts = [Float64Array.of(0.1, -0, 1e-7, 1, 2, 3e19)];
    const reader = { precision: 'float64', again: () => parts, nested: parseExactly } as const;
    const sent = jsonValue(new JsonNumbers([2, 3], parts, text, reader));
    const read = written(new Map([['x', sent]])).inputs.get('x');
    assert.ok(read?.kind === 'json');
    assert.deepEqual(read.value, parseExactly(text));
  });

  for (const [dtype, array] of [
    ['float32', Float32Array],
    ['float64', Float64Array],
  ] as const)
    test(`of ${dtype} keeps the bits of each number`, () => {
      const data = array.from(NUMBERS);
      const tensor = { dtype, shape: [3, 3], data };
      const read = written(new Map([['x', { kind: 'tensor', tensor }]])).inputs.get('x');
      assert.ok(read?.kind === 'tensor');
      assert.deepEqual(read.tensor, tensor);
      fc.assert(
        fc.property(dtype === 'float32' ? fc.float() : fc.double(), (value) => {
          const outputs: NamedTensor[] = [{ name: 'y', dtype, shape: [1], data: array.of(value) }];
          assert.deepEqual(written(new Map(), { ok: true, outputs }).outputs, outputs);
        }),
      );
    });

  test('of every other dtype is read back, as an input and as an output', () => {
    const tensors = [
      { dtype: 'float16', shape: [4], data: Uint16Array.of(0, 0x8000, 0x7c00, 0x3555) },
      { dtype: 'int64', shape: [2], data: BigInt64Array.of(-(2n ** 63n), 2n ** 63n - 1n) },
      { dtype: 'uint64', shape: [1], data: BigUint64Array.of(2n ** 64n - 1n) },
      { dtype: 'int32', shape: [1, 1], data: Int32Array.of(-(2 ** 31)) },
      { dtype: 'uint8', shape: [0], data: new Uint8Array() },
      { dtype: 'bool', shape: [2], data: Uint8Array.of(1, 0) },
      { dtype: 'string', shape: [2], data: ['\u0001x', 'NaN'] },
    ] as const;
    for (const tensor of tensors) {
      const outcome: Outcome = { ok: true, outputs: [{ name: 'y', ...tensor }], place: { row: 2, rows: 5 } };
      const record = written(new Map([['x', { kind: 'tensor', tensor }]]), outcome);
      assert.deepEqual([...record.inputs], [['x', { kind: 'tensor', tensor }]]);
      assert.deepEqual(record.outputs, outcome.outputs);
      assert.deepEqual(record.place, outcome.place);
    }
  });

  test('that is sparse, a picture or a text is read back', () => {
    const values = new Map<string, Value>([
      [
        's',
        {
          kind: 'sparse',
          shape: [3, 4],
          indices: Int32Array.of(0, 1, 2, 3),
          indicesShape: [2, 2],
          values: { dtype: 'float32', shape: [2], data: Float32Array.of(0.1, -0) },
        },
      ],
      ['i', { kind: 'image', bytes: Uint8Array.of(0xff, 0xd8, 0) }],
      ['t', { kind: 'text', text: 'a|b\n' }],
    ]);
    const { inputs } = written(values);
    assert.deepEqual([...inputs.keys()], ['s', 'i', 't']);
    assert.deepEqual(inputs.get('s'), values.get('s'));
    assert.deepEqual(inputs.get('t'), values.get('t'));
    const image = inputs.get('i');
    assert.deepEqual(image?.kind === 'image' && [...image.bytes], [0xff, 0xd8, 0]);
  });

  test('keeps its place among the others, and how they bind', () => {
    const values = Object.assign(
      new Map<string, Value>([
        ['2', jsonValue(1)],
        ['1', jsonValue(2)],
        ['__proto__', jsonValue(3)],
      ]),
      { binding: 'position' } as const,
    );
    const { inputs } = written(values);
    assert.deepEqual([...inputs.keys()], ['2', '1', '__proto__']);
    assert.equal(inputs.binding, 'position');
  });
});

test('a column that is left out is in no line, neither its input nor its output', () => {
  const secret = jsonValue([123_456]);
  const outputs: NamedTensor[] = [{ name: 'copy', dtype: 'int32', shape: [1], data: Int32Array.of(123_456) }];
  const columns = { include: ['*'], leaveOut: ['secret', 'copy'] };
  const values = new Map([
    ['x', jsonValue(1)],
    ['secret', secret],
  ]);
  const line = captureLine(FACTS, [values], [{ ok: true, outputs }], columns);
  assert.ok(!line.includes('123456'));
  assert.deepEqual(readLine(line).records[0]?.left, ['secret']);
});

test('texts and pictures are written only where they are named', () => {
  const values = new Map<string, Value>([
    ['number', jsonValue(1)],
    ['review', jsonValue('a text')],
    ['photo', { kind: 'image', bytes: Uint8Array.of(1) }],
    ['words', { kind: 'tensor', tensor: { dtype: 'string', shape: [1], data: ['b'] } }],
  ]);
  const leftOf = (include: string[]) => written(values, undefined, { include, leaveOut: [] }).left;
  assert.deepEqual(leftOf([]), ['review', 'photo', 'words']);
  assert.deepEqual(leftOf(['photo']), ['review', 'words']);
  assert.deepEqual(leftOf(['*']), []);
});

test('a line that is damaged, cut or of something else is refused with what is wrong', () => {
  const line = captureLine(FACTS, [new Map([['x', jsonValue(1)]])], undefined, ALL);
  const wrong: readonly (readonly [string, RegExp])[] = [
    [line.slice(0, -5), /not JSON/],
    ['[]', /expected a JSON object/],
    ['{}', /"at", "id" and "records"/],
    [line.replace('"inputs"', '"puts"'), /a record with "inputs"/],
    [line.replace('"records"', '"form":"other","records"'), /"form"/],
    [line.replace('{"x":1}', '{"x":{"y":1}}'), /expected a tensor/],
    [
      line.replace('{"x":1}', '{"x":{"tensor":{"dtype":"float32","shape":[2],"data":[1]}}}'),
      /1 elements are not/,
    ],
    [line.replace('{"x":1}', '{"x":{"tensor":{"dtype":"complex","shape":[1],"data":[1]}}}'), /unknown dtype/],
  ];
  for (const [text, message] of wrong) assert.throws(() => readLine(text), { code: 'bad_request', message });
  const header = {
    capture: 1,
    job: 'a',
    version: 'v',
    settings: { batchSize: 3 },
    runtime: { onnxruntime: '1', architecture: 'x64', features: ['avx2'], threads: 2 },
    lost: 4,
  } as const;
  assert.deepEqual(readHeader(headerLine(header)), header);
  const unnamed = { ...header, runtime: { ...header.runtime, features: undefined } };
  assert.deepEqual(readHeader(headerLine(unnamed)), unnamed);
  assert.throws(() => readHeader(line), { code: 'bad_request', message: /not a capture/ });
  assert.throws(() => readHeader('{"capture":2}'), { message: /not a capture that this release reads/ });
});

/** fast-check makes arrays without a prototype's methods here and there. */
function plain(content: unknown): unknown {
  return Array.isArray(content) ? content.map(plain) : content;
}
