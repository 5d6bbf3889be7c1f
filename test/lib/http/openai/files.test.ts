/** Files in the form of OpenAI's API: uploads, pages, and what is refused. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fileKeys } from '../../../../lib/jobs/openai/batch.ts';
import { BUCKET, JOB } from '../../jobs/world.ts';
import { openService, type Part, START_MS } from './service.ts';

const MiB = 1024 * 1024;

test('a file is kept as it was uploaded, shown, listed and removed with its bytes', async () => {
  const { world, ask, call, sendForm, refusal } = openService();
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

test('a form that is not an upload is refused by its field', async () => {
  const { world, ask, sendForm, refusal } = openService();
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
  const { world, call, upload } = openService();
  const id = await upload();
  const key = `${BUCKET}/${fileKeys(JOB).facts}${id}.json`;
  const facts = JSON.parse(world.text(key)) as object;
  world.put(key, JSON.stringify({ ...facts, bytes: 4 * MiB }));
  assert.equal((await call(`GET /v1/files/${id}/content`)).statusCode, 200);
  world.put(key, JSON.stringify({ ...facts, bytes: 4 * MiB + 1, key: 'where' }));
  const { statusCode, headers } = await call(`GET /v1/files/${id}/content`);
  assert.deepEqual([statusCode, headers?.['location']], [303, 'https://s3.example/where']);
});

test('pages begin with the newest, and go on after an id', async () => {
  const { world, clock, ask, upload, refusal } = openService();
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
  // As a batch keeps its results.
  const output = `${ids[0]}-output`;
  const [from, to] = [ids[0], output].map((id) => `${BUCKET}/${fileKeys(JOB).facts}${id}.json`) as [
    string,
    string,
  ];
  world.put(to, world.text(from).replaceAll(ids[0] ?? '', output));
  assert.deepEqual(await page('purpose=batch_output'), { found: [output], more: false });
  assert.deepEqual(await page('limit=30&purpose=batch'), { found: ids, more: false });
  world.objects.delete(to);
  assert.deepEqual(await page('limit=1000'), { found: ids, more: false });
  for (const limit of ['0', '1.5', 'x'])
    assert.deepEqual(await refusal(ask(`GET /v1/files?limit=${limit}`)), [
      400,
      `limit: expected a whole number from 1, got "${limit}"`,
    ]);
  assert.equal((await refusal(ask('GET /v1/files?order=asc')))[0], 400);
});
