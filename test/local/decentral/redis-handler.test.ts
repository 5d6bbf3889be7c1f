/** RedisHandler against redis-server, and against servers that break the protocol or the connection. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { connect, createServer, type Socket } from 'node:net';
import { type TestContext, test } from 'node:test';
import { Redis } from 'ioredis';
import { redisUrl } from '../../support/redis.ts';
import { Service } from './service.ts';

const hasRedis = spawnSync('redis-server', ['--version']).status === 0;
/** The embedded Redis holds results, and has no queues. */
const WITH_REDIS = { skip: hasRedis ? false : 'needs redis-server' };

interface Setup {
  readonly redis: Redis;
  readonly port: number;
  /** Runs Python with `RedisHandler`, `handler(**more)` and `show(value)`. @returns the lines that it showed */
  readonly python: (code: string, port?: number) => Promise<string[]>;
}

async function setUp(t: TestContext): Promise<Setup> {
  const url = await redisUrl(t);
  const redis = new Redis(url);
  t.after(() => redis.disconnect());
  const service = await Service.in(t, {});
  const port = Number(new URL(url).port);
  const python = async (code: string, to = port) => {
    const start = `from wkr_serving.client.helper import RedisHandler, RedisError
def handler(key="q", **more): return RedisHandler(key, "127.0.0.1", ${to}, **more)
def show(value): print(repr(value))
def fails(work):
    try: work()
    except Exception as error: print(type(error).__name__, error)
`;
    const done = await service.sh(`python3 - <<'END'\n${start}${code}\nEND`);
    assert.equal(done.code, 0, done.stderr);
    return done.stdout.trimEnd().split('\n');
  };
  return { redis, port, python };
}

test('what is popped equals what was pushed, first in first out', WITH_REDIS, async (t) => {
  const { python } = await setUp(t);
  const shown = await python(`
q = handler()
values = [{"a": [1, 2.5, None, True]}, "text", "", '{"a": 1}', "123", 2**70, -0.0, "\\ud800", "\\U0001f600", []]
show([q.push(value) for value in values])
show([repr(q.pop()) for _ in values] == [repr(value) for value in values])
show(q.pop())
q.close()
q.push(1)
show(q.pop())`);
  assert.deepEqual(shown, ['[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]', 'True', 'None', '1']);
});

test('a value that JSON would change is refused', WITH_REDIS, async (t) => {
  const { python, redis } = await setUp(t);
  const shown = await python(`
for value in [(1, 2), {1: 2}, b"x", float("nan"), {"a": {3}}]: fails(lambda: handler().push(value))`);
  assert.deepEqual(
    shown.map((line) => line.split(' ')[0]),
    Array.from({ length: 5 }, () => 'TypeError'),
  );
  assert.equal(await redis.llen('q'), 0);
});

test('what other programs pushed is JSON, else a str, else bytes', WITH_REDIS, async (t) => {
  const { python, redis } = await setUp(t);
  await redis.rpush('q', 'plain', '{"a": 1}', '{"a":', 'NaN', Buffer.from([0xff, 0x00]), '['.repeat(100_000));
  assert.deepEqual(await python('q = handler()\nfor _ in range(5): show(q.pop())\nshow(type(q.pop()))'), [
    "'plain'",
    "{'a': 1}",
    `'{"a":'`,
    "'NaN'",
    String.raw`b'\xff\x00'`,
    "<class 'str'>",
  ]);
});

test('order, db, password, other queues and keys', WITH_REDIS, async (t) => {
  const { python, redis } = await setUp(t);
  assert.deepEqual(
    await python(`
stack = handler(order="lifo")
for i in range(3): stack.push(i)
show([stack.pop() for _ in range(3)])
q = handler()
q.push("other", custom_queue="p")
show([q.pop(), q.pop(custom_queue="p")])
show(q.pop(timeout=0.05))
stack.push(7)
show(stack.pop(timeout=5))
q.set("key", {"a": 1})
fails(lambda: handler(order="first"))`),
    ['[2, 1, 0]', "[None, 'other']", 'None', '7', "ValueError order: expected fifo or lifo, got 'first'"],
  );
  assert.equal(await redis.get('key'), '{"a":1}');
  await python('handler(db=3).push("three")');
  assert.equal(await redis.llen('q'), 0);
  await redis.config('SET', 'requirepass', 'secret');
  assert.deepEqual(
    await python('show(handler(db=3, password="secret").pop())\nfails(handler(password="wrong").pop)'),
    ["'three'", 'RedisError WRONGPASS invalid username-password pair or user is disabled.'],
  );
  assert.match((await python('fails(handler().pop)')).join(), /RedisError NOAUTH/);
});

