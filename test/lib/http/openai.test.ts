/** Files and batches in the form of OpenAI's API through the handler, with the objects of jobs in memory. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { APIGatewayProxyEventV2 } from 'aws-lambda';
import { fileKeys } from '../../../lib/jobs/openai/batch.ts';
import { Batches } from '../../../lib/jobs/openai/batches.ts';
import { BatchFiles } from '../../../lib/jobs/openai/files.ts';
import { keysOf } from '../../../lib/jobs/request.ts';
import { seeded } from '../../support/faults/seeds.ts';
import { predictionsWith } from '../../support/predictions.ts';
import { BUCKET, JOB, NO_FAULTS, World } from '../jobs/world.ts';

const START_MS = Date.UTC(2030, 0, 1);
const DAY_MS = 86_400_000;
const MiB = 1024 * 1024;

type Body = Readonly<Record<string, unknown>> & { readonly data?: readonly { readonly id: string }[] };
type Part = readonly [name: string, content: string | Buffer, filename?: string];

function form(parts: readonly Part[]): Buffer {
  const texts = parts.flatMap(([name, content, filename]) => [
    Buffer.from(
      `--edge\r\ncontent-disposition: form-data; name="${name}"${filename === undefined ? '' : `; filename="${filename}"`}\r\n\r\n`,
    ),
    Buffer.from(content),
    Buffer.from('\r\n'),
  ]);
  return Buffer.concat([...texts, Buffer.from('--edge--\r\n')]);
}

/** A service whose clock stands still, and which counts what is made instead of choosing at random. */
function open() {
  const world = new World(seeded(1), NO_FAULTS);
  const clock = { now: START_MS };
  let made = 0;
  const random = () => String(++made).padStart(12, '0');
  const place = { job: JOB, bucket: BUCKET, store: world.store(), now: () => clock.now, random };
  const files = new BatchFiles(place);
  const batches = new Batches(place, files);
  const handler = predictionsWith({
    batchService: async () => ({ files, batches }),
    locate: (key) => `https://s3.example/${key}`,
  });
  const call = async (route: string, body?: Buffer | object, type = 'application/json') => {
    const [method, url = ''] = route.split(' ');
    const [rawPath, query = ''] = url.split('?');
    const bytes = Buffer.isBuffer(body) ? body : Buffer.from(body === undefined ? '' : JSON.stringify(body));
    const event = {
      rawPath,
      rawQueryString: query,
      queryStringParameters: Object.fromEntries(new URLSearchParams(query)),
      headers: { 'content-type': type },
      requestContext: { http: { method } },
      body: bytes.toString('base64'),
      isBase64Encoded: true,
    };
    return handler(event as unknown as APIGatewayProxyEventV2);
  };
  const ask = async (route: string, body?: Buffer | object, type?: string) => {
    const answer = await call(route, body, type);
    return { status: answer.statusCode, body: JSON.parse(answer.body ?? 'null') as Body };
  };
  const sendForm = (...parts: Part[]) =>
    ask('POST /v1/files', form(parts), 'multipart/form-data; boundary=edge');
  const upload = async (text = '{}', name = 'a.jsonl') =>
    String((await sendForm(['purpose', 'batch'], ['file', text, name])).body['id']);
  /** @returns the status and the message of an error */
  const refusal = async (answer: Promise<{ status: number; body: Body }>) => {
    const { status, body } = await answer;
    const { message, ...rest } = body['error'] as { message: string };
    assert.deepEqual(rest, {
      type: 'invalid_request_error',
      param: null,
      code: { 400: 'bad_request', 404: 'not_found', 409: 'conflict', 413: 'too_large' }[status],
    });
    return [status, message];
  };
  const batch = async (id: string) => (await ask(`GET /v1/batches/${id}`)).body;
  return { world, clock, call, ask, sendForm, upload, refusal, batch };
}

