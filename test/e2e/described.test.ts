/** A service's description of itself, compared with its behavior: /openapi.json, /docs, and /metrics for Prometheus. */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { createServer, request as httpRequest, type IncomingMessage } from 'node:http';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import type { Stack } from '../../local/service/stack.ts';
import { runHere } from '../cli/in-process.ts';
import { type DescribedService, type Document, describedService } from '../support/described.ts';
import { assertOpenApi } from '../support/json-schema.ts';
import { temporaryFolder } from '../support/runner.ts';
import { SAMPLE, testStack } from '../support/stack.ts';
import { until } from '../support/until.ts';

let stack: Stack;
let document: Document;
let ask: DescribedService['ask'];

const closers: (() => unknown)[] = [];
after(async () => {
  for (const close of closers.reverse()) await close();
});

before(async () => {
  // Each project of `init` has another name than the default, and an address alone does not say it.
  const config = 'jobName: digits\nimageResize: 8,8';
  stack = await testStack({ after: (close) => closers.push(close) }, { config });
  ({ document, ask } = await describedService(stack.url));
});

const JSON_TYPE = { 'content-type': 'application/json' };
const post = (value: unknown): RequestInit => ({ headers: JSON_TYPE, body: JSON.stringify(value) });
const picture = async () => (await readFile(join(SAMPLE, 'images', 'digit-0.png'))).toString('base64');

test('the document of a running service is OpenAPI 3.1, and its page loads nothing', async () => {
  await assertOpenApi(document);
  const response = await fetch(`${stack.url}/docs`);
  assert.equal(response.status, 200);
  assert.match(response.headers.get('content-security-policy') ?? '', /default-src 'none'/);
  const html = await response.text();
  assert.match(html, /<code>\/predict<\/code>/);
  assert.ok(html.includes(`curl &#39;${stack.url}/predict&#39;`));
});

test('answers without a body of the request are as declared', async () => {
  const v2 = `/v2/models/${stack.job}`;
  for (const [path, described] of [
    ['/'],
    ['/ready'],
    ['/metrics'],
    ['/openapi.json'],
    ['/docs'],
    ['/stat'],
    ['/status/server'],
    ['/status/client'],
    ['/status?uri=none'],
    ['/results/me', '/results/{identity}'],
    ['/v2'],
    ['/v2/health/live'],
    ['/v2/health/ready'],
    [v2, '/v2/models/{name}'],
    [`/v1/models/${stack.job}`, '/v1/models/{name}'],
    [`/v1/models/${stack.job}/metadata`, '/v1/models/{name}/metadata'],
    [`${v2}/ready`, '/v2/models/{name}/ready'],
    [`${v2}/versions/${stack.jobs[0]?.model}`, '/v2/models/{name}/versions/{version}'],
  ] as const)
    await ask('GET', path, 200, {}, described);
  await ask('DELETE', '/predictions', 200);
  await ask('POST', '/cancel?uri=early', 200);
});

test("TensorFlow Serving's API answers a picture as POST /predict does, in its form", async () => {
  const instances = [{ image: await picture() }, { image: await picture() }];
  const own = JSON.parse(await ask('POST', '/predict', 200, post({ instances }))) as {
    predictions: string[];
  };
  const wanted = own.predictions.map((text) => {
    return (JSON.parse(text.slice('{value='.length, -1)) as { data: number[] }).data;
  });
  const body = post({ instances: instances.map(({ image }) => ({ image: { b64: image } })) });
  const path = `/v1/models/${stack.job}/versions/${stack.jobs[0]?.model}:predict`;
  const text = await ask('POST', path, 200, body, '/v1/models/{name}/versions/{version}:predict');
  assert.deepEqual(JSON.parse(text), { predictions: wanted });
});

test('results of the queue, and a failed record, are as declared', async () => {
  await ask('POST', '/predictions', 202, post({ uri: 'good', instances: [{ image: await picture() }] }));
  await ask('POST', '/predictions', 202, post({ uri: 'bad', instances: [{ image: [1, 2] }] }));
  for (const uri of ['good', 'bad']) {
    await until(async () => (await fetch(`${stack.url}/predictions/${uri}`)).status === 200);
    await ask('GET', `/predictions/${uri}`, 200, {}, '/predictions/{uri}');
    await ask('GET', `/predictions?uri=${uri}`, 200);
    await ask('GET', `/status?uri=${uri}`, 200);
    await ask('POST', `/cancel?uri=${uri}`, 409);
  }
  await ask('DELETE', '/predictions/good', 200, {}, '/predictions/{uri}');
  await ask('DELETE', '/predictions', 200);
});

