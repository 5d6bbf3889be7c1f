/** Versions in a console, and changes of the one that serves, with a real S3 in the process. */
import assert from 'node:assert/strict';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, type TestContext, test } from 'node:test';
import { withDefaults } from '../../../lib/config/job.ts';
import { modelPrefix } from '../../../lib/contract/names.ts';
import { readCurrent } from '../../../lib/registry/pointer.ts';
import { type PublishOptions, publishModel } from '../../../lib/registry/publish.ts';
import { type TrialReport, writeTrialReport } from '../../../lib/registry/trial-report.ts';
import type { S3Client } from '../../../lib/s3/objects.ts';
import { startAws } from '../../../local/aws/aws.ts';
import { exampleOfVersion } from '../../../local/console/example.ts';
import { furtherModels } from '../../../local/console/model.ts';
import { activateVersion, versionsOf } from '../../../local/console/stored.ts';
import { endVersion, promoteTrial, promoteVersion, trialFacts } from '../../../local/console/trial.ts';
import { addModel, modelFolder, QUIET } from '../swap/models.ts';

let aws: Awaited<ReturnType<typeof startAws>>;
let s3: S3Client;
before(async () => {
  aws = await startAws({ port: 0, log: QUIET });
  await aws.createBucket('models');
  s3 = aws.s3;
});
after(() => aws.close());

let opened = 0;

/** A job of its own. */
function open(t: TestContext) {
  const jobName = `job-${++opened}`;
  const location = { bucket: 'models', prefix: modelPrefix(jobName) };
  const place = { s3, location, job: withDefaults({ jobName, modelRefreshSeconds: 7 }) };
  let published = 0;
  /** @param golden requests by the names of their files */
  const publish = async (
    options: PublishOptions = {},
    golden: Readonly<Record<string, string>> = {},
    at = location,
  ) => {
    const folder = await modelFolder(t, addModel(++published));
    await mkdir(join(folder, 'golden'));
    for (const [name, text] of Object.entries(golden)) await writeFile(join(folder, 'golden', name), text);
    const now = Date.UTC(2030, 0, published);
    return (await publishModel(s3, at, folder, { now: () => now, ...options })).version;
  };
  const current = () => readCurrent(s3, location);
  return { location, jobName, place, publish, current };
}

const CANARY = { trial: { kind: 'canary', share: 0.25 } } as const;
const SHADOW = { trial: { kind: 'shadow' } } as const;
const ROOM = { memoryMB: 1, diskMB: 1, isShared: false };

test('an example is the first golden request of the version that is not too long, or else what was found otherwise', async (t) => {
  const { place, publish } = open(t);
  const long = `"${'x'.repeat(1_000_000)}"`;
  const golden = await publish({}, { 'a.json': long, 'c.json': '"c"', 'b.json': '"b"' });
  const bare = await publish({ dropGolden: true });
  const otherwise = async () => 'found';
  const example = (version: string) => exampleOfVersion(place, version, otherwise);
  assert.deepEqual(await example(golden), { body: '"b"', isGolden: true });
  assert.deepEqual(await example(bare), { body: 'found', isGolden: false });
  assert.deepEqual(await example('000000000000'), { body: 'found', isGolden: false });
  assert.deepEqual(await exampleOfVersion(undefined, golden, otherwise), { body: 'found', isGolden: false });
  const none = await exampleOfVersion(place, bare, async () => undefined);
  assert.match('unavailable' in none ? none.unavailable : '', /^No example is known/);
});

test('versions are listed with what serves, what served before, and what is on trial', async (t) => {
  const { location, place, publish, current } = open(t);
  const [first, second] = [await publish(), await publish()];
  const third = await publish(CANARY);
  const { canary } = await current();
  const since = '2030-01-03T00:00:00.000Z';
  assert.equal(canary?.since, since);
  const found = { golden: 'passed', verdict: 'no worse', reason: 'equal' } as const;
  const report: TrialReport = {
    at: since,
    room: ROOM,
    isCapturing: false,
    canary: { version: third, since, attempts: 1, looks: 1, unended: 0, ...found },
  };
  await writeTrialReport(s3, location, report);
  const { versions, ...rest } = await versionsOf(place);
  const batching =
    'records run one by one: this version of the model was not verified; `model push` verifies it';
  const facts = { format: 'onnx', batching, serves: false, before: false, trial: undefined };
  assert.deepEqual(
    versions.map(({ bytes, ...version }) => {
      assert.ok(bytes > 50);
      return version;
    }),
    [
      { ...facts, version: third, uploadedAt: since, trial: 'canary' },
      { ...facts, version: second, uploadedAt: '2030-01-02T00:00:00.000Z', serves: true },
      { ...facts, version: first, uploadedAt: '2030-01-01T00:00:00.000Z', before: true },
    ],
  );
  assert.deepEqual(rest, {
    trial: {
      canary: { version: third, share: 0.25, since, found },
      shadow: undefined,
      ended: undefined,
    },
    further: [],
    refreshSeconds: 7,
  });
  // The report of an earlier trial is not shown for this one.
  await writeTrialReport(s3, location, { ...report, canary: { ...report.canary!, since: 'before' } });
  assert.equal((await trialFacts(place)).canary?.found, undefined);
});

