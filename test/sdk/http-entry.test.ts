/** cluster-serving/http as a browser has it: one file, run where nothing but the interfaces of the web is known. */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, type TestContext, test } from 'node:test';
import { createContext, runInContext } from 'node:vm';
import { bundleHttp } from '../../infra/packages/sdk.ts';
import * as http from '../../sdk/http.ts';
import { temporaryFolder } from '../support/runner.ts';
import { SAMPLE, testStack } from '../support/stack.ts';
import { ROOT } from '../support/start.ts';

// With `unwrap`, for receivers on Workers and Deno.
const MAX_BYTES = 40 * 1024;
const WEB = {
  AbortController,
  AbortSignal,
  // That of the test, which is another world.
  ArrayBuffer,
  atob,
  Blob,
  btoa,
  clearTimeout,
  crypto,
  Headers,
  performance,
  setTimeout,
  TextDecoder,
  TextEncoder,
  URL,
};

let code: string;
let bytes: number;
const cleanups: (() => unknown)[] = [];
before(async () => {
  const folder = await temporaryFolder({ after: (cleanup) => cleanups.push(cleanup) }, 'cs-http-');
  for (const format of ['esm', 'cjs'] as const) {
    await bundleHttp(ROOT, folder, format, true);
    code = await readFile(join(folder, 'http.js'), 'utf8');
    bytes = format === 'esm' ? Buffer.byteLength(code) : bytes;
  }
});
after(async () => {
  for (const cleanup of cleanups) await cleanup();
});

/** The exports of the entry, in a world without Node. */
function asInBrowser(send: typeof fetch): typeof http {
  const module = { exports: {} };
  runInContext(code, createContext({ ...WEB, fetch: send, module }));
  return module.exports as typeof http;
}

test('it is small, and imports nothing', () => {
  assert.ok(bytes < MAX_BYTES, `${bytes} bytes`);
  assert.doesNotMatch(code, /\brequire\(|\bimport\(|node:|process\.env/);
});

test('what it exports is what the main entry exports, as far as HTTPS goes', async () => {
  const main: object = await import('../../sdk/index.ts');
  assert.deepEqual(Object.keys(http).toSorted(), ['InputQueue', 'OutputQueue', 'ServingError', 'unwrap']);
  for (const name of Object.keys(http)) assert.ok(name in main, name);
});

for (const job of ['serving_stream', 'digits']) {
  test(`a record and a prediction of ${job} go through it without Node`, (t) => withoutNode(t, job));
}

async function withoutNode(t: TestContext, job: string): Promise<void> {
  const stack = await testStack(t, { config: `jobName: ${job}\nimageResize: 8,8` });
  const { InputQueue, OutputQueue, ServingError } = asInBrowser(fetch);
  const input = new InputQueue({ frontendUrl: stack.url });
  const output = new OutputQueue({ url: stack.url });
  const image = new Blob([await readFile(join(SAMPLE, 'images/digit-3.png'))]);

  const { outputs, text } = await input.predict({ image });
  const [found] = outputs;
  assert.equal(`${found?.name} ${found?.dtype} ${found?.shape.join()}`, 'probabilities float32 10');
  const data = Array.from(found?.data as Float32Array);
  assert.equal(data.indexOf(Math.max(...data)), 3);
  assert.match(text, /^\{value=\{"data":\[/);

  const { identity } = await input.enqueue('a', { image: { bytes: await image.arrayBuffer() } });
  const result = await output.wait('a', { identity });
  assert.deepEqual(Array.from(result.outputs[0]?.data as Float32Array), data);
  assert.equal(await output.status('a', { identity }), 'succeeded');
  assert.equal(await output.cancel('a'), false);
  assert.equal((await output.query('a'))?.identity, identity);
  assert.equal((await output.queryAndDelete('a'))?.identity, identity);
  assert.equal(await input.enqueueMany([{ uri: 'b', inputs: { image } }]), 1);
  await output.wait('b');
  assert.equal([...(await output.dequeue()).keys()].join(), 'b');

  const refused = await input.predict({ image: [1, 2, 3] }).catch((error: unknown) => error);
  assert.ok(refused instanceof ServingError);
  assert.equal(refused.code, 'bad_input');
  const { InputQueue: Secret } = asInBrowser(async (_, init) => {
    assert.equal(new Headers(init?.headers).get('authorization'), 'Bearer a-token-of-16-characters');
    return Response.json({ predictions: ['{value=[1]}'] });
  });
  const token = 'a-token-of-16-characters';
  const texts = await new Secret({ frontendUrl: stack.url, token }).predict({ instances: [{}] });
  assert.equal(texts.join(), '{value=[1]}');
}

test('what only Node has is refused with what to do', async () => {
  const { InputQueue, OutputQueue } = http;
  const frontendUrl = 'https://api.example';
  const input = new InputQueue({ frontendUrl });
  await assert.rejects(input.enqueue('a', { x: 'cat.png' }), {
    code: 'bad_request',
    message: /path of an image; here/,
  });
  await assert.rejects(input.enqueue('a', { x: 1 }, { tenant: 'b' }), { code: 'bad_config' });
  assert.throws(() => new InputQueue({ frontendUrl, token: 'x'.repeat(16), apiKey: 'x' }), {
    code: 'bad_config',
  });
  assert.throws(() => new InputQueue({ frontendUrl: 'api' }), {
    code: 'bad_config',
    message: /expected https/,
  });
  // A browser tells of a redirect that is not followed nothing but that it is one.
  const hidden = Object.assign(new Response(null), {});
  Object.defineProperty(hidden, 'type', { value: 'opaqueredirect' });
  const output = new OutputQueue({ url: frontendUrl, fetch: async () => hidden });
  await assert.rejects(output.query('a'), { code: 'bad_config', message: /over 1 MiB, which is for Node/ });
});
