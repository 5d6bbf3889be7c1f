import assert from 'node:assert/strict';
import { test } from 'node:test';
import { allocate, type NumericDType, type TypedArray } from '../../../lib/contract/tensor.ts';
import { castTensor, float16Bits, float16Value, storeFor } from '../../../lib/pipeline/bind/cast.ts';

/** For each dtype its least and greatest value, and some between. */
const VALUES: Readonly<Record<NumericDType, readonly (number | bigint)[]>> = {
  bool: [0, 1],
  uint8: [0, 1, 255],
  uint16: [0, 256, 65_535],
  uint32: [0, 65_536, 16_777_217, 4_294_967_295],
  uint64: [0n, 2n ** 53n + 1n, 2n ** 64n - 1n],
  int8: [-128, -1, 0, 127],
  int16: [-32_768, -1, 0, 32_767],
  int32: [-2_147_483_648, -16_777_217, -1, 0, 2_147_483_647],
  int64: [-(2n ** 63n), -1n, 0n, 2n ** 63n - 1n],
  float16: [1.5, -2, 65_504].map(float16Bits),
  float32: [0.5, -0, 3.4028234663852886e38, Number.NaN, Number.NEGATIVE_INFINITY].map(Math.fround),
  float64: [0.1, -0, 1e300, Number.NaN, Number.POSITIVE_INFINITY],
};
const DTYPES = Object.keys(VALUES) as NumericDType[];

for (const from of DTYPES) {
  test(`${from} becomes any other dtype number by number, or is refused where one of them is`, () => {
    for (const to of DTYPES.filter((dtype) => dtype !== from)) {
      for (const value of VALUES[from]) {
        const source = allocate(from, 1);
        source[0] = value;
        const number = from === 'float16' ? float16Value(value as number) : value;
        const expected = allocate(to, 1);
        const cast = (): TypedArray =>
          castTensor({ dtype: from, shape: [1], data: source }, to).data as TypedArray;
        let isRefused = false;
        try {
          storeFor(to)(number, expected, 0);
        } catch {
          isRefused = true;
        }
        if (isRefused) assert.throws(cast, { code: 'bad_input' }, `${from} ${value} as ${to}`);
        else assert.deepEqual(cast(), expected, `${from} ${value} as ${to}`);
      }
    }
  });
}

const OUTSIDE: readonly (readonly [dtype: NumericDType, below: number, above: number])[] = [
  ['bool', -1, 2],
  ['uint8', -1, 256],
  ['uint16', -1, 65_536],
  ['uint32', -1, 4_294_967_296],
  ['uint64', -1, 2 ** 64],
  ['int8', -129, 128],
  ['int16', -32_769, 32_768],
  ['int32', -2_147_483_649, 2_147_483_648],
  ['int64', -(2 ** 63) - 2_048, 2 ** 63],
  ['float16', -70_000, 70_000],
  ['float32', -1e39, 1e39],
];

for (const [dtype, below, above] of OUTSIDE) {
  test(`${dtype} takes its least and its greatest value, and refuses ${below} and ${above}`, () => {
    for (const value of VALUES[dtype]) {
      const out = allocate(dtype, 1);
      storeFor(dtype)(dtype === 'float16' ? float16Value(value as number) : value, out, 0);
      assert.ok(Object.is(out[0], value), String(value));
    }
    for (const value of [below, above]) {
      const tensor = { dtype: 'float64', shape: [1], data: Float64Array.of(value) } as const;
      assert.throws(() => castTensor(tensor, dtype), { code: 'bad_input' }, String(value));
    }
  });
}

test('a fraction becomes no whole number, and texts become no numbers, nor numbers texts', () => {
  const half = { dtype: 'float32', shape: [1], data: Float32Array.of(0.5) } as const;
  for (const dtype of ['int8', 'uint32', 'int64', 'uint64', 'bool'] as const) {
    assert.throws(() => castTensor(half, dtype), /expected a whole number/);
  }
  assert.throws(() => castTensor(half, 'string'), /expected string, got float32/);
  const text = { dtype: 'string', shape: [1], data: ['1'] } as const;
  assert.throws(() => castTensor(text, 'float32'), /expected float32, got string/);
});
