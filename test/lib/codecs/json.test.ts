import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseExactly, parseText } from '../../../lib/codecs/json.ts';
import { isIntricate, JsonStructure } from '../../../lib/codecs/json-structure.ts';
import { keysInOrder } from '../../../lib/codecs/key-order.ts';
import { INFINITY } from '../../../lib/contract/json-numbers.ts';
import fc from '../../support/fast-check.ts';

/** Long enough, and with enough brackets, that the depth is looked at before it is parsed. */
const many = (item: string) => `[${Array<string>(130_000).fill(item).join(',')}]`;

test('hundreds of thousands of arrays or objects side by side do not count as depth', () => {
  for (const item of ['[       ]', '{       }', '{"a":[ ]}']) {
    assert.equal((parseText(many(item)) as unknown[]).length, 130_000, item);
  }
});

test('brackets and escaped quotes within a text do not count as depth', () => {
  const text = JSON.stringify({ brackets: '['.repeat(200_000), quoted: '"['.repeat(200_000), end: '\\' });
  assert.ok(text.length > (1024 * 1024) / 2);
  const padded = `${text.slice(0, -1)},"pad":"${'x'.repeat(1024 * 1024)}"}`;
  assert.equal((parseText(padded) as { quoted: string }).quoted.length, 400_000);
});

test('a large text is refused when it is nested deeper than any tensor, also behind many texts', () => {
  const deep = `${'['.repeat(200_000)}${']'.repeat(200_000)}`;
  const texts = many('"a[b"').slice(0, -1);
  assert.throws(() => parseText(`${texts},${deep}]`), { code: 'too_large' });
});

test('a text is searched only where it is large and has many brackets, members or texts', () => {
  const MANY = 3_200_000;
  for (const [parts, length, expected] of [
    ['['.repeat(100_000), MANY, false],
    ['['.repeat(100_001), MANY, true],
    ['{'.repeat(100_001), MANY, true],
    ['[{'.repeat(50_001), MANY, true],
    ['['.repeat(100_001), 1_048_576, false],
    ['['.repeat(100_001), 1_048_577, true],
    [':'.repeat(262_144), MANY, false],
    [':'.repeat(262_145), 8 * 262_144, false],
    [':'.repeat(262_145), 8 * 262_144 + 1, true],
    ['"'.repeat(2 * 524_288), MANY, false],
    ['"'.repeat(2 * 524_288 + 1), 6 * 524_288, false],
    ['"'.repeat(2 * 524_288 + 1), 6 * 524_288 + 1, true],
    ['', MANY, false],
  ] as const) {
    const what = `${parts.length} of ${parts.slice(0, 2)} in ${length}`;
    assert.equal(isIntricate(parts.padEnd(length, '1')), expected, what);
  }
});

test('a large text of too many members, texts, or arrays and objects is refused with the limit', () => {
  const refused = [
    ['jsonMembers', `[${'{"a":1000,"b":2000,"c":3000},'.repeat(87_382)}0]`],
    ['jsonObjects', `[${'{},'.repeat(131_073)}${'1,'.repeat(400_000)}0]`],
    ['texts', `[${'"abcd",'.repeat(524_289)}0]`],
    ['jsonArrays', `[${'[],'.repeat(524_289)}0]`],
  ] as const;
  for (const [limit, text] of refused) {
    const message = new RegExp(`are over the limit of \\d+ in 6 MiB \\(${limit}\\)$`);
    assert.throws(() => parseText(text), { code: 'too_large', message });
    // A record may have 32 MiB, so as many more bytes are allowed.
    const padded = `${text.slice(0, -2)}"${'x'.repeat(7 * 1024 * 1024)}"]`;
    assert.ok(parseText(padded));
    assert.ok(parseText(text, 200, Infinity));
  }
});

test('of several texts that share the limits, each has its own depth, also behind one that is refused', () => {
  const structure = new JsonStructure(0, 'the body is ');
  const deep = `${' '.repeat(70_000)}${'['.repeat(40)}`;
  for (const text of [`${'['.repeat(20)}${' '.repeat(70_000)}${deep}`, deep]) {
    const message = /^the body is nested deeper than 16/;
    assert.throws(() => structure.read(text, 32), { code: 'too_large', message });
    structure.read('['.repeat(32), 32);
  }
  structure.read('{"a":0},'.repeat(100_000), 32);
  const message = /^the body is JSON whose objects are over the limit of 131072 in 6 MiB \(jsonObjects\)$/;
  assert.throws(() => structure.read('{"a":0},'.repeat(40_000), 32), { code: 'too_large', message });
});

