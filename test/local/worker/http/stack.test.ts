/** The HTTP API of the whole single machine with a worker: a dict reads the same on every endpoint, and bytes are raw. */
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import type { Stack } from '../../../../local/service/stack.ts';
import { SDK } from '../../../lib/workers/child.ts';
import { type Hooks, temporaryFolder } from '../../../support/runner.ts';
import { testStack } from '../../../support/stack.ts';
import { until } from '../../../support/until.ts';
import { encodeJson, itemFrame, readFrame, sendFrame } from './service.ts';

const WORKER = `import { WKRHardWorker } from '${SDK}';
const array = (...values: number[]) => ({ dtype: 'float64', shape: [values.length], data: Float64Array.from(values) });
export class Worker extends WKRHardWorker {
  getModel() {}
  predict(_model: unknown, items: any[]) {
    return items.map((item) => {
      if (item === 'dict') return { a: array(0.1, 2), b: array(3) };
      if (item === 'bytes') return Uint8Array.of(0, 255);
      return item;
    });
  }
}
`;

interface Status {
  readonly class: string;
  readonly batch_size: number;
  readonly wkr_protocol: number;
  readonly statistic: { readonly num_data_request: number };
  readonly statistic_postsink: {
    readonly num_data_request: number;
    readonly others: Readonly<Record<string, { readonly max: number }>>;
  };
}

const DICT = { a: [0.1, 2], b: [3] };

describe('a worker in TypeScript behind the single machine', () => {
  const cleanups: (() => Promise<void>)[] = [];
  let stack: Stack;
  before(async () => {
    const hooks: Hooks = { after: (cleanup) => cleanups.unshift(cleanup) };
    const directory = await temporaryFolder(hooks, 'cs-worker-');
    await writeFile(join(directory, 'server.ts'), WORKER);
    stack = await testStack(hooks, { config: 'batchSize: 4\nworker:\n  class: server.Worker\n', directory });
  });
  after(async () => {
    for (const cleanup of cleanups) await cleanup();
  });

  const enqueue = async (item: string) => {
    const response = await fetch(`${stack.url}/predictions`, {
      method: 'POST',
      body: JSON.stringify({ instances: [{ x: item }] }),
    });
    return ((await response.json()) as { uri: string }).uri;
  };
  const resultOf = (uri: string, accept = 'application/json') =>
    fetch(`${stack.url}/predictions/${uri}`, { headers: { prefer: 'wait=20', accept } });

  test('a dict of arrays reads the same by /encode_json, a frame, /predict and GET /predictions', async () => {
    assert.deepEqual((await encodeJson(stack, 'dict')).data, DICT);
    const [framed] = (await readFrame(await sendFrame(stack, itemFrame('dict')))).outcomes;
    const arrays = framed?.value as Record<string, { readonly data: Float64Array }>;
    const flat = (of: Readonly<Record<string, { readonly data: Iterable<number> }>>) =>
      Object.fromEntries(Object.entries(of).map(([name, { data }]) => [name, [...data]]));
    assert.deepEqual(flat(arrays), DICT);
    const predicted = (await (
      await fetch(`${stack.url}/predict`, { method: 'POST', body: '{"instances":[{"x":"dict"}]}' })
    ).json()) as { predictions: [string] };
    const outputs = JSON.parse(predicted.predictions[0].slice('{value='.length, -1)) as { data: number[] }[];
    assert.deepEqual(
      outputs.map(({ data }) => data),
      Object.values(DICT),
    );
    const stored = (await (await resultOf(await enqueue('dict'))).json()) as {
      outputs: { name: string; data: number[] }[];
    };
    assert.deepEqual(Object.fromEntries(stored.outputs.map(({ name, data }) => [name, data])), DICT);
  });

  test('bytes are base64 in JSON, and raw where the client accepts bytes', async () => {
    assert.equal((await encodeJson(stack, 'bytes')).data, 'AP8=');
    const uri = await enqueue('bytes');
    assert.equal(((await (await resultOf(uri)).json()) as { value: string }).value, 'AP8=');
    const raw = await resultOf(uri, 'application/octet-stream');
    assert.deepEqual([...new Uint8Array(await raw.arrayBuffer())], [0, 255]);
  });

  test('later results come over the same port', async () => {
    const frame = itemFrame([1, 2], { id: '12', identity: 'stack' });
    assert.equal((await sendFrame(stack, frame, { prefer: 'respond-async' })).status, 202);
    const { outcomes } = await readFrame(await fetch(`${stack.url}/results/stack?wait=20`));
    assert.deepEqual(outcomes, [{ id: '12', value: [1, 2] }]);
  });

  test('every record is counted once, with the settings of its worker beside it', async () => {
    const status = async () => (await (await fetch(`${stack.url}/status/server`)).json()) as Status;
    const earlier = await status();
    assert.deepEqual([earlier.class, earlier.batch_size, earlier.wkr_protocol], ['server.Worker', 4, 1]);
    await encodeJson(stack, 'one');
    await resultOf(await enqueue('two'));
    await until(
      async () =>
        (await status()).statistic_postsink.num_data_request >=
        earlier.statistic_postsink.num_data_request + 2,
    );
    const later = await status();
    assert.equal(later.statistic.num_data_request, earlier.statistic.num_data_request + 2);
    assert.equal(later.statistic_postsink.others['sys_batchsize']?.max, 1);
    const page = await fetch(`${stack.url}/stat`);
    assert.deepEqual([page.status, page.headers.get('content-type')], [200, 'text/html; charset=utf-8']);
  });
});
