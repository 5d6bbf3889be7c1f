/** Told when it is done, on one machine: every kind of outcome through the whole service, to a receiver that dedupes. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { isSigned, type Received, SECRET } from '../support/receiver.ts';
import { temporaryFolder } from '../support/runner.ts';
import { SAMPLE, testStack } from '../support/stack.ts';
import { until } from '../support/until.ts';

interface Told {
  readonly type: string;
  readonly data: {
    readonly uri: string;
    readonly identity: string;
    readonly status: string;
    readonly version?: string;
    readonly finishedAt: string;
    readonly error?: { readonly code: string };
    readonly result?: { readonly outputs: readonly unknown[] };
  };
}

async function receiver(t: TestContext) {
  const received: Received[] = [];
  const server = createServer((request, response) => {
    let body = '';
    request.setEncoding('utf8').on('data', (chunk: string) => (body += chunk));
    request.on('end', () => {
      received.push({ id: String(request.headers['webhook-id']), body, headers: request.headers });
      response.writeHead(204).end();
    });
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => server.close());
  const told = () =>
    new Map(
      received.map(({ body }) => {
        const one: Told = JSON.parse(body);
        return [one.data.uri, one] as const;
      }),
    );
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/hooks`, received, told };
}

const CONFIG = (url: string) => `
imageResize: 8,8
queue: {recordTtlSeconds: 0}
notify:
  shop: {url: '${url}', secret: /shop/hook-secret}
  whole-results: {url: '${url}', include: result}
`;

function withSecrets(t: TestContext, names: readonly string[]): void {
  for (const name of names) {
    process.env[name] = SECRET;
    t.after(() => {
      delete process.env[name];
    });
  }
}

test('a back end is notified of a result and of a failure, and what it is notified is what GET answers; an unknown target is refused', async (t) => {
  withSecrets(t, ['CLUSTER_SERVING_NOTIFY_SECRET_SHOP', 'CLUSTER_SERVING_NOTIFY_SECRET_WHOLE_RESULTS']);
  const { url, received, told } = await receiver(t);
  const stack = await testStack(t, { config: CONFIG(url) });
  const post = async (body: object, query = '') => {
    const response = await fetch(`${stack.url}/predictions${query}`, {
      method: 'POST',
      body: JSON.stringify(body),
      headers: { 'content-type': 'application/json' },
    });
    return { status: response.status, body: (await response.json()) as Record<string, unknown> };
  };
  const image = (await readFile(join(SAMPLE, 'images/digit-3.png'))).toString('base64');
  assert.equal((await post({ uri: 'good', instances: [{ image }], notify: 'shop' })).status, 202);
  assert.equal((await post({ uri: 'bad', instances: [{ image: [1] }], notify: 'shop' })).status, 202);
  assert.equal((await post({ uri: 'whole', instances: [{ image }] }, '?notify=whole-results')).status, 202);
  assert.equal((await post({ uri: 'quiet', instances: [{ image }] })).status, 202);
  const lines = await fetch(`${stack.url}/predictions`, {
    method: 'POST',
    headers: { 'content-type': 'application/x-ndjson' },
    body: ['shop', 'nobody']
      .map((notify, i) => JSON.stringify({ uri: `line-${i}`, instances: [{ image }], notify }))
      .join('\n'),
  });
  // An unknown target refuses the body before anything is sent.
  assert.equal(lines.status, 400);
  const unknown = await post({ uri: 'x', instances: [{ image }], notify: 'shpo' });
  assert.equal(unknown.status, 400);
  assert.match(
    String(unknown.body['error']),
    /no target "shpo" in the job's config.yaml; did you mean "shop"\?/,
  );
  for (const notify of ['https://evil.example/', '', 7, { url: 'https://evil.example/' }])
    assert.equal((await post({ uri: 'x', instances: [{ image }], notify })).status, 400);

  await until(() => told().size >= 3);
  assert.deepEqual([...told().keys()].toSorted(), ['bad', 'good', 'whole']);
  assert.ok(received.every(isSigned));
  const [good, bad, whole] = ['good', 'bad', 'whole'].map((uri) => told().get(uri));
  assert.deepEqual(
    [good?.type, good?.data.status, good?.data.version],
    ['record.succeeded', 'succeeded', stack.model],
  );
  assert.equal(good?.data.result, undefined);
  assert.deepEqual([bad?.type, bad?.data.error?.code], ['record.failed', 'bad_input']);
  const answer = (await (await fetch(`${stack.url}/predictions/whole`)).json()) as { outputs: unknown };
  assert.deepEqual(whole?.data.result?.outputs, answer.outputs);
});

test('a service without the secret of a target does not start, and says which variable is missing', async (t) => {
  await assert.rejects(testStack(t, { config: CONFIG('http://localhost:1/') }), {
    code: 'bad_config',
    message: /CLUSTER_SERVING_NOTIFY_SECRET_SHOP, which is not set/,
  });
});

test('what was announced before a service ended is sent by the next one on its folder', async (t) => {
  withSecrets(t, ['CLUSTER_SERVING_NOTIFY_SECRET_SHOP', 'CLUSTER_SERVING_NOTIFY_SECRET_WHOLE_RESULTS']);
  const { url, told } = await receiver(t);
  const dataDir = await temporaryFolder(t);
  // Nothing listens there.
  const first = await testStack(t, { config: CONFIG('http://127.0.0.1:9/'), dataDir });
  const image = (await readFile(join(SAMPLE, 'images/digit-3.png'))).toString('base64');
  const sent = await fetch(`${first.url}/predictions?notify=shop`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ uri: 'kept', instances: [{ image }] }),
  });
  assert.equal(sent.status, 202);
  await until(async () => (await fetch(`${first.url}/predictions/kept`)).status === 200);
  await first.close();
  const second = await testStack(t, { config: CONFIG(url), dataDir });
  await until(() => told().has('kept'));
  assert.equal(told().get('kept')?.data.status, 'succeeded');
  await second.close();
});
