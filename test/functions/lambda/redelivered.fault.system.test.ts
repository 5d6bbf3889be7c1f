/**
 * F24: what becomes of a record from its second delivery on, in the packaged batch function: it runs, or the delivery does not
 * count; and where its runs never end well, it ends itself.
 */
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { GetObjectCommand } from '@aws-sdk/client-s3';
import { decodeDeadLetter } from '../../../lib/codecs/dead-letter.ts';
import { deadLetterPrefix, indexKey } from '../../../lib/contract/names.ts';
import { publishModel } from '../../../lib/registry/publish.ts';
import { addModel, modelFolder } from '../../local/swap/models.ts';
import { ENDLESS, loopModel } from '../../support/endless.ts';
import { OPENING, PASS, type SeenCommand } from '../../support/faults/redis/proxy.ts';
import { type Bundles, packagedFunctions } from '../../support/faults/worker.ts';
import { childPids } from '../../support/isolated.ts';
import { onnxModel } from '../../support/onnx.ts';
import { until } from '../../support/until.ts';
import type { LambdaEnvironment } from './support/environment.ts';
import { batchEvent, deliver, JOB, LOCATION, openScene, scalarMessage, xMessage } from './support/scene.ts';

/** Less than half of what the model takes to open on an idle machine. */
const DELIVERY_MS = 2_000;
/** Deliveries in which a start must come to its end. */
const MOST = 60;
const ISOLATED = /isolated-process/;

const messages = (uris: readonly string[]) =>
  Object.fromEntries(uris.map((uri, x) => [uri, xMessage(uri, x)]));

const WIDTH = 1024;
const LAYERS = 80;

/** Adds 0 to x. onnxruntime multiplies its matrices when it opens it, and then needs them no more. */
function slowToOpen(): Uint8Array {
  const matrix = { dtype: 'float32', shape: [WIDTH, WIDTH] } as const;
  const data = new Float32Array(WIDTH * WIDTH).fill(1 / WIDTH);
  const layers = Array.from({ length: LAYERS }, (_, i) => {
    return { op: 'MatMul', inputs: [`c${i}`, 'w'], outputs: [`c${i + 1}`] };
  });
  return onnxModel({
    inputs: [{ name: 'x', dtype: 'float32', shape: ['N', 1] }],
    outputs: [{ name: 'y', dtype: 'float32', shape: ['N', 1] }],
    nodes: [
      ...layers,
      { op: 'ReduceMean', inputs: [`c${LAYERS}`], outputs: ['mean'], attributes: { keepdims: 0 } },
      { op: 'Mul', inputs: ['mean', 'zero'], outputs: ['nothing'] },
      { op: 'Add', inputs: ['x', 'nothing'], outputs: ['y'] },
    ],
    weights: [
      { name: 'c0', ...matrix, data },
      { name: 'w', ...matrix, data },
      { name: 'zero', dtype: 'float32', shape: [1], data: Float32Array.of(0) },
    ],
  });
}

