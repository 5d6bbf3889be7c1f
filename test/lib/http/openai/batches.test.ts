/** Batches in the form of OpenAI's API: their states, times and files, and what is refused. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fileKeys } from '../../../../lib/jobs/openai/batch.ts';
import { keysOf } from '../../../../lib/jobs/request.ts';
import { BUCKET, JOB } from '../../jobs/world.ts';
import { openService, START_MS } from './service.ts';

const DAY_MS = 86_400_000;

test('a batch runs, and shows each step with its time, its counts and its files', async () => {
  const { world, clock, ask, upload, batch } = openService();
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
  keep(keys.progress, { atMs: 3_000_500, rows: 2, errors: 0 });
  const late = { ...answered, status: 'finalizing', expired_at: 4_000 };
  assert.deepEqual(await batch(id), { ...late, request_counts: { total: 3, completed: 2, failed: 0 } });

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
  const { world, ask, upload, batch, refusal } = openService();
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
  const { clock, ask, upload, batch, refusal } = openService();
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
  const { world, ask, upload, refusal } = openService();
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
  assert.equal((await refusal(ask(`POST /v1/batches/${String(good.body['id'])}`)))[0], 404);
});
