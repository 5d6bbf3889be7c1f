/** Names and dtypes of a prediction, for any name of the job, and the error if there are no outputs. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { InputQueue } from '../../sdk/index.ts';
import { until } from '../support/until.ts';

const TENSORS = '{value=[{"data":[0.1],"shape":[1]},{"data":["9007199254740993"],"shape":[1]}]}';
const OUTPUTS = [
  { name: 'p', datatype: 'FP32' },
  { name: 'q', datatype: 'INT64' },
];

interface Stub {
  job: string;
  version: string;
  readonly paths: string[];
  text: string;
  metadata: object;
  /** Answers a path otherwise. */
  other?: (path: string) => Response | undefined | Promise<Response>;
}

function serviceOf(options: Partial<Stub> = {}, name?: string) {
  const stub: Stub = { job: 'j', version: 'v1', paths: [], text: TENSORS, metadata: {}, ...options };
  const notFound = (message: string) => Response.json({ error: message, code: 'not_found' }, { status: 404 });
  const fetch = async (url: string) => {
    const path = new URL(url).pathname;
    stub.paths.push(path);
    const other = await stub.other?.(path);
    if (other) return other;
    const headers = { 'model-version': stub.version };
    if (path === '/predict') return Response.json({ predictions: [stub.text] }, { headers });
    if (path === '/v2/models/stats') return Response.json({ model_stats: [{ name: stub.job }] });
    if (path !== `/v2/models/${stub.job}`)
      return notFound(`no model "${path.split('/').at(-1)}"; the model of this job is "${stub.job}"`);
    return Response.json({
      versions: [stub.version],
      platform: 'onnxruntime_onnx',
      outputs: OUTPUTS,
      ...stub.metadata,
    });
  };
  const queue = new InputQueue({ frontendUrl: 'https://api.example', fetch, ...(name && { name }) });
  const named = async () =>
    (await queue.predict({ x: 1 })).outputs.map((each) => `${each.name} ${each.dtype}`);
  return { stub, queue, named };
}

test('without a name the service is asked once for its job, and once for each version of its model', async () => {
  const { stub, named } = serviceOf();
  for (let i = 0; i < 3; i++) assert.deepEqual(await named(), ['p float32', 'q int64']);
  stub.version = 'v2';
  assert.deepEqual(await named(), ['p float32', 'q int64']);
  assert.deepEqual(
    stub.paths.filter((path) => path !== '/predict'),
    ['/v2/models/stats', '/v2/models/j', '/v2/models/j'],
  );
});

test('while a canary answers in turn, each version has its own names, and is asked for once', async () => {
  const { stub, named } = serviceOf({
    other: (path) =>
      path === '/v2/models/j/versions/c1'
        ? Response.json({ versions: ['c1'], outputs: [{ name: 'c', datatype: 'FP64' }, OUTPUTS[1]] })
        : undefined,
    metadata: { versions: ['v1'] },
  });
  for (let i = 0; i < 3; i++) {
    stub.version = 'v1';
    assert.deepEqual(await named(), ['p float32', 'q int64']);
    stub.version = 'c1';
    assert.deepEqual(await named(), ['c float64', 'q int64']);
  }
  // A version that is not there any more has the names of JSON.
  stub.version = 'gone';
  assert.deepEqual(await named(), ['output0 float64', 'output1 string']);
  assert.deepEqual(
    stub.paths.filter((path) => path !== '/predict'),
    [
      '/v2/models/stats',
      '/v2/models/j',
      '/v2/models/j',
      '/v2/models/j/versions/c1',
      '/v2/models/j',
      '/v2/models/j/versions/gone',
    ],
  );
});

test('an output has the names of its classes as labels, where it has as many values', async () => {
  const outputs = [
    { ...OUTPUTS[0], parameters: { names: ['cat', 'dog'] } },
    { ...OUTPUTS[1], parameters: { names: ['a', 'b'] } },
    { name: 'r', datatype: 'FP32' },
  ];
  const text = '{value=[{"data":[0.1,0.9],"shape":[1,2]},{"data":[1],"shape":[1]},{"data":[1],"shape":[1]}]}';
  const { queue } = serviceOf({ text, metadata: { outputs } });
  const prediction = await queue.predict({ x: 1 });
  assert.deepEqual(
    prediction.outputs.map(({ labels }) => labels),
    [['cat', 'dog'], undefined, undefined],
  );
});

