/** The fields of an outcome: what is too large for them, and what a pointer may name. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LIMITS } from '../../../lib/contract/limits.ts';
import type { Outcome } from '../../../lib/contract/values.ts';
import { parseResult, serializeResult } from '../../../lib/results/fields.ts';

test('a result that is too large to store fails with what to do, before it is encoded', () => {
  const outcomeOf = (length: number): Outcome => {
    const data = new Int8Array(length);
    return { ok: true, outputs: [{ name: 'y', dtype: 'int8', shape: [length], data }] };
  };
  const failed = serializeResult(outcomeOf(LIMITS.largeResultBytes + 1), undefined);
  assert.equal(failed.status, 'failed');
  assert.match(
    failed.error,
    /too_large.*67108865 bytes.*67108864 \(largeResultBytes\); keep less of it with postProcessing/,
  );
  // Without S3, Redis has to take it.
  const { error } = serializeResult(outcomeOf(LIMITS.resultBytes), undefined);
  assert.match(error, /too_large.*over the limit of 1048576 \(resultBytes\)/);
});

test('a pointer that was changed to name something else is refused', () => {
  for (const key of ['models/job/current.json', 'results/job/../../models/x', 'results/job/x', '']) {
    const large = JSON.stringify({ key, bucket: 'b' });
    const fields = { status: 'succeeded', value: 'x', large };
    assert.throws(() => parseResult('a', fields), { code: 'internal' }, key);
  }
});
