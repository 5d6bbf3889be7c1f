/**
 * Sends invalid bytes and misbehaving clients, and starts on unprepared machines: the error must be clear and the
 * server still usable for others. Random choices are seeded, so that a failure can be repeated.
 */
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import fs from 'node:fs';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { after, afterEach, before, describe, it } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { CommandReader } from '../../embedded-redis/command-reader.ts';
import { type EmbeddedRedis, startEmbedded } from '../../embedded-redis/server.ts';
import { ServingError } from '../../lib/contract/errors.ts';
import { isAlive } from '../../local/machine/process.ts';
import { type LocalRedis, startRedis } from '../../local/redis/start.ts';

const DEADLINE_MS = 60_000;
const START_URL = new URL('../../local/redis/start.ts', import.meta.url).href;

function folder(): string {
  return fs.mkdtempSync(path.join(os.tmpdir(), 'redis-test-'));
}

async function until(what: string, holds: () => Promise<boolean> | boolean): Promise<void> {
  const deadline = performance.now() + DEADLINE_MS;
  while (!(await holds())) {
    assert.ok(performance.now() < deadline, `waited in vain until ${what}`);
    await delay(5);
  }
}

function frame(...args: string[]): string {
  return `*${args.length}\r\n${args.map((arg) => `$${arg.length}\r\n${arg}\r\n`).join('')}`;
}

