/** Vectors and probabilities of texts, by numbers that were worked out by hand. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Tensor } from '../../../lib/contract/tensor.ts';
import { answersOf } from '../../../lib/text/answers.ts';
import type { TextSettings } from '../../../lib/text/settings.ts';

/** Two texts of two tokens, one padded behind and one in front; the padding would show in every answer. */
const MASK = [Uint8Array.of(1, 1, 0), Uint8Array.of(0, 1, 1)];
const TOKENS: Tensor = {
  dtype: 'float32',
  shape: [2, 3, 2],
  data: Float32Array.of(1, -2, 3, 4, 100, 100, 100, 100, 5, 6, 7, -8),
};

const settings = (rest: Partial<TextSettings>) =>
  ({ output: 'y', pooling: [], kind: 'embedding', normalize: false, ...rest }) as TextSettings;

function assertNear(found: readonly Float32Array[], expected: readonly (readonly number[])[], what: string) {
  const rounded = (rows: readonly ArrayLike<number>[]) =>
    rows.map((row) => Array.from(row, (value) => Number(value.toFixed(6))));
  assert.deepEqual(rounded(found), rounded(expected), what);
}

test('each pooling makes one vector of the tokens of a text, without its padding', () => {
  const root = Math.sqrt(2);
  for (const [pooling, expected] of [
    [
      ['cls'],
      [
        [1, -2],
        [5, 6],
      ],
    ],
    [
      ['lasttoken'],
      [
        [3, 4],
        [7, -8],
      ],
    ],
    [
      ['max'],
      [
        [3, 4],
        [7, 6],
      ],
    ],
    [
      ['mean'],
      [
        [2, 1],
        [6, -1],
      ],
    ],
    [
      ['mean_sqrt_len_tokens'],
      [
        [4 / root, 2 / root],
        [12 / root, -2 / root],
      ],
    ],
    // Each token by its place, counted from 1.
    [
      ['weightedmean'],
      [
        [7 / 3, 6 / 3],
        [31 / 5, -12 / 5],
      ],
    ],
    [
      ['max', 'cls', 'mean'],
      [
        [3, 4, 1, -2, 2, 1],
        [7, 6, 5, 6, 6, -1],
      ],
    ],
  ] as const) {
    assertNear(answersOf(TOKENS, MASK, settings({ pooling: [...pooling] })), expected, pooling.join());
  }
});

test('the largest of numbers below zero is one of them', () => {
  const output: Tensor = { dtype: 'float32', shape: [1, 2, 1], data: Float32Array.of(-3, -2) };
  assertNear(answersOf(output, [Uint8Array.of(1, 1)], settings({ pooling: ['max'] })), [[-2]], 'max');
});

test('a vector of the model itself stays unchanged, or gets the length 1', () => {
  const mask = [Uint8Array.of(1), Uint8Array.of(1)];
  for (const [dtype, data] of [
    ['float32', Float32Array.of(3, -4, 0, 0)],
    ['float64', Float64Array.of(3, -4, 0, 0)],
    ['float16', Uint16Array.of(0x4200, 0xc400, 0, 0)],
  ] as const) {
    const output: Tensor = { dtype, shape: [2, 2], data };
    assertNear(
      answersOf(output, mask, settings({})),
      [
        [3, -4],
        [0, 0],
      ],
      dtype,
    );
    assertNear(
      answersOf(output, mask, settings({ normalize: true })),
      [
        [0.6, -0.8],
        [0, 0],
      ],
      dtype,
    );
  }
});

test('scores of classes become probabilities, also where they are large', () => {
  const mask = [Uint8Array.of(1), Uint8Array.of(1)];
  const scores = [0, Math.log(3), 1_000, 1_000];
  const output: Tensor = { dtype: 'float64', shape: [2, 2], data: Float64Array.from(scores) };
  for (const [activation, expected] of [
    [
      'softmax',
      [
        [0.25, 0.75],
        [0.5, 0.5],
      ],
    ],
    [
      'sigmoid',
      [
        [0.5, 0.75],
        [1, 1],
      ],
    ],
    [
      'none',
      [
        [0, Math.log(3)],
        [1_000, 1_000],
      ],
    ],
  ] as const) {
    assertNear(answersOf(output, mask, settings({ kind: 'classes', activation })), expected, activation);
  }
});

test('an output of another shape is an error that names it', () => {
  const shaped = (shape: readonly number[]): Tensor => ({
    dtype: 'float32',
    shape,
    data: new Float32Array(shape.reduce((product, dim) => product * dim, 1)),
  });
  for (const [shape, pooling] of [
    [[2, 3, 2], []],
    [[2, 2], ['mean']],
    [[1, 3, 2], ['mean']],
    [[2, 4, 2], ['mean']],
    [[3, 2], []],
  ] as const) {
    assert.throws(() => answersOf(shaped(shape), MASK, settings({ pooling: [...pooling] })), {
      code: 'model_failed',
      message: `the output "y" is of shape [${shape.join(',')}]`,
    });
  }
});