test('a pop that waits gets what is pushed meanwhile', WITH_REDIS, async (t) => {
  const { python, redis } = await setUp(t);
  const popped = python('show(handler().pop(timeout=30))');
  while (!String(await redis.client('LIST')).includes('cmd=blpop')) await new Promise(setImmediate);
  await redis.rpush('q', '"late"');
  assert.deepEqual(await popped, ["'late'"]);
});

/** Passes bytes on to a port; `cut` decides, by the bytes of a client, whether it ends its connection unanswered. */
async function proxy(t: TestContext, port: number, cut: (bytes: string) => boolean): Promise<number> {
  const sockets: Socket[] = [];
  const server = createServer((client) => {
    const redis = connect(port, '127.0.0.1');
    sockets.push(client, redis);
    for (const socket of [client, redis]) socket.on('error', () => undefined);
    let isCut = false;
    client.on('data', (bytes) => {
      isCut ||= cut(String(bytes));
      redis.write(bytes);
    });
    redis.on('data', (bytes) => (isCut ? client.destroy() : client.write(bytes)));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return (server.address() as { port: number }).port;
}

test('a push whose answer is lost is not sent again, a pop is', WITH_REDIS, async (t) => {
  const { python, redis, port } = await setUp(t);
  let pushes = 0;
  const through = await proxy(t, port, (bytes) => bytes.includes('RPUSH') && ++pushes === 1);
  const [lost = '', ...rest] = await python(
    'q = handler()\nfails(lambda: q.push(1))\nshow(q.push(2))',
    through,
  );
  assert.match(lost, /^ConnectionError Redis at 127\.0\.0\.1:\d+: RPUSH may have arrived: /);
  assert.deepEqual([rest, pushes, await redis.lrange('q', 0, -1)], [['2'], 2, ['1', '2']]);
  let pops = 0;
  const again = await proxy(t, port, (bytes) => bytes.includes('LPOP') && ++pops === 1);
  assert.deepEqual(await python('show(handler().pop())', again), ['2']);
});

test('a connection that Redis has closed is opened anew before a push', WITH_REDIS, async (t) => {
  const { python, redis, port } = await setUp(t);
  const shown = await python(`
q, other = handler(), handler("other")
q.push(1)
other._connection.ask([b"CLIENT", b"KILL", b"TYPE", b"normal", b"SKIPME", b"yes"], False, 5)
show(q.push(2))`);
  assert.deepEqual(shown, ['2']);
  assert.equal(await redis.llen('q'), 2);
  assert.match(
    (await python('fails(lambda: handler().push(1))', port === 1 ? 2 : 1)).join(),
    /RPUSH was not sent: .*refused/,
  );
});

test('an answer that breaks the protocol or is too large is one error', WITH_REDIS, async (t) => {
  const { python } = await setUp(t);
  let answer = '';
  const server = createServer((socket) => {
    socket.on('error', () => undefined);
    socket.on('data', () => void socket.write(answer));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => server.close());
  const { port } = server.address() as { port: number };
  for (const [bytes, problem] of [
    ['HTTP/1.1 400 Bad Request\r\n', 'an answer of an unknown type'],
    ['$600000000\r\n', 'a value of 600000000 bytes is over the limit'],
    ['*2000\r\n', 'a list is too long or too deep'],
    ['*1\r\n'.repeat(6), 'a list is too long or too deep'],
    [':1_0\r\n', 'a number is malformed'],
    ['$\r\n', 'a number is malformed'],
    [`+${'x'.repeat(70_000)}`, 'a line is too long or cut off'],
  ] as const) {
    answer = bytes;
    assert.match(
      (await python('q = handler()\nfails(q.pop)', port)).join(),
      new RegExp(`Malformed .*${problem}`),
    );
  }
});
