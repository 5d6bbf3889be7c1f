/** A version on its way on one machine: shadow, canary, promoted; and a bad one that is rolled back by itself. */
import assert from 'node:assert/strict';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { InputQueue, OutputQueue } from '../../../sdk/index.ts';
import { onnxModel } from '../../support/onnx.ts';
import { temporaryFolder } from '../../support/runner.ts';
import { clientOptions, testStack } from '../../support/stack.ts';
import { until } from '../../support/until.ts';
import type { CliAnswer } from '../cli.ts';
import { warmCli, warmCliJson } from '../warm.ts';

const HOUR_MS = 3_600_000;

/**
 * x: float32 [N, 4] -> p: float32 [N, 3]
 * @param rows of a table in which x[0] is looked up, with no effect: for a value that is not below, the model fails
 */
function classifier(more: number, rows = 100): Uint8Array {
  const data = Float32Array.from({ length: 12 }, (_, i) => Math.sin(1 + i) + more * (i % 3));
  return onnxModel({
    inputs: [{ name: 'x', dtype: 'float32', shape: ['N', 4] }],
    outputs: [{ name: 'p', dtype: 'float32', shape: ['N', 3] }],
    weights: [
      { name: 'w', dtype: 'float32', shape: [4, 3], data },
      { name: 'table', dtype: 'float32', shape: [rows], data: new Float32Array(rows) },
      { name: 'first', dtype: 'int64', shape: [1], data: BigInt64Array.of(0n) },
    ],
    nodes: [
      { op: 'Gather', inputs: ['x', 'first'], outputs: ['column'], attributes: { axis: 1 } },
      { op: 'Cast', inputs: ['column'], outputs: ['index'], attributes: { to: 7 } },
      { op: 'Gather', inputs: ['table', 'index'], outputs: ['nothing'], attributes: { axis: 0 } },
      { op: 'MatMul', inputs: ['x', 'w'], outputs: ['z'] },
      { op: 'Add', inputs: ['z', 'nothing'], outputs: ['sum'] },
      { op: 'Softmax', inputs: ['sum'], outputs: ['p'], attributes: { axis: 1 } },
    ],
  });
}

interface Trial {
  readonly serving: string;
  readonly canary?: { readonly version: string; readonly share: number };
  readonly shadow?: { readonly version: string };
  readonly ended?: { readonly version: string; readonly end: string; readonly reason: string };
  readonly found: {
    readonly canary?: { readonly verdict: string; readonly reason: string };
    readonly shadow?: { readonly compared: number; readonly differ: number };
  };
}

