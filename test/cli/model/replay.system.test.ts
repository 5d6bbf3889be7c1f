/** A day on one machine: a service captures, a worse model is refused with a table, a better one passes. */
import assert from 'node:assert/strict';
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { InputQueue, OutputQueue } from '../../../sdk/index.ts';
import { onnxModel } from '../../support/onnx.ts';
import { temporaryFolder } from '../../support/runner.ts';
import { clientOptions, testStack } from '../../support/stack.ts';
import { until } from '../../support/until.ts';
import { type CliAnswer, cli } from '../cli.ts';
import { warmCli, warmCliJson } from '../warm.ts';

const SLOW = 2_048;

/** x, age: float32 [N, 4] -> p: float32 [N, 3], in a time that can be stopped */
function slowClassifier(): Uint8Array {
  const weights = [
    ['in', 4, SLOW],
    ['w', SLOW, SLOW],
    ['out', SLOW, 3],
  ] as const;
  const layers = Array.from({ length: 12 }, (_, i) => [
    { op: 'MatMul', inputs: [`t${i}`, 'w'], outputs: [`h${i}`] },
    { op: 'Tanh', inputs: [`h${i}`], outputs: [`t${i + 1}`] },
  ]);
  return onnxModel({
    inputs: [
      { name: 'x', dtype: 'float32', shape: ['N', 4] },
      { name: 'age', dtype: 'float32', shape: ['N', 4] },
    ],
    outputs: [{ name: 'p', dtype: 'float32', shape: ['N', 3] }],
    weights: weights.map(([name, rows, columns]) => ({
      name,
      dtype: 'float32',
      shape: [rows, columns],
      data: Float32Array.from({ length: rows * columns }, (_, i) => Math.sin(i) / 30),
    })),
    nodes: [
      { op: 'Add', inputs: ['x', 'age'], outputs: ['sum'] },
      { op: 'MatMul', inputs: ['sum', 'in'], outputs: ['t0'] },
      ...layers.flat(),
      { op: 'MatMul', inputs: ['t12', 'out'], outputs: ['z'] },
      { op: 'Softmax', inputs: ['z'], outputs: ['p'], attributes: { axis: 1 } },
    ],
  });
}

/** x: float32 [N, 4], age: float32 [N, 4] -> p: float32 [N, 3] */
function classifier(more: number): Uint8Array {
  const weight = Float32Array.from(
    { length: 12 },
    (_, i) => Math.sin(1 + i * 1.7) + (i % 3 === 0 ? more : 0),
  );
  return onnxModel({
    inputs: [
      { name: 'x', dtype: 'float32', shape: ['N', 4] },
      { name: 'age', dtype: 'float32', shape: ['N', 4] },
    ],
    outputs: [{ name: 'p', dtype: 'float32', shape: ['N', 3] }],
    weights: [{ name: 'w', dtype: 'float32', shape: [4, 3], data: weight }],
    nodes: [
      { op: 'Add', inputs: ['x', 'age'], outputs: ['sum'] },
      { op: 'MatMul', inputs: ['sum', 'w'], outputs: ['z'] },
      { op: 'Softmax', inputs: ['z'], outputs: ['p'], attributes: { axis: 1 } },
    ],
  });
}

interface Replayed {
  readonly lines: number;
  readonly compared: number;
  readonly bits: { readonly records: number; readonly differ: number };
  readonly flips: number;
  readonly problems: readonly string[];
}