const leaf = fc.oneof(
  fc.integer(),
  fc.double({ noNaN: true, noDefaultInfinity: true }),
  fc.string(),
  fc.string({ unit: fc.constantFrom('\u0001', '"', '\\', 'N', 'a', '9', ':', ',', ' ', 'é') }),
  fc.constantFrom('9007199254740993', 'NaN', '\u00019007199254740993'),
  fc.bigInt({ min: -(2n ** 66n), max: 2n ** 66n }),
  fc.boolean(),
  fc.constant(null),
);
const { tree } = fc.letrec((tie) => ({
  tree: fc.oneof(
    leaf,
    fc.array(tie('tree'), { maxLength: 4 }),
    fc.dictionary(fc.oneof(fc.string(), fc.constantFrom('\u0001a', '__proto__', '10')), tie('tree'), {
      maxKeys: 4,
    }),
  ),
}));

/** JSON with bigints, and white space. */
function write(value: unknown): string {
  if (typeof value === 'bigint') return String(value);
  if (Array.isArray(value)) return `[ ${value.map(write).join(' ,\n')} ]`;
  if (typeof value !== 'object' || value === null) return JSON.stringify(value);
  const members = Object.entries(value).map(([name, held]) => `${JSON.stringify(name)} :\t${write(held)}`);
  return `{${members.join(', ')}}`;
}

/** The value that is read: integers of up to 20 digits exactly. */
function read(value: unknown): unknown {
  if (typeof value !== 'bigint') return value;
  return Number.isSafeInteger(Number(value)) || String(value).replace('-', '').length > 20
    ? Number(value)
    : value;
}

test('too many numbers that JSON.parse rounds are refused', () => {
  const numbers = (count: number) => `[${'9007199254740993,'.repeat(count)}0]`;
  assert.equal((parseExactly(numbers(262_144)) as unknown[])[262_143], 9007199254740993n);
  const message = /over the limit of 262144 \(jsonSpecials\)/;
  assert.throws(() => parseExactly(numbers(262_145)), { code: 'too_large', message });
});

test('words of Python are numbers, and an infinity is none that JSON.parse makes', () => {
  const text =
    '{"a":[NaN,-NaN,1e309],"Infinity":"NaN, Infinity","b":[Infinity,-Infinity,9007199254740993,"\\u0001NaN"]}';
  const { a, b, Infinity: held } = parseExactly(text) as Record<string, unknown[]>;
  assert.deepEqual([a, held], [[NaN, NaN, Infinity], 'NaN, Infinity']);
  assert.deepEqual(b, [INFINITY, -INFINITY, 9007199254740993n, '\u0001NaN']);
  assert.deepEqual([Number(INFINITY), Number(-INFINITY)], [Infinity, -Infinity]);
  for (const broken of ['[NaN', '{NaN:1}', '[NaN,]', '[0.0-NaN]', '[NaN1]', '[aNaN]', '"NaN', 'Nan'])
    assert.throws(() => parseExactly(broken), SyntaxError, broken);
  assert.throws(() => parseText('[NaN]'), SyntaxError);
  assert.throws(() => parseExactly(`[${'NaN,'.repeat(262_144)}NaN]`), { code: 'too_large' });
});

test('integers beyond 2^53 are read exactly, and nothing else changes', () => {
  fc.assert(
    fc.property(tree, (value) => {
      const text = write(value);
      const expected = JSON.parse(text, (key, held: unknown, { source = '' }: { source?: string } = {}) => {
        void key;
        return typeof held === 'number' && /^-?\d+$/.test(source) ? read(BigInt(source)) : held;
      }) as unknown;
      assert.deepEqual(parseExactly(text), expected);
    }),
    { numRuns: 500 },
  );
});

const name = fc.oneof(
  fc.nat(30).map(String),
  fc.constantFrom('a', 'b"', '\u00e9', '\\', '__proto__', '}{]['),
);
const pairs = fc.array(
  fc.tuple(name, fc.oneof(tree, fc.constantFrom({ 1: 1, 0: { 3: 0 } }, [{ 2: 1, 0: 0 }]))),
  {
    minLength: 1,
    maxLength: 6,
  },
);
const objectOf = (members: readonly (readonly [string, unknown])[]) =>
  `{${members.map(([key, value]) => `${JSON.stringify(key)}: ${write(value)}`).join(' , ')}}`;

test('keys keep the order of the text, also those that are indices, wherever the text has others of the same name', () => {
  fc.assert(
    fc.property(fc.array(pairs, { minLength: 1, maxLength: 4 }), pairs, (objects, others) => {
      const before = objectOf(others.filter(([key]) => key !== 'list'));
      const list = `[${objects.map(objectOf).join(',')}]`;
      const text = `{"list":[${before}],"other":${before},"l\\u0069st" : ${list},"last":[${before}]}`;
      const parsed = JSON.parse(text) as { list: Record<string, unknown>[] };
      const keysOf = keysInOrder(text, 'list');
      for (const [index, members] of objects.entries()) {
        const unique = [...new Set(members.map(([key]) => key))];
        assert.deepEqual(keysOf(parsed.list[index] as Record<string, unknown>, index), unique);
        const alone = objectOf(members);
        assert.deepEqual(keysInOrder(alone)(JSON.parse(alone) as Record<string, unknown>), unique);
      }
    }),
    { numRuns: 500 },
  );
});