test('a record on each line is enqueued by itself, from JSON and from a table, and answered as declared', async () => {
  const image = await picture();
  const records = (type: string, body: string, prefer = {}) => ({
    headers: { 'content-type': type, ...prefer },
    body,
  });
  const line = (uri: string) => JSON.stringify({ uri, instances: [{ image }] });
  const lines = (uris: readonly string[]) => uris.map(line).join('\n');
  const many = Array.from({ length: 30 }, (_, i) => `many-${i}`);
  await ask('POST', '/predictions', 202, records('application/x-ndjson', lines(many)));
  const some = await ask('POST', '/predictions', 207, records('application/x-ndjson', `${line('last')}\n{`));
  const { records: entries } = JSON.parse(some) as { records: { status: number }[] };
  assert.deepEqual(
    entries.map(({ status }) => status),
    [202, 400],
  );
  await ask('POST', '/predictions', 202, records('text/csv', `uri,image\nrow,${image}\n`));
  const later = { prefer: 'respond-async' };
  await ask('POST', '/predict', 202, records('text/csv', `uri,image\nlater,${image}\n`, later));
  for (const uri of [...many, 'last', 'row', 'later']) {
    const found = await fetch(`${stack.url}/predictions/${uri}`, { headers: { prefer: 'wait=20' } });
    const { status } = (await found.json()) as { status: string };
    assert.equal(status, 'succeeded', uri);
  }
});

test('errors have the status and the form that their operation declares', async () => {
  const infer = `/v2/models/${stack.job}/infer`;
  const text = (body: string, type = 'application/json'): RequestInit => ({
    headers: { 'content-type': type },
    body,
  });
  for (const [method, path, status, init, described] of [
    ['POST', '/predict', 400, text('{')],
    ['POST', '/predict', 400, post({ instances: [{ image: 'no image' }] })],
    ['POST', '/predict', 413, post({ instances: Array.from({ length: 1001 }, () => ({ image: 1 })) })],
    ['POST', '/predict', 415, { headers: { ...JSON_TYPE, 'content-encoding': 'br' }, body: '{}' }],
    ['POST', '/predict', 403, { headers: { ...JSON_TYPE, origin: 'http://elsewhere.example' }, body: '{}' }],
    ['POST', '/predictions', 400, text('[]')],
    ['GET', '/predictions', 400],
    ['GET', '/predictions?uri=none', 404],
    ['GET', '/predictions/none', 404, {}, '/predictions/{uri}'],
    ['DELETE', '/predictions/none', 404, {}, '/predictions/{uri}'],
    ['GET', '/status', 400],
    ['POST', '/cancel', 400],
    ['POST', infer, 400, text('{}'), '/v2/models/{name}/infer'],
    ['POST', '/v2/models/other/infer', 404, text('{}'), '/v2/models/{name}/infer'],
    ['GET', '/v2/models/other', 404, {}, '/v2/models/{name}'],
    ['POST', '/v1/embeddings', 400, text('{}')],
    ['POST', `/v1/models/${stack.job}:predict`, 400, text('{}'), '/v1/models/{name}:predict'],
    ['GET', '/v1/models/other', 404, {}, '/v1/models/{name}'],
    ['GET', '/v1/models', 200],
    ['POST', '/v1/embeddings', 404, post({ input: 'a', model: stack.job })],
    ['POST', '/encode_json', 400, text('{')],
    ['POST', '/encode_img_bytes', 415, text('{}')],
    ['POST', '/encode_img_url', 403, post({ img_url: 'https://host.example/a.png' })],
    ['POST', '/encode', 415, text('a', 'text/plain')],
    ['GET', '/results/a?after=x', 400, {}, '/results/{identity}'],
    ['GET', '/large-results/none', 404, {}, '/large-results/{name}'],
  ] as readonly (readonly [string, string, number, RequestInit?, string?])[])
    await ask(method, path, status, init, described);
});

test('a page of results is deleted only by a request about no single one', async () => {
  await ask('POST', '/predictions', 202, post({ uri: 'kept', instances: [{ image: await picture() }] }));
  await until(async () => (await fetch(`${stack.url}/predictions/kept`)).status === 200);
  for (const query of ['identity=a', 'fetched=00000000-0000-0000-0000-000000000000', 'identity='])
    assert.match(await ask('DELETE', `/predictions?${query}`, 400), /uri: missing/);
  await ask('GET', '/predictions/kept', 200, {}, '/predictions/{uri}');
});