test('a file is kept as it was uploaded, shown, listed and removed with its bytes', async () => {
  const { world, ask, call, sendForm, refusal } = open();
  const sent = await sendForm(['purpose', 'batch'], ['file', 'a\r\nb', 'requests.jsonl']);
  const id = String(sent.body['id']);
  const shown = {
    id,
    object: 'file',
    bytes: 4,
    created_at: START_MS / 1000,
    filename: 'requests.jsonl',
    purpose: 'batch',
    status: 'processed',
  };
  assert.deepEqual(sent, { status: 200, body: shown });
  assert.match(id, /^file-[0-9a-f]{24}$/);
  assert.deepEqual((await ask(`GET /v1/files/${id}`)).body, shown);
  const content = await call(`GET /v1/files/${id}/content`);
  assert.deepEqual([content.statusCode, content.isBase64Encoded], [200, true]);
  assert.equal(Buffer.from(content.body ?? '', 'base64').toString(), 'a\r\nb');
  assert.deepEqual((await ask('GET /v1/files')).body, {
    object: 'list',
    data: [shown],
    first_id: id,
    last_id: id,
    has_more: false,
  });
  assert.deepEqual((await ask(`DELETE /v1/files/${id}`)).body, { id, object: 'file', deleted: true });
  assert.equal(world.objects.size, 0);
  for (const gone of [id, 'file-1', 'manifest'])
    assert.deepEqual(await refusal(ask(`GET /v1/files/${gone}`)), [404, `No such File object: ${gone}`]);
  // Without a name it gets one, and a long one is cut.
  assert.equal((await sendForm(['purpose', 'batch'], ['file', ''])).body['filename'], 'file.jsonl');
  const long = await sendForm(['file', '', 'x'.repeat(300)], ['purpose', 'batch']);
  assert.equal(long.body['filename'], 'x'.repeat(255));
});

test('a form that is no upload is refused by its field', async () => {
  const { world, ask, sendForm, refusal } = open();
  const purpose: Part = ['purpose', 'batch'];
  const file: Part = ['file', 'a', 'a.jsonl'];
  for (const [parts, message] of [
    [[file], "'purpose' is a required field"],
    [[purpose], "'file' is a required field"],
    [[file, ['purpose', 'fine-tune']], 'purpose: expected "batch", got "fine-tune"'],
    [[file, purpose, ['expires_after', '1']], 'expires_after: not served; files stay until they are deleted'],
  ] as const)
    assert.deepEqual(await refusal(sendForm(...parts)), [400, message]);
  assert.deepEqual(await refusal(ask('POST /v1/files', {})), [
    400,
    'expected a multipart form with the fields "file" and "purpose"',
  ]);
  const most = Buffer.alloc(4 * MiB);
  const [status, message] = await refusal(
    sendForm(purpose, ['file', Buffer.concat([most, Buffer.from('1')]), 'a']),
  );
  assert.equal(status, 413);
  assert.match(String(message), /^the file has more than 4 MiB/);
  assert.equal(world.objects.size, 0);
  assert.equal((await sendForm(purpose, ['file', most, 'a'])).status, 200);
});

test('what is too large for an answer is where its bytes are', async () => {
  const { world, call, upload } = open();
  const id = await upload();
  const key = `${BUCKET}/${fileKeys(JOB).facts}${id}.json`;
  const large = { ...(JSON.parse(world.text(key)) as object), bytes: 4 * MiB + 1, key: 'where' };
  world.put(key, JSON.stringify(large));
  const { statusCode, headers } = await call(`GET /v1/files/${id}/content`);
  assert.deepEqual([statusCode, headers?.['location']], [303, 'https://s3.example/where']);
});

test('pages begin with the newest, and go on after an id', async () => {
  const { clock, ask, upload, refusal } = open();
  const ids: string[] = [];
  for (let i = 0; i < 23; i++) {
    clock.now += 1_000;
    ids.unshift(await upload());
  }
  const page = async (query: string) => {
    const { body } = await ask(`GET /v1/files?${query}`);
    const found = body.data?.map(({ id }) => id) ?? [];
    assert.deepEqual([body['first_id'], body['last_id']], [found[0] ?? null, found.at(-1) ?? null]);
    return { found, more: body['has_more'] };
  };
  assert.deepEqual(await page(''), { found: ids, more: false });
  assert.deepEqual(await page('limit=22&order=desc'), { found: ids.slice(0, 22), more: true });
  assert.deepEqual(await page('limit=23&purpose=batch'), { found: ids, more: false });
  assert.deepEqual(await page(`limit=3&after=${ids[18]}`), { found: ids.slice(19, 22), more: true });
  assert.deepEqual(await page(`after=${ids[22]}`), { found: [], more: false });
  assert.deepEqual(await page('purpose=batch_output'), { found: [], more: false });
  assert.deepEqual(await page('limit=1000'), { found: ids, more: false });
  for (const limit of ['0', '1.5', 'x'])
    assert.deepEqual(await refusal(ask(`GET /v1/files?limit=${limit}`)), [
      400,
      `limit: expected a whole number from 1, got "${limit}"`,
    ]);
  assert.equal((await refusal(ask('GET /v1/files?order=asc')))[0], 400);
});

