import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import type { ServedJob } from '../../local/service/runs.ts';
import { InputQueue, OutputQueue } from '../../sdk/index.ts';
import { parseConfig } from '../support/config.ts';
import { useAws } from '../support/environment.ts';
import { onnxModel } from '../support/onnx.ts';
import { temporaryFolder } from '../support/runner.ts';
import { testStack } from '../support/stack.ts';

/** A job whose model is one operation on x. */
async function jobOf(t: TestContext, jobName: string, op: string): Promise<ServedJob> {
  const modelDirectory = await temporaryFolder(t);
  const bytes = onnxModel({
    inputs: [{ name: 'x', dtype: 'float32', shape: ['N', 2] }],
    outputs: [{ name: 'y', dtype: 'float32', shape: ['N', 2] }],
    nodes: [{ op, inputs: ['x'], outputs: ['y'] }],
  });
  await writeFile(join(modelDirectory, 'model.onnx'), bytes);
  return { job: parseConfig(`jobName: ${jobName}`, 'test config'), modelDirectory };
}

async function twoJobs(t: TestContext) {
  const first = await jobOf(t, 'serving_stream', 'Neg');
  const stack = await testStack(t, {
    config: '',
    modelDirectory: first.modelDirectory,
    more: [await jobOf(t, 'serving2', 'Exp')],
  });
  useAws(stack.aws.environment);
  return stack;
}

async function predict(url: string): Promise<unknown> {
  const body = JSON.stringify({ instances: [{ x: [0, 1] }] });
  const response = await fetch(`${url}/predict`, { method: 'POST', body });
  return response.json();
}

test('two jobs on one machine each have their queue, results and model, and the client finds them by name', async (t) => {
  const stack = await twoJobs(t);
  const results = new Map<string, number[]>();
  for (const name of ['serving_stream', 'serving2']) {
    // Only the name says which: the endpoint of SQS is the environment's.
    const input = new InputQueue({ name });
    const output = new OutputQueue({ name, url: stack.redisUrl });
    t.after(() => Promise.all([input.close(), output.close()]));
    await input.enqueue(`of ${name}`, { x: [0, 1] });
    const { outputs } = await output.wait(`of ${name}`);
    results.set(name, Array.from(outputs[0]?.data ?? [], Number));
    const other = name === 'serving2' ? 'serving_stream' : 'serving2';
    const outsider = new OutputQueue({ name: other, url: stack.redisUrl });
    t.after(() => outsider.close());
    assert.equal(await outsider.query(`of ${name}`), undefined);
    assert.deepEqual([...(await outsider.dequeue()).keys()], []);
    await output.queryAndDelete(`of ${name}`);
  }
  assert.deepEqual(results.get('serving_stream'), [-0, -1]);
  assert.deepEqual(
    results.get('serving2')?.map((value) => value.toFixed(3)),
    ['1.000', '2.718'],
  );
});

test('each job answers on a port of its own, over HTTPS no result of another can be read', async (t) => {
  const stack = await twoJobs(t);
  const [one, two] = stack.jobs.map(({ url }) => url) as [string, string];
  assert.notEqual(one, two);
  assert.deepEqual(await predict(one), { predictions: ['{value={"data":[-0.0,-1.0],"shape":[2]}}'] });
  assert.match(JSON.stringify(await predict(two)), /2\.718/);
  const sent = await fetch(`${two}/predictions`, {
    method: 'POST',
    body: JSON.stringify({ uri: 'secret', instances: [{ x: [0, 1] }] }),
  });
  assert.equal(sent.status, 202, await sent.text());
  const own = await fetch(`${two}/predictions/secret`, { headers: { prefer: 'wait=10' } });
  assert.equal(own.status, 200);
  assert.equal((await fetch(`${one}/predictions/secret`)).status, 404);
});

test('two configs of one jobName are refused before anything opens', async (t) => {
  const one = await jobOf(t, 'same', 'Neg');
  await assert.rejects(
    testStack(t, { config: 'jobName: same', modelDirectory: one.modelDirectory, more: [one] }),
    { code: 'bad_config', message: /two configs have the jobName same/ },
  );
});
