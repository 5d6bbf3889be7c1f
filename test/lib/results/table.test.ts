/** A table in DynamoDB is a store of results. */
import * as store from '../../../lib/table/store.ts';
import { startHttpProxy } from '../../support/faults/http-proxy.ts';
import { connectTo, createTable, placeOf, startDynamo } from '../../support/table.ts';
import { describeStore } from './conformance.ts';

interface Written {
  readonly Key: unknown;
}

describeStore('a table in dynalite', async (hooks) => {
  const endpoint = await startDynamo(hooks);
  await createTable(endpoint);
  return {
    store,
    connect: () => connectTo(endpoint),
    connectAway: () => store.connect(placeOf('http://127.0.0.1:1')),
    connectLossy: async (isLost: () => boolean) => {
      const proxy = await startHttpProxy(hooks, endpoint);
      const lost: string[] = [];
      // Reads are answered until a write of it is lost: else none would be tried.
      proxy.onRequest = ({ action, body }) => {
        const text = body.toString();
        if (!isLost()) return { kind: 'pass' };
        if (action.endsWith('UpdateItem')) lost.push(JSON.stringify((JSON.parse(text) as Written).Key));
        return { kind: lost.some((key) => text.includes(key)) ? 'lose' : 'pass' };
      };
      return connectTo(proxy.url);
    },
  };
});
