/** A client that is started again: when, after what, and what it then says, with a program in place of Python and no time. */
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { encodeFrame } from '../../../lib/codecs/values/frame.ts';
import { Client, restartDelayMs } from '../../../local/decentral/client.ts';
import type { After } from '../../../local/decentral/process.ts';
import { statPage } from '../../../local/decentral/stat-page.ts';
import { temporaryFolder } from '../../support/runner.ts';
import { until } from '../../support/until.ts';

const HELLO = { type: 'hello', protocol: 1 };
const [LOADED, READY] = [{ type: 'loaded' }, { type: 'ready' }];
const progress = (done: number, failed: number, lastError = '') => ({
  type: 'progress',
  done,
  failed,
  lastError,
});
const failure = (message: string) => ({
  type: 'failed',
  phase: 'model',
  error: { type: 'E', message, traceback: 'tb\n' },
});

test('a client waits longer after each start that completed nothing, from 100 ms to 30 s', () => {
  const delays = [0, 1, 2, 3, 9, 10, 11, 100].map(restartDelayMs);
  assert.deepEqual(delays, [100, 100, 200, 400, 25_600, 30_000, 30_000, 30_000]);
});

interface Timer {
  readonly ms: number;
  readonly run: () => void;
  isCancelled: boolean;
}

/** @param starts the messages of each start, after which the process ends with `exit code 7`; the last one waits */
async function open(t: TestContext, starts: readonly (readonly object[])[]) {
  const directory = await temporaryFolder(t);
  for (const [index, messages] of starts.entries()) {
    const frames = messages.flatMap((message) => encodeFrame(message as Record<string, unknown>));
    await writeFile(join(directory, `start-${index}`), Buffer.concat(frames));
  }
  const python = join(directory, 'python');
  const script = [
    '#!/bin/sh',
    'n=$(cat count 2>/dev/null || echo 0)',
    'echo $((n + 1)) > count',
    'cat start-$n >&4',
    `[ $n -lt ${starts.length - 1} ] && exit 7`,
    'exec sleep 30',
  ];
  await writeFile(python, `${script.join('\n')}\n`, { mode: 0o755 });
  const timers: Timer[] = [];
  const after: After = (ms, run) => {
    const timer = { ms, run, isCancelled: false };
    timers.push(timer);
    return () => void (timer.isCancelled = true);
  };
  const seen: string[] = [];
  const client = new Client(['a', 1, 2], 3, {
    settings: { worker: 'm.C', directory, python, logName: 'l', verbose: false },
    log: { write: () => undefined },
    after,
    changed: () => seen.push(client.state),
    loaded: () => seen.push('loaded'),
    notLoaded: (why) => seen.push(`not loaded: ${why}`),
    note: (text) => seen.push(text),
  });
  t.after(() => {
    const { pid } = client.status();
    if (pid !== null && pid !== undefined) process.kill(pid, 'SIGKILL');
  });
  /** Runs the newest timer of that time. */
  const pass = (ms: number) => {
    const timer = timers.findLast((one) => one.ms === ms && !one.isCancelled);
    assert.ok(timer, `${ms}: ${JSON.stringify(timers)}`);
    timer.run();
  };
  const waits = () => until(() => client.state === 'waiting');
  return { client, seen, timers, pass, waits };
}

