/** Files and batches of OpenAI's API on one machine, asked by OpenAI's own client. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import OpenAI, { toFile } from 'openai';
import type { Stack } from '../../local/service/stack.ts';
import { testStack } from '../support/stack.ts';
import { expectedAnswers, textModelFolder } from '../support/text-models.ts';
import { until } from '../support/until.ts';

const ENDED = ['completed', 'failed', 'expired', 'cancelled'];

const clientOf = ({ url }: Stack) =>
  new OpenAI({ apiKey: 'none', baseURL: `${url}/v1`, maxRetries: 0, timeout: 30_000 });

const line = (id: string, url: string, body: object) =>
  JSON.stringify({ custom_id: id, method: 'POST', url, body });

async function upload(client: OpenAI, text: string | Buffer, name = 'requests.jsonl') {
  return client.files.create({ file: await toFile(Buffer.from(text), name), purpose: 'batch' });
}

async function runBatch(client: OpenAI, endpoint: string, text: string, metadata?: Record<string, string>) {
  const file = await upload(client, text);
  const asked = {
    input_file_id: file.id,
    endpoint: endpoint as '/v1/embeddings',
    metadata: metadata ?? null,
  };
  const created = await client.batches.create({ ...asked, completion_window: '24h' });
  assert.equal(created.status, 'validating');
  await until(async () => ENDED.includes((await client.batches.retrieve(created.id)).status));
  return client.batches.retrieve(created.id);
}

interface Answered {
  readonly id: string;
  readonly custom_id: string;
  readonly response: { readonly status_code: number; readonly request_id: string; readonly body: unknown };
  readonly error: unknown;
}

async function linesOf(client: OpenAI, id: string | null | undefined): Promise<Answered[]> {
  const text = await (await client.files.content(id ?? assert.fail('no file'))).text();
  return text
    .split('\n')
    .slice(0, -1)
    .map((one) => JSON.parse(one) as Answered);
}

async function refusal(work: Promise<unknown>): Promise<[number | undefined, string]> {
  try {
    await work;
  } catch (error) {
    if (error instanceof OpenAI.APIError) return [error.status, error.message];
    throw error;
  }
  return assert.fail('it was not refused');
}

describe('with the client of OpenAI', () => {
  test('a batch of embeddings has the vectors that /v1/embeddings gives, and others their errors', async (t) => {
    const stack = await testStack(t, {
      modelDirectory: textModelFolder(t, 'encoder'),
      config: 'jobName: vectors',
    });
    const client = clientOf(stack);
    const texts = expectedAnswers('encoder').map(({ text }) => text);
    const requests = [
      line('all', '/v1/embeddings', { model: 'vectors', input: texts }),
      line('other', '/v1/embeddings', { model: 'ada', input: 'a' }),
      line('first', '/v1/embeddings', { model: 'vectors', input: texts[0], encoding_format: 'base64' }),
      line('none', '/v1/embeddings', { model: 'vectors', input: [] }),
    ];
    const batch = await runBatch(client, '/v1/embeddings', requests.join('\n'), { night: 'one' });
    assert.deepEqual(
      [batch.status, batch.request_counts, batch.metadata, batch.errors],
      ['completed', { total: 4, completed: 2, failed: 2 }, { night: 'one' }, null],
    );
    const direct = async (body: object) =>
      (await fetch(`${stack.url}/v1/embeddings`, { method: 'POST', body: JSON.stringify(body) })).json();
    const answered = await linesOf(client, batch.output_file_id);
    assert.deepEqual(
      answered.map(({ custom_id: id, response }) => [id, response.status_code]),
      [
        ['all', 200],
        ['first', 200],
      ],
    );
    const bodies = requests.map((one) => (JSON.parse(one) as { body: object }).body);
    assert.deepEqual(
      answered.map(({ response }) => response.body),
      [await direct(bodies[0] ?? {}), await direct(bodies[2] ?? {})],
    );
    const refused = await linesOf(client, batch.error_file_id);
    assert.deepEqual(
      refused.map(({ custom_id: id, response }) => [id, response.status_code, response.body]),
      [
        ['other', 404, await direct(bodies[1] ?? {})],
        ['none', 400, await direct(bodies[3] ?? {})],
      ],
    );
  });

  test('files and batches are listed, fetched, deleted and cancelled, and what is wrong says so', async (t) => {
    const client = clientOf(await testStack(t));
    const image = Array.from({ length: 3 }, () => Array.from({ length: 8 }, () => Array(8).fill(0)));
    const body = { instances: [{ image }] };
    const done = await runBatch(client, '/predict?form=plain', line('a', '/predict?form=plain', body));
    assert.equal(done.status, 'completed', JSON.stringify(done));
    assert.equal(done.error_file_id, null);
    const times = [done.created_at, done.in_progress_at, done.finalizing_at, done.completed_at];
    assert.deepEqual(
      times.map((time) => Number.isInteger(time)),
      [true, true, true, true],
    );
    const failed = await runBatch(client, '/predict', 'no\n[]');
    assert.deepEqual(
      [failed.status, failed.errors?.data?.map(({ code, line: at }) => [code, at])],
      [
        'failed',
        [
          ['invalid_json_line', 1],
          ['invalid_json_line', 2],
        ],
      ],
    );

    const files = [];
    for await (const file of client.files.list({ limit: 2 })) files.push(file);
    assert.deepEqual(
      files.map(({ purpose, filename, bytes }) => [purpose, filename, bytes > 0]),
      [
        ['batch', 'requests.jsonl', true],
        ['batch_output', `${done.id}_output.jsonl`, true],
        ['batch', 'requests.jsonl', true],
      ],
    );
    const outputs = await client.files.list({ purpose: 'batch_output' });
    assert.deepEqual(
      outputs.data.map(({ id }) => id),
      [done.output_file_id],
    );
    const batches = await client.batches.list({ limit: 1 });
    assert.deepEqual([batches.data[0]?.id, batches.has_more], [failed.id, true]);
    const [next] = (await batches.getNextPage()).data;
    assert.equal(next?.id, done.id);
    const [, last] = files;
    const file = files[0] ?? assert.fail('no file');
    assert.deepEqual(await client.files.retrieve(file.id), file);
    assert.equal((await client.files.delete(file.id)).deleted, true);
    assert.deepEqual(await refusal(client.files.retrieve(file.id)), [
      404,
      `404 No such File object: ${file.id}`,
    ]);
    assert.equal((await refusal(client.files.content(file.id)))[0], 404);

    const create = (asked: object) =>
      refusal(client.batches.create({ endpoint: '/predict', completion_window: '24h', ...asked } as never));
    assert.deepEqual(await create({ input_file_id: file.id }), [404, `404 No such File object: ${file.id}`]);
    const output = { input_file_id: last?.id };
    assert.match((await create(output))[1], /^400 input_file_id: expected a file with the purpose "batch"/);
    assert.match((await create({ ...output, endpoint: '/v1/responses' }))[1], /^400 endpoint: expected/);
    assert.match((await create({ ...output, completion_window: '7d' }))[1], /^400 completion_window/);
    assert.match((await create({ ...output, metadata: { a: 1 } }))[1], /^400 metadata/);
    assert.match(
      (await refusal(client.batches.cancel(done.id)))[1],
      /^409 Cannot cancel a batch with status/,
    );
    assert.match((await refusal(client.batches.retrieve('batch_x')))[1], /^404 No batch found/);
    const other = client.files.create({ file: await toFile(Buffer.from('a'), 'a'), purpose: 'fine-tune' });
    assert.match((await refusal(other))[1], /^400 purpose: expected "batch", got "fine-tune"/);
  });

  test('a batch that is cancelled ends with a line for each request', async (t) => {
    const client = clientOf(await testStack(t));
    const image = Array.from({ length: 3 }, () => Array.from({ length: 8 }, () => Array(8).fill(0)));
    const text = Array.from({ length: 20_000 }, (_, i) =>
      line(`r${i}`, '/predict', { instances: [{ image }] }),
    );
    const file = await upload(client, text.join('\n'));
    const asked = { input_file_id: file.id, endpoint: '/predict' as '/v1/embeddings' };
    const { id } = await client.batches.create({ ...asked, completion_window: '24h' });
    assert.equal((await client.batches.cancel(id)).status, 'cancelling');
    assert.equal((await client.batches.cancel(id)).id, id);
    await until(async () => (await client.batches.retrieve(id)).status === 'cancelled');
    const batch = await client.batches.retrieve(id);
    const { total, completed, failed } = batch.request_counts ?? assert.fail('no counts');
    assert.deepEqual([total, completed + failed], [20_000, 20_000]);
    const errors = (await linesOf(client, batch.error_file_id)).map(({ error }) => error as { code: string });
    assert.ok(errors.length > 0 && errors.every(({ code }) => code === 'batch_cancelled'));
  });

  test('a file of more pieces than one comes back as it was, and a form that breaks off or is none leaves nothing', async (t) => {
    const stack = await testStack(t);
    const client = clientOf(stack);
    const bytes = Buffer.alloc(20 * 1024 * 1024 + 7, 'abcdefg\n');
    const file = await upload(client, bytes);
    assert.equal(file.bytes, bytes.length);
    const content = Buffer.from(await (await client.files.content(file.id)).arrayBuffer());
    assert.ok(content.equals(bytes));
    const post = (body: Buffer | string, type: string) =>
      fetch(`${stack.url}/v1/files`, { method: 'POST', body, headers: { 'content-type': type } });
    const form = 'multipart/form-data; boundary=b';
    const cut = '--b\r\ncontent-disposition: form-data; name="file"; filename="a"\r\n\r\n{}';
    const purpose = '--b\r\ncontent-disposition: form-data; name="purpose"\r\n\r\nbatch\r\n';
    for (const [body, type, message] of [
      [cut, form, /cannot be read/],
      [`${purpose}--b--\r\n`, form, /'file' is a required field/],
      [`${cut}\r\n--b--\r\n`, form, /'purpose' is a required field/],
      [`${purpose}${cut}\r\n${cut}\r\n--b--\r\n`, form, /more fields than/],
      ['{}', 'application/json', /expected a multipart form/],
      ['{}', 'multipart/form-data', /cannot be read/],
    ] as const) {
      const answer = await post(body, type);
      assert.equal(answer.status, 400, body);
      assert.match(((await answer.json()) as { error: { message: string } }).error.message, message);
    }
    const kept = await client.files.list();
    assert.deepEqual(
      kept.data.map(({ id }) => id),
      [file.id],
    );
  });
});
