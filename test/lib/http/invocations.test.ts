/** Requests of SageMaker, MLflow and OpenAI's clients: GET /ping, POST /invocations and GET /v1/models. */
import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { IMAGES } from '../../cli/cli.ts';
import { identityModel } from '../../support/onnx.ts';
import { temporaryFolder } from '../../support/runner.ts';
import { testStack } from '../../support/stack.ts';

async function serving(t: TestContext, inputs: Parameters<typeof identityModel>[0], config = '') {
  const modelDirectory = await temporaryFolder(t);
  await writeFile(join(modelDirectory, 'model.onnx'), identityModel(inputs));
  const { url } = await testStack(t, { modelDirectory, config });
  const send = async (path: string, body: string | Uint8Array, type = 'application/json') => {
    const response = await fetch(`${url}${path}`, {
      method: 'POST',
      body,
      headers: { 'content-type': type },
    });
    const text = await response.text();
    return { status: response.status, body: JSON.parse(text) as unknown, headers: response.headers };
  };
  return { url, send };
}

test('bodies of MLflow are answered as MLflow does, on every endpoint that takes records', async (t) => {
  const { send } = await serving(t, [{ name: 'x', dtype: 'float32', shape: ['N', 2] }]);
  const bodies = [
    '{"inputs": [[1, 2], [3, 4]]}',
    '{"instances": [{"x": [1, 2]}, {"x": [3, 4]}]}',
    '{"instances": [[1, 2], [3, 4]]}',
    '{"dataframe_split": {"columns": ["x"], "data": [[[1, 2]], [[3, 4]]]}}',
    '{"dataframe_split": {"columns": ["x"], "index": [7, 8], "data": [[[1, 2]], [[3, 4]]]}}',
    '{"dataframe_split": {"columns": [0, 1], "data": [[1, 2], [3, 4]]}}',
    '{"dataframe_split": {"data": [[1, 2], [3, 4]]}, "params": {}}',
    '{"dataframe_records": [{"x": [1, 2]}, {"x": [3, 4]}]}',
  ];
  for (const body of bodies) {
    const { status, body: answer } = await send('/invocations', body);
    assert.deepEqual(
      [status, answer],
      [
        200,
        {
          predictions: [
            [1, 2],
            [3, 4],
          ],
        },
      ],
      body,
    );
    const plain = await send('/predict?form=plain', body);
    assert.deepEqual(
      (plain.body as { outputs: object }).outputs,
      {
        x_out: [
          [1, 2],
          [3, 4],
        ],
      },
      body,
    );
    const queued = await send('/predictions', body);
    assert.deepEqual([queued.status, (queued.body as { uris: unknown[] }).uris.length], [202, 2], body);
  }
  const { headers } = await send('/invocations', bodies[6] as string);
  assert.match(headers.get('warning') ?? '', /ignored keys of the body: params/);
});

test('the columns of a table are inputs by name, and several outputs an object', async (t) => {
  const column = (name: string) => ({ name, dtype: 'float32', shape: ['N', 1] }) as const;
  const { send } = await serving(t, [column('b'), column('a')]);
  const answer = {
    predictions: [
      { b_out: [2], a_out: [1] },
      { b_out: [4], a_out: [3] },
    ],
  };
  for (const body of [
    '{"dataframe_split": {"columns": ["a", "b"], "data": [[1, 2], [3, 4]]}}',
    '{"dataframe_records": [{"a": 1, "b": 2}, {"b": 4, "a": 3}]}',
    '{"inputs": {"a": [1, 3], "b": [2, 4]}}',
  ])
    assert.deepEqual((await send('/invocations', body)).body, answer, body);
  assert.deepEqual((await send('/invocations', 'a,b\n1,2\n3,4\n', 'text/csv')).body, answer);
});

