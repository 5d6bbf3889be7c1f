/** The scheduled look at all models of a job: which are looked at, and that none ends another's trial. */
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { modelPrefix } from '../../../lib/contract/names.ts';
import { TrialMeter, trialName } from '../../../lib/metrics/trial.ts';
import { addFurtherTrial, readFurtherTrials } from '../../../lib/registry/further-trials.ts';
import { readCurrent } from '../../../lib/registry/pointer.ts';
import { type PublishOptions, publishModel } from '../../../lib/registry/publish.ts';
import { endCanary } from '../../../lib/registry/trial.ts';
import { readTrialReport } from '../../../lib/registry/trial-report.ts';
import { putText } from '../../../lib/s3/objects.ts';
import type { WatchParts } from '../../../release/trial/watch.ts';
import { watchAll } from '../../../release/trial/watch-all.ts';
import { modelBucket } from '../../local/swap/models.ts';
import { quietLog } from '../../support/faults/quiet.ts';
import { identityModel } from '../../support/onnx.ts';
import { temporaryFolder } from '../../support/runner.ts';

const BUCKET = 'models';
const CANARY = { trial: { kind: 'canary', share: 0.1 } } as const;
const MINUTE_MS = 60_000;

async function worldOf(t: TestContext) {
  quietLog(t);
  const s3 = await modelBucket(t);
  const clock = { ms: Date.now() };
  const counts = new Map<string, ReadonlyMap<string, number>>();
  const looked: (string | undefined)[] = [];
  const world = {
    golden: async (_model?: string): Promise<number> => 1,
    room: async (_model?: string): Promise<void> => undefined,
  };
  const locationOf = (model?: string) => ({ bucket: BUCKET, prefix: modelPrefix('job', model) });
  const publish = async (model: string | undefined, name: string, options: PublishOptions = {}) => {
    const folder = await temporaryFolder(t);
    await writeFile(join(folder, 'model.onnx'), identityModel([{ name, dtype: 'float32', shape: ['N', 1] }]));
    return publishModel(s3, locationOf(model), folder, { now: () => clock.ms, ...options });
  };
  const partsOf = (model?: string): WatchParts => ({
    s3,
    location: locationOf(model),
    model,
    counts: { read: async (trial) => counts.get(trial) ?? new Map() },
    lookMs: 0,
    room: async () => {
      looked.push(model);
      await world.room(model);
      return { memoryMB: 1_000, diskMB: 512, isShared: true };
    },
    isCapturing: true,
    now: () => clock.ms,
    askGolden: async () => world.golden(model),
    replay: async () => undefined,
  });
  const look = (ms = MINUTE_MS) => {
    clock.ms += ms;
    looked.length = 0;
    return watchAll(partsOf, 'job');
  };
  const end = async (model: string) => {
    const at = new Date(clock.ms).toISOString();
    const current = await readCurrent(s3, locationOf(model));
    await endCanary(s3, locationOf(model), current, { isPromoted: false, reason: 'by hand', at });
  };
  const canaryOf = async (model?: string) => (await readCurrent(s3, locationOf(model))).canary;
  const named = async () => [...(await readFurtherTrials(s3, BUCKET, 'job')).begun.keys()];
  return { s3, clock, counts, looked, world, publish, look, end, canaryOf, named, locationOf };
}

/** Counts of both versions, of which the canary has failed. */
function failing(): ReadonlyMap<string, number> {
  const meter = new TrialMeter();
  meter.answered('serving', 300);
  for (let i = 0; i < 300; i++) meter.failed('canary', 'model_failed');
  return meter.take();
}

test('a canary that fails ends the trial of its own model, and that of none with the same version since the same moment', async (t) => {
  const { publish, look, canaryOf, counts, s3, locationOf } = await worldOf(t);
  for (const model of [undefined, 'fraud', 'twin']) {
    await publish(model, 'a');
    await publish(model, 'b', CANARY);
  }
  const [own, fraud, twin] = await Promise.all([canaryOf(), canaryOf('fraud'), canaryOf('twin')]);
  assert.ok(own && fraud && twin);
  assert.deepEqual([fraud.version, fraud.since], [own.version, own.since]);
  counts.set(trialName(fraud, 'fraud'), failing());
  await look();
  assert.deepEqual(
    [(await canaryOf())?.version, await canaryOf('fraud'), (await canaryOf('twin'))?.version],
    [own.version, undefined, own.version],
  );
  const { ended } = await readCurrent(s3, locationOf('fraud'));
  assert.match(ended?.reason ?? '', /it fails more often/);
  const report = await readTrialReport(s3, locationOf('twin'));
  assert.deepEqual([report?.canary?.verdict, report?.canary?.golden], ['not enough', 'passed']);
});

