/** A table of moto is a store of results too: a second emulator of DynamoDB, which shares no code with dynalite. */
import { test } from 'node:test';
import * as store from '../../../lib/table/store.ts';
import { startMoto } from '../../infra/aws/moto.ts';
import { motoTools } from '../../infra/aws/tools.ts';
import { connectTo, createTable, placeOf } from '../../support/table.ts';
import { describeStore } from './conformance.ts';

const tools = await motoTools();

if ('missing' in tools) test('a table of moto', { skip: tools.missing }, () => undefined);
else
  describeStore('a table of moto', async (hooks) => {
    const { url } = await startMoto(hooks, tools.folder);
    await createTable(url);
    return {
      store,
      connect: () => connectTo(url),
      connectAway: () => store.connect(placeOf('http://127.0.0.1:1')),
    };
  });