test('a table that is none is refused with what was expected', async (t) => {
  const { send } = await serving(t, [{ name: 'x', dtype: 'float32', shape: ['N', 2] }]);
  for (const [body, message] of [
    ['{"dataframe_split": [1]}', /^"dataframe_split": expected \{"columns"/],
    ['{"dataframe_split": {"columns": "x", "data": [[1]]}}', /^"dataframe_split": expected/],
    ['{"dataframe_split": {"columns": ["a", 1], "data": [[1, 2]]}}', /\.columns: expected texts, or 0, 1, 2/],
    ['{"dataframe_split": {"columns": ["a", "a"], "data": [[1, 2]]}}', /\.columns: "a" is there twice$/],
    ['{"dataframe_split": {"columns": ["a"], "data": [[1, 2]]}}', /\.data\[0\]: 2 values, and 1 columns$/],
    ['{"dataframe_split": {"columns": ["a"], "data": [1]}}', /\.data\[0\]: expected a list, got a number$/],
    [
      '{"dataframe_split": {"columns": [], "data": [[]]}}',
      /^dataframe_split\[0\]: expected an object of inputs by name, got an empty one$/,
    ],
    ['{"dataframe_split": {"columns": ["x"], "data": []}}', /^"dataframe_split" is empty/],
    ['{"dataframe_records": {"a": 1}}', /^"dataframe_records": expected a list of objects, got an object$/],
    [
      '{"dataframe_records": [{"x": [1, 2]}, 3]}',
      /^"dataframe_records"\[1\]: expected an object of values by column, got a number$/,
    ],
    ['{"instances": [[1, 2]], "dataframe_split": {}}', /unknown key "dataframe_split" beside "instances"/],
    ['{"inputs": [[1, 2]], "dataframe_records": []}', /unknown key "dataframe_records" beside "inputs"/],
  ] as const)
    for (const path of ['/invocations', '/predict', '/predictions']) {
      const { status, body: answer } = await send(path, body);
      assert.equal(status, 400, body);
      assert.match((answer as { error: string }).error, message);
    }
  const many = JSON.stringify({ dataframe_split: { data: Array.from({ length: 100_000 }, () => [1, 2]) } });
  assert.equal((await send('/invocations', many)).status, 413);
});

test('a line of many records holds one, however its rows are given', async (t) => {
  const { send } = await serving(t, [{ name: 'x', dtype: 'float32', shape: ['N', 2] }]);
  const lines = [
    '{"inputs": [[1, 2], [3, 4]]}',
    '{"dataframe_records": [{"x": [1, 2]}, {"x": [3, 4]}]}',
    '{"dataframe_records": [{"x": [1, 2]}]}',
  ];
  const { status, body } = await send('/predictions', lines.join('\n'), 'application/x-ndjson');
  assert.equal(status, 207);
  const { records } = body as { records: { error?: string }[] };
  assert.deepEqual(
    records.map(({ error }) => error),
    [...Array(2).fill('a line holds one record, got 2 instances'), undefined],
  );
});

test('an image is a body, and the filter of the job is kept', async (t) => {
  const { url } = await testStack(t, { config: 'imageResize: 8,8\npostProcessing: topN(1)' });
  const image = await readFile(join(IMAGES, 'digit-3.png'));
  for (const type of ['image/png', 'application/x-image']) {
    const response = await fetch(`${url}/invocations`, {
      method: 'POST',
      body: image,
      headers: { 'content-type': type },
    });
    const { predictions } = (await response.json()) as { predictions: [[[number, number]]] };
    assert.deepEqual([response.status, predictions.length, predictions[0][0][0]], [200, 1, 3]);
  }
});

test('GET /ping is 200 when the model is open', async (t) => {
  const { url } = await serving(t, [{ name: 'x', dtype: 'float32', shape: ['N', 2] }]);
  const response = await fetch(`${url}/ping`);
  assert.deepEqual([response.status, await response.text()], [200, '']);
});

test("GET /v1/models is OpenAI's list, and TensorFlow Serving's status below it stays", async (t) => {
  const { url } = await serving(t, [{ name: 'x', dtype: 'float32', shape: ['N', 2] }], 'jobName: mine');
  const response = await fetch(`${url}/v1/models`);
  assert.equal(response.status, 200);
  assert.deepEqual(await response.json(), {
    object: 'list',
    data: [{ id: 'mine', object: 'model', created: 0, owned_by: 'cluster-serving' }],
    error: 'Missing model name in request.',
  });
  const status = await fetch(`${url}/v1/models/mine`);
  assert.deepEqual(Object.keys((await status.json()) as object), ['model_version_status']);
});
