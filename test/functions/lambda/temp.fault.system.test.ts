/** F11: /tmp is full, or holds half a model of a process that was killed. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readdir, statfs } from 'node:fs/promises';
import { join } from 'node:path';
import { before, describe, type TestContext, test } from 'node:test';
import { publishModel } from '../../../lib/registry/publish.ts';
import { modelFolder } from '../../local/swap/models.ts';
import { type Bundles, packagedFunctions } from '../../support/faults/worker.ts';
import { temporaryFolder } from '../../support/runner.ts';
import { until } from '../../support/until.ts';
import { killedDownloads, largeModel, MB } from './support/killed-downloads.ts';
import { LOCATION, openScene, predictX } from './support/scene.ts';

/** A /tmp of its own with so much room, or a skipped test. `resize` changes the room. */
async function smallTemp(
  t: TestContext,
  mb: number,
  use: (temp: string, resize: (mb: number) => void) => Promise<void>,
) {
  const temp = await temporaryFolder(t, 'cs-small-');
  if (process.getuid?.() !== 0) return t.skip('needs root, to mount');
  if (spawnSync('mount', ['-t', 'tmpfs', '-o', `size=${mb}m`, 'tmpfs', temp]).status !== 0) {
    return t.skip('cannot mount here');
  }
  try {
    await use(temp, (more) => void spawnSync('mount', ['-o', `remount,size=${more}m`, temp]));
  } finally {
    // Lazily: the function may still have it open.
    spawnSync('umount', ['-l', temp]);
  }
}

const freeBytes = async (path: string) => {
  const { bavail, bsize } = await statfs(path);
  return bavail * bsize;
};

describe('F11: /tmp', { concurrency: 2 }, () => {
  let bundles: Bundles;
  before(async () => {
    bundles = await packagedFunctions();
  });

  test('too small for the model: 503, nothing of it stays, and with room the same process serves', async (t) => {
    await smallTemp(t, 2, async (temp, resize) => {
      const { bucket, start } = await openScene(t, bundles);
      await publishModel(bucket, LOCATION, await modelFolder(t, largeModel(7, 4 * MB)));
      const environment = start('predict', { temp });
      for (let tries = 0; tries < 3; tries++) {
        const { statusCode, body } = await predictX(environment, 1);
        assert.deepEqual([statusCode, JSON.parse(body).code], [503, 'model_unavailable']);
        // The answer and the log come by two pipes.
        await until(() => /cannot download .*ENOSPC/.test(environment.output()));
        assert.deepEqual(await readdir(join(temp, 'cluster-serving-models')), []);
      }
      resize(16);
      assert.match((await predictX(environment, 1)).body, /8\.0/);
      await environment.kill();
    });
  });

  test('too small for a second model: the first serves on, nothing of the second stays, and with room it takes over', async (t) => {
    await smallTemp(t, 6, async (temp, resize) => {
      const { bucket, start } = await openScene(t, bundles, { modelRefreshSeconds: 1 });
      const first = await publishModel(bucket, LOCATION, await modelFolder(t, largeModel(1, 4 * MB)));
      const environment = start('predict', { temp });
      assert.match((await predictX(environment, 1)).body, /2\.0/);
      const freeBefore = await freeBytes(temp);
      const second = await publishModel(bucket, LOCATION, await modelFolder(t, largeModel(2, 4 * MB)));
      await until(async () => {
        assert.match((await predictX(environment, 1)).body, /2\.0/);
        return environment.output().includes('ENOSPC');
      });
      const models = join(temp, 'cluster-serving-models');
      await until(async () => (await readdir(models)).join() === first.version);
      assert.equal(await freeBytes(temp), freeBefore);
      resize(16);
      await until(async () => (await predictX(environment, 1)).body.includes('3.0'));
      await until(async () => (await readdir(models)).join() === second.version);
      await environment.kill();
    });
  });

  test('with half a model of each process that was killed in its download: one half at most, and the next process serves', async (t) => {
    const { bucket, s3, start, temp } = await openScene(t, bundles);
    const { version } = await publishModel(bucket, LOCATION, await modelFolder(t, largeModel(3, 20 * MB)));
    const models = join(temp, 'cluster-serving-models');
    for (let kills = 0; kills < 3; kills++) {
      const environment = start('predict');
      let halfway = () => undefined as void;
      const met = new Promise<void>((resolve) => (halfway = resolve));
      s3.onRequest = ({ path, headers }) =>
        path.includes('model.onnx') && headers.range !== 'bytes=0-8388607'
          ? { kind: 'stall', share: 0.5, after: halfway }
          : { kind: 'pass' };
      await met;
      await environment.kill();
      const names = await readdir(models);
      assert.ok(names.length === 1 && names[0]?.startsWith(`${version}.partial-`), names.join());
    }
    s3.onRequest = () => ({ kind: 'pass' });
    assert.match((await predictX(start('predict'), 1)).body, /4\.0/);
    assert.deepEqual(await readdir(models), [version]);
  });

  test('after a kill at any moment of a download: a version that has its name is whole', (t) =>
    killedDownloads(t, bundles, 4));
});