test('a further model that was never tried costs no look, and one on trial is looked at although the look at others fails', async (t) => {
  const { publish, look, looked, world, canaryOf, named } = await worldOf(t);
  for (const model of [undefined, 'bad', 'good', 'idle']) await publish(model, 'a');
  assert.deepEqual(await named(), []);
  for (const model of [undefined, 'bad', 'good']) await publish(model, 'b', CANARY);
  assert.deepEqual(await named(), ['bad', 'good']);
  world.golden = async (model) => {
    if (model === 'good') return 1;
    throw new Error('it does not answer');
  };
  await look();
  assert.ok(!looked.includes('idle'));
  assert.deepEqual([await canaryOf(), await canaryOf('bad')], [undefined, undefined]);
  assert.ok(await canaryOf('good'));
});

test('an error of the look at the job’s own model is thrown once the further ones are looked at', async (t) => {
  const { publish, look, world, counts, canaryOf } = await worldOf(t);
  for (const model of [undefined, 'fraud']) await publish(model, 'a');
  await publish('fraud', 'b', CANARY);
  counts.set(trialName((await canaryOf('fraud')) ?? assert.fail(), 'fraud'), failing());
  world.room = async (model) => {
    if (model === undefined) throw new Error('no disk');
  };
  await assert.rejects(look(), /no disk/);
  assert.equal(await canaryOf('fraud'), undefined);
});

test('each look begins with another model', async (t) => {
  const { publish, look, looked } = await worldOf(t);
  const names = ['a', 'b', 'c'];
  for (const model of names) {
    await publish(model, 'a');
    await publish(model, 'b', CANARY);
  }
  await look();
  const first = new Set<string | undefined>();
  for (let minute = 0; minute < 3; minute++) {
    await look();
    const further = looked.filter((model) => model !== undefined);
    assert.deepEqual(new Set(further), new Set(names));
    first.add(further[0]);
  }
  assert.deepEqual(first, new Set(names));
});

test('a model is looked at no more an hour after its last trial began, once nothing is on trial, and again with the next one', async (t) => {
  const { publish, look, canaryOf, named, end } = await worldOf(t);
  await publish('fraud', 'a');
  await publish('fraud', 'b', CANARY);
  await look(61 * MINUTE_MS);
  assert.deepEqual(await named(), ['fraud']);
  await end('fraud');
  await look();
  assert.deepEqual(await named(), []);
  await publish('fraud', 'c', CANARY);
  assert.deepEqual(await named(), ['fraud']);
  await look();
  assert.ok(await canaryOf('fraud'));
  await end('fraud');
  await look();
  assert.deepEqual(await named(), ['fraud'], 'its pointer might still come');
});

test('a trial that begins while a look forgets its model is not forgotten', async (t) => {
  const { publish, look, named, world, end } = await worldOf(t);
  for (const model of ['fraud', 'other']) {
    await publish(model, 'a');
    await publish(model, 'b', CANARY);
    await end(model);
  }
  let begins = 0;
  world.room = async (model) => {
    // The look has read who may be on trial, and that this one is not.
    if (model === 'fraud' && begins++ === 0) await publish('fraud', 'c', CANARY);
  };
  await look(61 * MINUTE_MS);
  assert.equal(begins, 1);
  assert.ok((await named()).includes('fraud'));
});

test('of fifty models on trial, no other one may be, and those that are may again', async (t) => {
  const { publish, s3, locationOf, canaryOf } = await worldOf(t);
  const since = new Date().toISOString();
  for (const model of ['m0', 'late']) await publish(model, 'a');
  for (let i = 0; i < 50; i++) await addFurtherTrial(s3, locationOf(`m${i}`), since);
  await assert.rejects(publish('late', 'b', CANARY), {
    code: 'conflict',
    message: /50 further models are on trial, or were within the last hour/,
  });
  assert.equal(await canaryOf('late'), undefined);
  await publish('m0', 'b', CANARY);
  assert.ok(await canaryOf('m0'));
});

test('a list of models on trial that is damaged names none, and the job’s own model is never in it', async (t) => {
  const { s3, locationOf, named } = await worldOf(t);
  const store = { bucket: BUCKET, key: 'models/job/further-trials.json' };
  for (const text of ['[', 'null', '7', '{"begun":{"..":1}}']) {
    await putText(s3, store, text);
    assert.deepEqual(await named(), []);
  }
  await addFurtherTrial(s3, locationOf('a'), 'no time');
  await addFurtherTrial(s3, locationOf(), new Date().toISOString());
  assert.deepEqual(await named(), ['a']);
});
