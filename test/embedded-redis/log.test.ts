/**
 * Tests what the embedded Redis keeps after a stop, a kill, a truncated log and a rewrite. An engine is closed only
 * if the test is about closing, because a killed process closes nothing either.
 */
import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { LOG_FILE, newSession, RedisEngine } from '../../embedded-redis/engine.ts';
import type { Reply } from '../../embedded-redis/replies.ts';
import { startRedis } from '../../local/redis/start.ts';

const START_URL = new URL('../../local/redis/start.ts', import.meta.url).href;
const DEADLINE_MS = 60_000;

let dataDir: string;
let file: string;
let nowMs: number;
let lines: string[];
const engines: RedisEngine[] = [];

beforeEach(() => {
  dataDir = fs.mkdtempSync(path.join(os.tmpdir(), 'redis-test-'));
  file = path.join(dataDir, LOG_FILE);
  nowMs = 1_000_000;
  lines = [];
});
afterEach(async () => {
  for (const engine of engines.splice(0)) await engine.close();
  fs.rmSync(dataDir, { recursive: true });
});

async function until(what: string, holds: () => Promise<boolean> | boolean): Promise<void> {
  const deadline = performance.now() + DEADLINE_MS;
  while (!(await holds())) {
    assert.ok(performance.now() < deadline, `waited in vain until ${what}`);
    await delay(5);
  }
}

/** An engine on the current folder; returns a function that runs a command written in words. */
function open(options: { compactAfterBytes?: number; dataBytes?: number } = {}) {
  const engine = new RedisEngine({ dataDir, now: () => nowMs, log: (line) => lines.push(line), ...options });
  engines.push(engine);
  const session = newSession(1, 'test', () => {});
  const run = (command: string): Reply => {
    const reply = engine.run(session, command.split(' '));
    engine.flush();
    return reply;
  };
  return { engine, run, session };
}

const FILL = [
  'SET s value',
  'SET n 41',
  'INCR n',
  'INCRBYFLOAT n 0.5',
  'SETEX e 100 value',
  'HSET h a 1 b 2',
  'HINCRBYFLOAT h a 0.25',
  'EXPIRE h 50',
  'ZADD z 1.5 a -inf b 3 c',
  'ZPOPMIN z',
  'SADD m x y z',
  'SREM m x',
  'RPUSH l 1 2 3',
  'LPOP l',
  'SET gone 1',
  'DEL gone',
  'SET old 1',
  'RENAME old new',
  'PERSIST e',
  'SET e2 v PX 7000',
];

function contents(run: (command: string) => Reply): Record<string, unknown> {
  const all: Record<string, unknown> = {};
  const reads: Record<string, string> = {
    string: 'GET k',
    hash: 'HGETALL k',
    zset: 'ZRANGE k 0 -1 WITHSCORES',
    set: 'SMEMBERS k',
    list: 'LRANGE k 0 -1',
  };
  const keys = run('KEYS *');
  assert.ok(Array.isArray(keys));
  for (const key of keys.map(String).sort()) {
    const type = run(`TYPE ${key}`);
    assert.ok(typeof type === 'object' && type !== null && 'status' in type);
    all[key] = [run((reads[type.status] ?? '').replace('k', key)), run(`PTTL ${key}`)];
  }
  return all;
}

