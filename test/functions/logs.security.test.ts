/**
 * What is in the log and in error messages: what happened, to which record, where; never what the record holds, and no
 * password. An error is looked at as a person's console would show it, with its cause and all its fields.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { type TestContext, test } from 'node:test';
import { inspect } from 'node:util';
import { S3Client } from '@aws-sdk/client-s3';
import type { APIGatewayProxyEventV2, SQSEvent } from 'aws-lambda';
import { deadLetter } from '../../functions/dead-letter.ts';
import { predict } from '../../functions/predict.ts';
import { encodeMessage } from '../../lib/codecs/message.ts';
import { readConfigText } from '../../lib/config/file.ts';
import { ServingError } from '../../lib/contract/errors.ts';
import { logError } from '../../lib/contract/log.ts';
import { serveEvent } from '../../lib/pipeline/event.ts';
import { RedisConnection } from '../../lib/redis/connection.ts';
import { readPointer } from '../../lib/registry/download.ts';
import { resultSink } from '../../lib/results/sink.ts';
import { OutputQueue } from '../../sdk/output-queue.ts';
import { parseConfig } from '../support/config.ts';
import { quietObservers } from '../support/observers.ts';
import { Models } from './hostile/models.ts';

/** A person's data, as it could stand anywhere in a record. */
const PRIVATE = 'Erika-Mustermann';
const PASSWORD = 'hunter2';

async function logged(t: TestContext, work: () => Promise<unknown>): Promise<string> {
  let log = '';
  const mocks = [process.stdout, process.stderr].map((stream) =>
    t.mock.method(stream, 'write', (text: string | Uint8Array) => {
      log += String(text);
      return true;
    }),
  );
  try {
    await work();
    return log;
  } finally {
    for (const mock of mocks) mock.mock.restore();
  }
}

/** Bodies that go wrong in as many ways as there are stages. */
const BODIES: readonly string[] = [
  PRIVATE,
  PRIVATE.padEnd(3_000, 'x'),
  `{"uri":"u0","data":"${'A'.repeat(3_000)}",${PRIVATE}}`,
  `{"instances":[{"x":"${PRIVATE}"}]}`,
  `{"instances":[{"x":["${PRIVATE}"]}]}`,
  `{"instances":[{"x":{"b64":"${PRIVATE}"}}]}`,
  `{"instances":[{"${PRIVATE}":[1,2]}]}`,
  `{"instances":"${PRIVATE}"}`,
  `{"instances":[{"x":[1,${PRIVATE}]}]}`,
  `{"${PRIVATE}":1}`,
  `{"data":"${PRIVATE}"}`,
  `{"uri":"u1","data":"${PRIVATE}"}`,
  `{"uri":"u2","data":"${PRIVATE}","serde":"stream"}`,
  `{"uri":"u3","data":"${PRIVATE}","serde":"safetensors"}`,
  `{"uri":"u4","data":"","serde":"${PRIVATE}"}`,
  `{"uri":"u5","data":"{\\"instances\\":[{\\"x\\":\\"${PRIVATE}\\"}]}","serde":"stream"}`,
  `{"uri":"u6","pointer":"${PRIVATE}"}`,
  `{"uri":["${PRIVATE}"],"data":""}`,
  `{"uri":"\\u0000${PRIVATE}","data":""}`,
  `["${PRIVATE}"]`,
  `"${PRIVATE}"`,
];

test('the log of a request or of a batch holds nothing of what the records hold', async (t) => {
  const models = new Models(t);
  for (const name of ['pair', 'texts', 'image'] as const) {
    const runner = await models.runner(name);
    const log = await logged(t, async () => {
      const answer = predict({
        model: { use: (work) => work(runner) },
        filter: undefined,
        observers: quietObservers(),
      });
      for (const body of BODIES)
        await answer({
          headers: {},
          body,
          isBase64Encoded: false,
          rawPath: '/predict',
          requestContext: { http: { method: 'POST' } },
        } as unknown as APIGatewayProxyEventV2);
      const good = encodeMessage('u7', new Map([['x', { kind: 'text', text: PRIVATE }]]));
      const Records = [...BODIES, good].map((body, i) => ({
        messageId: `m${i}`,
        body,
        attributes: { SentTimestamp: '0' },
      }));
      const sink = resultSink({ save: async () => 0 });
      await serveEvent({
        now: Date.now,
        model: { use: (work) => work(runner) },
        sink,
        running: { begin: () => async () => undefined },
        payloads: { resolve: async (bodies) => [...bodies] },
        observers: quietObservers(),
      })({ Records } as unknown as SQSEvent);
      await deadLetter({ sink, archive: async () => undefined, observers: {}, attempts: 3 })({
        Records,
      } as unknown as SQSEvent);
    });
    assert.ok(log.includes('"messageId":"m0"'), 'what cannot be read is logged');
    assert.ok(!log.includes(PRIVATE) && !log.includes('Erika') && !log.includes('Muster'), log);
  }
});