test('a client that ended starts again, later each time until it has done something, and keeps its counts', async (t) => {
  const { client, seen, pass, waits, timers } = await open(t, [
    [HELLO, LOADED, READY],
    [HELLO, LOADED, READY, progress(2, 1, 'x'.repeat(600)), progress(3, 1)],
    [HELLO, LOADED, failure('m')],
    [HELLO, LOADED, READY, progress(0, 1), progress(4, 2, 'now')],
  ]);
  assert.deepEqual([client.state, client.restarts], ['starting', 0]);
  await waits();
  const ended = (why: string, seconds: number) => `client a:1 #3: ${why}; it starts again in ${seconds} s`;
  const exit = 'the process ended: exit code 7';
  assert.deepEqual(seen.splice(0), ['loaded', 'running', ended(exit, 0.1), 'waiting']);
  assert.deepEqual(client.status(), {
    server: ['a', 1, 2],
    pid: null,
    state: 'waiting',
    restarts: 0,
    done: 0,
    failed: 0,
    last_error: exit,
  });
  // The limit of the start is over with the start.
  assert.deepEqual(
    timers.filter(({ ms }) => ms === 120_000).map(({ isCancelled }) => isCancelled),
    [true],
  );
  pass(100);
  assert.equal(client.restarts, 1);
  await waits();
  assert.deepEqual(seen.splice(0), ['starting', 'loaded', 'running', ended(exit, 0.1), 'waiting']);
  assert.deepEqual([client.done, client.failed], [3, 1]);
  pass(100);
  await waits();
  assert.deepEqual(seen.splice(0), ['starting', 'loaded', ended('model: E: m', 0.2), 'waiting']);
  pass(200);
  await until(() => client.done === 7);
  assert.deepEqual(seen.splice(0), ['starting', 'loaded', 'running']);
  const { pid, ...status } = client.status();
  assert.deepEqual(status, {
    server: ['a', 1, 2],
    state: 'running',
    restarts: 3,
    done: 7,
    failed: 3,
    last_error: 'now',
  });
  assert.ok((pid as number) > 0);
  const stopped = client.stop();
  assert.equal(client.state, 'retiring');
  // It does not end by itself.
  pass(5_000);
  await stopped;
  assert.deepEqual(seen, ['retiring', 'stopped']);
  assert.equal(client.done, 7);
});

test('an error of a class that cannot be loaded is reported, and a client that waits is stopped at once', async (t) => {
  const { client, seen, waits, timers } = await open(t, [[HELLO, failure('no such class')], []]);
  await waits();
  const [told, again, note] = seen;
  assert.equal(told, 'not loaded: E: no such class\ntb');
  assert.equal(again, 'not loaded: model: E: no such class');
  assert.match(note ?? '', /: model: E: no such class; it starts again in 0\.1 s$/);
  await client.stop();
  assert.equal(client.state, 'stopped');
  assert.equal(timers.find(({ ms }) => ms === 100)?.isCancelled, true);
});

test('a long error is kept to 500 characters, and a start has two minutes', async (t) => {
  const { client, seen, waits, pass } = await open(t, [[HELLO, LOADED, failure('x'.repeat(600))], [HELLO]]);
  await waits();
  assert.equal(client.status().last_error.length, 500);
  pass(100);
  seen.length = 0;
  pass(120_000);
  await waits();
  const late = 'the process ended: it was not ready after 120 s';
  assert.deepEqual(seen, [
    `not loaded: ${late}`,
    `client a:1 #3: ${late}; it starts again in 0.2 s`,
    'waiting',
  ]);
  const { last_error } = client.status();
  assert.equal(last_error, late);
});

test('the page of a supervisor has its counts and its time', () => {
  const totals = { clients: 1, running: 2, restarts: 3, done: 4, failed: 5 };
  const rows = (ms: number) =>
    [...statPage(totals, ms).matchAll(/<tr><td>(.*?)<\/td><td>(.*?)<\/td><\/tr>/g)].map(
      ([, name, value]) => `${name} ${value}`,
    );
  const counts = ['Clients 1', 'Running 2', 'Restarts 3', '∑Done 4', '∑Failed 5'];
  for (const [ms, time] of [
    [999, '0 h 0 min 0 s'],
    [59_999, '0 h 0 min 59 s'],
    [3_599_000, '0 h 59 min 59 s'],
    [90_061_000, '25 h 1 min 1 s'],
  ] as const)
    assert.deepEqual(rows(ms), [...counts, `Uptime ${time}`]);
});