test('a version is a shadow, then a canary, then serves; a bad one is rolled back by itself', async (t) => {
  const folder = await temporaryFolder(t);
  const model = async (name: string, bytes: Uint8Array) => {
    await mkdir(join(folder, name));
    await writeFile(join(folder, name, 'model.onnx'), bytes);
    return join(folder, name);
  };
  const clock = { aheadMs: 0 };
  const stack = await testStack(t, {
    config: 'capture: {share: 1}\nmodelRefreshSeconds: 1',
    modelDirectory: await model('first', classifier(0)),
    trials: { lookMs: 300, now: () => Date.now() + clock.aheadMs },
  });
  const options = { env: stack.aws.environment, cwd: folder };
  const where = ['--bucket', stack.bucket, '--job', 'serving_stream'];
  const json = async <T>(...args: string[]) =>
    (await warmCliJson([...args, ...where], options)) as CliAnswer<T>;
  const trial = async () => (await json<Trial>('model', 'trial')).json;
  const pushed = async (...args: string[]) => {
    const ran = await json<{ version: string }>('model', 'push', ...args);
    assert.equal(ran.code, 0, ran.stderr);
    return ran.json.version;
  };
  const first = (await trial()).serving;

  const ask = async (i: number, headers: Record<string, string> = {}, status = [200]) => {
    const x = [30, ...Array.from({ length: 3 }, (_, k) => Math.cos(i * 4 + k))];
    const request = { method: 'POST', headers, body: JSON.stringify({ instances: [{ x }] }) };
    const answer = await fetch(`${stack.url}/predict`, request);
    assert.ok(status.includes(answer.status), String(answer.status));
    await answer.arrayBuffer();
    return answer.headers.get('model-version') ?? '';
  };

  // The shadow answers nobody, and is asked what was captured since it is one.
  const nextFolder = await model('next', classifier(0.05));
  await until(
    async () => (await warmCli(['model', 'push', nextFolder, '--shadow', ...where], options)).code === 0,
  );
  const next = (await trial()).shadow?.version;
  assert.ok(next !== undefined && next !== first);
  for (let i = 0; i < 40; i++) assert.equal(await ask(i), first);
  await until(async () => {
    const { json: captures } = await json<{ captures: { objects: number }[] }>('capture', 'list');
    return captures.captures.length > 0;
  });
  clock.aheadMs = HOUR_MS;
  await until(async () => ((await trial()).found.shadow?.compared ?? 0) > 0);
  const { shadow } = (await trial()).found;
  assert.ok(shadow && shadow.differ > shadow.compared / 2, `${shadow?.differ} of ${shadow?.compared} differ`);

  // Half of the records, and each delivery and request with one key on one side.
  assert.equal(await pushed(nextFolder, '--canary', '50%'), next);
  assert.equal((await trial()).shadow, undefined);
  const refused = await warmCli(
    ['model', 'push', join(folder, 'first'), '--canary', '5%', ...where],
    options,
  );
  assert.equal(refused.code, 1);
  assert.match(refused.stderr, /is a canary since .*model promote.*model trial --end/);
  await until(
    async () =>
      (await ask(0, { 'canary-key': 'a' })) !== (await ask(0, { 'canary-key': 'b' })) || (await seesBoth()),
  );
  const sides = new Map<string, string>();
  for (let i = 0; i < 300; i++) sides.set(`customer-${i}`, await ask(i, { 'canary-key': `customer-${i}` }));
  for (const [key, version] of [...sides].slice(0, 40))
    assert.equal(await ask(0, { 'canary-key': key }), version, 'the same side each time');
  const ofNext = [...sides.values()].filter((version) => version === next).length;
  assert.ok(ofNext > 100 && ofNext < 200, `${ofNext} of 300`);
  const clients = clientOptions(stack);
  const queue = new InputQueue(clients.input);
  const results = new OutputQueue(clients.output);
  t.after(() => Promise.all([queue.close(), results.close()]));
  for (const uri of sides.keys()) await queue.enqueue(uri, { x: Float32Array.of(1, 2, 3, 4) });
  for (const [uri, version] of sides)
    assert.equal(
      (await results.wait(uri, { timeoutMs: 30_000 }))?.model,
      version,
      'a uri is a key as any other',
    );
  await until(async () => (await trial()).found.canary?.verdict === 'no worse');
  assert.equal((await json('model', 'promote')).code, 0);
  await until(async () => (await ask(0)) === next);
  assert.deepEqual((await trial()).ended?.end, 'promoted');

  // One that fails for most requests, which its push says, and its user accepts.
  const smaller = [await model('bad', classifier(0.05, 5)), '--canary', '50%'];
  assert.match((await json('model', 'push', ...smaller)).stderr, /--accept rows$/m);
  const bad = await pushed(...smaller, '--accept', 'rows');
  await until(async () => {
    for (let i = 0; i < 100; i++) await ask(i, {}, [200, 422]);
    return (await trial()).ended?.version === bad;
  });
  const { serving, ended, canary } = await trial();
  assert.deepEqual([serving, canary, ended?.end], [next, undefined, 'rolled back']);
  assert.match(
    ended?.reason ?? '',
    /it fails more often: .* 100 % failed \(\d+ model_failed\) against 0 % failed/,
  );
  await until(async () => {
    const versions = new Set<string>();
    for (let i = 0; i < 20; i++) versions.add(await ask(i, {}, [200, 422]));
    return versions.size === 1 && versions.has(next);
  });

  async function seesBoth(): Promise<boolean> {
    const versions = new Set<string>();
    for (let i = 0; i < 40; i++) versions.add(await ask(i));
    return versions.size === 2;
  }
});
