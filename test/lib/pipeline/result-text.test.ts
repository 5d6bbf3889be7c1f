/** The text of a result is made in pieces, so that a large one is never in memory twice. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { NamedTensor } from '../../../lib/contract/values.ts';
import { largeText, resultPieces, resultText } from '../../../lib/pipeline/answer/result-text.ts';

const resultOf = (outputs: readonly NamedTensor[], more = {}) => ({
  uri: 'u',
  outputs,
  filtered: undefined,
  model: 'v',
  finishedAt: 1_000,
  identity: 'i',
  ...more,
});
const HEAD =
  '{"uri":"u","identity":"i","status":"succeeded","model":"v","finishedAt":"1970-01-01T00:00:01.000Z"';
const bytes = (length: number): NamedTensor => ({
  name: 'y',
  dtype: 'uint8',
  shape: [length],
  data: new Uint8Array(length),
});

test('a piece has 65,536 elements at most', () => {
  for (const [length, sizes] of [
    [0, []],
    [1, [1]],
    [65_536, [65_536]],
    [65_537, [65_536, 1]],
    [150_000, [65_536, 65_536, 18_928]],
  ] as const) {
    const pieces = [...resultPieces(resultOf([bytes(length)]))];
    const counts = pieces
      .filter((piece) => /^[0,]+$/.test(piece))
      .map((piece) => piece.replaceAll(',', '').length);
    assert.deepEqual(counts, sizes);
    const { outputs } = JSON.parse(pieces.join('')) as { outputs: { data: number[] }[] };
    assert.equal(outputs[0]?.data.length, length);
  }
});

test('outputs, a value, or what the filter left', () => {
  const text: NamedTensor = { name: 't', dtype: 'string', shape: [1, 2], data: ['a"', 'b'] };
  const wide: NamedTensor = {
    name: 'w',
    dtype: 'int64',
    shape: [3],
    data: BigInt64Array.of(2n ** 53n - 1n, 2n ** 53n, -1n),
  };
  assert.equal(
    resultText(resultOf([text, wide])),
    `${HEAD},"outputs":[{"name":"t","dtype":"string","shape":[1,2],"data":["a\\"","b"]},{"name":"w","dtype":"int64","shape":[3],"data":[9007199254740991,"9007199254740992",-1]}]}`,
  );
  assert.equal(resultText(resultOf([])), `${HEAD},"outputs":[]}`);
  assert.equal(resultText(resultOf([], { filtered: '[1]' })), `${HEAD},"filtered":"[1]"}`);
  assert.equal(resultText(resultOf([], { filtered: '[1]', value: [1, 'a'] })), `${HEAD},"value":[1,"a"]}`);
  const old = resultOf([], { identity: '' });
  assert.equal(resultText(old), `${HEAD.replace('"identity":"i",', '')},"outputs":[]}`);
});

test('a large result says how large it is and where it can be asked for', () => {
  const digest = { bytes: 7, sha256: 'abc' };
  assert.equal(largeText(resultOf([]), digest), `${HEAD},"large":{"bytes":7,"sha256":"abc"}}`);
  assert.equal(
    largeText(resultOf([]), digest, '/x'),
    `${HEAD},"large":{"bytes":7,"sha256":"abc","location":"/x"}}`,
  );
});
