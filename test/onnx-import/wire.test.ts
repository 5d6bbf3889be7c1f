/** Protobuf's two encodings through our tables: what is read, what is skipped, and that nothing hostile gets through. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ServingError } from '../../lib/contract/errors.ts';
import { readMessage } from '../../onnx-import/wire/binary.ts';
import {
  bytesOf,
  flagOf,
  mapOf,
  messageOf,
  messagesOf,
  numberOf,
  numbersOf,
  plainNumbersOf,
  textOf,
  textsOf,
} from '../../onnx-import/wire/message.ts';
import type { Message, Table } from '../../onnx-import/wire/table.ts';
import { readText } from '../../onnx-import/wire/text.ts';
import fc from '../support/fast-check.ts';
import { bytes, double, fixed32, float, floats, int, ints, tag, varint } from './support/protobuf.ts';

const ENTRY: Table = { 1: { name: 'key', type: 'string' }, 2: { name: 'value', type: () => THING } };
const THING: Table = {
  1: { name: 'flag', type: 'bool' },
  2: { name: 'count', type: 'int32' },
  3: { name: 'big', type: 'int64' },
  4: { name: 'huge', type: 'uint64' },
  5: { name: 'mode', type: 'enum', enumNames: { MAX: 0, AVE: 1 } },
  6: { name: 'ratio', type: 'float' },
  7: { name: 'exact', type: 'double' },
  8: { name: 'label', type: 'string' },
  9: { name: 'raw', type: 'bytes' },
  10: { name: 'crc', type: 'fixed32' },
  11: { name: 'child', type: () => THING },
  12: { name: 'children', type: () => THING, repeated: true },
  13: { name: 'ratios', type: 'float', repeated: true },
  14: { name: 'sizes', type: 'int64', repeated: true },
  15: { name: 'counts', type: 'int32', repeated: true },
  16: { name: 'labels', type: 'string', repeated: true },
  17: { name: 'things', type: () => ENTRY, map: true },
  18: { name: 'modes', type: 'enum', repeated: true, enumNames: { MAX: 0, AVE: 1 } },
  19: { name: 'flags', type: 'bool', repeated: true },
};

function read(...parts: readonly Buffer[]): Message {
  return readMessage(Buffer.concat(parts), THING, { what: 'thing.pb' });
}

function refuses(run: () => unknown, pattern: RegExp): void {
  assert.throws(run, (error: unknown) => {
    assert.ok(error instanceof ServingError, String(error));
    assert.equal(error.code, 'bad_model');
    assert.match(error.message, pattern);
    return true;
  });
}

test('binary: every scalar type is read, and what is absent stays undefined', () => {
  const message = read(
    int(1, true),
    int(2, -5),
    int(3, -(2n ** 40n)),
    int(4, 2n ** 63n),
    int(5, 1),
    float(6, 0.5),
    double(7, 0.1),
    bytes(8, 'naïve'),
    bytes(9, Buffer.from([0, 255])),
    fixed32(10, 0xdeadbeef),
  );
  assert.equal(flagOf(message, 'flag'), true);
  assert.equal(numberOf(message, 'count'), -5);
  assert.equal(numberOf(message, 'big'), -(2 ** 40));
  assert.equal(numberOf(message, 'huge'), 2 ** 63);
  assert.equal(numberOf(message, 'mode'), 1);
  assert.equal(numberOf(message, 'ratio'), 0.5);
  assert.equal(numberOf(message, 'exact'), 0.1);
  assert.equal(textOf(message, 'label'), 'naïve');
  assert.deepEqual([...bytesOf(message, 'raw')], [0, 255]);
  assert.equal(numberOf(message, 'crc'), 0xdeadbeef);
  assert.equal(message['child'], undefined);
  assert.equal(message['constructor'], undefined);
});

test('binary: packed, unpacked and mixed runs of numbers give the same typed array', () => {
  const mixed = read(floats(13, [1, 2]), float(13, 3), floats(13, [4]));
  assert.deepEqual(numbersOf(mixed, 'ratios'), new Float32Array([1, 2, 3, 4]));
  const sizes = read(ints(14, [1, -1]), int(14, 2n ** 62n));
  assert.deepEqual(numbersOf(sizes, 'sizes'), new BigInt64Array([1n, -1n, 2n ** 62n]));
  const counts = read(int(15, 7), ints(15, [-8, 9]));
  assert.deepEqual(numbersOf(counts, 'counts'), new Int32Array([7, -8, 9]));
  assert.deepEqual(numbersOf(read(ints(19, [1, 0, 300])), 'flags'), new Uint8Array([1, 0, 1]));
});

test('binary: packed floats and byte fields are views of the file, and misaligned floats are a copy', () => {
  const file = new Uint8Array(Buffer.concat([bytes(9, 'ab'), bytes(8, ''), floats(13, [1, 2])]));
  for (const shift of [0, 1, 2, 3]) {
    const moved = new Uint8Array(file.length + shift).subarray(shift);
    moved.set(file);
    const message = readMessage(moved, THING);
    assert.equal(bytesOf(message, 'raw').buffer, moved.buffer);
    assert.deepEqual(numbersOf(message, 'ratios'), new Float32Array([1, 2]));
  }
  const aligned = new Uint8Array(Buffer.concat([bytes(9, ''), floats(13, [1, 2])]));
  assert.equal(numbersOf(readMessage(aligned, THING), 'ratios')?.buffer, aligned.buffer);
});

test('binary: a message that comes twice is merged, repeated ones are listed', () => {
  const message = read(
    bytes(11, int(2, 1), floats(13, [1])),
    bytes(11, bytes(8, 'x'), floats(13, [2])),
    bytes(12, int(2, 1)),
    bytes(12, int(2, 2)),
  );
  const child = messageOf(message, 'child') as Message;
  assert.equal(numberOf(child, 'count'), 1);
  assert.equal(textOf(child, 'label'), 'x');
  assert.deepEqual(numbersOf(child, 'ratios'), new Float32Array([1, 2]));
  assert.deepEqual(
    messagesOf(message, 'children').map((one) => numberOf(one, 'count')),
    [1, 2],
  );
});

test('binary: a map keeps the last of equal keys, and a key named __proto__ is only a key', () => {
  const entry = (key: string, count: number): Buffer => bytes(17, bytes(1, key), bytes(2, int(2, count)));
  const things = mapOf(read(entry('a', 1), entry('__proto__', 2), entry('a', 3), bytes(17)), 'things');
  assert.deepEqual([...things.keys()], ['a', '__proto__', '']);
  assert.equal(numberOf(things.get('a') as Message, 'count'), 3);
});

test('binary: unknown fields of every wire type are skipped, groups too', () => {
  const group = Buffer.concat([tag(50, 3), int(1, 1), tag(51, 3), bytes(2, 'x'), tag(51, 4), tag(50, 4)]);
  const unknown = [int(60, 5), double(61, 1), bytes(62, 'abc'), fixed32(63, 1), group];
  assert.equal(numberOf(read(...unknown, int(2, 4)), 'count'), 4);
  assert.equal(read(bytes(2, 'not a number'))['count'], undefined);
});

test('binary: broken input is refused with the file and the offset', () => {
  refuses(
    () => read(bytes(8, 'abc').subarray(0, 4)),
    /thing\.pb: .*says 3 bytes and 2 are left \(at byte 1\)/,
  );
  refuses(
    () => read(Buffer.concat([tag(9, 2), varint(2n ** 63n)])),
    /says 9223372036854776000 bytes and 0 are left/,
  );
  refuses(() => read(Buffer.concat([tag(13, 2), varint(2n ** 64n - 1n)])), /are left/);
  refuses(() => read(Buffer.concat([tag(2, 0), Buffer.alloc(11, 0xff)])), /longer than ten bytes/);
  refuses(() => read(bytes(13, 'abc')), /no whole number of floats/);
  refuses(() => read(ints(14, [300]).subarray(0, 2), Buffer.from([0xff])), /cut off|are left/);
  refuses(() => read(tag(50, 3)), /a group has no end/);
  refuses(() => read(tag(50, 4)), /unopened group end/);
  refuses(() => read(Buffer.concat([tag(50, 3), tag(51, 4)])), /another number/);
  refuses(() => read(tag(0, 0)), /no valid number/);
  refuses(() => read(tag(7, 6)), /unknown type/);
});

test('binary: nesting, item and number limits hold', () => {
  let nested = bytes(11);
  for (let i = 0; i < 200; i += 1) nested = bytes(11, nested);
  refuses(() => read(nested), /nested deeper than 100/);
  refuses(() => read(Buffer.concat(Array.from({ length: 200 }, () => tag(50, 3)))), /nested deeper than 100/);
  const many = Buffer.concat(Array.from({ length: 50 }, () => bytes(12)));
  refuses(() => readMessage(many, THING, { limits: { items: 20 } }), /more than 20 messages/);
  refuses(() => readMessage(ints(14, [1, 2, 3]), THING, { limits: { numbers: 2 } }), /more than 2 loose/);
  const pieces = Buffer.concat(Array.from({ length: 20 }, () => bytes(11, float(13, 1))));
  refuses(() => readMessage(pieces, THING, { limits: { numbers: 100 } }), /more than 100 loose/);
});

test('binary: a file cut anywhere is read or refused, never anything else', () => {
  const file = Buffer.concat([
    int(3, 2n ** 60n),
    bytes(17, bytes(1, 'key'), bytes(2, bytes(11, floats(13, [1, 2, 3])))),
    ints(14, [1, 2n ** 40n]),
    bytes(8, 'a label'),
  ]);
  for (let cut = 0; cut < file.length; cut += 1)
    readsOrRefuses(() => readMessage(file.subarray(0, cut), THING));
});

test('binary: random bytes are read or refused, never anything else', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 200 }), (random) => {
      readsOrRefuses(() => readMessage(random, THING));
    }),
    { numRuns: 2000 },
  );
});

test('text: the same table reads prototxt in its many spellings', () => {
  const message = readText(
    `# a comment
     flag: true, count: -5; big: -0x10
     mode: AVE ratio: -1.5e-3f exact: inf
     label: "it's" ' \\"two\\"\\n' # joined
     raw: "\\000\\377\\x41é"
     child { count: 010 child: < label: '' > }
     children { count: 1 } children: { count: 2 }
     ratios: [1, .5, 2.] ratios: nan
     sizes: -9223372036854775808 sizes: 9223372036854775807
     things { key: "k" value { count: 3 } }
     modes: [MAX, AVE, 1] flags: false flags: 1`,
    THING,
  );
  assert.equal(flagOf(message, 'flag'), true);
  assert.equal(numberOf(message, 'count'), -5);
  assert.equal(numberOf(message, 'big'), -16);
  assert.equal(numberOf(message, 'mode'), 1);
  assert.equal(numberOf(message, 'ratio'), Math.fround(-1.5e-3));
  assert.equal(numberOf(message, 'exact'), Number.POSITIVE_INFINITY);
  assert.equal(textOf(message, 'label'), 'it\'s "two"\n');
  assert.deepEqual([...bytesOf(message, 'raw')], [0, 255, 0x41, 0xc3, 0xa9]);
  const child = messageOf(message, 'child') as Message;
  assert.equal(numberOf(child, 'count'), 8);
  assert.equal(textOf(messageOf(child, 'child') as Message, 'label', 'none'), '');
  assert.equal(messagesOf(message, 'children').length, 2);
  assert.deepEqual(numbersOf(message, 'ratios'), new Float32Array([1, 0.5, 2, Number.NaN]));
  assert.deepEqual(numbersOf(message, 'sizes'), new BigInt64Array([-(2n ** 63n), 2n ** 63n - 1n]));
  assert.equal(numberOf(mapOf(message, 'things').get('k') as Message, 'count'), 3);
  assert.deepEqual(plainNumbersOf(message, 'modes'), [0, 1, 1]);
  assert.deepEqual(numbersOf(message, 'flags'), new Uint8Array([0, 1]));
});

test('text: unknown fields are skipped with their blocks, and reported to who asks', () => {
  const seen: string[] = [];
  const message = readText(
    `extra { a: 1 b { c: "}" } } odd: -3 words: "a" "b"
     list: [1, {x: 2}] [my.extension] { y: 1 } label: "kept"`,
    THING,
    { onUnknown: (name, line) => seen.push(`${name}@${line}`) },
  );
  assert.equal(textOf(message, 'label'), 'kept');
  assert.deepEqual(seen, ['extra@1', 'odd@1', 'words@1', 'list@2', '[my.extension]@2']);
});

test('text: a defect is refused with its line and what was expected', () => {
  const cases: [string, RegExp][] = [
    ['label: "open', /no closing quote \(line 1\)/],
    ['\n\ncount: 1.5', /count is of type int32, got 1\.5 \(line 3\)/],
    ['count: 3000000000', /count is of type int32/],
    ['mode: MEDIAN', /mode is of type enum, got MEDIAN/],
    ['count 1', /expected ":"/],
    ['child: 3', /child is a message: expected "\{", got "3"/],
    ['child { count: 1', /expected the name of a field or "\}", got the end/],
    ['}', /expected the name of a field, got "\}"/],
    ['count: 1 count: 2', /count comes twice/],
    ['label: [ "a" ]', /is not repeated and got a list/],
    ['ratios: [1, 2', /expected "\]"/],
    ['extra { ', /a block has no end/],
    ['extra { ]', /closes nothing/],
    ['label: "\\q"', /unknown escape/],
    ['flag: yes', /flag is of type bool/],
    ['count: @', /unexpected character/],
  ];
  for (const [text, pattern] of cases) refuses(() => readText(text, THING), pattern);
});

test('text: nesting is limited, in unknown blocks too', () => {
  refuses(() => readText('child {'.repeat(500), THING), /nested deeper than 100/);
  refuses(() => readText('extra {'.repeat(500), THING), /nested deeper than 100/);
  refuses(() => readText('children {} '.repeat(50), THING, { limits: { items: 20 } }), /more than 20/);
  // With the whole message itself.
  readText('children {} '.repeat(19), THING, { limits: { items: 20 } });
  refuses(() => readText('children {} '.repeat(20), THING, { limits: { items: 20 } }), /more than 20/);
});

test('text: random text of its own tokens is read or refused, never anything else', () => {
  const words = 'child count label ratios zzz : { } < > [ ] , - 1 1.5 "a" \'\\1\' " \\ # inf true'.split(' ');
  const token = fc.constantFrom(...words, '\n');
  fc.assert(
    fc.property(
      fc.oneof(fc.array(token, { maxLength: 30 }), fc.array(fc.string(), { maxLength: 5 })),
      (parts) => {
        readsOrRefuses(() => readText(parts.join(' '), THING));
      },
    ),
    { numRuns: 2000 },
  );
});

test('both encodings give equal messages for equal content', () => {
  fc.assert(
    fc.property(
      fc.array(fc.float({ noNaN: true }), { maxLength: 5 }),
      fc.array(fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }), { maxLength: 5 }),
      fc.array(fc.string({ unit: 'grapheme-ascii' }), { maxLength: 3 }),
      (ratios, sizes, labels) => {
        const binary = read(
          ...ratios.map((x) => float(13, x)),
          ints(14, sizes),
          ...labels.map((x) => bytes(16, x)),
        );
        const text = readText(
          [
            ...ratios.map((x) => `ratios: ${Object.is(x, -0) ? '-0' : String(x).replace('Infinity', 'inf')}`),
            ...sizes.map((x) => `sizes: ${x}`),
            ...labels.map((x) => `labels: ${JSON.stringify(x)}`),
          ].join('\n'),
          THING,
        );
        assert.deepEqual(numbersOf(text, 'ratios'), numbersOf(binary, 'ratios'));
        if (sizes.length > 0) assert.deepEqual(numbersOf(text, 'sizes'), numbersOf(binary, 'sizes'));
        assert.deepEqual(textsOf(text, 'labels'), textsOf(binary, 'labels'));
      },
    ),
  );
});

function readsOrRefuses(run: () => unknown): void {
  try {
    run();
  } catch (error) {
    if (!(error instanceof ServingError) || error.code !== 'bad_model') throw error;
  }
}