test('a batch runs, and shows each step with its time, its counts and its files', async () => {
  const { world, clock, ask, upload, batch } = open();
  const lines = [3, -1, 4].map((x, i) =>
    JSON.stringify({
      custom_id: `r${i}`,
      method: 'POST',
      url: '/predict?form=plain',
      body: { instances: [{ x }] },
    }),
  );
  const input = await upload(lines.join('\n'));
  const asked = {
    input_file_id: input,
    endpoint: '/predict?form=plain',
    completion_window: '24h',
    metadata: { night: 'one' },
  };
  clock.now += 1_500;
  const { status, body } = await ask('POST /v1/batches', { ...asked, output_expires_after: null });
  const id = String(body['id']);
  const keys = keysOf(JOB, id);
  const at = START_MS / 1000 + 1;
  const before = {
    id,
    object: 'batch',
    endpoint: '/predict?form=plain',
    errors: null,
    input_file_id: input,
    completion_window: '24h',
    status: 'validating',
    output_file_id: null,
    error_file_id: null,
    created_at: at,
    in_progress_at: null,
    expires_at: at + 86_400,
    finalizing_at: null,
    completed_at: null,
    failed_at: null,
    expired_at: null,
    cancelling_at: null,
    cancelled_at: null,
    request_counts: { total: 0, completed: 0, failed: 0 },
    metadata: { night: 'one' },
  };
  assert.deepEqual([status, body], [200, before]);
  assert.deepEqual(await batch(id), before);

  const keep = (key: string, value: object) => world.put(`${BUCKET}/${key}`, JSON.stringify(value));
  keep(keys.checked, { atMs: 2_000_500, requests: 3 });
  keep(keys.progress, { atMs: 3_000_500, rows: 2, errors: 1 });
  const running = { ...before, status: 'in_progress', in_progress_at: 2_000 };
  assert.deepEqual(await batch(id), { ...running, request_counts: { total: 3, completed: 1, failed: 1 } });
  keep(keys.progress, { atMs: 3_000_500, rows: 3, errors: 1 });
  const counts = { total: 3, completed: 2, failed: 1 };
  const answered = { ...running, request_counts: counts, finalizing_at: 3_000 };
  assert.deepEqual(await batch(id), { ...answered, status: 'finalizing' });
  keep(keys.expired, { atMs: 4_000_500 });
  assert.deepEqual(await batch(id), { ...answered, status: 'finalizing', expired_at: 4_000 });

  const summary = { rows: 3, errors: 1, answeredAt: new Date(5_000_500), finishedAt: new Date(6_000_500) };
  keep(keys.summary, summary);
  const stem = id.slice('batch_'.length);
  const ended = {
    ...answered,
    finalizing_at: 5_000,
    output_file_id: `file-${stem}-output`,
    error_file_id: `file-${stem}-error`,
  };
  assert.deepEqual(await batch(id), { ...ended, status: 'expired', expired_at: 4_000 });
  world.objects.delete(`${BUCKET}/${keys.expired}`);
  assert.deepEqual(await batch(id), { ...ended, status: 'completed', completed_at: 6_000 });
  keep(keys.cancelled, { atMs: 4_000_500 });
  const cancelled = { status: 'cancelled', cancelling_at: 4_000, cancelled_at: 6_000 };
  assert.deepEqual(await batch(id), { ...ended, ...cancelled });
  keep(keys.summary, { ...summary, errors: 3 });
  assert.deepEqual((await batch(id))['output_file_id'], null);
  keep(keys.summary, { ...summary, errors: 0 });
  assert.deepEqual((await batch(id))['error_file_id'], null);
});

test('a batch that fails says why, by its lines or as a whole', async () => {
  const { world, ask, upload, batch, refusal } = open();
  const asked = { input_file_id: await upload(), endpoint: '/predict', completion_window: '24h' };
  const id = String((await ask('POST /v1/batches', asked)).body['id']);
  const keys = keysOf(JOB, id);
  world.put(
    `${BUCKET}/${keys.failed}`,
    JSON.stringify({ atMs: 7_000_500, error: 'why', code: 'bad_request' }),
  );
  const failed = await batch(id);
  assert.deepEqual([failed['status'], failed['failed_at']], ['failed', 7_000]);
  const why = { code: 'bad_request', message: 'why', param: null, line: null };
  assert.deepEqual(failed['errors'], { object: 'list', data: [why] });
  const line = { code: 'invalid_method', message: 'no', param: 'method', line: 2 };
  world.put(`${BUCKET}/${keys.problems}`, JSON.stringify([line]));
  assert.deepEqual((await batch(id))['errors'], { object: 'list', data: [line] });
  assert.deepEqual(await refusal(ask(`POST /v1/batches/${id}/cancel`)), [
    409,
    "Cannot cancel a batch with status 'failed'.",
  ]);
});