test('an answer whose prediction is not a text {value=…} of JSON is an error', async () => {
  const values: unknown[] = [null, 7, {}, '', '[1]', 'a{value=1}', '{value=1}b', '{value=}', '{value=x}'];
  // A value without a text makes JavaScript throw its own error.
  values.push(['{value=1}'], { toString: 0 });
  for (const text of values)
    await assert.rejects(
      serviceOf({ text: text as string }).queue.predict({ x: 1 }),
      { code: 'internal', message: /a prediction is no \{value=…\}/ },
      JSON.stringify(text),
    );
});

test('calls at the same time share the question, and one that is called off does not end it', async () => {
  const gate = Promise.withResolvers<undefined>();
  const { stub, queue } = serviceOf({
    other: (path) => (path.startsWith('/v2') ? gate.promise : undefined) as never,
  });
  const stop = new AbortController();
  const first = queue.predict({ x: 1 }, { signal: stop.signal });
  const others = Array.from({ length: 9 }, () => queue.predict({ x: 1 }));
  // A call that does not ask ends at once.
  await Promise.race([until(async () => stub.paths.includes('/v2/models/stats')), first]);
  stop.abort(new Error('no more'));
  await assert.rejects(first, /no more/);
  gate.resolve(undefined);
  for (const { outputs } of await Promise.all(others)) assert.equal(outputs[0]?.name, 'p');
  assert.deepEqual(
    stub.paths.filter((path) => path !== '/predict'),
    ['/v2/models/stats', '/v2/models/j'],
  );
});

test('a name of another job is an error each time, which says the job', async () => {
  const { stub, queue } = serviceOf({}, 'wrong');
  for (let i = 0; i < 2; i++)
    await assert.rejects(queue.predict({ x: 1 }), {
      code: 'bad_config',
      message: 'name: no model "wrong"; the model of this job is "j"',
    });
  assert.ok(!stub.paths.includes('/v2/models/stats'));
  // The contract's own form has no names.
  assert.deepEqual(await queue.predict({ instances: [{ x: 1 }] }), [TENSORS]);
});

test('where another job serves at the address by now, it is asked again', async () => {
  const { stub, named } = serviceOf();
  await named();
  Object.assign(stub, { job: 'other', version: 'v9' });
  assert.deepEqual(await named(), ['p float32', 'q int64']);
});

test('an outage while the model is asked for is the error of the call, and the next one asks again', async () => {
  const { stub, queue, named } = serviceOf();
  stub.other = (path) =>
    path.startsWith('/v2') ? Response.json({ error: 'no', code: 'bad_input' }, { status: 400 }) : undefined;
  await assert.rejects(queue.predict({ x: 1 }), { code: 'bad_input' });
  delete stub.other;
  assert.deepEqual(await named(), ['p float32', 'q int64']);
});

for (const [title, answer] of [
  ['may not be asked', () => Response.json({ message: 'Forbidden' }, { status: 403 })],
  ['is of a release without it', () => Response.json({ message: 'Not Found' }, { status: 404 })],
  ['answers with something else', () => Response.json({ predictions: [] })],
] as const) {
  test(`where the metadata ${title}, names and dtypes are those of JSON`, async () => {
    const { named } = serviceOf({ other: (path) => (path.startsWith('/v2') ? answer() : undefined) });
    assert.deepEqual(await named(), ['output0 float64', 'output1 string']);
  });
}

test('.output is the only output; without one it says where the answer is', async () => {
  const outputOf = async (options: Partial<Stub>) => {
    const found = await serviceOf(options).queue.predict({ x: 1 });
    // It may throw, so copies and JSON omit it.
    assert.ok(!Object.keys(found).includes('output'));
    return found.output;
  };
  const one = { text: '{value={"data":[1],"shape":[1]}}', metadata: { outputs: OUTPUTS.slice(0, 1) } };
  assert.equal((await outputOf(one)).name, 'p');
  const text = '{value=[[3,0.9],[1,0.1]]}';
  for (const [options, message] of [
    [
      { text, metadata: { parameters: { post_processing: 'topN(2)' } } },
      'the job answers with its filter topN(2): read .value',
    ],
    [{ text }, 'the job answers with its filter: read .value'],
    [{ text, metadata: { platform: 'worker', outputs: [] } }, 'the job answers with its worker: read .value'],
    [
      {
        text,
        other: (path: string) => (path === '/predict' ? undefined : new Response(null, { status: 403 })),
      },
      'the job answers with its filter or its worker: read .value',
    ],
    [{}, 'there are 2 outputs: read .outputs'],
  ] as const)
    await assert.rejects(outputOf(options), { code: 'bad_request', message });
});
