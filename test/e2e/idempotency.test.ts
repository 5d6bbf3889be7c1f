/** One Idempotency-Key stands for one request: the same again is the same enqueue, and another one is refused. */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { gzipSync } from 'node:zlib';
import type { ServingError } from '../../lib/contract/errors.ts';
import type { Stack } from '../../local/service/stack.ts';
import { InputQueue } from '../../sdk/index.ts';
import { identityModel } from '../support/onnx.ts';
import { type Hooks, temporaryFolder } from '../support/runner.ts';
import { clientOptions, testStack } from '../support/stack.ts';
import { until } from '../support/until.ts';

const NDJSON = { 'content-type': 'application/x-ndjson' };
const CSV = { 'content-type': 'text/csv' };
const ASYNC = { prefer: 'respond-async' };

interface Answer {
  readonly status: number;
  readonly body: Readonly<Record<string, unknown>>;
}

for (const preferEmbeddedRedis of [false, true]) {
  describe(`an Idempotency-Key, with ${preferEmbeddedRedis ? 'the embedded Redis' : 'the Redis of this machine'}`, () => {
    const cleanups: (() => Promise<void>)[] = [];
    let stack: Stack;
    before(async () => {
      const hooks: Hooks = { after: (cleanup) => cleanups.unshift(cleanup) };
      const modelDirectory = join(await temporaryFolder(hooks, 'cs-key-'), 'model');
      await mkdir(modelDirectory);
      await writeFile(
        join(modelDirectory, 'model.onnx'),
        identityModel([{ name: 'x', dtype: 'float32', shape: ['N', 1] }]),
      );
      stack = await testStack(hooks, { config: 'batchSize: 4', modelDirectory, preferEmbeddedRedis });
    });
    after(async () => {
      for (const cleanup of cleanups) await cleanup();
    });

    const post = async (
      key: string,
      body: string | Buffer,
      headers: Readonly<Record<string, string>> = {},
      path = '/predictions',
    ): Promise<Answer> => {
      const sent = { 'content-type': 'application/json', 'idempotency-key': key, ...headers };
      const response = await fetch(stack.url + path, {
        method: 'POST',
        headers: sent,
        body: typeof body === 'string' ? body : new Uint8Array(body),
      });
      return { status: response.status, body: (await response.json()) as Answer['body'] };
    };
    const record = (x: number, uri?: string) => JSON.stringify({ uri, instances: [{ x: [x] }] });
    const resultOf = async (uri: unknown, identity: unknown, method = 'GET') => {
      const query = new URLSearchParams({ uri: String(uri), identity: String(identity) });
      let text = '';
      await until(async () => {
        const response = await fetch(`${stack.url}/predictions?${query.toString()}`, {
          method,
          headers: { prefer: 'wait=10' },
        });
        text = await response.text();
        return response.status === 200;
      });
      return text;
    };

    const same: readonly (readonly [
      name: string,
      first: readonly [body: string | Buffer, headers?: Readonly<Record<string, string>>],
      again: readonly [body: string | Buffer, headers?: Readonly<Record<string, string>>],
    ])[] = [
      ['the same body', [record(1, 'same')], [record(1, 'same')]],
      ['a body without a uri', [record(1)], [record(1)]],
      ['a compressed body', [record(1)], [gzipSync(record(1)), { 'content-encoding': 'gzip' }]],
      ['other white space', [record(1)], ['{ "instances" : [ {"x" : [1]} ] }\n']],
      ['another type of text', [record(1)], [record(1), { 'content-type': 'text/plain' }]],
      ['several instances', ['{"instances":[{"x":[1]},{"x":[1]}]}'], ['{"instances":[{"x":[1]},{"x":[1]}]}']],
      ['lines', [`${record(1)}\n${record(1)}`, NDJSON], [`${record(1)}\r\n\r\n${record(1)}\n`, NDJSON]],
      ['lines of which one is refused', [`${record(1)}\nno`, NDJSON], [`${record(1)}\nno`, NDJSON]],
      ['a table', ['x\n1\n1\n', CSV], ['x\r\n1\r\n1', CSV]],
    ];
    for (const [name, first, again] of same) {
      test(`${name} is the same enqueue`, async () => {
        const key = randomUUID();
        const accepted = await post(key, ...first);
        assert.ok([202, 207].includes(accepted.status), JSON.stringify(accepted));
        const withoutLines = ({ status, body }: Answer) => [
          status,
          JSON.stringify(body).replace(/"line":\d+/g, ''),
        ];
        assert.deepEqual(withoutLines(await post(key, ...again)), withoutLines(accepted));
        const uris = new Set(
          JSON.stringify(accepted.body).match(/[\da-f]{8}-[\da-f]{4}-8[\da-f]{3}-[\da-f-]+/g),
        );
        if (name === 'several instances') assert.equal(uris.size, 2);
      });
    }

    const other: readonly (readonly [
      name: string,
      first: readonly [body: string, headers?: Readonly<Record<string, string>>],
      second: readonly [body: string, headers?: Readonly<Record<string, string>>],
    ])[] = [
      ['another number', [record(1, 'other')], [record(50, 'other')]],
      ['another number without a uri', [record(1)], [record(50)]],
      ['another uri', [record(1, 'one')], [record(1, 'two')]],
      ['another name', ['{"instances":[{"x":[1]}]}'], ['{"instances":[{"y":[1]}]}']],
      ['one instance more', ['{"instances":[{"x":[1]}]}'], ['{"instances":[{"x":[1]},{"x":[1]}]}']],
      ['another order', ['{"instances":[{"x":[1]},{"x":[2]}]}'], ['{"instances":[{"x":[2]},{"x":[1]}]}']],
      [
        'another line',
        [`${record(1, 'a')}\n${record(1, 'b')}`, NDJSON],
        [`${record(1, 'a')}\n${record(2, 'b')}`, NDJSON],
      ],
      ['a line more', [record(1, 'a'), NDJSON], [`${record(1, 'a')}\n${record(2, 'b')}`, NDJSON]],
      [
        'a line that was refused',
        [`${record(1, 'a')}\nno`, NDJSON],
        [`${record(1, 'a')}\n${record(2, 'b')}`, NDJSON],
      ],
      ['another row', ['x\n1\n2\n', CSV], ['x\n1\n3\n', CSV]],
    ];
    for (const [name, first, second] of other) {
      test(`${name} is refused, also once the first has its result, and when that was taken`, async () => {
        const key = randomUUID();
        const accepted = await post(key, ...first);
        assert.ok([202, 207].includes(accepted.status), JSON.stringify(accepted));
        const refused = async (path?: string) => {
          const { status, body } = await post(key, second[0], { ...second[1], ...ASYNC }, path);
          assert.deepEqual([status, body['code']], [409, 'conflict']);
          assert.match(
            String(body['error']),
            new RegExp(`the Idempotency-Key "${key}" was used for another request`),
          );
        };
        await refused();
        await refused('/predict');
        const records = (accepted.body['records'] ?? []) as readonly Answer['body'][];
        const [{ uri, identity } = accepted.body] = records;
        const uris = (accepted.body['uris'] ?? [uri]) as readonly string[];
        const identities = (accepted.body['identities'] ?? [identity]) as readonly string[];
        for (const method of ['GET', 'DELETE']) {
          const text = await resultOf(uris[0], identities[0], method);
          if (name !== 'another name') assert.match(text, /"data":\[1(\.0)?\]/);
          await refused();
        }
        assert.ok([202, 207].includes((await post(key, ...first)).status));
      });
    }

    test('an identity that a client gives is compared on each of its ways, and the same record is the same on all', async (t) => {
      const { input } = clientOptions(stack);
      const ways = [
        { ...input, redisUrl: stack.redisUrl },
        { frontendUrl: stack.url },
        { frontendUrl: stack.url, redisUrl: stack.redisUrl },
      ].map((options) => new InputQueue(options));
      t.after(async () => {
        for (const queue of ways) await queue.close();
      });
      const identity = randomUUID();
      const enqueue = (queue: InputQueue, x: number) =>
        queue.enqueue('sdk', { x: Float32Array.of(x) }, { identity });
      for (const queue of [...ways, ...ways]) await enqueue(queue, 1);
      for (const queue of ways)
        await assert.rejects(enqueue(queue, 2), ({ code, status }: ServingError) => {
          assert.deepEqual([code, status], ['conflict', 409]);
          return true;
        });
    });
  });
}
