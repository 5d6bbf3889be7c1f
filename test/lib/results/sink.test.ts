/** Outcomes on their way to the store: what goes to S3, and what is not saved. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LIMITS } from '../../../lib/contract/limits.ts';
import type { Outcome } from '../../../lib/contract/values.ts';
import { FAILURES } from '../../../lib/observe/failures.ts';
import { parseResult, type StoredFields } from '../../../lib/results/fields.ts';
import { resultSink } from '../../../lib/results/sink.ts';
import type { Results } from '../../../lib/results/store.ts';
import { finished, memoryS3, numbers } from '../../support/large-results.ts';

const LARGE = LIMITS.resultBytes / 4;

/** Keeps the fields that are saved. */
function keepFields() {
  const saved = new Map<string, StoredFields>();
  const results: Pick<Results, 'save'> = {
    async save(records) {
      for (const { uri, fields } of records) saved.set(uri, fields);
      return records.length;
    },
  };
  return { results, read: (uri: string) => parseResult(uri, { ...saved.get(uri) }) };
}

test('a record whose large result S3 does not take is delivered again, and its neighbours are saved', async (t) => {
  const said = t.mock.method(process.stdout, 'write', () => true);
  const { results, read } = keepFields();
  const { large } = memoryS3(['b']);
  const records = ['a', 'b', 'c'].map((uri) => finished(uri, numbers(uri === 'c' ? 3 : LARGE)));
  assert.deepEqual(await resultSink(results, { large, observer: FAILURES }).save(records, 'v'), ['b-1']);
  assert.ok(said.mock.calls.some((call) => String(call.arguments[0]).includes('S3 is away')));
  said.mock.restore();
  assert.ok(read('a')?.large);
  assert.equal(read('b'), undefined);
  assert.equal(read('c')?.outputs.length, 2);
});

test('without S3 a large result fails, and so does one that is too large for S3', async () => {
  const { results, read } = keepFields();
  await resultSink(results).save([finished('a', numbers(LARGE))], 'v');
  assert.throws(() => read('a'), { code: 'too_large', uri: 'a', message: /\(resultBytes\)/ });
  const { large, objects } = memoryS3();
  const data = new Uint8Array(LIMITS.largeResultBytes + 1);
  const outcome: Outcome = { ok: true, outputs: [{ name: 'y', dtype: 'uint8', shape: [data.length], data }] };
  await resultSink(results, { large }).save([finished('b', outcome)], 'v');
  assert.throws(() => read('b'), { code: 'too_large', uri: 'b', message: /\(largeResultBytes\)/ });
  assert.equal(objects.size, 0);
});