describe('F24: the packaged batch function', { concurrency: 2 }, () => {
  let bundles: Bundles;
  before(async () => {
    bundles = await packagedFunctions();
  });

  test('gets a record done whose isolated process needs longer to start than a delivery has, also frozen in between', async (t) => {
    const { bucket, redis, runs, start, outcomeOf } = await openScene(t, bundles);
    await publishModel(bucket, LOCATION, await modelFolder(t, slowToOpen()));
    const environment = start('batch');
    assert.deepEqual(await deliver(environment, batchEvent(messages(['first'])), 120_000), []);
    const uris = ['a', 'b', 'c'];
    const pids = new Set<number>();
    let waiting = uris;
    let attempts = 2;
    for (; waiting.length > 0 && attempts < MOST; attempts++) {
      // A busy machine is late with the end of its time, too.
      waiting = await deliver(environment, batchEvent(messages(uris), attempts), DELIVERY_MS, 60_000);
      const children = await childPids(environment.pid, ISOLATED);
      for (const pid of children) pids.add(pid);
      if (waiting.length === 0) break;
      assert.deepEqual(await runs(), [], 'a delivery without a run is not counted');
      for (const pid of children) process.kill(pid, 'SIGSTOP');
      environment.freeze();
      if (attempts % 2 === 0) redis.resetAll();
      for (const pid of children) process.kill(pid, 'SIGCONT');
      environment.thaw();
    }
    assert.equal(pids.size, 1, 'each delivery found the same process');
    assert.deepEqual(await Promise.all(uris.map(outcomeOf)), [0, 1, 2]);
    assert.deepEqual(await runs(), []);
  });

  test('ends a record after queue.maxReceiveCount runs that ended the function, whatever SQS counted, and archives it', async (t) => {
    const scene = await openScene(t, bundles, { queue: { maxReceiveCount: 2 } });
    await publishModel(scene.bucket, LOCATION, await modelFolder(t, loopModel()));
    const bodies = { endless: scalarMessage('endless', 'rounds', ENDLESS) };
    const runOnce = async (attempts: number) => {
      const environment = scene.start('batch');
      const running = assert.rejects(deliver(environment, batchEvent(bodies, attempts), 120_000));
      const counted = String(attempts);
      await until(async () => (await scene.runs()).some((text) => text?.endsWith(` ${counted}`)));
      await environment.kill();
      await running;
    };
    await runOnce(300);
    await runOnce(301);
    assert.deepEqual(await scene.runs(), ['2 301']);
    const last: LambdaEnvironment = scene.start('batch');
    assert.deepEqual(await deliver(last, batchEvent(bodies, 302)), []);
    assert.equal(await scene.outcomeOf('endless'), 'max_receives_exceeded');
    const Key = `${deadLetterPrefix(JOB)}endless.json`;
    const { Body } = await scene.bucket.send(new GetObjectCommand({ Bucket: LOCATION.bucket, Key }));
    const letter = decodeDeadLetter((await Body?.transformToString()) ?? '');
    assert.deepEqual([letter.attempts, letter.body, letter.identity], [2, bodies.endless, 'endless']);
    assert.match(last.output(), /"DeadLettered":1/);
    // What was acknowledged and comes again changes nothing, and does not run.
    assert.deepEqual(await deliver(last, batchEvent(bodies, 303)), []);
    assert.deepEqual(await scene.runs(), ['2 301']);
  });

  test('archives what cannot be read after queue.maxReceiveCount deliveries, and before that lets it come again', async (t) => {
    const scene = await openScene(t, bundles, { queue: { maxReceiveCount: 3 } });
    await publishModel(scene.bucket, LOCATION, await modelFolder(t, addModel(1)));
    const environment = scene.start('batch');
    const bodies = { unread: 'no JSON', nameless: '{"data":""}' };
    for (const attempts of [1, 2])
      assert.deepEqual(await deliver(environment, batchEvent(bodies, attempts)), Object.keys(bodies));
    scene.s3.onRequest = ({ method }) => ({ kind: method === 'PUT' ? 'reset' : 'pass' });
    assert.deepEqual(await deliver(environment, batchEvent(bodies, 3)), Object.keys(bodies));
    scene.s3.onRequest = () => ({ kind: 'pass' });
    assert.deepEqual(await deliver(environment, batchEvent(bodies, 4)), []);
    for (const id of Object.keys(bodies)) {
      const Key = `${deadLetterPrefix(JOB)}${id}.json`;
      assert.ok(await scene.bucket.send(new GetObjectCommand({ Bucket: LOCATION.bucket, Key })));
    }
  });

  test('saves an event of first deliveries in one call to Redis, and counts nothing', async (t) => {
    const { bucket, redis, start } = await openScene(t, bundles);
    await publishModel(bucket, LOCATION, await modelFolder(t, addModel(1)));
    const environment = start('batch');
    // The first one also sends the text of the script.
    await deliver(environment, batchEvent(messages(['warm'])));
    const commands: SeenCommand[] = [];
    redis.onCommand = (command) => {
      commands.push(command);
      return PASS;
    };
    const calls = (text: string) => commands.filter(({ bytes }) => bytes.includes(text)).length;
    assert.deepEqual(await deliver(environment, batchEvent(messages(['a', 'b', 'c']))), []);
    assert.deepEqual([calls(indexKey(JOB)), calls('runs_lambda:')], [1, 0]);
    // Beside the call that saves, a slow machine reports that the records run.
    const others = commands.filter(({ name, bytes }) => !OPENING.has(name) && !bytes.includes(indexKey(JOB)));
    assert.ok(others.length <= 1 && others.every(({ bytes }) => bytes.includes('cluster-serving-state_')));
    commands.length = 0;
    assert.deepEqual(await deliver(environment, batchEvent(messages(['d', 'e']), 2)), []);
    assert.deepEqual([calls(indexKey(JOB)), calls('runs_lambda:')], [1, 3]);
  });
});
