import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { describe, test } from 'node:test';
import { difference, type Line, OF_SPREAD, packagesTable, wrongLines } from '../../bench/packages/run.ts';

const port = (...data: number[]) => ({ name: 'y', shape: [data.length], data });

function line(fields: Partial<Line>): Line {
  return {
    package: 'p',
    version: '1',
    model: 'm.onnx',
    by: 'package',
    inputs: 'x [1]',
    own: 0,
    predict: 0,
    v2: 0,
    ...fields,
  };
}

describe('the difference of two answers', () => {
  test('is in standard deviations of the output', () => {
    assert.equal(difference([1, 3.5], port(1, 3)), 0.5);
    assert.equal(difference([1, 3], port(1, 3)), 0);
  });

  test('of one number is in its size', () => {
    assert.equal(difference([2.5], port(2)), 0.25);
  });

  test('is infinite where a number is missing', () => {
    assert.equal(difference([1, null], port(1, NaN)), Infinity);
    assert.equal(difference([1, 'x'], port(1, 3)), Infinity);
    assert.equal(difference([1], port(1, 3)), Infinity);
  });
});

describe('the table of packages', () => {
  test('an answer beyond the limit is wrong on either endpoint, and bold', () => {
    const lines = [
      line({ predict: OF_SPREAD }),
      line({ predict: 2 * OF_SPREAD }),
      line({ v2: NaN }),
      line({ v2: Infinity }),
      line({ predict: '413 too large', v2: '' }),
    ];
    assert.deepEqual(wrongLines(lines), lines.slice(1, 4));
    assert.match(packagesTable(lines.slice(1, 2)), /\| \*\*2\.0e-4\*\* \| 0 \|$/);
  });

  test('what onnxruntime differs by itself allows no larger difference', () => {
    assert.deepEqual(wrongLines([line({ own: 1, v2: 2e-4 })]), [line({ own: 1, v2: 2e-4 })]);
  });

  test('a refusal is one cell of one line', () => {
    assert.match(packagesTable([line({ predict: 'a|b\nc', v2: '' })]), /\| a\\\|b c \|  \|$/);
  });

  test('the measured models are right, and at least 25 of them answered on both endpoints', async () => {
    const path = new URL('../../bench/results/packages.json', import.meta.url);
    const lines: readonly Line[] = JSON.parse(await readFile(path, 'utf8'));
    assert.deepEqual(wrongLines(lines), []);
    const answered = lines.filter(({ predict, v2 }) => typeof predict === 'number' && typeof v2 === 'number');
    assert.ok(answered.length >= 25, `${answered.length} answered`);
  });
});