test('a batch is cancelled while it is not over, once; and batches are listed, the newest first, for 29 days', async () => {
  const { clock, ask, upload, batch, refusal } = open();
  const asked = { input_file_id: await upload(), endpoint: '/predict', completion_window: '24h' };
  const create = async () => String((await ask('POST /v1/batches', asked)).body['id']);
  const first = await create();
  clock.now += DAY_MS;
  const second = await create();
  for (let i = 0; i < 2; i++) {
    const { status, body } = await ask(`POST /v1/batches/${first}/cancel`);
    assert.deepEqual([status, body['status'], body['cancelling_at']], [200, 'cancelling', clock.now / 1000]);
    assert.deepEqual(await batch(first), body);
  }
  const listed = async (query = '') => (await ask(`GET /v1/batches${query}`)).body.data?.map(({ id }) => id);
  assert.deepEqual(await listed(), [second, first]);
  assert.deepEqual(await listed('?limit=1'), [second]);
  assert.deepEqual(await listed(`?after=${second}`), [first]);
  clock.now += 28 * DAY_MS;
  assert.deepEqual(await listed(), [second]);
  assert.deepEqual(await refusal(ask(`GET /v1/batches/${first}`)), [
    404,
    `No batch found with id '${first}'.`,
  ]);
  for (let i = 0; i < 20; i++) await create();
  assert.equal((await listed())?.length, 20);
  assert.equal((await listed('?limit=21'))?.length, 21);
});

test('a batch that cannot be asked for is refused by its field', async () => {
  const { world, ask, upload, refusal } = open();
  const input = await upload();
  const asked = { input_file_id: input, endpoint: '/predict', completion_window: '24h' };
  const many = Object.fromEntries(Array.from({ length: 17 }, (_, i) => [`k${i}`, '']));
  const cases: readonly (readonly [object, RegExp])[] = [
    [[], /^expected \{"input_file_id", "endpoint", "completion_window": "24h"\}$/],
    [{ ...asked, input_file_id: 3 }, /^input_file_id: expected the id of a file, got 3$/],
    [{ ...asked, completion_window: '1h' }, /^completion_window: expected "24h", got "1h"$/],
    [{ ...asked, endpoint: '/v1/chat/completions' }, /^endpoint: expected \/v1\/embeddings, /],
    [{ ...asked, priority: 'high' }, /^priority: not served$/],
    [{ ...asked, metadata: 'text' }, /^metadata: expected an object of at most 16 texts$/],
    [{ ...asked, metadata: many }, /^metadata: expected an object of at most 16 texts$/],
    [{ ...asked, metadata: { a: 1 } }, /^metadata: expected keys of at most 64 characters/],
    [{ ...asked, metadata: { ['k'.repeat(65)]: '' } }, /^metadata: expected keys/],
    [{ ...asked, metadata: { a: 'x'.repeat(513) } }, /^metadata: expected keys/],
  ];
  for (const [body, message] of cases) {
    const [status, text] = await refusal(ask('POST /v1/batches', body));
    assert.equal(status, 400);
    assert.match(String(text), message);
  }
  const key = `${BUCKET}/${fileKeys(JOB).facts}${input}.json`;
  world.put(key, world.text(key).replace('"batch"', '"batch_output"'));
  assert.deepEqual(await refusal(ask('POST /v1/batches', asked)), [
    400,
    'input_file_id: expected a file with the purpose "batch", not "batch_output"',
  ]);
  assert.equal((await refusal(ask('POST /v1/batches', { ...asked, input_file_id: 'file-0' })))[0], 404);
  const metadata = { ['k'.repeat(64)]: 'x'.repeat(512) };
  const good = await ask('POST /v1/batches', { ...asked, input_file_id: await upload(), metadata });
  assert.deepEqual([good.status, good.body['metadata']], [200, metadata]);
  assert.equal((await refusal(ask(`POST /v1/batches/${good.body['id']}`)))[0], 404);
});
