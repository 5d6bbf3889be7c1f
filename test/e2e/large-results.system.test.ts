/**
 * A result of 12 MB through the whole local service: from the queue into S3, and out of it over HTTPS, over Redis and with
 * the command, bit for bit.
 */
import assert from 'node:assert/strict';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { ListObjectsV2Command } from '@aws-sdk/client-s3';
import { InputQueue, OutputQueue, type Result } from '../../sdk/index.ts';
import { runHere } from '../cli/in-process.ts';
import { python } from '../python/python.ts';
import { onnxModel } from '../support/onnx.ts';
import { WITH_PYTHON } from '../support/python.ts';
import { temporaryFolder } from '../support/runner.ts';
import { clientOptions, testStack } from '../support/stack.ts';

/** `x` times 0, 1, 2 and so on. */
const wide = (width: number) =>
  onnxModel({
    inputs: [{ name: 'x', dtype: 'float32', shape: ['N', 1] }],
    outputs: [{ name: 'y', dtype: 'float32', shape: ['N', width] }],
    nodes: [
      { op: 'Range', inputs: ['zero', 'width', 'one'], outputs: ['steps'] },
      { op: 'Mul', inputs: ['x', 'steps'], outputs: ['y'] },
    ],
    weights: [
      { name: 'zero', dtype: 'float32', shape: [], data: Float32Array.of(0) },
      { name: 'width', dtype: 'float32', shape: [], data: Float32Array.of(width) },
      { name: 'one', dtype: 'float32', shape: [], data: Float32Array.of(1) },
    ],
  });

function assertNumbers(data: unknown, factor: number, width: number): void {
  const expected = Float32Array.from({ length: width }, (_, i) => Math.fround(factor) * i);
  assert.ok(Buffer.from(Float32Array.from(data as number[]).buffer).equals(Buffer.from(expected.buffer)));
}

function assertWhole(result: Result | undefined, factor: number, width: number): void {
  const [output] = result?.outputs ?? [];
  assert.deepEqual(
    [output?.name, output?.dtype, output?.shape, result?.large],
    ['y', 'float32', [width], undefined],
  );
  assertNumbers(output?.data, factor, width);
}

async function openService(t: TestContext, width: number) {
  const folder = join(await temporaryFolder(t), 'model');
  await mkdir(folder);
  await writeFile(join(folder, 'wide.onnx'), wide(width));
  // The check at the start runs as many rows as the service may, each of many megabytes.
  const stack = await testStack(t, { modelDirectory: folder, config: 'jobName: wide\nbatchSize: 2' });
  const options = clientOptions(stack);
  const input = new InputQueue({ ...options.input, name: 'wide' });
  const overRedis = new OutputQueue({ ...options.output, name: 'wide' });
  const overHttps = new OutputQueue({ url: stack.url });
  t.after(() => Promise.all([input.close(), overRedis.close(), overHttps.close()]));
  const enqueue = async (uri: string, factor: number) => {
    await input.enqueue(uri, { x: [factor] });
    await overRedis.wait(uri);
  };
  const ask = async (method: string, path: string) => {
    const answer = await fetch(stack.url + path, { method, redirect: 'manual' });
    const { status, headers } = answer;
    return { status, headers, body: (await answer.json()) as Answer };
  };
  return { stack, overRedis, overHttps, enqueue, ask };
}

interface Answer {
  readonly status: string;
  readonly large: { readonly id: string; readonly bytes: number };
  readonly results: readonly { readonly large: { readonly location: string } }[];
}