describe('the embedded Redis on the wire', () => {
  const dataDir = folder();
  const lines: string[] = [];
  let server: EmbeddedRedis;
  let client: Redis;

  before(async () => {
    const log = (line: string): void => void lines.push(line);
    server = await startEmbedded({
      dataDir,
      host: '127.0.0.1',
      port: 0,
      now: Date.now,
      log,
      scriptLimitMs: 600,
    });
    client = new Redis(server.port);
  });
  after(async () => {
    client.disconnect();
    await server.close();
    fs.rmSync(dataDir, { recursive: true });
    assert.deepEqual(lines, [], 'nothing unexpected happened inside');
  });
  afterEach(() => client.flushall());

  /** Returns the answer to these pieces, sent one by one, until the server or QUIT ends the connection. */
  async function talk(pieces: Iterable<string | Buffer>): Promise<string> {
    const socket = net.connect(server.port, '127.0.0.1');
    let text = '';
    socket.setEncoding('latin1');
    socket.on('error', () => {});
    socket.on('data', (piece: string) => {
      text += piece;
    });
    for (const piece of pieces) {
      if (socket.destroyed) break;
      if (!socket.write(piece, 'latin1')) await new Promise((resolve) => socket.once('drain', resolve));
      await new Promise(setImmediate);
    }
    await until('the connection ended', () => socket.closed);
    return text;
  }

  it('writes each type of RESP2 and RESP3 as Redis does', async () => {
    const commands = [
      'HSET h f v',
      'ZADD z 1.5 m',
      'SADD s m',
      'GET none',
      'HGETALL h',
      'ZSCORE z m',
      'ZRANGE z 0 -1 WITHSCORES',
      'ZPOPMIN z',
      'SMEMBERS s',
      'LPOP none 1',
      'SUBSCRIBE c',
      'PING',
      'UNSUBSCRIBE',
      'QUIT',
    ].map((command) => frame(...command.split(' ')));
    assert.equal(
      await talk(commands),
      ':1\r\n:1\r\n:1\r\n$-1\r\n*2\r\n$1\r\nf\r\n$1\r\nv\r\n$3\r\n1.5\r\n*2\r\n$1\r\nm\r\n$3\r\n1.5\r\n' +
        '*2\r\n$1\r\nm\r\n$3\r\n1.5\r\n*1\r\n$1\r\nm\r\n*-1\r\n*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n' +
        '*2\r\n$4\r\npong\r\n$0\r\n\r\n*3\r\n$11\r\nunsubscribe\r\n$1\r\nc\r\n:0\r\n+OK\r\n',
    );
    await client.flushall();
    const resp3 = await talk([frame('HELLO', '3'), ...commands]);
    assert.match(resp3, /^%7\r\n\$6\r\nserver\r\n\$5\r\nredis\r\n/);
    assert.equal(
      resp3.slice(resp3.indexOf('*0\r\n') + 4),
      ':1\r\n:1\r\n:1\r\n_\r\n%1\r\n$1\r\nf\r\n$1\r\nv\r\n,1.5\r\n*1\r\n*2\r\n$1\r\nm\r\n,1.5\r\n' +
        '*2\r\n$1\r\nm\r\n,1.5\r\n~1\r\n$1\r\nm\r\n_\r\n>3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n' +
        '+PONG\r\n>3\r\n$11\r\nunsubscribe\r\n$1\r\nc\r\n:0\r\n+OK\r\n',
    );
  });

  it('reads commands however they are cut', async () => {
    const text = `${frame('SET', 'k', 'a\r\nb')}${frame('GET', 'k')}\r\nPING\r\n${frame('ECHO', '')}${frame('QUIT')}`;
    const expected = '+OK\r\n$4\r\na\r\nb\r\n+PONG\r\n$0\r\n\r\n+OK\r\n';
    assert.equal(await talk([text]), expected);
    assert.equal(await talk(text), expected);
    assert.equal(await talk(text.match(/[^]{1,7}/g) ?? []), expected);
  });

  it('reads inline commands with quotes', async () => {
    assert.equal(
      await talk([`  SET  "a key"  'it\\'s'\r\nGET "a \\x6bey"\nECHO "\\r\\n\\t"\r\n\r\nQUIT\r\n`]),
      "+OK\r\n$4\r\nit's\r\n$3\r\n\r\n\t\r\n+OK\r\n",
    );
  });

  it('names what is wrong with bytes that are not a command, and hangs up', async () => {
    const cases: Record<string, string> = {
      '*1000000000\r\n': 'invalid multibulk length',
      '*99999999999\r\n': 'invalid multibulk length',
      '*x\r\n': 'invalid multibulk length',
      '*1\r\n$99999999999999\r\n': 'invalid bulk length',
      '*1\r\n$67108865\r\n': 'invalid bulk length',
      '*1\r\n$-1\r\n': 'invalid bulk length',
      '*1\r\n:1\r\n': "expected '$', got ':'",
      '*1\r\n$1\r\nabc\r\n': 'expected CRLF after bulk',
      'SET "a\r\n': 'unbalanced quotes in request',
      [`*${'1'.repeat(70_000)}`]: 'too big mbulk count string',
      [`*1\r\n$${'1'.repeat(70_000)}`]: 'too big bulk count string',
      ['x'.repeat(70_000)]: 'too big inline request',
    };
    for (const [bytes, problem] of Object.entries(cases)) {
      assert.equal(await talk([bytes]), `-ERR Protocol error: ${problem}\r\n`, bytes.slice(0, 30));
    }
  });

  it('lets no web page in', async () => {
    assert.equal(await talk(['POST / HTTP/1.1\r\nHost: x\r\n\r\nFLUSHALL\r\n']), '');
    await client.set('kept', '1');
    const methods = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'HEAD', 'OPTIONS', 'CONNECT', 'TRACE', 'get'];
    for (const method of methods)
      for (const target of ['/', '/kept?a', 'http://127.0.0.1/', '*'])
        for (const end of ['\r\n', '\n']) {
          const head = `${method} ${target} HTTP/1.1${end}accept: */*${end}`;
          assert.equal(await talk([`${head}${end}DEL kept${end}`]), '', head);
        }
    for (const head of ['Host: x', 'host: x', 'Origin: null', 'Content-Type: text/plain', 'Cookie: a=b'])
      assert.equal(await talk([`${head}\r\nDEL kept\r\n`]), '', head);
    assert.equal(await client.get('kept'), '1');
  });

  it('still takes what only looks like a request of the web', async () => {
    assert.equal(
      await talk(['SET kept HTTP/1.1\r\n', 'GET kept\r\n', 'QUIT\r\n']),
      '+OK\r\n$8\r\nHTTP/1.1\r\n+OK\r\n',
    );
    const set = frame('SET', 'Host:', 'POST');
    assert.equal(await talk([set, frame('GET', 'Host:'), 'QUIT\r\n']), '+OK\r\n$4\r\nPOST\r\n+OK\r\n');
  });

  it('survives random bytes and broken frames, and others do not notice', async () => {
    await client.set('k', 'v');
    let seed = 7;
    const random = (below: number): number => {
      seed = (seed * 1_103_515_245 + 12_345) % 2_147_483_648;
      return Math.floor((seed / 2_147_483_648) * below);
    };
    // Not FLUSHALL or DEL: the other connection's key has to stay.
    const good = Buffer.from(
      ['SET', 'HSET', 'EVAL', 'ZADD', 'MULTI', 'HELLO', 'SUBSCRIBE']
        .map((name) => frame(name, 'x', '1', '2'))
        .join(''),
    );
    for (let round = 0; round < 150; round += 1) {
      const bytes =
        round % 3 === 0 ? Buffer.from(Array.from({ length: 200 }, () => random(256))) : Buffer.from(good);
      for (let change = 0; change < 3; change += 1) bytes[random(bytes.length)] = random(256);
      const pieces = [
        bytes.subarray(0, random(bytes.length)),
        bytes.subarray(random(bytes.length)),
        '\r\nQUIT\r\n',
      ];
      const socket = net.connect(server.port, '127.0.0.1');
      socket.on('error', () => {});
      for (const piece of pieces) socket.write(piece);
      if (round % 2 === 0) socket.end();
      else await new Promise((resolve) => socket.write('', resolve)).then(() => socket.destroy());
      assert.equal(await client.get('k'), 'v');
    }
  });

  it('a command reader fed pieces of random commands gives back the commands', () => {
    const commands = Array.from({ length: 300 }, (_, at) => ['SET', `k${at}`, 'x'.repeat((at * 37) % 500)]);
    const bytes = Buffer.from(commands.map((args) => frame(...args)).join(''), 'latin1');
    for (const size of [1, 3, 64, 1_000, bytes.length]) {
      const reader = new CommandReader();
      const got: string[][] = [];
      for (let at = 0; at < bytes.length; at += size) {
        reader.push(bytes.subarray(at, at + size));
        for (let args = reader.next(); args !== undefined; args = reader.next()) got.push(args);
      }
      assert.deepEqual(got, commands);
      assert.equal(reader.consumedBytes, bytes.length);
    }
  });

  it('refuses what is not for listeners in RESP2', async () => {
    assert.match(
      await talk([frame('SUBSCRIBE', 'c'), frame('GET', 'k'), frame('QUIT')]),
      /-ERR Can't execute 'get': only \(P\|S\)SUBSCRIBE .* are allowed in this context\r\n\+OK\r\n$/,
    );
  });

  it('a client that does not read its replies gets them all once it does', async () => {
    await client.set('big', 'x'.repeat(1_000_000));
    const socket = net.connect(server.port, '127.0.0.1');
    socket.pause();
    socket.write(frame('GET', 'big').repeat(60) + frame('QUIT'));
    assert.equal(await client.echo('others are served'), 'others are served');
    let bytes = 0;
    socket.on('data', (piece: Buffer) => {
      bytes += piece.length;
    });
    socket.resume();
    await until('all came', () => socket.closed);
    assert.equal(bytes, 60 * '$1000000\r\n'.length + 60 * 1_000_002 + '+OK\r\n'.length);
  });

  it('an endless script ends with an error, keeps what it wrote, and the next one runs', async () => {
    for (const body of ['while true do end', 'while true do pcall(function() while true do end end) end']) {
      const script = `redis.call('incr', KEYS[1]) ${body}`;
      await assert.rejects(client.eval(script, 1, 'n'), /^ReplyError: ERR script failed: script took longer/);
      assert.equal(await client.eval('return ARGV[1]', 0, 'next'), 'next');
    }
    assert.equal(await client.get('n'), '2');
  });

  it('a script that wants all memory, or nests too deep, ends with an error', async () => {
    const scripts: Record<string, RegExp> = {
      "local t = {} for i = 1, 1e9 do t[i] = ('x'):rep(1e6) .. i end": /script failed/,
      'local t = {} for i = 1, 200 do t = {t} end return t': /reached lua stack limit/,
      'local function f() return 1 + f() end return f()': /stack overflow|time limit/,
      "return load('\\27Lua')": /^null$/,
    };
    for (const [script, outcome] of Object.entries(scripts)) {
      const got = await client.eval(script, 0).then(String, (error: Error) => error.message);
      assert.match(got, outcome, script);
      assert.equal(await client.eval('return 5', 0), 5);
    }
  });
});

