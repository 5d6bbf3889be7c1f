/** F11: what happens to an execution environment. After each the next good event works and nothing is lost. */
import assert from 'node:assert/strict';
import { rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { before, describe, test } from 'node:test';
import { publishModel } from '../../../lib/registry/publish.ts';
import { addModel, modelFolder, STEP } from '../../local/swap/models.ts';
import { ENDLESS, loopModel, QUICK } from '../../support/endless.ts';
import { PASS } from '../../support/faults/redis/proxy.ts';
import { type Bundles, packagedFunctions } from '../../support/faults/worker.ts';
import { deliverToNeighbors } from '../../support/isolated.ts';
import { until } from '../../support/until.ts';
import {
  batchEvent,
  deliver,
  LOCATION,
  openScene,
  predictX,
  scalarMessage,
  xMessage,
} from './support/scene.ts';

describe('F11: the packaged functions in an environment that', { concurrency: 2 }, () => {
  let bundles: Bundles;
  before(async () => {
    bundles = await packagedFunctions();
  });

  test('times out in the middle of a run: the next process of it serves, and all but the endless record have results', async (t) => {
    const { bucket, start, outcomeOf } = await openScene(t, bundles);
    await publishModel(bucket, LOCATION, await modelFolder(t, loopModel()));
    const rounds = { a: QUICK, endless: ENDLESS, b: QUICK };
    const bodies = Object.fromEntries(
      Object.entries(rounds).map(([uri, value]) => [uri, scalarMessage(uri, 'rounds', value)]),
    );
    const first = start('batch');
    await assert.rejects(deliver(first, batchEvent(bodies), 1_500), /the process ended: SIGKILL/);
    const second = start('batch');
    assert.deepEqual(await deliver(second, batchEvent({ c: scalarMessage('c', 'rounds', 7) })), []);
    const returned = await deliverToNeighbors(t, bodies, 8_000, (records, timeoutMs) =>
      deliver(second, batchEvent(records, 2), timeoutMs),
    );
    assert.deepEqual(returned, ['endless']);
    assert.deepEqual(await Promise.all(['a', 'b', 'c', 'endless'].map(outcomeOf)), [1, 1, 7, undefined]);
  });

  test('has no time left while its model is on the way: 504 in time, and the next request is served', async (t) => {
    const { bucket, s3, start } = await openScene(t, bundles);
    await publishModel(bucket, LOCATION, await modelFolder(t, addModel(1)));
    // INIT fails; the first request opens the model, and S3 says nothing.
    s3.onRequest = () => ({ kind: 'reset' });
    const environment = start('predict');
    await environment.ready;
    s3.onRequest = () => ({ kind: 'stall', share: 0 });
    const late = await predictX(environment, 1, 2_000);
    assert.equal(late.statusCode, 504, late.body);
    assert.equal(JSON.parse(late.body).code, 'timeout');
    s3.onRequest = () => ({ kind: 'pass' });
    await until(async () => (await predictX(environment, 1)).statusCode === 200);
    assert.match((await predictX(environment, 5)).body, new RegExp(String(STEP + 5)));
  });

  test('is frozen between two events while Redis ends its connections: both events have their results', async (t) => {
    const { bucket, redis, start, outcomeOf } = await openScene(t, bundles);
    await publishModel(bucket, LOCATION, await modelFolder(t, addModel(1)));
    const environment = start('batch');
    for (let round = 0; round < 5; round++) {
      const [x, uri] = [round, `frozen-${round}`];
      assert.deepEqual(await deliver(environment, batchEvent({ [uri]: xMessage(uri, x) })), []);
      environment.freeze();
      // Notified by a FIN or RST in its sleep; or not notified at all, and the other side is simply gone.
      if (round % 2 === 0) redis.resetAll();
      else redis.onCommand = () => ({ kind: 'hold' });
      environment.thaw();
      if (round % 2 === 1) {
        const lost = `held-${round}`;
        // Held commands time out; the fresh connection passes.
        setTimeout(() => (redis.onCommand = () => PASS), 500);
        const returned = await deliver(environment, batchEvent({ [lost]: xMessage(lost, x) }));
        if (returned.length > 0) await deliver(environment, batchEvent({ [lost]: xMessage(lost, x) }, 2));
        assert.equal(await outcomeOf(lost), STEP + x);
      }
      assert.equal(await outcomeOf(uri), STEP + x);
    }
  });

  test('is frozen while it looks for a new model and S3 goes away: the old one serves, then the new one', async (t) => {
    const { bucket, s3, start } = await openScene(t, bundles, { modelRefreshSeconds: 1 });
    await publishModel(bucket, LOCATION, await modelFolder(t, addModel(1)));
    const environment = start('predict');
    assert.equal((await predictX(environment, 1)).statusCode, 200);
    await publishModel(bucket, LOCATION, await modelFolder(t, addModel(2)));
    let met = false;
    s3.onRequest = ({ path }) => {
      if (!path.includes('model.onnx')) return { kind: 'pass' };
      met = true;
      environment.freeze();
      setTimeout(() => environment.thaw(), 300);
      return { kind: 'cut', share: 0.5 };
    };
    await until(async () => {
      const { statusCode, body } = await predictX(environment, 1);
      assert.equal(statusCode, 200, body);
      assert.match(body, new RegExp(String(STEP + 1)));
      return met;
    });
    s3.onRequest = () => ({ kind: 'pass' });
    await until(async () => {
      const { statusCode, body } = await predictX(environment, 1);
      assert.equal(statusCode, 200, body);
      return body.includes(String(2 * STEP + 1));
    });
  });

  test('runs out of memory on a record: the next process of it serves, and with more memory so is the record', async (t) => {
    const { bucket, start, outcomeOf } = await openScene(t, bundles);
    await publishModel(bucket, LOCATION, await modelFolder(t, addModel(1)));
    const wide = JSON.stringify({
      instances: [{ x: [1] }],
      // One text, because lists and objects are counted before they are made. A character takes two bytes in each copy.
      more: 'あ'.repeat(14_000_000),
    });
    const large = JSON.stringify({ uri: 'large', data: wide, serde: 'stream' });
    const bodies = { large, beside: xMessage('beside', 2) };
    const small = start('batch', { heapMb: 48 });
    assert.deepEqual(await deliver(small, batchEvent({ a: xMessage('a', 1) })), []);
    await assert.rejects(deliver(small, batchEvent(bodies)), /the process ended/);
    assert.match(small.output(), /heap out of memory/);
    const next = start('batch', { heapMb: 48 });
    assert.deepEqual(await deliver(next, batchEvent({ b: xMessage('b', 3) })), []);
    const roomy = start('batch');
    assert.deepEqual(await deliver(roomy, batchEvent(bodies, 2)), []);
    const told = await Promise.all(['a', 'b', 'beside', 'large'].map(outcomeOf));
    assert.deepEqual(told, [STEP + 1, STEP + 3, STEP + 2, STEP + 1]);
  });

  test('could not open its model in INIT: events come again, and once S3 is back they are served by the same process', async (t) => {
    const { bucket, s3, start, outcomeOf } = await openScene(t, bundles);
    s3.onRequest = () => ({ kind: 'reset' });
    const environment = start('batch');
    const event = batchEvent({ a: xMessage('a', 1), b: xMessage('b', 2) });
    for (let tries = 0; tries < 3; tries++) assert.deepEqual(await deliver(environment, event), ['a', 'b']);
    s3.onRequest = () => ({ kind: 'pass' });
    // There is no model yet, then there is.
    assert.deepEqual(await deliver(environment, event), ['a', 'b']);
    await publishModel(bucket, LOCATION, await modelFolder(t, addModel(1)));
    assert.deepEqual(await deliver(environment, event), []);
    assert.deepEqual(await Promise.all(['a', 'b'].map(outcomeOf)), [STEP + 1, STEP + 2]);
  });

  test('has settings that no function can run with: every event fails whole and comes again, a good deployment serves it', async (t) => {
    const { bucket, start, outcomeOf } = await openScene(t, bundles);
    await publishModel(bucket, LOCATION, await modelFolder(t, addModel(1)));
    const event = batchEvent({ a: xMessage('a', 1) });
    const broken = start('batch', { variables: { CLUSTER_SERVING_CONFIG: '{' } });
    for (let tries = 0; tries < 2; tries++) {
      await assert.rejects(deliver(broken, event), /CLUSTER_SERVING_CONFIG is not JSON/);
    }
    assert.deepEqual(await deliver(start('batch'), event), []);
    assert.equal(await outcomeOf('a'), STEP + 1);
  });

  test('finds Redis closed: events come again, and once it is back the same process writes the results', async (t) => {
    const { bucket, redis, start, outcomeOf } = await openScene(t, bundles);
    await publishModel(bucket, LOCATION, await modelFolder(t, addModel(1)));
    redis.onConnect = () => 'reset';
    const environment = start('batch');
    const event = batchEvent({ a: xMessage('a', 1), b: xMessage('b', 2) });
    for (let tries = 0; tries < 3; tries++) assert.deepEqual(await deliver(environment, event), ['a', 'b']);
    redis.onConnect = () => 'pass';
    assert.deepEqual(await deliver(environment, event), []);
    redis.onConnect = () => 'reset';
    redis.resetAll();
    assert.deepEqual(await deliver(environment, batchEvent({ c: xMessage('c', 3) })), ['c']);
    redis.onConnect = () => 'pass';
    assert.deepEqual(await deliver(environment, batchEvent({ c: xMessage('c', 3) })), []);
    assert.deepEqual(await Promise.all(['a', 'b', 'c'].map(outcomeOf)), [STEP + 1, STEP + 2, STEP + 3]);
  });

  test('has a file where its models should go: 503, the log says so, and without it the next request is served', async (t) => {
    const { bucket, start, temp } = await openScene(t, bundles);
    await publishModel(bucket, LOCATION, await modelFolder(t, addModel(1)));
    await writeFile(join(temp, 'cluster-serving-models'), 'in the way');
    const environment = start('predict');
    const { statusCode, body } = await predictX(environment, 1);
    assert.deepEqual([statusCode, JSON.parse(body).code], [503, 'model_unavailable']);
    // The answer and the log come by two pipes.
    await until(() => /EEXIST/.test(environment.output()));
    await rm(join(temp, 'cluster-serving-models'));
    assert.equal((await predictX(environment, 1)).statusCode, 200);
  });
});
