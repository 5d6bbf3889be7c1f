/** The single machine runs a model in processes of its own. */
import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { decodeInstances } from '../../lib/codecs/instances.ts';
import { openOnnx } from '../../lib/compose/onnx.ts';
import { predictionsAnswer } from '../../lib/http/predictions.ts';
import type { Stack } from '../../local/service/stack.ts';
import { OutputQueue } from '../../sdk/index.ts';
import { parseConfig } from '../support/config.ts';
import { ENDLESS, loopModel, QUICK } from '../support/endless.ts';
import { isolatedPids } from '../support/isolated.ts';
import { temporaryFolder } from '../support/runner.ts';
import { clientOptions, SAMPLE, testStack } from '../support/stack.ts';
import { until } from '../support/until.ts';

async function modelFolder(t: TestContext, bytes: Uint8Array): Promise<string> {
  const folder = await temporaryFolder(t);
  await writeFile(join(folder, 'model.onnx'), bytes);
  return folder;
}

const runs = (rounds: number) => ({ instances: [{ rounds }] });

async function post(url: string, body: unknown) {
  const response = await fetch(url, { method: 'POST', body: JSON.stringify(body) });
  return { status: response.status, body: (await response.json()) as Record<string, unknown> };
}

async function endlessStack(t: TestContext, config = '', functionSeconds = 3): Promise<Stack> {
  const other = {
    job: parseConfig('jobName: other\nimageResize: 8,8', 'test'),
    modelDirectory: join(SAMPLE, 'model'),
  };
  return testStack(t, {
    config: `batching: always\n${config}`,
    modelDirectory: await modelFolder(t, loopModel()),
    functionSeconds,
    more: [other],
  });
}

/** What openOnnx of the same process answers. */
async function ownPredictions(body: Awaited<ReturnType<typeof digit>>): Promise<unknown> {
  const settings = { threads: 1, batchSize: 1, inputAlreadyBatched: false, image: { width: 8, height: 8 } };
  const runner = await openOnnx(join(SAMPLE, 'model/model.onnx'), 'v', settings);
  const outcomes = await runner.run(decodeInstances(JSON.stringify(body)));
  await runner.close();
  return JSON.parse(predictionsAnswer(outcomes, undefined)).predictions;
}

const digit = async () => ({
  instances: [{ image: await readFile(join(SAMPLE, 'images/digit-5.png'), 'base64') }],
});

test('the digits sample has the same answers from one process and from two, on every path', async (t) => {
  const [own, shared] = await Promise.all([
    testStack(t, { config: 'imageResize: 8,8\nprocesses: 2' }),
    testStack(t, { config: 'imageResize: 8,8' }),
  ]);
  const body = await digit();
  const answers = await Promise.all([own, shared].map(({ url }) => post(`${url}/predict`, body)));
  assert.deepEqual([answers[0]?.status, answers[0]?.body['predictions']], [200, await ownPredictions(body)]);
  assert.deepEqual(answers[0], answers[1]);
  const many = { instances: Array.from({ length: 100 }, () => body.instances[0]) };
  const { body: all } = await post(`${own.url}/predict`, many);
  assert.deepEqual(new Set(all['predictions'] as string[]).size, 1);
  const metadata = await Promise.all(
    [own, shared].map(async ({ url }) => (await fetch(`${url}/v2/models/serving_stream`)).json()),
  );
  assert.deepEqual(metadata[0], metadata[1]);
  const wrong = { instances: [body.instances[0], { image: 'no image' }] };
  const refused = await Promise.all([own, shared].map(({ url }) => post(`${url}/predict`, wrong)));
  assert.equal(refused[0]?.status, 400);
  assert.deepEqual(refused[0], refused[1]);
});

test('while a run does not end, /ready and another job answer; it ends at its limit, and the next request is served', async (t) => {
  const stack = await endlessStack(t);
  const other = stack.jobs[1]?.url ?? '';
  const order: string[] = [];
  const endless = post(`${stack.url}/predict`, runs(ENDLESS)).then(({ status }) => {
    order.push('endless');
    return status;
  });
  await until(async () =>
    /"total_job_in_queue":1/.test(await (await fetch(`${stack.url}/status/server`)).text()),
  );
  assert.equal((await fetch(`${stack.url}/ready`)).status, 200);
  assert.equal((await post(`${other}/predict`, await digit())).status, 200);
  order.push('others');
  assert.ok((await endless) >= 500);
  assert.deepEqual(order, ['others', 'endless']);
  await until(async () => (await post(`${stack.url}/predict`, runs(QUICK))).status === 200, 20_000);
});

test('a record of the queue that never ends fails, and its neighbors have their results', async (t) => {
  // On a loaded machine a neighbor may be short of time again and again, in what the endless one leaves of an event.
  const stack = await endlessStack(t, 'queue: {maxReceiveCount: 30}');
  const { output } = clientOptions(stack);
  const read = new OutputQueue(output);
  t.after(() => read.close());
  const records = { a: QUICK, endless: ENDLESS, b: QUICK };
  await Promise.all(
    Object.entries(records).map(([uri, rounds]) =>
      post(`${stack.url}/predictions`, { uri, ...runs(rounds) }),
    ),
  );
  for (const uri of ['a', 'b']) {
    const { outputs } = await read.wait(uri, { timeoutMs: 540_000 });
    assert.equal(outputs[0]?.data[0], QUICK);
  }
  await assert.rejects(read.wait('endless', { timeoutMs: 540_000 }), (error: { code: string }) =>
    ['model_failed', 'max_receives_exceeded'].includes(error.code),
  );
});

test('a process that dies fails the request in it, and its neighbor is answered by the next one', async (t) => {
  const stack = await endlessStack(t, '', 20);
  const [pid] = await isolatedPids();
  assert.ok(pid !== undefined);
  const deadly = post(`${stack.url}/predict`, runs(ENDLESS));
  await until(async () =>
    /"total_job_in_queue":1/.test(await (await fetch(`${stack.url}/status/server`)).text()),
  );
  const neighbor = post(`${stack.url}/predict`, runs(QUICK));
  process.kill(pid, 'SIGKILL');
  const answer = await deadly;
  assert.deepEqual([answer.status, answer.body['code']], [422, 'model_failed']);
  assert.equal((await neighbor).status, 200);
});
