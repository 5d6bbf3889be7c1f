/** The processes of a service change under load: one more, one fewer, with a new model. No request may notice. */
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { modelPrefix } from '../../../lib/contract/names.ts';
import { publishModel } from '../../../lib/registry/publish.ts';
import { SDK } from '../../lib/workers/child.ts';
import { temporaryFolder } from '../../support/runner.ts';
import { testStack } from '../../support/stack.ts';
import { until } from '../../support/until.ts';
import { Service } from '../decentral/service.ts';
import { type Load, startLoad } from '../swap/load.ts';
import { addModel, modelFolder, STEP } from '../swap/models.ts';

const SLOW_WORKER = `import { appendFileSync } from 'node:fs';
import { WKRHardWorker } from './SDK';
export class Worker extends WKRHardWorker {
  getModel() {}
  async predict(_model, items) {
    await new Promise((resolve) => setTimeout(resolve, 100));
    return items.map(() => process.pid);
  }
  offModel() { appendFileSync('off', process.pid + '\\n'); }
}
`.replace('./SDK', SDK);

test('under load a third process starts, serves and retires, and no item fails', async (t) => {
  const service = await Service.in(t, { 'server.ts': SLOW_WORKER });
  const workers = '-num_worker 2 -num_worker_expanded 3 -batch_size 1 -max_batches 0';
  // The shortest that a flag may say. A busy machine keeps the processes waiting for their next item now and then.
  const scaling = '-duration_expand 5000 -duration_squeeze 5000 -busy_util_threshold 0.5';
  const { port } = await service.start(`wkr-serving-start server.Worker -port 0 ${workers} ${scaling}`);
  const encode = async (): Promise<number> => {
    const response = await fetch(`http://127.0.0.1:${port}/encode_json`, { method: 'POST', body: '1' });
    const { error_code, data } = (await response.json()) as { error_code: number; data: number };
    assert.equal(error_code, 0);
    return data;
  };
  const pids: number[] = [];
  const load = { isOver: false };
  const caller = async () => {
    while (!load.isOver) pids.push(await encode());
  };
  const calling = Promise.all(Array.from({ length: 8 }, caller));
  try {
    await Promise.race([until(() => new Set(pids).size === 3), calling]);
  } finally {
    load.isOver = true;
  }
  await calling;
  const third = pids.find((_, i) => new Set(pids.slice(0, i + 1)).size === 3) as number;
  const retired = async () => (await service.text('off')).trim().split('\n').filter(Boolean).map(Number);
  assert.deepEqual(await retired(), []);
  await until(async () => (await retired()).length > 0);
  assert.deepEqual(await retired(), [third]);
  await until(() => !existsSync(`/proc/${third}`));
  const rest = new Set(await Promise.all(Array.from({ length: 8 }, encode)));
  assert.deepEqual([rest.size, rest.has(third)], [2, false]);
});

/** Waits until both endpoints have answered with a model. */
async function serves({ answers, failures }: Load, number: number): Promise<void> {
  const from = answers.length;
  const isServed = (endpoint: string) =>
    answers.slice(from).some((answer) => answer.endpoint === endpoint && answer.numbers[0] === number);
  await until(() => failures.length > 0 || (isServed('predict') && isServed('queue')));
  assert.deepEqual(failures, []);
}

test('a new model in processes of its own fails no request, and none is of two models', async (t) => {
  const stack = await testStack(t, {
    config: 'jobName: swap\nmodelRefreshSeconds: 1\nprocesses: 1',
    modelDirectory: await modelFolder(t, addModel(1)),
  });
  const location = { bucket: stack.bucket, prefix: modelPrefix(stack.job) };
  const load = startLoad(stack, { predict: 8, queue: 16 });
  try {
    for (const number of [1, 2, 3]) {
      if (number > 1) await publishModel(stack.aws.s3, location, await modelFolder(t, addModel(number)));
      await serves(load, number);
    }
  } finally {
    await load.stop();
  }
  assert.deepEqual(load.failures, []);
  const mixed = load.answers.filter(
    ({ numbers }) => new Set(numbers).size !== 1 || !(Number(numbers[0]) <= 3),
  );
  assert.deepEqual(mixed, []);
});

const READING_WORKER = `import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { WKRHardWorker } from './SDK';
export class Worker extends WKRHardWorker {
  getModel(_envs, modelDir) { return Number(readFileSync(join(modelDir, 'number'), 'utf8')); }
  predict(number, items) {
    // A list from JSON, a tensor from the queue.
    const added = (item) => Float32Array.from(item.data ?? item, (x) => x + number * ${STEP});
    return items.map((item) => ({ dtype: 'float32', shape: [1], data: added(item) }));
  }
}
`.replace('./SDK', SDK);

test('the processes of a worker that are replaced after their batches have the new model, and fail no request', async (t) => {
  const [directory, modelDirectory] = [await temporaryFolder(t), await temporaryFolder(t)];
  await writeFile(join(directory, 'server.ts'), READING_WORKER);
  const put = async (number: number) => {
    await writeFile(join(modelDirectory, 'next'), String(number));
    await rename(join(modelDirectory, 'next'), join(modelDirectory, 'number'));
  };
  await put(1);
  const stack = await testStack(t, {
    config: 'jobName: swap\nbatchSize: 4\nworker: {class: server.Worker, numWorker: 2, maxBatches: 50}',
    directory,
    modelDirectory,
  });
  const load = startLoad(stack, { predict: 8, queue: 16 });
  try {
    await serves(load, 1);
    await put(2);
    await serves(load, 2);
    // When every process has been replaced, none has the old one.
    await until(() => load.failures.length > 0 || load.answers.slice(-500).every(isOf(2)));
  } finally {
    await load.stop();
  }
  assert.deepEqual(load.failures, []);
  assert.deepEqual(
    load.answers.filter((answer) => !answer.numbers.every((number) => number === 1 || number === 2)),
    [],
  );
});

const isOf = (number: number) => (answer: Load['answers'][number]) =>
  answer.numbers.every((one) => one === number);
