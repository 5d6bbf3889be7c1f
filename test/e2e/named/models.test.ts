/**
 * Further models of a job on a running service: each answers under its name by each protocol, and a name that is unknown opens nothing.
 * Each model adds another number, so an answer says which model made it.
 */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { modelPrefix } from '../../../lib/contract/names.ts';
import { publishModel } from '../../../lib/registry/publish.ts';
import { putText } from '../../../lib/s3/objects.ts';
import { listPages, removeObjects } from '../../../lib/s3/pages.ts';
import type { Stack } from '../../../local/service/stack.ts';
import { InputQueue, OutputQueue } from '../../../sdk/index.ts';
import { addModel, modelFolder, modelsFolder, numberOf } from '../../local/swap/models.ts';
import type { Hooks } from '../../support/runner.ts';
import { clientOptions, testStack } from '../../support/stack.ts';
import { until } from '../../support/until.ts';

const JOB = 'serving_stream';

interface Answer {
  readonly status: number;
  readonly text: string;
  readonly version: string | null;
}

async function post(stack: Stack, path: string, body: unknown): Promise<Answer> {
  const answer = await fetch(stack.url + path, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });
  return {
    status: answer.status,
    text: await answer.text(),
    version: answer.headers.get('model-version'),
  };
}

async function get(stack: Stack, path: string): Promise<Answer & { readonly json: unknown }> {
  const answer = await fetch(stack.url + path);
  const text = await answer.text();
  return { status: answer.status, text, version: null, json: JSON.parse(text) };
}

const INSTANCES = { instances: [{ x: [1] }] };
const TENSOR = { inputs: [{ name: 'x', datatype: 'FP32', shape: [1, 1], data: [1] }] };

/** The paths of a model, with a request of x = 1 for each. */
const ways = (name: string): Readonly<Record<string, unknown>> => ({
  [`/predict?model=${name}`]: INSTANCES,
  [`/predict?form=plain&model=${name}`]: INSTANCES,
  [`/invocations?model=${name}`]: INSTANCES,
  [`/v2/models/${name}/infer`]: TENSOR,
  [`/v1/models/${name}:predict`]: INSTANCES,
});

/** The number of the model that answered x = 1. */
function modelIn({ text }: Answer): number {
  const [sum] = text.match(/\b\d*0001\b/) ?? [];
  return numberOf(1, Number(sum));
}

async function serving(t: Hooks, config = '', more: Readonly<Record<string, Uint8Array>> = {}) {
  const models = { alpha: addModel(2), beta: addModel(3), twin: addModel(3), ...more };
  return testStack(t, {
    config: `modelRefreshSeconds: 1\n${config}`,
    modelDirectory: await modelFolder(t, addModel(1)),
    modelsDirectory: await modelsFolder(t, models),
  });
}

async function push(t: Hooks, stack: Stack, name: string, bytes: Uint8Array) {
  const location = { bucket: stack.bucket, prefix: modelPrefix(JOB, name) };
  return publishModel(stack.aws.s3, location, await modelFolder(t, bytes));
}

