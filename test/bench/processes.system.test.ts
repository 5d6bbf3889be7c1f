/** Processes that the bench starts: they end, and their end is reported. */
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { Bench } from '../../bench/bench.ts';
import type { Point } from '../../bench/growth/curve.ts';
import { measurePoint } from '../../bench/growth/run.ts';
import type { BenchModel } from '../../bench/models.ts';
import { startPeer } from '../../bench/peers/process.ts';
import { startChild } from '../../bench/processes/child.ts';
import { startFunction } from '../../bench/processes/cold.ts';
import { temporaryFolder } from '../support/runner.ts';
import { until } from '../support/until.ts';

const MODEL: BenchModel = {
  name: 'none',
  about: 'none',
  path: 'model.onnx',
  folder: '.',
  sha256: '',
  bytes: 0,
  input: 'x',
  output: 'y',
  rowShape: [1],
};

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

test('a peer that ends before it answers is reported with its last words, and what it started ends too', async (t) => {
  const source = await temporaryFolder(t);
  const pidFile = join(source, 'pid');
  await writeFile(
    join(source, 'server.mjs'),
    `import { spawn } from 'node:child_process';
import { writeFileSync } from 'node:fs';
const worker = spawn(process.execPath, ['-e', 'setInterval(() => undefined, 1000)'], { stdio: 'ignore' });
writeFileSync(${JSON.stringify(pidFile)}, String(worker.pid));
console.error('no such model');
process.exit(3);
`,
  );
  const peer = { name: 'fastify', folder: source, source } as const;
  await assert.rejects(
    startPeer(peer, MODEL, { path: '/predict', body: '{}' }),
    /^Error: it ended with 3: no such model\n$/,
  );
  const worker = Number(await readFile(pidFile, 'utf8'));
  assert.ok(worker > 0);
  await until(async () => !isAlive(worker));
});

test('a peer that cannot be started is reported at once', async (t) => {
  const folder = join(await temporaryFolder(t), 'nowhere');
  const peer = { name: 'fastify', folder, source: folder } as const;
  await assert.rejects(startPeer(peer, MODEL, { path: '/predict', body: '{}' }), /ENOENT/);
});

test('a point whose work fails says so', async (t) => {
  const bench = await Bench.open();
  t.after(() => bench.close());
  const nothing = { input: '', warm: '', timedMs: 1, redisUrl: 'redis://127.0.0.1:1', endpoint: '' };
  const point: Point = {
    curve: 'model',
    series: '',
    x: 1,
    ...nothing,
    model: { ...MODEL, folder: '/nowhere/at/all' },
  };
  await assert.rejects(measurePoint(point, bench), /run\.ts: .*ENOENT/);
});

test('a child that dies fails the call under way', async (t) => {
  const program = join(await temporaryFolder(t), 'dying.mjs');
  await writeFile(program, "process.on('message', () => process.exit(3));\n");
  const child = await startChild<{ die: (how: string) => Promise<void> }>(program);
  await assert.rejects(child.call('die', ''), /the process .*dying\.mjs ended/);
});

test('a child that is busy with an endless loop is ended at once', async (t) => {
  const program = join(await temporaryFolder(t), 'busy.mjs');
  await writeFile(program, "process.on('message', () => { for (;;); });\n");
  const child = await startChild<{ loop: (how: string) => Promise<void> }>(program);
  const asked = assert.rejects(child.call('loop', ''), /ended/);
  await child.kill();
  await asked;
  assert.equal(isAlive(child.pid), false);
});

test('a function is asked so often, and what Lambda would bill ends when it asks for its next event', async (t) => {
  const folder = await temporaryFolder(t);
  const client = join(folder, 'client.mjs');
  await writeFile(
    client,
    `const api = \`http://\${process.env.AWS_LAMBDA_RUNTIME_API}/2018-06-01/runtime/invocation\`;
const sleep = () => new Promise((resolve) => setTimeout(resolve, 30));
for (;;) {
  await sleep();
  const next = await fetch(\`\${api}/next\`);
  const id = next.headers.get('lambda-runtime-aws-request-id');
  const { n } = await next.json();
  await fetch(\`\${api}/\${id}/response\`, { method: 'POST', body: JSON.stringify({ n, kind: process.env.KIND }) });
}
`,
  );
  let asked = 0;
  const event = () => ({ n: ++asked });
  const start = { client: [process.execPath, client], folder, environment: { KIND: 'mine' }, event };
  const once = await startFunction({ ...start, calls: 0 }, folder);
  assert.deepEqual(once.answer, { n: 1, kind: 'mine' });
  assert.ok(Number.isNaN(once.warmMs));
  const often = await startFunction({ ...start, calls: 6 }, folder);
  assert.deepEqual([often.answer, asked], [{ n: 8, kind: 'mine' }, 8]);
  // It sleeps before it asks, which no machine makes shorter.
  for (const ms of [often.initMs, often.firstMs, often.billedMs]) assert.ok(ms > 25, `${ms} ms`);
  assert.ok(often.warmMs > 0);
});

test('closing a bench that is closing already waits until its folder is gone', async () => {
  const bench = await Bench.open();
  const slow = Promise.withResolvers<void>();
  bench.onClose(() => slow.promise);
  void bench.close();
  const again = bench.close();
  assert.ok(existsSync(bench.folder));
  slow.resolve();
  await again;
  assert.ok(!existsSync(bench.folder));
});