async function figures(accept: string) {
  const response = await fetch(`${stack.url}/metrics`, { headers: { accept } });
  const text = await response.text();
  const samples = text.split('\n').flatMap((line) => {
    const [, name, value] = /^([^#\s][^\s]*) (\S+)$/.exec(line) ?? [];
    return name === undefined ? [] : [[name, Number(value)] as const];
  });
  return { type: response.headers.get('content-type'), text, samples: new Map(samples) };
}

/** With a path of its own, which `fetch` would change. */
function get(path: string): Promise<unknown> {
  const { hostname, port } = new URL(stack.url);
  return new Promise((resolve, reject) =>
    httpRequest({ hostname, port, path, method: 'GET' }, (response) => resolve(response.resume()))
      .on('error', reject)
      .end(),
  );
}

test('Prometheus gets counts of requests, records and batches, with labels that no caller chooses', async () => {
  const bad = 'cluster_serving_records_total{source="request",outcome="bad_input"}';
  const fine = 'cluster_serving_records_total{source="queue",outcome="succeeded"}';
  const answered = 'cluster_serving_requests_total{method="POST",route="/predict",status="200"}';
  const earlier = await figures('text/plain');
  await ask(
    'POST',
    '/predict',
    200,
    post({ instances: [{ image: await picture() }, { image: await picture() }] }),
  );
  await ask('POST', '/predict', 400, post({ instances: [{ image: [1] }] }));
  await ask('POST', '/predictions', 202, post({ uri: 'counted', instances: [{ image: await picture() }] }));
  for (const path of ['/made-up-1', '/made-up-2', '/predictions/made-up-3', '/%ff']) await get(path);
  await until(async () => (await fetch(`${stack.url}/predictions/counted`)).status === 200);
  const later = await figures('text/plain');
  const grown = (name: string) => (later.samples.get(name) ?? 0) - (earlier.samples.get(name) ?? 0);
  assert.equal(later.type, 'text/plain; version=0.0.4; charset=utf-8');
  assert.equal(grown(answered), 1);
  assert.equal(grown('cluster_serving_records_total{source="request",outcome="succeeded"}'), 2);
  assert.deepEqual([grown(bad), grown(fine)], [1, 1]);
  assert.equal(grown('cluster_serving_request_duration_seconds_count{method="POST",route="/predict"}'), 2);
  assert.equal(grown('cluster_serving_batch_records_sum'), 3);
  assert.equal(grown('cluster_serving_requests_total{method="none",route="none",status="404"}'), 2);
  assert.equal(grown('cluster_serving_requests_total{method="none",route="none",status="400"}'), 1);
  assert.doesNotMatch(later.text, /made-up/);
  assert.equal(later.samples.get('cluster_serving_requests_in_flight'), 1);
  assert.equal(later.samples.get('cluster_serving_queue_messages{state="waiting"}'), 0);
  const model = `cluster_serving_model_info{model="${stack.job}",version="${stack.jobs[0]?.model}"}`;
  assert.equal(later.samples.get(model), 1);
  const open = await figures('application/openmetrics-text;version=1.0.0,text/plain;q=0.5');
  assert.equal(open.type, 'application/openmetrics-text; version=1.0.0; charset=utf-8');
  assert.match(open.text, /\n# EOF\n$/);
});

test('cluster-serving openapi writes the document of a service, and makes that of a deployment, which has none', async (t) => {
  const printed = await runHere(['openapi', '--url', stack.url]);
  assert.deepEqual(JSON.parse(printed.text), { ...document, servers: [{ url: stack.url }] });
  // A deployment has no such route: the gateway answers.
  const pass = async ({ method = '', url: path }: IncomingMessage, sent: Buffer) => {
    if (path === '/openapi.json') return { status: 404, text: '{"message":"Not Found"}' };
    const body = method === 'POST' ? { body: sent, headers: JSON_TYPE } : {};
    const answered = await fetch(`${stack.url}${path}`, { method, ...body });
    return { status: answered.status, text: await answered.text() };
  };
  const deployed = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      pass(request, Buffer.concat(chunks)).then(
        ({ status, text }) => response.writeHead(status, JSON_TYPE).end(text),
        (error: Error) => response.destroy(error),
      );
    });
  });
  await new Promise<void>((resolve) => deployed.listen(0, '127.0.0.1', resolve));
  t.after(() => deployed.close());
  const address = deployed.address();
  assert.ok(typeof address === 'object' && address);
  const url = `http://127.0.0.1:${address.port}`;
  const file = join(await temporaryFolder(t), 'api.json');
  const written = await runHere(['openapi', '--url', url, '--auth', 'none', '--out', file]);
  assert.deepEqual(written, { code: 0, text: `wrote ${file}` });
  const made = JSON.parse(await readFile(file, 'utf8')) as Document;
  await assertOpenApi(made);
  assert.deepEqual(made.servers, [{ url }]);
  assert.deepEqual(made.paths['/predict'], document.paths['/predict']);
  assert.equal(made.paths['/openapi.json'], undefined);
});
