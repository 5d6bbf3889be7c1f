import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Tensor } from '../../../lib/contract/tensor.ts';
import { classified } from '../../../lib/http/open-inference/classification.ts';
import {
  filterText,
  floatText,
  outputsText,
  parseFilter,
  rankingOf,
} from '../../../lib/pipeline/answer/postprocess.ts';
import { float16Bits, float16Value } from '../../../lib/pipeline/bind/cast.ts';
import fc from '../../support/fast-check.ts';
import { fixture } from '../../support/fixtures.ts';

const floats = (data: readonly number[], shape: readonly number[] = [data.length]): Tensor => ({
  dtype: 'float32',
  shape,
  data: Float32Array.from(data),
});

/** As a model gives them: the raw bits. */
const halves = (data: readonly number[], shape: readonly number[] = [data.length]): Tensor => ({
  dtype: 'float16',
  shape,
  data: Uint16Array.from(data, float16Bits),
});

const filtered = (filter: string, ...outputs: Tensor[]) => {
  const parsed = parseFilter(filter);
  assert.ok(parsed);
  return filterText(outputs, parsed);
};

test('topN gives the n largest with their index, as valid JSON', () => {
  assert.equal(filtered('topN(2)', floats([3, 2, 1, 4, 5])), '[[4,5.0],[3,4.0]]');
  assert.equal(filtered('topN(9)', floats([3, 1, 2])), '[[0,3.0],[2,2.0],[1,1.0]]');
  assert.equal(filtered('topN( 1 )', floats([0.1, 0.7, 0.2])), '[[1,0.7]]');
});

test('topN lists equal values by their index, whichever n is asked for', () => {
  assert.equal(filtered('topN(1)', floats([1, 5, 5, 5])), '[[1,5.0]]');
  assert.equal(filtered('topN(2)', floats([1, 5, 5, 5])), '[[1,5.0],[2,5.0]]');
  assert.equal(filtered('topN(3)', floats([0, -0, 0])), '[[0,0.0],[1,-0.0],[2,0.0]]');
  assert.equal(filtered('topN(3)', floats([2, 2, 2, 2])), '[[0,2.0],[1,2.0],[2,2.0]]');
});

test('topN agrees with sorting for any numbers', () => {
  // Zero and minus zero are equal for topN, so unique values of Object.is are not always in one order.
  const float = fc.float({ noNaN: true, noDefaultInfinity: true }).map((value) => value + 0);
  const many = fc.array(fc.oneof(float, fc.constantFrom(-1, 0, 1)), { minLength: 1, maxLength: 200 });
  fc.assert(
    fc.property(many, fc.integer({ min: 1, max: 50 }), (values, n) => {
      const data = Float32Array.from(values);
      const best = JSON.parse(filtered(`topN(${n})`, floats(values))) as [number, number][];
      const expected = [...data].sort((a, b) => b - a).slice(0, n);
      const indexes = best.map(([index]) => index);
      assert.deepEqual(
        indexes.map((index) => data[index]),
        expected,
      );
      assert.equal(new Set(indexes).size, indexes.length);
    }),
  );
});

test('topN never calls NaN the largest', () => {
  assert.equal(filtered('topN(2)', floats([Number.NaN, 1, 2])), '[[2,2.0],[1,1.0]]');
  const infinite = floats([Number.NaN, Number.NEGATIVE_INFINITY, Number.NaN]);
  assert.deepEqual(rankingOf(infinite)(3), [1, 0, 2]);
});

test('float16 is filtered by its numbers, as float32 is, and never by its bits', () => {
  const values = [-1, 2, 0.5, Number.NaN];
  for (const filter of ['topN(4)', 'topN(1)', 'pickTopN(2)'])
    assert.equal(filtered(filter, halves(values)), filtered(filter, floats(values)));
  assert.equal(filtered('topN(4)', halves(values)), '[[1,2.0],[2,0.5],[0,-1.0],[3,null]]');
  assert.equal(filtered('topN(2)', halves([5, 4, -0, Number.POSITIVE_INFINITY])), '[[3,null],[0,5.0]]');
  assert.equal(filtered('pickTopN(1)', halves([-1, 2, 0.5, 4], [2, 2])), '[[-1.0,2.0]]');
});

test('pickTopN gives the first rows', () => {
  assert.equal(filtered('pickTopN(1)', floats([2, 2, 3, 3], [2, 2])), '[[2.0,2.0]]');
  assert.equal(filtered('pickTopN(5)', floats([1, 2], [2, 1])), '[[1.0],[2.0]]');
  assert.equal(filtered('pickTopN(1)', floats([1, 2, 3, 4], [2, 1, 2])), '[[[1.0,2.0]]]');
});

test('several outputs give one entry each', () => {
  assert.equal(filtered('topN(1)', floats([1, 2]), floats([5, 4])), '[[[1,2.0]],[[0,5.0]]]');
  assert.equal(
    outputsText([floats([1]), floats([2])]),
    '[{"data":[1.0],"shape":[1]},{"data":[2.0],"shape":[1]}]',
  );
});