test('a shadow is shown with what was found of it; promoted it serves, and ended it is gone', async (t) => {
  const { location, place, publish, current } = open(t);
  const first = await publish();
  await assert.rejects(promoteVersion(place, first), { code: 'not_found' });
  const second = await publish(SHADOW);
  const since = '2030-01-02T00:00:00.000Z';
  const found = {
    compared: 5,
    flips: 4,
    differ: 3,
    otherEnds: 2,
    notReplayable: 1,
    problem: 'why',
  };
  await writeTrialReport(s3, location, {
    at: since,
    room: ROOM,
    isCapturing: true,
    shadow: { version: second, since, until: 0, windowMs: 1, ...found },
  });
  const { canary, shadow } = await trialFacts(place);
  assert.deepEqual([canary, shadow], [undefined, { version: second, since, found }]);
  const { done } = await endVersion(place, second);
  assert.equal(done, `The trial of version ${second} has ended; the version that serves stays.`);
  assert.deepEqual([(await current()).shadow, (await current()).version], [undefined, first]);

  const third = await publish(SHADOW);
  await assert.rejects(endVersion(place, first), { code: 'conflict', message: new RegExp(third) });
  const promoted = await promoteVersion(place, third);
  assert.equal(promoted.done, `Version ${third} is promoted instead of ${first}; it serves within 7 s.`);
  assert.equal((await current()).version, third);
});

test('a canary with golden requests is promoted only after they were asked, and the reason of its end is kept', async (t) => {
  const { location, place, publish, current } = open(t);
  const first = await publish();
  const second = await publish(CANARY, { 'a.json': '{}' });
  const refuse = async () => assert.fail('not as it was');
  await assert.rejects(promoteTrial(place, refuse), /not as it was/);
  await assert.rejects(promoteTrial(place, refuse, first), { code: 'conflict' });
  assert.equal((await current()).canary?.version, second);
  const asked: string[] = [];
  const promoted = await promoteTrial(place, async ({ version, files }) => {
    asked.push(version, ...files.map(({ key }) => key ?? ''));
  });
  assert.deepEqual(promoted, { version: second, from: first });
  const folder = `${location.prefix}versions/${second}/`;
  assert.deepEqual(asked, [second, `${folder}golden/a.json`, `${folder}model.onnx`]);
  const { version, canary, ended } = await current();
  assert.deepEqual([version, canary, ended?.end, ended?.reason], [second, undefined, 'promoted', 'by hand']);
  // Without golden requests nothing is asked.
  const third = await publish({ ...CANARY, dropGolden: true });
  assert.deepEqual(await promoteTrial(place, refuse), { version: third, from: second });

  const fourth = await publish(CANARY);
  await endVersion(place, fourth);
  const left = await current();
  assert.deepEqual([left.version, left.canary, left.ended?.end], [third, undefined, 'rolled back']);
});

test('another version is made to serve, and the one that serves already is left alone', async (t) => {
  const { place, publish, current } = open(t);
  const [first, second] = [await publish(), await publish()];
  assert.deepEqual(await activateVersion(place, second), { done: `Version ${second} serves already.` });
  const { done } = await activateVersion(place, first);
  assert.equal(done, `Version ${first} is chosen instead of ${second}; it serves within 7 s.`);
  assert.equal((await current()).version, first);
});

test('further models are listed by name, and those on trial with their trials', async (t) => {
  const { location, jobName, place, publish } = open(t);
  await publish();
  const at = (name: string) => ({ ...location, prefix: modelPrefix(jobName, name) });
  for (const name of ['b', 'a', 'tried']) await publish({}, {}, at(name));
  const version = await publish(CANARY, {}, at('tried'));
  await publish(CANARY, {}, at('a'));
  await endVersion({ ...place, location: at('a') }, (await readCurrent(s3, at('a'))).canary?.version ?? '');
  assert.deepEqual(await furtherModels(s3, location.bucket, jobName), ['a', 'b', 'tried']);
  const { further } = await versionsOf(place);
  assert.deepEqual(
    further.map(({ model, canary }) => [model, canary?.version, canary?.share]),
    [['tried', version, 0.25]],
  );
  // The place of a further model has none of its own.
  assert.deepEqual((await versionsOf({ ...place, location: at('tried') })).further, []);
  assert.deepEqual(await furtherModels(s3, 'no-such-bucket', 'job').then(Object.keys), ['unavailable']);
});
