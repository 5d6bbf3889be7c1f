/** One machine besides predictions: figures and description of a job, its console, and files of OpenAI's API. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { after, before, test } from 'node:test';
import { SendMessageCommand } from '@aws-sdk/client-sqs';
import {
  ACTION_HEADER,
  type DeadLetterPage,
  type Example,
  type LiveFacts,
  type ModelFacts,
  type RecentRecords,
  type Versions,
} from '../../console/api.ts';
import type { CaptureFacts } from '../../console/captures.ts';
import { putText } from '../../lib/s3/objects.ts';
import { runSample, sampleTable } from '../../local/service/sample.ts';
import type { Stack } from '../../local/service/stack.ts';
import { SAMPLE, testStack } from '../support/stack.ts';
import { until } from '../support/until.ts';

let stack: Stack;
const closers: (() => unknown)[] = [];
before(async () => {
  const config = 'imageResize: 8,8\ncapture: {share: 1}';
  stack = await testStack({ after: (close) => closers.push(close) }, { config, preferEmbeddedRedis: true });
});
after(async () => {
  for (const close of closers.reverse()) await close();
});

const part = async <T>(path: string) => (await (await fetch(`${stack.url}/console/api/${path}`)).json()) as T;
const act = async (what: string, body: object) => {
  const init = { method: 'POST', headers: { [ACTION_HEADER]: '1' }, body: JSON.stringify(body) };
  const response = await fetch(`${stack.url}/console/api/${what}`, init);
  return { status: response.status, ...((await response.json()) as { done?: string; code?: string }) };
};
const zeros = Array.from({ length: 3 }, () => Array.from({ length: 8 }, () => Array<number>(8).fill(0)));

test('a job tells its figures and its queue’s, and what its API is', async () => {
  const get = async (path: string, headers: Record<string, string> = {}) => {
    const response = await fetch(stack.url + path, { headers });
    assert.equal(response.status, 200, path);
    return response.text();
  };
  const figures = await get('/metrics', { accept: 'text/plain' });
  for (const state of ['waiting', 'running'])
    assert.match(figures, new RegExp(`^cluster_serving_queue_messages\\{state="${state}"\\} 0$`, 'm'));
  assert.match(figures, /^cluster_serving_workers [1-9]/m);
  const described = JSON.parse(await get('/openapi.json')) as { security?: unknown; paths: object };
  assert.equal(described.security, undefined);
  assert.ok('/predict' in described.paths);
  assert.match(await get('/docs'), /<html/);
});

test('the console shows the model, what it has answered, and nothing where there is nothing', async () => {
  const { release, inputs, outputs, batching, report, ...model } = await part<ModelFacts>('model');
  assert.match(release, /^\d+\.\d+/);
  assert.deepEqual(model, {
    job: stack.job,
    filter: '',
    caller: { auth: 'none' },
    kind: 'model',
    version: stack.model,
    notes: ['records share runs: the graph shows that none changes the answer of another'],
    further: [],
  });
  const ports = [inputs, outputs].map((list) =>
    'unavailable' in list ? [] : list.map(({ takes }) => takes),
  );
  assert.deepEqual(ports, [['image'], ['numbers']]);
  assert.deepEqual([batching, Object.keys(report)], [{ why: model.notes[0] }, ['unavailable']]);

  const example = await part<Example>('example');
  assert.equal(example.isGolden, false);
  const answer = await fetch(`${stack.url}/predict`, { method: 'POST', body: example.body });
  assert.equal(answer.status, 200);
  const now = Date.now();
  const { since, endedAt, total } = await part<LiveFacts>('live');
  assert.ok(Date.parse(since) <= endedAt && endedAt <= now + 60_000, `${since} ${endedAt}`);
  assert.ok(total.requests > 0);

  assert.deepEqual(await part('jobs'), { jobs: [], more: 0 });
  assert.match((await part<{ unavailable: string }>('notices')).unavailable, /^The job has no targets/);
  const { lost, replay } = await part<CaptureFacts>('captures');
  assert.deepEqual([lost, Object.keys(replay)], [0, ['unavailable']]);
  const { versions, refreshSeconds } = await part<Versions>('versions');
  assert.deepEqual(
    versions.map(({ version, serves }) => [version, serves]),
    [[stack.model, true]],
  );
  assert.ok(refreshSeconds > 0);
  const activated = await act('activate', { version: stack.model });
  assert.deepEqual(activated, { status: 200, done: `Version ${stack.model} serves already.` });
  for (const what of ['promote', 'end'])
    assert.equal((await act(what, { version: stack.model })).status, 404);
});

test('the console answers its own page alone, and acts only for a request that says so', async () => {
  const ask = async (path: string, headers: Record<string, string> = {}, body?: string) => {
    const init = body === undefined ? { headers } : { method: 'POST', headers, body };
    return (await fetch(`${stack.url}/console/api/${path}`, init)).status;
  };
  assert.equal(await ask('live', { origin: stack.url, 'sec-fetch-site': 'none' }), 200);
  assert.equal(await ask('live', { origin: 'http://evil.example' }), 401);
  for (const site of ['cross-site', 'same-site'])
    assert.equal(await ask('live', { 'sec-fetch-site': site }), 401);
  const id = '{"id":"x"}';
  assert.equal(await ask('replay', {}, id), 401);
  const header = { [ACTION_HEADER]: '1' };
  assert.equal(await ask('replay', header, id), 404);
  for (const body of [
    '{"id":1}',
    '{"id":""}',
    'null',
    '{"version":"x"}',
    'no',
    `{"id":"${'x'.repeat(5_000)}"}`,
  ])
    assert.equal(await ask('replay', header, body), 400, body.slice(0, 20));
  const text = await fetch(stack.url);
  assert.match(await text.text(), /^welcome/);
});

test('a body is uploaded under its digest, and stands for itself in a request', async () => {
  const body = JSON.stringify({ instances: [{ image: zeros }] });
  const sha256 = createHash('sha256').update(body).digest('hex');
  const post = async (path: string, json: object) => {
    const response = await fetch(stack.url + path, { method: 'POST', body: JSON.stringify(json) });
    return { status: response.status, json: (await response.json()) as Record<string, unknown> };
  };
  const { status, json } = await post('/uploads', { bytes: body.length, sha256 });
  assert.deepEqual(
    [status, json['id'], json['url'], json['headers']],
    [201, sha256, `/uploads/${sha256}`, {}],
  );
  const left = Date.parse(String(json['expiresAt'])) - Date.now();
  assert.ok(left > 0 && left <= 86_400_000, `${left}`);
  const put = async (id: string, text: string) =>
    (await fetch(`${stack.url}/uploads/${id}`, { method: 'PUT', body: text })).status;
  assert.equal(await put(sha256, `${body} `), 400);
  assert.equal(await put('x', body), 400);
  assert.equal((await post('/predict', { payload: sha256 })).status, 404);
  assert.equal(await put(sha256, body), 200);
  const [direct, uploaded] = [
    await post('/predict', JSON.parse(body)),
    await post('/predict', { payload: sha256 }),
  ];
  assert.equal(direct.status, 200);
  assert.deepEqual(uploaded, direct);
});

test('a dead letter is shown with its reason, runs again or with another payload, and is gone then', async () => {
  const send = async (uri: string, image: unknown) => {
    const data = JSON.stringify({ instances: [{ image }] });
    const MessageBody = JSON.stringify({ uri, data, serde: 'stream' });
    await stack.aws.sqs.send(new SendMessageCommand({ QueueUrl: stack.deadLetterUrl, MessageBody }));
  };
  await send('good', zeros);
  await send('bad', [1]);
  const letters = async () => (await part<DeadLetterPage>('dead-letters')).letters;
  await until(async () => (await letters()).length === 2, undefined, 100);
  const idOf = async (uri: string) =>
    (await letters()).find((one) => one.uri === uri)?.id ?? assert.fail(uri);
  const bad = await idOf('bad');
  await until(async () =>
    (await letters()).every(({ reason }) => reason.startsWith('max_receives_exceeded: ')),
  );
  assert.deepEqual(await part(`dead-letter?id=${bad}`), {
    text: JSON.stringify({ uri: 'bad', instances: [{ image: [1] }] }, undefined, 2),
  });

  const good = await idOf('good');
  const ran = 'It ran, and its result is stored; the dead letter was removed.';
  assert.deepEqual(await act('replay', { id: good }), { status: 200, done: ran });
  assert.equal((await act('replay', { id: good })).status, 404);
  const refused = await act('replay', { id: bad });
  assert.deepEqual([refused.status, refused.code], [400, 'bad_input']);
  const payload = JSON.stringify({ instances: [{ image: zeros }] });
  assert.equal((await act('edit', { id: bad, payload: '{}' })).status, 400);
  assert.equal((await letters()).length, 1);
  const edited = 'bad was enqueued with this payload; the dead letter was removed.';
  assert.deepEqual(await act('edit', { id: bad, payload }), { status: 200, done: edited });
  assert.deepEqual(await letters(), []);
  const recent = async () => {
    const { records } = await part<RecentRecords>('records');
    // The newest come first.
    return new Map(records.toReversed().map(({ uri, status }) => [uri, status]));
  };
  await until(async () => (await recent()).get('bad') === 'succeeded', undefined, 100);
  assert.equal((await recent()).get('good'), 'succeeded');
});

test('a job over a file is listed with its rows, and what is over cannot be cancelled', async () => {
  const id = 'by-hand';
  const body = JSON.stringify({
    input: `s3://${stack.bucket}/rows.ndjson`,
    output: `s3://${stack.bucket}/out/`,
  });
  const put = (key: string, text: string) => putText(stack.aws.s3, { bucket: stack.bucket, key }, text);
  assert.equal((await act('cancel', { id })).status, 404);
  await put('rows.ndjson', `${JSON.stringify({ image: zeros })}\n${JSON.stringify({ image: [1] })}\n`);
  await put(`jobs/${stack.job}/in/${id}.job.json`, body);
  const listed = async () => (await part<{ jobs: readonly Record<string, unknown>[] }>('jobs')).jobs;
  await until(async () => (await listed())[0]?.['state'] === 'done', undefined, 200);
  assert.deepEqual(await listed(), [
    {
      id,
      state: 'done',
      rows: 2,
      errors: 1,
      files: 1,
      total: 2,
      results: `s3://${stack.bucket}/out/results.ndjson`,
    },
  ]);
  assert.equal((await act('cancel', { id })).status, 409);
});

test('a file of OpenAI’s API is taken and given as it comes, and a form that is not an upload leaves nothing', async () => {
  const upload = async (fields: readonly (readonly [string, string | File])[]) => {
    const form = new FormData();
    for (const [name, value] of fields) form.append(name, value);
    const response = await fetch(`${stack.url}/v1/files`, { method: 'POST', body: form });
    return {
      status: response.status,
      body: (await response.json()) as { id?: string; error?: { message: string } },
    };
  };
  const bytes = Buffer.alloc(200_000, 'line\n');
  const file = new File([bytes], 'requests.jsonl');
  const { status, body } = await upload([
    ['file', file],
    ['purpose', 'batch'],
  ]);
  assert.deepEqual(
    [status, { ...body, id: '', created_at: 0 }],
    [
      200,
      {
        id: '',
        object: 'file',
        bytes: bytes.length,
        created_at: 0,
        filename: 'requests.jsonl',
        purpose: 'batch',
        status: 'processed',
      },
    ],
  );
  const content = await fetch(`${stack.url}/v1/files/${body.id}/content`);
  assert.equal(content.headers.get('content-length'), String(bytes.length));
  assert.equal(Buffer.compare(Buffer.from(await content.arrayBuffer()), bytes), 0);
  assert.equal((await fetch(`${stack.url}/v1/files/file-0/content`)).status, 404);
  for (const [fields, message] of [
    [[['file', file]], "'purpose' is a required field"],
    [[['purpose', 'batch']], "'file' is a required field"],
    [
      [
        ['purpose', 'batch'],
        ['other', file],
      ],
      'other: not served; files stay until they are deleted',
    ],
  ] as const) {
    const refused = await upload(fields);
    assert.deepEqual([refused.status, refused.body.error?.message], [400, message]);
  }
  const listed = (await (await fetch(`${stack.url}/v1/files`)).json()) as { data: readonly { id: string }[] };
  assert.deepEqual(
    listed.data.map(({ id }) => id),
    [body.id],
  );
});

test('the sample is right by both ways, and its table says so', async () => {
  const report = await runSample(stack, SAMPLE);
  assert.ok(report.rows.length > 0 && report.right === report.rows.length);
  assert.match(
    sampleTable(report),
    new RegExp(`\\n  ${report.right} of ${report.right} right, both ways the same$`),
  );
  const [row] = report.rows;
  assert.ok(row);
  const wrong = sampleTable({ rows: [{ ...row, label: row.label + 1 }], right: 0 });
  assert.match(wrong, new RegExp(`  WRONG, it is a ${row.label + 1}\\n  0 of 1 right`));
});