for (const bad of [
  'foo(1)',
  'topN',
  'topN()',
  'topN(0)',
  'topN(-1)',
  'topN(1.5)',
  'topN(1)x',
  'pickTopN(99999999999)',
]) {
  test(`the filter ${bad} is refused before anything is served with it`, () => {
    assert.throws(() => parseFilter(bad), {
      code: 'bad_config',
      message: /expected "topN\(n\)" or "pickTopN\(n\)"/,
    });
  });
}

test('without a filter, nothing is filtered', () => {
  assert.equal(parseFilter(''), undefined);
  assert.equal(parseFilter('  '), undefined);
});

test('a float32 is written with the fewest digits that read back to it', () => {
  const single = fc.float({ noNaN: true, noDefaultInfinity: true });
  fc.assert(
    fc.property(single, (value) => {
      const text = floatText(Math.fround(value), true);
      assert.equal(Math.fround(JSON.parse(text) as number), Math.fround(value));
      const digits = text.replace(/E.*$/, '').replaceAll(/[-.]/g, '').replace(/^0+/, '');
      assert.ok(digits.length <= 10, text);
    }),
    { numRuns: 2000 },
  );
});

test('every float16 is written with the fewest digits that tell it from the others', () => {
  const bits = Array.from({ length: 0x10000 }, (_, i) => i);
  const text = outputsText([{ dtype: 'float16', shape: [bits.length], data: Uint16Array.from(bits) }]);
  const { data } = JSON.parse(text) as { data: (number | null)[] };
  let longest = 0;
  for (const [i, read] of data.entries()) {
    const value = float16Value(i);
    if (!Number.isFinite(value)) {
      assert.equal(read, null);
      continue;
    }
    assert.ok(typeof read === 'number');
    assert.ok(Object.is(float16Value(float16Bits(read)), value), `${value} was written ${read}`);
    const digits = read.toExponential().replace(/e.*$/, '').replaceAll(/[-.]/g, '').length;
    longest = Math.max(longest, digits);
    // The nearest number with a digit less is another float16.
    if (Number.isInteger(value)) assert.equal(read, value);
    else if (digits > 1) assert.notEqual(float16Bits(Number(value.toPrecision(digits - 1))), i, `${read}`);
  }
  assert.equal(longest, 5);
  const halfText = (...values: number[]) => outputsText([halves(values)]);
  assert.equal(halfText(0.1, 1 / 3, 65504, -0), '{"data":[0.1,0.3333,65504.0,-0.0],"shape":[4]}');
  assert.equal(halfText(2 ** -24, 1e-3, 1), '{"data":[6.0E-8,0.001,1.0],"shape":[3]}');
});

test('floats look as Java printed them', () => {
  const cases: [number, string][] = [
    [4, '4.0'],
    [0.1306194, '0.1306194'],
    [-0.00022538425, '-2.2538425E-4'],
    [1e-5, '1.0E-5'],
    [1e7, '1.0E7'],
    [9999999, '9999999.0'],
    [0.001, '0.001'],
    [0, '0.0'],
    [-0, '-0.0'],
    [Number.NaN, 'null'],
    [Number.POSITIVE_INFINITY, 'null'],
  ];
  for (const [value, text] of cases) assert.equal(floatText(Math.fround(value), true), text);
});

test('the golden results of the original give the same JSON', async (t) => {
  const golden = await fixture(t, 'fixtures/zoo/derived/result_wire_golden.json');
  if (!golden) return;
  const { cases } = JSON.parse(golden.toString()) as {
    cases: { name: string; http_value_json: string; python_query_returns: unknown }[];
  };
  const single = cases.filter(({ name }) =>
    ['vector', 'matrix', 'batch_kept_2x', 'single_value', 'small_exponent'].includes(name),
  );
  assert.equal(single.length, 5);
  for (const { http_value_json: expected } of single) {
    const { data, shape } = JSON.parse(expected) as { data: number[]; shape: number[] };
    assert.equal(outputsText([floats(data, shape)]), expected);
  }
});

/** The original listed a later one of equal values first, or not at all, as the places of all n were taken. */
const OWN_TIES: Readonly<Record<string, string>> = { 'topN(2) ties': '[[1,5.0],[2,5.0]]' };

test('the original post-processing cases hold, with the commas it forgot and our order of ties', async (t) => {
  const golden = await fixture(t, 'fixtures/zoo/postprocessing_preprocessing_cases.json');
  if (!golden) return;
  const { postprocessing } = JSON.parse(golden.toString()) as {
    postprocessing: { fn: string; tensor: number[] | number[][]; expected: string }[];
  };
  let checked = 0;
  for (const { fn, tensor, expected } of postprocessing) {
    const filter = /^(topN|pickTopN)\(\d+\)/.exec(fn)?.[0];
    if (!filter) continue;
    const flat = tensor.flat();
    const shape = Array.isArray(tensor[0]) ? [tensor.length, tensor[0].length] : [flat.length];
    const wanted = OWN_TIES[fn] ?? expected.replaceAll('][', '],[');
    assert.equal(filtered(filter, floats(flat, shape)), wanted, fn);
    checked++;
  }
  assert.equal(checked, 6);
});