describe('further models of a job', () => {
  const cleanups: (() => Promise<void>)[] = [];
  let stack: Stack;
  before(async () => {
    stack = await serving({ after: (cleanup) => cleanups.push(cleanup) });
  });
  after(async () => {
    for (const cleanup of cleanups.reverse()) await cleanup();
  });

  test('each answers under its name by each protocol, and the job’s own model where none or the job is named', async () => {
    const numbers = { alpha: 2, beta: 3, twin: 3, [JOB]: 1 };
    for (const [name, number] of Object.entries(numbers)) {
      for (const [path, body] of Object.entries(ways(name))) {
        const answer = await post(stack, path, body);
        assert.equal(answer.status, 200, `${path}: ${answer.text}`);
        assert.equal(modelIn(answer), number, `${path}: ${answer.text}`);
      }
    }
    assert.equal(modelIn(await post(stack, '/predict', INSTANCES)), 1);
  });

  test('an answer of /v2 has the name of the model, and so has its description', async () => {
    const { text } = await post(stack, '/v2/models/alpha/infer', TENSOR);
    assert.match(text, /"model_name":"alpha"/);
    const { json } = await get(stack, '/v2/models/alpha');
    assert.equal((json as { name: string }).name, 'alpha');
    assert.equal((await get(stack, '/v2/models/beta/ready')).status, 200);
    const { json: stats } = await get(stack, '/v2/models/alpha/stats');
    const [counted] = (stats as { model_stats: { name: string; execution_count: number }[] }).model_stats;
    assert.equal(counted?.name, 'alpha');
    assert.ok((counted?.execution_count ?? 0) > 0);
  });

  test('the lists of models have all of them', async () => {
    const { json } = await get(stack, '/v1/models');
    const names = (json as { data: { id: string }[] }).data.map(({ id }) => id);
    assert.deepEqual(names, [JOB, 'alpha', 'beta', 'twin']);
    const index = await post(stack, '/v2/repository/index', {});
    const entries = JSON.parse(index.text) as { name: string; state: string }[];
    assert.deepEqual(
      entries.map(({ name, state }) => [name, state]),
      [JOB, 'alpha', 'beta', 'twin'].map((name) => [name, 'READY']),
    );
  });

  test('a name that is unknown, of another case, or hostile is 404 by each protocol, with what was probably meant', async () => {
    for (const [name, meant] of [
      ['alpa', 'alpha'],
      ['Alpha', 'alpha'],
      ['ALPHA', 'alpha'],
      ['serving-stream', JOB],
    ]) {
      for (const [path, body] of Object.entries(ways(name as string))) {
        const answer = await post(stack, path, body);
        assert.equal(answer.status, 404, path);
        assert.match(answer.text, new RegExp(`did you mean .{0,2}${meant}`), path);
      }
    }
    const hostile = [
      '..',
      '%2e%2e',
      'a%2Fb',
      '..%2F..%2Falpha',
      'alpha%00',
      'x'.repeat(2_000),
      '',
      '*',
      '__proto__',
    ];
    for (const name of hostile) {
      const { status, text } = await post(stack, `/predict?model=${name}`, INSTANCES);
      assert.equal(status, 404, name);
      assert.ok(text.length < 500, name);
    }
    assert.equal((await post(stack, '/v2/models/a%2Fb/infer', TENSOR)).status, 404);
    assert.equal((await post(stack, '/predict?model=alpha&model=beta', INSTANCES)).status, 404);
  });

  test('records of the queue are answered by the model that each names, over SQS and HTTP, and of an unknown one fail alone', async (t) => {
    const { input: places, output: place } = clientOptions(stack);
    const output = new OutputQueue(place);
    t.after(() => output.close());
    const numbers = { alpha: 2, beta: 3, [JOB]: 1 };
    for (const [way, options] of Object.entries({ sqs: places, http: { frontendUrl: stack.url } })) {
      const input = new InputQueue(options);
      t.after(() => input.close());
      const sent = Object.keys(numbers).map((model) =>
        input.enqueue(`${way}-${model}`, { x: [1] }, { model }),
      );
      await Promise.all([...sent, input.enqueue(`${way}-none`, { x: [1] })]);
      await input.enqueue(`${way}-unknown`, { x: [1] }, { model: 'alpa' });
      for (const [model, number] of Object.entries({ ...numbers, none: 1 })) {
        const { outputs } = await output.wait(`${way}-${model}`);
        assert.equal(numberOf(1, Number(outputs[0]?.data[0])), number, `${way} ${model}`);
      }
      await assert.rejects(output.wait(`${way}-unknown`), {
        code: 'not_found',
        message: /did you mean "alpha"/,
      });
      await assert.rejects(input.enqueue(`${way}-bad`, { x: [1] }, { model: '../x' }), { code: 'not_found' });
    }
  });

  test('records and requests of a further model are counted under its name, and a name that is unknown under none', async () => {
    const scraped = async () => {
      const answer = await fetch(`${stack.url}/metrics`, { headers: { accept: 'text/plain' } });
      const lines = (await answer.text())
        .split('\n')
        .filter((line) => line.startsWith('cluster_serving_model_'));
      return (model: string, rest: string) => {
        const start = `cluster_serving_model_${rest.replace('{', `{model="${model}"`)}`;
        return Number(
          lines
            .find((line) => line.startsWith(`${start} `))
            ?.split(' ')
            .at(-1) ?? 0,
        );
      };
    };
    const RAN = 'records_total{,outcome="succeeded"}';
    const first = await scraped();
    for (let i = 0; i < 3; i++) await post(stack, '/predict?model=alpha', INSTANCES);
    await post(stack, '/predict?model=alpha', { instances: [{ x: ['no number'] }] });
    await post(stack, '/predict?model=alpa', INSTANCES);
    await post(stack, '/predict', INSTANCES);
    const last = await scraped();
    const grown = (model: string, rest: string) => last(model, rest) - first(model, rest);
    assert.equal(grown('alpha', RAN), 3);
    assert.equal(grown('alpha', 'duration_seconds_count{}'), 4);
    assert.equal(grown('beta', RAN), 0);
    for (const model of ['alpa', JOB]) assert.equal(last(model, RAN), 0);
  });

  test('the client asks for predictions of a further model, with the names of its outputs', async () => {
    const input = new InputQueue({ frontendUrl: stack.url });
    for (const [model, number] of [
      ['alpha', 2],
      ['beta', 3],
      [undefined, 1],
    ] as const) {
      const { outputs } = await input.predict({ x: [1] }, { model });
      assert.deepEqual(
        outputs.map(({ name, data }) => [name, numberOf(1, Number(data[0]))]),
        [['y', number]],
      );
    }
    await assert.rejects(input.predict({ x: [1] }, { model: 'alpa' }), { code: 'not_found' });
  });

  test('a model that is pushed while the service runs answers, its new version takes over, and once it is removed it is 404', async (t) => {
    const first = await push(t, stack, 'gamma', addModel(4));
    await until(async () => (await post(stack, '/predict?model=gamma', INSTANCES)).status === 200);
    assert.equal((await post(stack, '/predict?model=gamma', INSTANCES)).version, first.version);
    await push(t, stack, 'gamma', addModel(5));
    await until(async () => modelIn(await post(stack, '/predict?model=gamma', INSTANCES)) === 5);
    const prefix = modelPrefix(JOB, 'gamma');
    for await (const page of listPages(stack.aws.s3, stack.bucket, prefix))
      await removeObjects(
        stack.aws.s3,
        stack.bucket,
        page.map(({ key }) => key),
      );
    await until(async () => (await post(stack, '/predict?model=gamma', INSTANCES)).status === 404);
    assert.equal(modelIn(await post(stack, '/predict?model=alpha', INSTANCES)), 2);
  });

  test('a model that does not open is 503 for its own requests alone', async () => {
    const key = `${modelPrefix(JOB, 'broken')}model.onnx`;
    await putText(stack.aws.s3, { bucket: stack.bucket, key }, 'no model');
    await until(async () => (await post(stack, '/predict?model=broken', INSTANCES)).status === 503);
    assert.equal((await post(stack, '/predict?model=broken', INSTANCES)).status, 503);
    assert.equal(modelIn(await post(stack, '/predict?model=beta', INSTANCES)), 3);
    assert.equal(modelIn(await post(stack, '/predict', INSTANCES)), 1);
  });
});

test('a folder whose model needs more than the budget is refused at the start, with the sum', async (t) => {
  await assert.rejects(
    serving(t, 'models:\n  memoryMB: 1\n'),
    /model alpha: model alpha needs 3 MB of memory, and models\.memoryMB gives 1 MB/,
  );
});