describe('the log of the embedded Redis', () => {
  it('brings every type back with the moment of its expiry', () => {
    const { run } = open();
    for (const command of FILL) run(command);
    const before = contents(run);
    assert.equal(Object.keys(before).length, 9);
    assert.deepEqual(before['n'], ['42.5', -1]);
    assert.deepEqual(contents(open().run), before);
    nowMs += 6_000;
    assert.deepEqual(open().run('PTTL e2'), 1_000);
  });

  it('a key that expired stays gone although it was written again', () => {
    const { run } = open();
    run('HSET h a 1');
    run('PEXPIRE h 10');
    run('HSET h b 2');
    nowMs += 11;
    assert.equal(run('HSET h c 3'), 1);
    const { run: after } = open();
    assert.deepEqual(after('HGETALL h'), { fields: ['c', '3'] });
    assert.equal(after('TTL h'), -1);
  });

  it('a key whose time passed while nothing ran is gone at the start', () => {
    const { run } = open();
    run('SET k v PX 10');
    nowMs += 11;
    assert.equal(open().run('EXISTS k'), 0);
  });

  it('expired keys are removed without a request for them', async () => {
    const { run, engine } = open();
    for (let at = 0; at < 50; at += 1) run(`SET k${at} v PX 10`);
    nowMs += 11;
    await until('they are gone', () => engine.store.size === 0);
    engine.flush();
    assert.match(fs.readFileSync(file, 'latin1'), /DEL\r\n\$3\r\nk49\r\n/);
  });

  it('a script is kept as what it did, not as what it is', async () => {
    const { engine, session, run } = open();
    await engine.scripts.prepare();
    engine.run(session, ['EVAL', "redis.call('incr', 'n') redis.call('expire', 'n', 5) return 1", '0']);
    engine.flush();
    assert.doesNotMatch(fs.readFileSync(file, 'latin1'), /EVAL|redis\.call/);
    assert.deepEqual(contents(open().run), contents(run));
  });

  it('a file cut anywhere gives what was written before, a transaction whole or not at all', () => {
    const { run } = open();
    run('SET a 1');
    for (const command of ['MULTI', 'SET b 1', 'HSET h f 1', 'SET c 1', 'EXEC']) run(command);
    run('SET d 1');
    const whole = fs.readFileSync(file);
    const seen = new Set<string>();
    for (let size = whole.length; size >= 0; size -= 1) {
      fs.writeFileSync(file, whole.subarray(0, size));
      const { run: after } = open();
      seen.add(Object.keys(contents(after)).join(' '));
      after('SET new 1');
      assert.equal(open().run('GET new'), '1', `cut at ${size}`);
    }
    assert.deepEqual([...seen], ['a b c d h', 'a b c h', 'a', '']);
  });

  it('a file with garbage in its middle is kept aside and read up to there', () => {
    const { run } = open();
    run('SET a 1');
    const good = fs.readFileSync(file);
    fs.appendFileSync(file, 'garbage\r\n*1\r\n$3\r\nFOO\r\n');
    const damaged = fs.readFileSync(file);
    assert.deepEqual(Object.keys(contents(open().run)), ['a']);
    assert.deepEqual(fs.readFileSync(file), good);
    assert.deepEqual(fs.readFileSync(`${file}.damaged`), damaged);
    assert.match(lines.join('\n'), /embedded\.aof: dropped the 22 bytes .* kept as .*\.damaged/);
  });

  it('is rewritten when it has grown, and holds the same', async () => {
    const { run } = open({ compactAfterBytes: 20_000 });
    for (const command of FILL) run(command);
    for (let at = 0; at < 1_200; at += 1) run(`HSET big f${at} ${at}`);
    for (let at = 0; at < 1_000; at += 1) run(`SET s value${at}`);
    const before = contents(run);
    const grown = fs.statSync(file).size;
    await until('it is smaller', () => fs.statSync(file).size < grown / 2);
    run('SET after 1');
    assert.deepEqual(contents(open().run), { ...before, after: ['1', -1] });
    assert.deepEqual(fs.readdirSync(dataDir), [LOG_FILE]);
  });

  it('data beyond the limit are refused until some are removed', async () => {
    const { run } = open({ compactAfterBytes: 0, dataBytes: 1_000 });
    const refused = { error: "OOM command not allowed when used memory > 'maxmemory'." };
    run(`SET k ${'x'.repeat(2_000)}`);
    await until('it is noticed', () => 'error' in Object(run('SET other v')));
    assert.deepEqual(run('HSET h f v'), refused);
    assert.equal(run('STRLEN k'), 2_000);
    assert.equal(run('DEL k'), 1);
    await until('there is room', () => !('error' in Object(run('SET other v'))));
  });
});