test('topN never takes a value that is not a number for the largest', () => {
  assert.equal(filtered('topN(2)', floats([Number.NaN, 1, 2])), '[[2,2.0],[1,1.0]]');
  assert.equal(filtered('topN(2)', floats([1, 2, Number.NaN])), '[[1,2.0],[0,1.0]]');
  assert.equal(filtered('topN(1)', floats([1, Number.NaN, 2])), '[[2,2.0]]');
});

/** Takes the first of the largest again and again; NaN only where nothing else is left. */
function naiveRanking(data: readonly (number | bigint)[], n: number): number[] {
  const left = new Set(data.keys());
  const taken: number[] = [];
  while (taken.length < n && left.size > 0) {
    let best: number | undefined;
    for (const index of left) {
      if (Number.isNaN(data[index])) continue;
      if (best === undefined || (data[index] as number) > (data[best] as number)) best = index;
    }
    const next = best ?? Math.min(...left);
    left.delete(next);
    taken.push(next);
  }
  return taken;
}

const many = <T>(element: fc.Arbitrary<T>) => fc.array(element, { minLength: 1, maxLength: 60 });
const special = fc.constantFrom(0, -0, 1, -1, NaN, Infinity, -Infinity, 3.5);
const whole = fc.bigInt({ min: 2n ** 53n - 2n, max: 2n ** 53n + 2n });
const KINDS: Readonly<Record<string, fc.Arbitrary<Tensor>>> = {
  float32: many(special).map((data) => floats(data)),
  float64: many(special).map((data) => ({
    ...floats(data),
    dtype: 'float64',
    data: Float64Array.from(data),
  })),
  float16: many(special).map((data) => halves(data)),
  int64: many(whole).map((data) => ({
    dtype: 'int64',
    shape: [data.length],
    data: BigInt64Array.from(data),
  })),
};

for (const [dtype, tensors] of Object.entries(KINDS)) {
  test(`topN and classification of ${dtype} rank as a naive search does`, () => {
    fc.assert(
      fc.property(tensors, fc.integer({ min: 1, max: 20 }), (output, n) => {
        const { data } = output;
        const numbers = Array.from(data as ArrayLike<number | bigint>, (value) =>
          output.dtype === 'float16' ? float16Value(value as number) : value,
        );
        const expected = naiveRanking(numbers, n);
        const indexOf = ([index]: readonly [number]) => index;
        const best = JSON.parse(filtered(`topN(${n})`, output)) as [number][];
        assert.deepEqual(best.map(indexOf), expected);
        // As the only row of a batch.
        const named = { name: 'y', ...output, shape: [1, data.length] };
        const texts = classified(named, { ...named, batchAxis: 0 }, n).data as readonly string[];
        assert.deepEqual(
          texts.map((text) => Number(text.split(':')[1])),
          expected,
        );
        assert.deepEqual(rankingOf(output)(1), expected.slice(0, 1));
      }),
      { numRuns: 500 },
    );
  });
}

test('topN compares 64-bit integers exactly', () => {
  const data = BigInt64Array.of(9007199254740992n, 9007199254740993n, -9007199254740993n, -9007199254740992n);
  const longs: Tensor = { dtype: 'int64', shape: [4], data };
  assert.equal(
    filtered('topN(4)', longs),
    '[[1,9007199254740993],[0,9007199254740992],[3,-9007199254740992],[2,-9007199254740993]]',
  );
  assert.equal(filtered('topN(1)', longs), '[[1,9007199254740993]]');
  const most = BigUint64Array.of(2n ** 64n - 2n, 2n ** 64n - 1n);
  assert.equal(
    filtered('topN(1)', { dtype: 'uint64', shape: [2], data: most }),
    '[[1,18446744073709551615]]',
  );
});

test('topN takes no longer for ascending values, each of which is a new largest one', () => {
  const ascending = floats(Array.from({ length: 300_000 }, (_, i) => i));
  // Processor time of this thread: a busy machine takes turns from a clock, and never from this.
  const microsecondsOf = (filter: string) => {
    const before = process.threadCpuUsage();
    filtered(filter, ascending);
    const { user, system } = process.threadCpuUsage(before);
    return user + system;
  };
  const all = microsecondsOf('topN(300000)');
  const some = microsecondsOf('topN(3000)');
  assert.ok(some < 5 * all, `topN(3000) took ${some} µs, topN of all ${all} µs`);
});

test('topN of text and pickTopN of a scalar fail the record, with the reason', () => {
  const text: Tensor = { dtype: 'string', shape: [2], data: ['b', 'a'] };
  assert.throws(() => filtered('topN(1)', text), { code: 'model_failed', message: /cannot order text/ });
  const scalar = floats([1], []);
  assert.throws(() => filtered('pickTopN(1)', scalar), { code: 'model_failed', message: /rank >= 1/ });
});
