/**
 * What a worker does on Lambda in either language. Its answer to x: twice x, the size of its batch, and its process; at
 * -1 it raises, at -2 its process ends, at -3 it never ends.
 */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import type { LambdaEnvironment } from '../../functions/lambda/support/environment.ts';
import {
  batchEvent,
  deliver,
  type HttpAnswer,
  openScene,
  scalarMessage,
} from '../../functions/lambda/support/scene.ts';
import type { Bundles } from '../../support/faults/worker.ts';

export interface PackagedWorker {
  readonly bundles: Bundles;
  /** Of a job named "lambda", with batches of 3. */
  readonly settings: Record<string, unknown>;
  /** Those of the image. Default none. */
  readonly variables?: Readonly<Record<string, string>>;
}

const numberMessages = (numbers: Readonly<Record<string, number>>) =>
  Object.fromEntries(Object.entries(numbers).map(([uri, x]) => [uri, scalarMessage(uri, 'x', x)]));

function post(environment: LambdaEnvironment, path: string, body: unknown): Promise<HttpAnswer> {
  return environment.invoke({
    version: '2.0',
    routeKey: `POST ${path}`,
    rawPath: path,
    rawQueryString: '',
    headers: { 'content-type': 'application/json' },
    requestContext: { http: { method: 'POST', path } },
    body: JSON.stringify(body),
    isBase64Encoded: false,
  });
}

/** What the worker wrote to stderr is in events of the function, with its invocation. */
function assertEvents(output: string): void {
  const events = output
    .split('\n')
    .filter((line) => line.startsWith('{'))
    .map((line) => JSON.parse(line) as Readonly<Record<string, unknown>>)
    .filter(({ worker, pid }) => worker === 0 && typeof pid === 'number');
  const [poison] = events.filter(({ message }) => /poison/.test(String(message)));
  assert.ok(poison, output);
  assert.deepEqual([poison['level'], typeof poison['timestamp']], ['error', 'string']);
  assert.match(String(poison['message']), /server\.\w+/);
  assert.equal(poison['cold_start'], false, output);
  assert.doesNotMatch(output, /^(Traceback|RangeError|ValueError)/m);
}

/** What the worker answered to one item: its number, the size of the batch, the process. */
export async function encode(
  environment: LambdaEnvironment,
  item: number,
): Promise<[number, number, number]> {
  const { statusCode, body } = await post(environment, '/encode_json', item);
  assert.equal(statusCode, 200, body);
  return (JSON.parse(body) as { data: [number, number, number] }).data;
}

export function deployedWorkerTests(packaged: (t: TestContext) => Promise<PackagedWorker>): void {
  test('a poison record of an event fails alone, and an endless one comes back alone', async (t) => {
    const { bundles, settings, ...options } = await packaged(t);
    const { start, outcomeOf } = await openScene(t, bundles, settings);
    const environment = start('batch', options);
    const first = batchEvent(numberMessages({ a: 1, b: 2, poison: -1, c: 3 }));
    assert.deepEqual(await deliver(environment, first), []);
    assert.deepEqual(await Promise.all(['a', 'b', 'c', 'poison'].map(outcomeOf)), [2, 4, 6, 'model_failed']);
    const endless = numberMessages({ d: 4, endless: -3, e: 5 });
    assert.deepEqual(await deliver(environment, batchEvent(endless), 4_000), ['d', 'endless', 'e']);
    assert.deepEqual(await deliver(environment, batchEvent(endless, 2), 24_000), ['endless']);
    assert.deepEqual(await Promise.all(['d', 'e', 'endless'].map(outcomeOf)), [8, 10, undefined]);
    const alone = numberMessages({ endless: -3 });
    assert.deepEqual(await deliver(environment, batchEvent(alone, 3), 8_000), []);
    assert.equal(await outcomeOf('endless'), 'model_failed');
  });

  test('a process that crashes is replaced, and requests are cut to batchSize', async (t) => {
    const { bundles, settings, ...options } = await packaged(t);
    const environment = (await openScene(t, bundles, settings)).start('predict', options);
    const [double, size, pid] = await encode(environment, 21);
    assert.deepEqual([double, size], [42, 1]);
    const instances = [1, 2, 3, 4].map((x) => ({ x }));
    const { statusCode, body } = await post(environment, '/predict', { instances });
    assert.equal(statusCode, 200, body);
    const { predictions } = JSON.parse(body) as { predictions: string[] };
    const sizes = predictions.map((text) => Number(/(\d+),\d+\]/.exec(text.replaceAll('.0', ''))?.[1]));
    assert.deepEqual(sizes, [3, 3, 3, 1], body);
    const crashed = await post(environment, '/encode_json', -2);
    assert.equal(crashed.statusCode, 422, crashed.body);
    assert.equal((await post(environment, '/encode_json', -1)).statusCode, 422);
    assertEvents(environment.output());
    const [, , next] = await encode(environment, 1);
    assert.notEqual(next, pid);
  });
}
