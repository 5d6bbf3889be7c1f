/** Looks that begin while another one is not over, as a schedule makes them. */
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { readCurrent } from '../../../lib/registry/pointer.ts';
import { publishModel } from '../../../lib/registry/publish.ts';
import type { S3Client } from '../../../lib/s3/objects.ts';
import { type WatchParts, watchTrials } from '../../../release/trial/watch.ts';
import { strictStore } from '../../lib/registry/publish-store.ts';
import { identityModel } from '../../support/onnx.ts';
import { temporaryFolder } from '../../support/runner.ts';

const LOCATION = { bucket: 'models', prefix: 'models/job/' };
const CANARY = { kind: 'canary', share: 0.05 } as const;
const START = Date.parse('2026-11-29T04:00:00Z');
const LOOK_MS = 300_000;

async function publish(t: TestContext, s3: S3Client, name: string, trial?: typeof CANARY) {
  const folder = await temporaryFolder(t);
  await writeFile(join(folder, 'model.onnx'), identityModel([{ name, dtype: 'float32', shape: ['N', 1] }]));
  return (await publishModel(s3, LOCATION, folder, { trial, now: () => START })).version;
}

test('looks that begin while another one asks a canary do not use up its attempts, and one that ended is followed by another', async (t) => {
  const { s3 } = await strictStore(t);
  await publish(t, s3, 'a');
  const canary = await publish(t, s3, 'b', CANARY);
  let now = START;
  let asked = 0;
  const meanwhile: Awaited<ReturnType<typeof lookAfter>>[] = [];
  const ended = Promise.withResolvers<void>();
  const lookAfter = async (minutes: number) => {
    now += minutes * 60_000;
    return (await watchTrials(parts))?.canary;
  };
  const parts: WatchParts = {
    s3,
    location: LOCATION,
    counts: { read: async () => new Map() },
    replay: async () => undefined,
    room: async () => ({ memoryMB: 1000, diskMB: 1000, isShared: true }),
    now: () => now,
    lookMs: LOOK_MS,
    isCapturing: false,
    async askGolden() {
      asked += 1;
      if (asked === 1) {
        for (let minute = 0; minute < 4; minute++) meanwhile.push(await lookAfter(1));
        ended.resolve();
        // The function is ended while it asks.
        return new Promise<number>(() => undefined);
      }
      return 1;
    },
  };
  watchTrials(parts).catch(ended.reject);
  await ended.promise;
  const asking = { golden: 'asking', attempts: 1 };
  assert.partialDeepStrictEqual(meanwhile, [asking, asking, asking, asking]);
  assert.equal(asked, 1);
  const after = await lookAfter(2);
  assert.deepEqual([asked, after?.golden, after?.attempts, after?.verdict], [2, 'passed', 2, 'not enough']);
  assert.equal((await readCurrent(s3, LOCATION)).canary?.version, canary);
});
