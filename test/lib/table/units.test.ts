/** The cost of a record in a table: DynamoDB's own count of units, by which it is billed. */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test } from 'node:test';
import { ITEM_BYTES, TABLE_UNITS } from '../../../infra/doctor/table-price.ts';
import { serializeResult } from '../../../lib/results/fields.ts';
import { TableStates } from '../../../lib/table/record-states.ts';
import { TableResults } from '../../../lib/table/results.ts';
import { enqueued } from '../../support/enqueue.ts';
import { startHttpProxy } from '../../support/faults/http-proxy.ts';
import { connectTo, createTable, startDynamo } from '../../support/table.ts';

interface Consumed {
  readonly CapacityUnits?: number;
}

test('a record that is announced, answered and read once takes the units that the prices count', async (t) => {
  const endpoint = await startDynamo(t);
  await createTable(endpoint);
  const proxy = await startHttpProxy(t, endpoint);
  const units = { writes: 0, reads: 0 };
  proxy.onRequest = ({ action }) => ({
    kind: 'change',
    request: ({ body }) =>
      Buffer.from(
        JSON.stringify({ ...(JSON.parse(body.toString()) as object), ReturnConsumedCapacity: 'TOTAL' }),
      ),
    answer: (answer) => {
      const { ConsumedCapacity } = JSON.parse(answer.body.toString()) as {
        readonly ConsumedCapacity?: Consumed | readonly Consumed[];
      };
      const sum = [ConsumedCapacity ?? []]
        .flat()
        .reduce((all, { CapacityUnits = 0 }) => all + CapacityUnits, 0);
      assert.ok(sum > 0, answer.body.toString());
      units[action.endsWith('UpdateItem') ? 'writes' : 'reads'] += sum;
      return answer;
    },
  });
  const connection = connectTo(proxy.url);
  const results = new TableResults(connection, { job: 'job', ttlSeconds: 86_400, now: Date.now });
  const states = new TableStates(connection, { job: 'job', now: Date.now });
  const [uri, identity] = [randomUUID(), randomUUID()];
  const outputs = [
    { name: 'y', dtype: 'float32' as const, shape: [10], data: new Float32Array(10).fill(0.1) },
  ];
  const fields = serializeResult({ ok: true, outputs }, undefined);
  await states.announce({ uri, identity, message: 'a record' });
  await results.save([{ uri, fields, enqueue: enqueued(identity, Date.now()) }], '20261129-1');
  assert.ok(await results.get(uri));
  assert.deepEqual(units, TABLE_UNITS);
  const { Item } = await connectTo(endpoint).call('GetItem', { Key: { id: { S: `job/u/${uri}` } } });
  const bytes = Object.entries(Item ?? {}).reduce(
    (sum, [name, { S = '', N = '' }]) => sum + name.length + S.length + Math.ceil(N.length / 2),
    0,
  );
  assert.ok(bytes > ITEM_BYTES * 0.8 && bytes < ITEM_BYTES, `${bytes}`);
  await results.take(uri);
  t.diagnostic(`with taking ${JSON.stringify(units)}`);
});