test('a result of 12 MB comes back over HTTPS, over Redis and with the command, bit for bit', async (t) => {
  const WIDTH = 3_000_000;
  const { stack, overRedis, overHttps, enqueue, ask } = await openService(t, WIDTH);
  await enqueue('a', 0.1);
  const { status, headers, body } = await ask('GET', '/predictions/a');
  assert.deepEqual([status, headers.get('cache-control'), body.status], [303, 'no-store', 'succeeded']);

  const followed = await fetch(`${stack.url}/predictions/a`);
  assert.deepEqual([followed.status, followed.headers.get('cache-control')], [200, 'no-store']);
  const text = await followed.text();
  assert.equal(Buffer.byteLength(text), body.large.bytes);
  const json = JSON.parse(text) as { uri: string; outputs: [{ data: number[] }] };
  assert.equal(json.uri, 'a');
  assertNumbers(json.outputs[0].data, 0.1, WIDTH);

  assertWhole(await overHttps.wait('a'), 0.1, WIDTH);
  assertWhole(await overRedis.query('a'), 0.1, WIDTH);
  for (const where of [
    ['--url', stack.url],
    ['--redis-url', stack.redisUrl, '--job', 'wide'],
  ]) {
    const { code, text: shown } = await runHere(['query', ...where, 'a']);
    assert.deepEqual(
      [code, shown.slice(0, 46)],
      [0, 'a  y float32[3000000]  largest 300000 at 29999'],
      shown,
    );
  }
});

test('a large result is taken once, when it has been fetched, and not by a page or a DELETE before', async (t) => {
  const WIDTH = 300_000;
  const { stack, overRedis, overHttps, enqueue, ask } = await openService(t, WIDTH);
  await enqueue('a', 0.5);
  assert.equal(await overRedis.status('a'), 'succeeded');
  const { status, body } = await ask('DELETE', '/predictions/a');
  assert.equal(status, 303);
  const other = await ask(
    'DELETE',
    `/predictions/a?fetched=${body.large.id.replace(/./, (c) => (c === '0' ? '1' : '0'))}`,
  );
  assert.equal(other.status, 404);
  const page = await ask('DELETE', '/predictions');
  assert.deepEqual(
    page.body.results.map((one) => one.large.location),
    ['/predictions/a'],
  );
  assertWhole(await overHttps.queryAndDelete('a'), 0.5, WIDTH);
  assert.equal(await overHttps.query('a'), undefined);
  assert.equal(await overRedis.queryAndDelete('a'), undefined);

  for (const [queue, uri] of [
    [overHttps, 'b'],
    [overRedis, 'c'],
  ] as const) {
    await enqueue(uri, 3);
    const all = await queue.dequeue();
    assert.deepEqual([...all.keys()], [uri]);
    assertWhole(all.get(uri) as Result, 3, WIDTH);
    assert.deepEqual([await overRedis.query(uri), (await queue.dequeue()).size], [undefined, 0]);
  }

  await enqueue('d', -2);
  assertWhole(await overRedis.queryAndDelete('d'), -2, WIDTH);
  assert.equal(await overRedis.query('d'), undefined);

  const list = new ListObjectsV2Command({ Bucket: stack.bucket, Prefix: 'results/' });
  const { Contents = [] } = await stack.aws.s3.send(list);
  assert.equal(Contents.length, 8);
  for (const { Key = '' } of Contents) assert.match(Key, /^results\/wide\/[0-9a-f-]{36}(\.json)?$/);
});

test('the Python client drains large results among others', WITH_PYTHON, async (t) => {
  const { stack, enqueue } = await openService(t, 300_000);
  for (const uri of ['a', 'b']) await enqueue(uri, 0.5);
  const shown = await python(
    stack.url,
    `
from zoo.serving.client import OutputQueue
client = Client(URL, timeout=120)
expected = (np.float32(0.5) * np.arange(300_000, dtype=np.float32)).tobytes()
first = next(client.drain())
show([first.uri, first.result.output.tobytes() == expected])
show([[uri, found.output.tobytes() == expected] for uri, found in client.dequeue().items()])
show([client.query("a"), client.query("b"), OutputQueue(url=URL, timeout=120).dequeue()])
`,
  );
  assert.deepEqual(
    new Map([shown[0], ...(shown[1] as unknown[])] as [string, boolean][]),
    new Map([
      ['a', true],
      ['b', true],
    ]),
  );
  assert.deepEqual(shown[2], [null, null, {}]);
});
