/** Leases in a table, whose results stay in the item until another takes their place. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Entries } from '../../../lib/table/entries.ts';
import { TableLeases } from '../../../lib/table/leases.ts';
import { TableReplacer } from '../../../lib/table/replacer.ts';
import { TableResults } from '../../../lib/table/results.ts';
import { enqueued } from '../../support/enqueue.ts';
import { connectTo, createTable, startDynamo } from '../../support/table.ts';
import { failedFieldsOf, fieldsOf } from '../results/conformance/records.ts';

test('a failure that was given back after its replay succeeded is gone, also for the client that had it', async (t) => {
  const endpoint = await startDynamo(t);
  await createTable(endpoint);
  const connection = connectTo(endpoint);
  const options = { job: 'job', ttlSeconds: 86_400, now: Date.now };
  const results = new TableResults(connection, options);
  const entries = new Entries(connection, 'job');
  const leases = new TableLeases(entries);
  const failure = failedFieldsOf('max_receives_exceeded', 'the record failed 5 times');
  await results.save([{ uri: 'u', fields: failure, enqueue: enqueued('m1', 1) }], '');
  const taken = await leases.take(['u']);
  assert.deepEqual(
    taken.map(({ fields }) => fields['status']),
    ['failed'],
  );
  const record = { uri: 'u', enqueue: enqueued('m1', 1, 1), message: 'the message' };
  assert.equal(await new TableReplacer(connection, options).store(record, fieldsOf(1), 'v1'), 'replaced');
  const [{ leaseId } = assert.fail()] = taken.map(({ lease }) => lease);
  assert.equal(
    (await entries.readKept('u', leaseId))?.fields['status'],
    'failed',
    'kept for a client that asks again',
  );
  await leases.release(taken);
  assert.equal(await entries.readKept('u', leaseId), undefined);
  assert.equal((await results.get('u'))?.model, 'v1');
});