describe('a killed process', () => {
  const children: ChildProcess[] = [];
  // Also when a test fails: its child would keep this file from ending.
  afterEach(() => {
    for (const child of children.splice(0)) child.kill('SIGKILL');
  });

  async function host(command: string[]): Promise<{ child: ChildProcess; url: string }> {
    const code = `
      const { startRedis } = await import(${JSON.stringify(START_URL)});
      const { url } = await startRedis({ dataDir: ${JSON.stringify(dataDir)}, port: 0, preferEmbedded: true, log() {} });
      process.stdout.write(url);
      setInterval(() => {}, 1_000);`;
    const [program, ...args] = [...command, process.execPath, '--input-type=module', '-e', code];
    assert.ok(program !== undefined);
    const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'inherit'] });
    children.push(child);
    let url = '';
    child.stdout.on('data', (text: Buffer) => {
      url += text.toString();
    });
    await until('it listens', () => /:\d+$/.test(url));
    return { child, url };
  }

  it('loses nothing it has acknowledged', async () => {
    const { child, url } = await host([]);
    const client = new Redis(url, { retryStrategy: null });
    client.on('error', () => {});
    let acknowledged = 0;
    const writes = Array.from({ length: 20_000 }, async (_, at) => {
      await client.hset(`k${at % 100}`, `f${at}`, 'v'.repeat(at % 200));
      acknowledged += 1;
      if (acknowledged === 3_000) child.kill('SIGKILL');
    });
    await Promise.allSettled(writes);
    assert.ok(acknowledged >= 3_000);
    const server = await startRedis({
      dataDir,
      port: 0,
      preferEmbedded: true,
      log: (line) => lines.push(line),
    });
    const reader = new Redis(server.url);
    let found = 0;
    for (let key = 0; key < 100; key += 1) found += await reader.hlen(`k${key}`);
    assert.ok(found >= acknowledged, `${found} of ${acknowledged}`);
    reader.disconnect();
    await server.close();
  });

  it('that cannot write its log refuses writes and continues reading', async () => {
    const { child, url } = await host(['sh', '-c', 'ulimit -f 8; exec "$@"', 'sh']);
    const client = new Redis(url);
    await client.set('small', 'v');
    const outcomes: string[] = [];
    for (let at = 0; at < 40; at += 1) {
      outcomes.push(await client.set('k', 'x'.repeat(1_000)).catch((error: Error) => error.message));
    }
    assert.match(outcomes.at(-1) ?? '', /^MISCONF Errors writing to the AOF file: EFBIG/);
    assert.equal(await client.get('small'), 'v');
    client.disconnect();
    child.kill('SIGKILL');
    await until('it ended', () => child.signalCode !== null);
    assert.equal(open().run('GET small'), 'v');
  });
});

describe('a log that is read again', () => {
  it('counts a time to live from when it was given', () => {
    const first = open();
    first.run('SET a 1');
    first.run('PEXPIRE a 1000');
    nowMs += 600;
    const { run } = open();
    assert.equal(run('PTTL a'), 400);
    nowMs += 600;
    assert.equal(open().run('EXISTS a'), 0);
  });

  it('sees each key as the command did that wrote it, though its time has come since', () => {
    const first = open();
    first.run('SET a 1 PX 1000');
    first.run('RENAME a b');
    first.run('PERSIST b');
    nowMs += 5_000;
    assert.equal(open().run('GET b'), '1');
  });

  it('does not grow by commands that change nothing', () => {
    const { run, engine } = open();
    run('SET a 1');
    const bytes = engine.serverInfo()['Persistence']?.['aof_current_size'];
    run('DEL missing');
    run('SET a 2 NX');
    run('HDEL missing field');
    assert.equal(engine.serverInfo()['Persistence']?.['aof_current_size'], bytes);
  });
});

describe('a disk', () => {
  it('that takes a write in pieces gets it whole', (t) => {
    const write = fs.writeSync as (descriptor: number, piece: Buffer) => number;
    t.mock.method(fs, 'writeSync', (descriptor: number, piece: Buffer) =>
      write(descriptor, piece.subarray(0, Math.ceil(piece.length / 2))),
    );
    open().run(`SET a ${'x'.repeat(1_000)}`);
    t.mock.restoreAll();
    assert.equal(open().run('STRLEN a'), 1_000);
  });

  it('that was full takes writes again once it has room, and the commands of that time are in the log', (t) => {
    const { run, engine } = open();
    t.mock.method(fs, 'writeSync', () => {
      throw new Error('ENOSPC: no space left');
    });
    run('SET a 1');
    assert.deepEqual(run('SET b 1'), {
      error: 'MISCONF Errors writing to the AOF file: ENOSPC: no space left',
    });
    assert.equal(run('GET a'), '1');
    t.mock.restoreAll();
    engine.flush();
    assert.deepEqual(run('SET b 2'), { status: 'OK' });
    assert.deepEqual(
      ['a', 'b'].map((key) => open().run(`GET ${key}`)),
      ['1', '2'],
    );
  });
});

it('a transaction queues at most 10,000 commands', () => {
  const { run } = open();
  run('MULTI');
  for (let i = 0; i < 10_000; i++) assert.deepEqual(run('PING'), { status: 'QUEUED' });
  assert.deepEqual(run('PING'), { error: 'ERR MULTI queues at most 10000 commands' });
  assert.match(JSON.stringify(run('EXEC')), /EXECABORT/);
});
