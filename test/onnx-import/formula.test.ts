/** Formulas as texts: what they add to a graph, and that onnxruntime computes it. */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { openSession } from '../../lib/inference/session.ts';
import { compute, FORMULAS } from '../../onnx-import/emit/formula.ts';
import { GraphBuilder } from '../../onnx-import/graph/builder.ts';
import type { Value } from '../../onnx-import/graph/value.ts';
import { writeOnnx } from '../../onnx-import/onnx/write.ts';
import { temporaryFolder } from '../support/runner.ts';

/** The numbers that a formula of x and y gives. */
async function valuesOf(
  t: TestContext,
  text: string,
  x: readonly number[],
  y: readonly number[] = x,
): Promise<number[]> {
  const g = new GraphBuilder();
  const inputs = { x: g.input('x', 'float32', ['N']), y: g.input('y', 'float32', ['N']) };
  const made = compute(g, text, inputs);
  g.output('made', made.dtype === 'bool' ? g.one('Cast', [made], { to: 1 }) : made);
  const path = join(await temporaryFolder(t), 'model.onnx');
  await writeOnnx(g.finish(), path, { producerVersion: '' });
  const session = await openSession(path, { threads: 1 });
  try {
    const feeds = [x, y].map((data) => ({
      dtype: 'float32' as const,
      shape: [data.length],
      data: Float32Array.from(data),
    }));
    const [output] = await session.run(feeds);
    return Array.from((output as { data: Float32Array }).data);
  } finally {
    await session.close();
  }
}

/** The operators that a formula adds, in their order. */
function operatorsOf(text: string): string[] {
  const g = new GraphBuilder();
  const x: Value = g.input('x', 'float32', ['N']);
  g.output('made', compute(g, text, { x }));
  return g.finish().nodes.map(({ op }) => op);
}

test('products bind closer than sums, sums closer than comparisons, and equals go from left to right', async (t) => {
  assert.deepEqual(await valuesOf(t, 'x + y * 2', [1], [10]), [21]);
  assert.deepEqual(await valuesOf(t, '(x + y) * 2', [1], [10]), [22]);
  assert.deepEqual(await valuesOf(t, 'y - x - 1', [1], [10]), [8]);
  assert.deepEqual(await valuesOf(t, 'y / x / 2', [5], [20]), [2]);
  assert.deepEqual(await valuesOf(t, '-x * -2 + 1', [3]), [7]);
  assert.deepEqual(await valuesOf(t, 'x + 1 < y', [1, 9], [10, 10]), [1, 0]);
  assert.deepEqual(await valuesOf(t, 'x >= 1e-3', [0, 0.001, 1]), [0, 1, 1]);
});

test('a name is computed once, and parameters of the source are read by their names', () => {
  assert.deepEqual(operatorsOf('half = x * 0.5; half * half'), ['Mul', 'Mul']);
  const g = new GraphBuilder();
  const x = g.input('x', 'float32', ['N']);
  g.output(
    'made',
    compute(g, 'LeakyRelu(x, alpha=slope)', { x }, (name) => name.length),
  );
  assert.deepEqual(g.finish().nodes[0]?.attributes, { alpha: { float: 5 } });
});

test('a text that is not a formula is refused, and so is a name without a value', () => {
  for (const text of ['', 'x +', '(x', 'x y', 'x * ?', 'Clip(x', 'Mod(x, x, fmod=x*2)', ') x'])
    assert.throws(() => operatorsOf(text), { code: 'internal', message: /not a formula/ }, text);
  assert.throws(() => operatorsOf('x * missing'), { code: 'internal', message: /missing is not known/ });
});

const SMALL = [1e-10, -1e-10, 3e-8, 1e-4, -1e-4, 0, 0.5, 1, 3, 20];

test('log1p and expm1 keep numbers that are lost beside 1', async (t) => {
  for (const [text, expected] of [
    [FORMULAS.log1p, Math.log1p],
    [FORMULAS.expm1, Math.expm1],
  ] as const) {
    const got = await valuesOf(t, text, SMALL);
    for (const [i, value] of got.entries()) {
      const wanted = expected(Math.fround(SMALL[i] as number));
      assert.ok(Math.abs(value - wanted) <= 2e-6 * Math.abs(wanted), `${SMALL[i]}: ${value}, not ${wanted}`);
    }
  }
});

test('every shared formula is one', async (t) => {
  for (const [name, text] of Object.entries(FORMULAS)) {
    const got = await valuesOf(t, text, [0.25, -0.5, 2], [1, 3, -2]);
    assert.equal(got.length, 3, name);
    assert.ok(
      got.every((value, i) => Number.isFinite(value) || i === 1),
      name,
    );
  }
});
