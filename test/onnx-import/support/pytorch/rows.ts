/** Expressions of TorchScript with the numbers they should give; the rows of a group are one archive. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Tensor } from '../../../../lib/contract/tensor.ts';
import { runScript } from './run.ts';

export type Row = readonly [expression: string, expected: readonly number[]];

/** A float32 has about seven digits. */
export function assertClose(
  actual: readonly number[] | undefined,
  expected: readonly number[],
  what: string,
): void {
  assert.equal(actual?.length, expected.length, what);
  for (const [i, value] of expected.entries()) {
    const found = actual?.[i] as number;
    const most = 2e-6 * Math.max(1, Math.abs(value));
    assert.ok(Math.abs(found - value) <= most, `${what}: element ${i} is ${found}, expected ${value}`);
  }
}

/** One test for each group; `before` are lines that the expressions use. */
export function testRows(groups: Readonly<Record<string, readonly Row[]>>, x: Tensor, before = ''): void {
  for (const [group, rows] of Object.entries(groups))
    test(`${group} gives what PyTorch documents`, async (t) => {
      const forward = `${before}return (${rows.map(([expression]) => expression).join(', ')})`;
      const results = await runScript(t, { forward }, x);
      assert.equal(results.length, rows.length);
      for (const [i, [expression, expected]] of rows.entries()) assertClose(results[i], expected, expression);
    });
}

/** Floats in nested lists, as an expression. */
export function tensorText(values: unknown): string {
  const list = (value: unknown): string =>
    Array.isArray(value) ? `[${value.map(list).join(', ')}]` : (value as number).toFixed(3);
  return `torch.tensor(${list(values)})`;
}