/** Answers every command alike; undefined hangs up. */
async function refusingRedis(
  t: TestContext,
  answer: string | undefined,
): Promise<{ readonly port: number; readonly heard: () => string }> {
  let heard = '';
  const server = createServer((socket) => {
    socket.on('error', () => undefined);
    socket.on('data', (bytes) => {
      heard += bytes.toString();
      if (answer === undefined) socket.destroy();
      else socket.write(answer.repeat(bytes.toString().split(/(?=\*\d+\r\n\$)/).length));
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => server.close());
  return { port: (server.address() as AddressInfo).port, heard: () => heard };
}

async function shown(t: TestContext, work: () => Promise<unknown>): Promise<string> {
  const error: unknown = await work().then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  assert.ok(error instanceof Error);
  const log = await logged(t, async () => logError(error));
  return [inspect(error, { depth: 20, showHidden: true }), log, JSON.stringify(error), String(error)].join(
    '\n',
  );
}

for (const [what, answer] of [
  ['refuses the password', '-WRONGPASS invalid username-password pair or user is disabled.\r\n'],
  ['wants another password', '-NOAUTH Authentication required.\r\n'],
  ['knows no user', "-ERR wrong number of arguments for 'auth' command\r\n"],
  ['hangs up', undefined],
] as const) {
  test(`an error of a Redis that ${what} does not show the password`, async (t) => {
    const { port, heard } = await refusingRedis(t, answer);
    const url = `redis://someone:${PASSWORD}@127.0.0.1:${port}`;
    const connection = new RedisConnection(url, { connectTimeoutMs: 500, commandTimeoutMs: 500 });
    t.after(() => connection.close());
    const told = await shown(t, () => connection.use((redis) => redis.get('a'), true));
    assert.ok(told.includes('results_unavailable'));
    assert.ok(heard().includes(PASSWORD), 'it was sent, so it could have been quoted');
    assert.ok(!told.includes(PASSWORD), told);
    const queue = new OutputQueue({ url });
    t.after(() => queue.close());
    assert.ok(!(await shown(t, () => queue.query('u'))).includes(PASSWORD));
  });
}

test('an error of S3 does not show the key it was signed with', async (t) => {
  const { port } = await refusingRedis(t, undefined);
  const secretAccessKey = `${PASSWORD}${PASSWORD}`;
  const s3 = new S3Client({
    endpoint: `http://127.0.0.1:${port}`,
    region: 'local',
    credentials: { accessKeyId: 'known', secretAccessKey, sessionToken: `${PASSWORD}-token` },
    forcePathStyle: true,
    maxAttempts: 1,
  });
  t.after(() => s3.destroy());
  const told = await shown(t, () => readPointer(s3, { bucket: 'models', prefix: 'models/job/' }));
  assert.ok(told.includes('model_unavailable'));
  assert.ok(!told.includes(PASSWORD), told);
});

test('a line of the log is one line, whatever a record puts into it', async (t) => {
  const forged = 'a\r\n{"level":"info","message":"forged"}\u2028\u001b[2J';
  const log = await logged(t, async () => {
    logError(new ServingError('model_failed', forged, { uri: forged, cause: new Error(forged) }), {
      messageId: forged,
    });
    logError(new Error(forged));
  });
  const lines = log.split('\n');
  assert.equal(lines.length, 3);
  assert.equal(lines[2], '');
  for (const line of lines.slice(0, 2)) assert.equal((JSON.parse(line) as { level: string }).level, 'error');
  assert.ok(log.split('').every((character) => character >= ' ' || character === '\n'));
});

test('a Redis url that is none is refused without being shown', async (t) => {
  for (const url of [
    `rediss://user:${PASSWORD}@`,
    `redis://user:${PASSWORD}@host:port`,
    `user:${PASSWORD}@host:6379:1`,
    `redis://${PASSWORD} @[`,
  ]) {
    const told = await shown(t, async () => {
      const connection = new RedisConnection(url, { connectTimeoutMs: 100 });
      t.after(() => connection.close());
      await connection.use((redis) => redis.get('a'), false);
    });
    assert.ok(!told.includes(PASSWORD), told);
  }
});

test('a wrong config is refused without a value that may be a password', () => {
  const wrong = [
    `redisUrl: redis://user:${PASSWORD}@host:6379:1\n`,
    `redisSecureTrustStorePassword: ${PASSWORD}\n`,
    `secure:\n  redisPassword: ${PASSWORD}\n  trustStorePassword: ${PASSWORD}\n`,
    `password: ${PASSWORD}\n`,
    `redisUrl: [${PASSWORD}\n`,
    `redisUrl: "${PASSWORD}\n`,
    `redisUrl ${PASSWORD}\n`,
    `redisUrl: *${PASSWORD}\n`,
    `redisUrl: !${PASSWORD} x\n`,
    `batchSize: 1\nbatchSize: 2\nsecret: ${PASSWORD}\n`,
  ];
  for (const text of wrong) {
    let told = '';
    try {
      told = readConfigText(text, 'config.yaml').notes.join('\n');
    } catch (error) {
      told = inspect(error, { depth: 20, showHidden: true });
    }
    assert.ok(!told.includes(PASSWORD), told);
  }
});

const POLLUTING = [
  '__proto__:\n  owned: 1\n',
  'constructor:\n  prototype:\n    owned: 1\n',
  '__proto__.owned: 1\n',
  'image:\n  __proto__:\n    owned: 1\n',
  'http:\n  constructor:\n    prototype: {owned: 1}\n',
  '"__proto__": {"owned": 1}\n',
  '<<: {owned: 1}\n',
  '? __proto__\n: owned\n',
  'a: &a {__proto__: {owned: 1}}\nb: *a\n',
];

test('no key of a config.yaml changes a prototype, and each such key is refused', () => {
  for (const text of POLLUTING) {
    assert.throws(() => parseConfig(text, 'config.yaml'), { code: 'bad_config' }, text);
    assertClean(text);
  }
});

function assertClean(what: string): void {
  for (const one of [{}, [], () => undefined, 'text', new Map()])
    assert.equal((one as { owned?: unknown }).owned, undefined, what);
}
