/** Rules of single operators, against onnxruntime: the newest operator set of each; operators.long.test.ts runs all. */
import { test } from 'node:test';
import { assertOperatorHolds, OPERATORS } from './operator-forms.ts';

for (const operator of OPERATORS) {
  const { op, opsets } = operator;
  test(`${op} of operator set ${opsets.at(-1)} keeps apart the rows that its rule follows`, (t) =>
    assertOperatorHolds(t, operator, false));
}
