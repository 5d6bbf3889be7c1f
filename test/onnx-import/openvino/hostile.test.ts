/**
 * Damaged and malicious files: each ends in one error, or in a graph, in a bounded time. FUZZ_ROUNDS sets how many
 * mutations are tried.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ServingError } from '../../../lib/contract/errors.ts';
import { convertIr } from '../../../onnx-import/formats/openvino/convert.ts';
import { bytesOf, filesOf, netText } from '../support/openvino.ts';

const ROUNDS = Number(process.env.FUZZ_ROUNDS ?? 400);
const LONGEST_MS = 60_000;

const XML = netText(11, [
  {
    id: 0,
    name: 'data',
    type: 'Parameter',
    data: { element_type: 'f32', shape: '1,3,8,8' },
    shapes: [[1, 3, 8, 8]],
  },
  {
    id: 1,
    type: 'Const',
    data: { element_type: 'f32', shape: '2,3,3,3', offset: 0, size: 216 },
    shapes: [[2, 3, 3, 3]],
  },
  {
    id: 2,
    type: 'Convolution',
    data: { strides: '1,1', dilations: '1,1', pads_begin: '1,1', pads_end: '1,1', auto_pad: 'explicit' },
    from: [0, 1],
    shapes: [[1, 2, 8, 8]],
  },
  {
    id: 3,
    type: 'Const',
    precision: 'I64',
    data: { element_type: 'i64', shape: '2', offset: 216, size: 16 },
    shapes: [[2]],
  },
  { id: 4, type: 'Reshape', data: { special_zero: 'true' }, from: [2, 3], shapes: [[1, 128]] },
  { id: 5, type: 'Result', from: [4] },
]);
const WEIGHTS = bytesOf(new Float32Array(54).fill(0.5), BigInt64Array.of(0n, -1n));

/** Numbers of a seeded generator, each below `limit`. */
function randomNumbers(seed: number): (limit: number) => number {
  let state = seed;
  return (limit) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state % limit;
  };
}

/** Whether it was refused; anything but bad_model fails the test. */
function isRefused(xml: string, weights: Uint8Array = WEIGHTS): boolean {
  const start = performance.now();
  try {
    convertIr(filesOf(xml, weights), {}).otherwise?.();
    return false;
  } catch (error) {
    assert.ok(error instanceof ServingError && error.code === 'bad_model', String(error));
    assert.ok(error.message.length < 20_000);
    return true;
  } finally {
    assert.ok(performance.now() - start < LONGEST_MS);
  }
}

const HUGE = ['0', '-1', '1e999', 'NaN', '999999999999', '4294967296', '-2147483648', ''];

type Mutate = (text: string, next: (limit: number) => number) => string;

const MUTATIONS: Readonly<Record<string, Mutate>> = {
  cut: (text, next) => text.slice(0, next(text.length)),
  flipped: (text, next) => {
    const at = next(text.length);
    return text.slice(0, at) + String.fromCodePoint(1 + next(126)) + text.slice(at + 1);
  },
  repeated: (text, next) => {
    const [from, length] = [next(text.length), next(400)];
    return text.slice(0, from + length) + text.slice(from);
  },
  renumbered: (text, next) => {
    const numbers = [...text.matchAll(/\d+/g)];
    const { index, 0: found } = numbers[next(numbers.length)] as RegExpExecArray;
    return text.slice(0, index) + HUGE[next(HUGE.length)] + text.slice(index + found.length);
  },
};
for (const [what, mutate] of Object.entries(MUTATIONS)) {
  test(`a file that is ${what} at random places is refused or converted, never worse`, () => {
    const next = randomNumbers(7);
    for (let round = 0; round < ROUNDS / 4; round++) isRefused(mutate(XML, next));
  });
}

test('the file itself is converted', () => assert.equal(isRefused(XML), false));

test('weights cut at any length are refused', () => {
  for (let length = 0; length < WEIGHTS.length; length++)
    assert.ok(isRefused(XML, WEIGHTS.subarray(0, length)));
});

test('elements nested without end are refused', () => {
  assert.ok(isRefused(`<net version="11">${'<a>'.repeat(50_000)}${'</a>'.repeat(50_000)}</net>`));
});

test('names of prototypes are names like any other', () => {
  for (const name of ['__proto__', 'constructor', 'toString'])
    for (const place of ['type="Reshape"', 'name="data"', 'strides="1,1"'])
      isRefused(XML.replace(place, `${place.split('=')[0]}="${name}"`));
  assert.equal(isRefused(XML.replace('name="data"', 'name="__proto__"')), false);
});

test('many layers that each take from the one before are walked without recursion', () => {
  const count = 5_000;
  const shape = [1, 3];
  const xml = netText(11, [
    { id: 0, type: 'Parameter', data: { element_type: 'f32', shape: '1,3' }, shapes: [shape] },
    ...Array.from({ length: count }, (_, i) => ({ id: i + 1, type: 'Exp', from: [i], shapes: [shape] })),
    { id: count + 1, type: 'Result', from: [count] },
  ]);
  assert.equal(isRefused(xml), false);
});
