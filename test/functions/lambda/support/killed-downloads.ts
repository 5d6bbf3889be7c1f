/** F11: processes that are killed while they download a model into a /tmp that stays. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, readdirSync } from 'node:fs';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { publishModel } from '../../../../lib/registry/publish.ts';
import { modelFolder } from '../../../local/swap/models.ts';
import { seeded } from '../../../support/faults/seeds.ts';
import type { Bundles } from '../../../support/faults/worker.ts';
import { onnxModel } from '../../../support/onnx.ts';
import { until } from '../../../support/until.ts';
import { LOCATION, openScene, predictX } from './scene.ts';

export const MB = 1024 * 1024;

/** y = x + number, and weights that make the file this large. */
export function largeModel(number: number, bytes: number): Uint8Array {
  const ballast = new Float32Array(bytes / 4).fill(number);
  return onnxModel({
    inputs: [{ name: 'x', dtype: 'float32', shape: ['N', 1] }],
    outputs: [{ name: 'y', dtype: 'float32', shape: ['N', 1] }],
    nodes: [
      { op: 'Gather', inputs: ['ballast', 'first'], outputs: ['n'] },
      { op: 'Add', inputs: ['x', 'n'], outputs: ['y'] },
    ],
    weights: [
      { name: 'ballast', dtype: 'float32', shape: [ballast.length], data: ballast },
      { name: 'first', dtype: 'int64', shape: [1], data: BigInt64Array.of(0n) },
    ],
  });
}

/** Each is killed somewhere in its download, or, every third, right after the version got its name. */
export async function killedDownloads(t: TestContext, bundles: Bundles, total: number): Promise<void> {
  const { bucket, start, temp } = await openScene(t, bundles);
  const { version, files } = await publishModel(
    bucket,
    LOCATION,
    await modelFolder(t, largeModel(4, 20 * MB)),
  );
  const models = join(temp, 'cluster-serving-models');
  const random = seeded(11);
  let whole = 0;
  for (let kills = 0; kills < total; kills++) {
    const environment = start('predict');
    const names = () => readdirSync(models, { encoding: 'utf8' });
    await until(() => existsSync(models) && names().length > 0);
    // Somewhere in the download, or right after its name was given.
    if (kills % 3 > 0) await new Promise((resolve) => setTimeout(resolve, random() * 100));
    else while (!names().includes(version)) await new Promise((resolve) => setImmediate(resolve));
    await environment.kill();
    if (names().includes(version)) {
      const bytes = await readFile(join(models, version, 'model.onnx'));
      assert.equal(createHash('sha256').update(bytes).digest('hex'), files[0]?.sha256);
      whole++;
      spawnSync('rm', ['-r', join(models, version)]);
    }
  }
  assert.ok(whole >= total / 3);
  t.diagnostic(`${total} kills, ${whole} of them after the whole version was there`);
  assert.match((await predictX(start('predict'), 1)).body, /5\.0/);
  assert.deepEqual(await readdir(models), [version]);
}