test('what a service captures is replayed, gates a push, and is exported and purged', async (t) => {
  const folder = await temporaryFolder(t);
  const model = async (name: string, bytes: Uint8Array) => {
    await mkdir(join(folder, name));
    await writeFile(join(folder, name, 'model.onnx'), bytes);
    return join(folder, name);
  };
  const modelDirectory = await model('first', classifier(0));
  const config = 'capture: {share: 1}\nrelease: {maxFlips: 5%}\nmodelRefreshSeconds: 1';
  const file = join(folder, 'config.yaml');
  await writeFile(file, config);
  const stack = await testStack(t, { config, modelDirectory });
  const clients = clientOptions(stack);
  const options = { env: stack.aws.environment, cwd: folder };
  const where = ['--bucket', stack.bucket, '--job', 'serving_stream'];
  const json = async <T>(...args: string[]) =>
    (await warmCliJson([...args, ...where], options)) as CliAnswer<T>;
  const captured = async () =>
    (await json<{ captures: { objects: number }[] }>('capture', 'list')).json.captures;

  const row = (i: number) => Array.from({ length: 4 }, (_, k) => Math.cos(i * 4 + k));
  for (let i = 0; i < 20; i++) {
    const instances = [0, 1].map((k) => ({ x: row(2 * i + k), age: [1, 1, 1, 1] }));
    const answer = await fetch(`${stack.url}/predict`, {
      method: 'POST',
      body: JSON.stringify({ instances }),
    });
    assert.equal(answer.status, 200);
  }
  const refused = await fetch(`${stack.url}/predict`, { method: 'POST', body: '{"instances":[{"x":[1]}]}' });
  assert.equal(refused.status, 400);
  const queue = new InputQueue(clients.input);
  const results = new OutputQueue(clients.output);
  t.after(() => Promise.all([queue.close(), results.close()]));
  for (let i = 0; i < 10; i++) {
    const inputs = { x: Float32Array.from(row(100 + i)), age: Float32Array.of(1, 1, 1, 1) };
    await queue.enqueue(`customer-${i}`, inputs);
  }
  for (let i = 0; i < 10; i++) assert.ok(await results.wait(`customer-${i}`, { timeoutMs: 20_000 }));

  const replayed = (...args: string[]) => json<Replayed>('model', 'replay', ...args);
  await until(async () => (await captured()).length > 0 && (await replayed()).json.lines === 31);
  const same = await replayed();
  assert.equal(same.code, 0);
  assert.deepEqual(same.json.bits, { records: 50, differ: 0 });
  assert.deepEqual(same.json.problems, []);

  const worse = await model('worse', classifier(3));
  const push = ['model', 'push', worse, '--config', file, ...where];
  const stopped = await warmCli(push, options);
  assert.equal(stopped.code, 1);
  assert.match(stopped.stderr, /first class differs in \d+ of 50/);
  assert.match(stopped.stderr, /over release\.maxFlips 5 %/);
  assert.match(stopped.stderr, /--accept flips/);
  const other = await replayed(worse, '--max-flips', '5%');
  assert.equal(other.code, 1);
  assert.equal((await replayed(worse, '--max-flips', '0.999')).code, 0);
  const asPercent = await warmCli(['model', 'replay', worse, '--max-flips', '5', ...where], options);
  assert.equal(asPercent.code, 2);
  assert.match(asPercent.stderr, /--max-flips: expected a share from 0 to 1, or a percentage: 0.05 or 5%/);
  assert.ok(other.json.flips > 5);

  const slow = await model('slow', slowClassifier());
  const { version } = (await json<{ version: string }>('model', 'push', slow, '--no-activate')).json;
  const replaySlow = ['model', 'replay', version, ...where];
  const replays = join(folder, '.cluster-serving', 'replays');
  const progressLines = async () => {
    const [name] = await readdir(replays).catch(() => []);
    return name === undefined ? 0 : (await readFile(join(replays, name), 'utf8')).split('\n').length;
  };
  for (const signal of ['SIGINT', 'SIGKILL'] as const) {
    const known = await progressLines();
    const killed = cli(replaySlow, {
      ...options,
      onStart: (child) =>
        void until(async () => (await progressLines()) > known + 2).then(() => child.kill(signal)),
    });
    assert.equal((await killed).code, signal === 'SIGINT' ? 130 : null);
  }
  const before = await progressLines();
  assert.ok(before > 4);
  const wentOn = await warmCliJson(replaySlow, options);
  assert.match(wentOn.stderr, /the replay that was started at .* goes on; --fresh starts again/);
  assert.equal(await progressLines(), 0);
  const again = await warmCliJson([...replaySlow, '--fresh'], options);
  assert.doesNotMatch(again.stderr, /goes on/);
  assert.deepEqual(wentOn.json, again.json);
  const next = await model('better', classifier(1e-4));
  const imported = await warmCli(['model', 'import', next, '--config', file, ...where], options);
  assert.equal(imported.code, 0, imported.stderr);
  assert.match(imported.stdout, /captures of version .* on this one:/);
  assert.equal((await json('model', 'rollback')).code, 0);
  const better = await warmCli(['model', 'push', next, '--config', file, ...where], options);
  assert.equal(better.code, 0, better.stderr);
  assert.match(better.stdout, /captures of version .* on this one:/);

  const lines = async () =>
    (await warmCli(['capture', 'export', ...where], options)).stdout.trim().split('\n');
  assert.equal((await lines()).length, 31);
  const purged = await json<{ lines: number }>('capture', 'purge', '--uri', 'customer-3', '--yes');
  assert.equal(purged.json.lines, 1);
  const left = await lines();
  assert.equal(left.length, 30);
  assert.ok(!left.join().includes('customer-3'));
  assert.equal((await json('capture', 'purge', '--yes')).code, 0);
  assert.deepEqual(await captured(), []);
  const nothing = await warmCli(['model', 'replay', ...where], options);
  assert.equal(nothing.code, 1);
  assert.match(nothing.stderr, /nothing was captured/);
});