describe('startRedis', () => {
  const started: LocalRedis[] = [];
  const folders: string[] = [];
  afterEach(async () => {
    for (const server of started.splice(0)) await server.close();
    for (const name of folders.splice(0)) fs.rmSync(name, { recursive: true });
  });

  async function start(options: Partial<Parameters<typeof startRedis>[0]> = {}) {
    const dataDir = options.dataDir ?? folder();
    if (options.dataDir === undefined) folders.push(dataDir);
    const server = await startRedis({ dataDir, port: 0, log: () => {}, ...options });
    started.push(server);
    return { ...server, dataDir };
  }

  const badConfig = (message: RegExp) => (error: unknown) => {
    assert.ok(error instanceof ServingError && error.code === 'bad_config');
    assert.match(error.message, message);
    return true;
  };

  it('takes the embedded server where there is no redis-server, on the port it names', async () => {
    const server = await start({ serverCommand: 'no-such-redis-server' });
    assert.equal(server.kind, 'embedded');
    assert.equal(server.pid, undefined);
    const client = new Redis(server.url);
    assert.match(await client.info('server'), new RegExp(`tcp_port:${new URL(server.url).port}\r`));
    client.disconnect();
    await server.close();
    await server.close();
  });

  it('takes a redis-server that needs two seconds to say its version, as on a busy machine', async () => {
    const dataDir = folder();
    folders.push(dataDir);
    const serverCommand = path.join(dataDir, 'redis-server');
    const says = '[ "$1" = --version ] && { sleep 2; exit 0; }';
    fs.writeFileSync(serverCommand, `#!/bin/sh\n${says}\nexit 7\n`, { mode: 0o755 });
    // It was taken: it is the one that does not start, and no embedded one answers with other data.
    await assert.rejects(
      start({ dataDir, serverCommand }),
      badConfig(/redis-server did not start .*exit code 7/),
    );
  });

  it('refuses an address that other machines could reach', async () => {
    for (const host of ['0.0.0.0', '192.168.0.1', '::', 'example.org', '']) {
      await assert.rejects(
        start({ host, preferEmbedded: true }),
        badConfig(/expected 127\.0\.0\.1, ::1 or localhost/),
      );
    }
  });

  it('says that a port is in use, and leaves its user alone', async () => {
    const first = await start({ preferEmbedded: true });
    const port = Number(new URL(first.url).port);
    await assert.rejects(
      start({ port, preferEmbedded: true }),
      badConfig(/:\d+: the port is in use: stop what/),
    );
    const client = new Redis(first.url);
    assert.equal(await client.ping(), 'PONG');
    client.disconnect();
  });

  it('says that a folder cannot be used', async () => {
    const dataDir = folder();
    folders.push(dataDir);
    const file = path.join(dataDir, 'file');
    fs.writeFileSync(file, '');
    await assert.rejects(
      start({ dataDir: file, preferEmbedded: true }),
      badConfig(/Redis cannot use .*file: .*EEXIST/),
    );
  });

  it('tells what a redis-server said that died at its start', async () => {
    const dataDir = folder();
    folders.push(dataDir);
    const serverCommand = path.join(dataDir, 'redis-server');
    const says = 'bind: Address already in use';
    fs.writeFileSync(serverCommand, `#!/bin/sh\n[ "$1" = --version ] && exit 0\necho '${says}'\nexit 1\n`, {
      mode: 0o755,
    });
    await assert.rejects(
      start({ dataDir, port: 65_000, serverCommand }),
      badConfig(
        /did not start on 127\.0\.0\.1:65000 .*\(exit code 1\)\. Stop what listens .* It said: bind: Address already/,
      ),
    );
  });

  it('says when data of the other kind of server lie in the folder', async () => {
    const dataDir = folder();
    folders.push(dataDir);
    fs.mkdirSync(path.join(dataDir, 'appendonlydir'));
    const lines: string[] = [];
    await start({ dataDir, preferEmbedded: true, log: (line) => lines.push(line) });
    assert.match(
      lines.join('\n'),
      /the data in .*appendonlydir are of the other kind of server and are not read/,
    );
  });

  describe('with redis-server', { skip: hasServer() ? false : 'needs redis-server on the PATH' }, () => {
    it('keeps its data over a restart', async () => {
      const first = await start();
      assert.equal(first.kind, 'redis-server');
      const client = new Redis(first.url);
      await client.set('k', 'v');
      client.disconnect();
      await first.close();
      const second = await start({ dataDir: first.dataDir });
      const reader = new Redis(second.url);
      assert.equal(await reader.get('k'), 'v');
      reader.disconnect();
    });

    it('says that a port is in use', async () => {
      const first = await start();
      await assert.rejects(
        start({ port: Number(new URL(first.url).port) }),
        badConfig(/Stop what listens on that port, or choose another/),
      );
    });

    it('runs in a process group of its own and ends when we are killed', async (t) => {
      const dataDir = folder();
      folders.push(dataDir);
      const code = `
        const { startRedis } = await import(${JSON.stringify(START_URL)});
        const { pid } = await startRedis({ dataDir: ${JSON.stringify(dataDir)}, port: 0, log() {} });
        console.log(String(pid));
        setInterval(() => {}, 1_000);`;
      const child = spawn(process.execPath, ['--input-type=module', '-e', code], {
        stdio: ['ignore', 'pipe', 'inherit'],
      });
      t.after(() => child.kill('SIGKILL'));
      let output = '';
      child.stdout.on('data', (text: Buffer) => {
        output += text.toString();
      });
      await until('it runs', () => output.endsWith('\n'));
      const pid = Number(output);
      const group = execFileSync('ps', ['-o', 'pgid=', '-p', String(pid)], { encoding: 'utf8' });
      assert.equal(Number(group), pid);
      child.kill('SIGKILL');
      await until('redis-server is gone', async () => !(await isAlive({ pid })));
    });
  });

  function hasServer(): boolean {
    try {
      execFileSync('redis-server', ['--version'], { stdio: 'ignore' });
      return true;
    } catch {
      return false;
    }
  }
});
