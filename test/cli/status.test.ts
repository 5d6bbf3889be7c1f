/** `cluster-serving status` of a service with further models. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { putText } from '../../lib/s3/objects.ts';
import { addModel, modelFolder, modelsFolder } from '../local/swap/models.ts';
import { testStack } from '../support/stack.ts';
import { until } from '../support/until.ts';
import type { CliAnswer } from './cli.ts';
import { warmCli, warmCliJson } from './warm.ts';

const MANY = 21;

interface Status {
  readonly models?: readonly { readonly name: string; readonly version?: string; readonly state: string }[];
}

async function statusOf(url: string): Promise<Status> {
  const { json } = (await warmCliJson(['status', '--url', url])) as CliAnswer<Status>;
  return json;
}

test('status has a line for each further model: those that cannot be opened first, and of many only some', async (t) => {
  const names = Array.from({ length: MANY }, (_, i) => `m${String(i).padStart(2, '0')}`);
  const stack = await testStack(t, {
    config: 'modelRefreshSeconds: 1',
    modelDirectory: await modelFolder(t, addModel(1)),
    modelsDirectory: await modelsFolder(t, Object.fromEntries(names.map((name) => [name, addModel(2)]))),
  });
  const ask = async (model: string) => {
    const body = JSON.stringify({ instances: [{ x: [1] }] });
    return (await fetch(`${stack.url}/predict?model=${model}`, { method: 'POST', body })).status;
  };
  const key = 'models/serving_stream/named/torn/model.onnx';
  await putText(stack.aws.s3, { bucket: stack.bucket, key }, 'no model');
  await until(async () => (await ask('torn')) === 503);
  assert.equal(await ask('m07'), 200);

  const json = await statusOf(stack.url);
  assert.deepEqual(
    json.models?.map(({ name }) => name),
    [...names, 'torn'],
  );
  const open = json.models?.filter(({ version }) => version !== undefined).map(({ name }) => name);
  assert.deepEqual(open, ['m07']);
  const { stdout, code } = await warmCli(['status', '--url', stack.url]);
  assert.equal(code, 0);
  const lines = stdout.split('\n').filter((line) => /^ {2}(model|and) /.test(line));
  assert.equal(lines.length, 21);
  assert.match(lines[0] ?? '', /^ {2}model torn: cannot be opened: /);
  assert.equal(lines[1], '  model m00: not open');
  assert.match(lines[8] ?? '', /^ {2}model m07: version \w+ is open$/);
  assert.equal(lines[20], '  and 2 more models; --json has all of them');
});

test('status of a service without further models has none', async (t) => {
  const stack = await testStack(t, { modelDirectory: await modelFolder(t, addModel(1)), config: '' });
  assert.equal((await statusOf(stack.url)).models, undefined);
  assert.doesNotMatch((await warmCli(['status', '--url', stack.url])).stdout, /^ {2}model /m);
});
