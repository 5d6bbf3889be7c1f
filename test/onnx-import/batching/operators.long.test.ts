/** Rules of single operators, against onnxruntime: all operator sets, ranks, axes and forms. */
import { test } from 'node:test';
import { assertOperatorHolds, OPERATORS } from './operator-forms.ts';

for (const operator of OPERATORS) {
  const { op, opsets } = operator;
  test(`${op} of operator sets ${opsets.join()} keeps apart the rows that its rule follows`, (t) =>
    assertOperatorHolds(t, operator, true));
}
