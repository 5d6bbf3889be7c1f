/** Shadows and canaries in the pointer: who may begin and end them, and what happens when two do so at once. */
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { readPointer } from '../../../lib/registry/download.ts';
import { readCurrent } from '../../../lib/registry/pointer.ts';
import { type PublishOptions, publishModel } from '../../../lib/registry/publish.ts';
import { endCanary, endShadow } from '../../../lib/registry/trial.ts';
import { listVersions, removeVersion, rollBack, surplus } from '../../../lib/registry/versions.ts';
import type { S3Client } from '../../../lib/s3/objects.ts';
import { startAws } from '../../../local/aws/aws.ts';
import fc from '../../support/fast-check.ts';
import { identityModel } from '../../support/onnx.ts';
import { temporaryFolder } from '../../support/runner.ts';
import { strictStore } from './publish-store.ts';

const LOCATION = { bucket: 'models', prefix: 'models/job/' };
const quiet = { info: () => undefined, warn: () => undefined, error: () => undefined };
const at = '2026-11-29T00:00:00.000Z';
const CANARY = { kind: 'canary', share: 0.05 } as const;

async function publish(t: TestContext, s3: S3Client, name: string, options: PublishOptions = {}) {
  const folder = await temporaryFolder(t);
  await writeFile(join(folder, 'model.onnx'), identityModel([{ name, dtype: 'float32', shape: ['N', 1] }]));
  return (await publishModel(s3, LOCATION, folder, options)).version;
}

/** The pointer as environments see it. */
async function seen(s3: S3Client) {
  const { version, canary } = await readPointer(s3, LOCATION);
  return { version, canary: canary?.version };
}

test('a canary is read with its files and its share, and a promotion makes it serve with a way back', async (t) => {
  const { s3 } = await strictStore(t);
  const a = await publish(t, s3, 'a');
  const b = await publish(t, s3, 'b', { trial: CANARY });
  const { canary, ...pointer } = await readPointer(s3, LOCATION);
  assert.equal(pointer.version, a);
  assert.deepEqual([canary?.version, canary?.share], [b, 0.05]);
  assert.deepEqual(
    canary?.files.map(({ key }) => key),
    [`models/job/versions/${b}/model.onnx`],
  );
  await endCanary(s3, LOCATION, await readCurrent(s3, LOCATION), { isPromoted: true, reason: 'by hand', at });
  assert.deepEqual(await seen(s3), { version: b, canary: undefined });
  const current = await readCurrent(s3, LOCATION);
  assert.deepEqual(current.ended, { version: b, end: 'promoted', reason: 'by hand', at });
  assert.deepEqual(await rollBack(s3, LOCATION, undefined), { version: a, from: b });
});

test('while a canary runs, nothing else is published, and a rollback ends it', async (t) => {
  const { s3 } = await strictStore(t);
  const a = await publish(t, s3, 'a');
  const before = await publish(t, s3, 'before', { activate: false });
  const b = await publish(t, s3, 'b', { trial: CANARY });
  const conflict = {
    code: 'conflict',
    message: new RegExp(`version ${b} is a canary since .* 5 % of the records`),
  };
  for (const options of [{}, { trial: CANARY }, { trial: { kind: 'shadow' } as const }])
    await assert.rejects(publish(t, s3, 'c', options), conflict);
  await assert.rejects(rollBack(s3, LOCATION, before), conflict);
  assert.deepEqual(await seen(s3), { version: a, canary: b });
  await publish(t, s3, 'c', { activate: false });
  assert.equal(await publish(t, s3, 'a'), a, 'the version that serves already changes nothing');
  assert.deepEqual(await seen(s3), { version: a, canary: b });
  assert.deepEqual(await rollBack(s3, LOCATION, undefined), { version: a, from: b });
  assert.deepEqual(await seen(s3), { version: a, canary: undefined });
  await assert.rejects(
    endCanary(s3, LOCATION, await readCurrent(s3, LOCATION), { isPromoted: true, reason: '', at }),
    { code: 'not_found', message: /no canary runs/ },
  );
});

test('a share outside of 0 to 50 %, the version that serves, and a canary beside nothing are refused, and nothing is changed', async (t) => {
  const { s3, objects } = await strictStore(t);
  await assert.rejects(publish(t, s3, 'a', { trial: CANARY }), {
    code: 'conflict',
    message: /no pushed version serves/,
  });
  const a = await publish(t, s3, 'a');
  const text = String(objects.get(`${LOCATION.prefix}current.json`));
  for (const share of [-0.01, 0.51, Number.NaN])
    await assert.rejects(publish(t, s3, 'b', { trial: { kind: 'canary', share } }), {
      code: 'bad_config',
      message: /from 0 to 50 %/,
    });
  await assert.rejects(publish(t, s3, 'a', { trial: CANARY }), {
    code: 'conflict',
    message: new RegExp(`version ${a} serves already`),
  });
  assert.equal(String(objects.get(`${LOCATION.prefix}current.json`)), text);
});

test('a shadow becomes a canary, stays while another version serves, and is gone when it is promoted or ended', async (t) => {
  const { s3 } = await strictStore(t);
  await publish(t, s3, 'a');
  const b = await publish(t, s3, 'b', { trial: { kind: 'shadow' } });
  assert.equal((await readCurrent(s3, LOCATION)).shadow?.version, b);
  assert.equal((await seen(s3)).canary, undefined);
  await publish(t, s3, 'c');
  assert.equal((await readCurrent(s3, LOCATION)).shadow?.version, b);
  await publish(t, s3, 'b', { trial: CANARY });
  const { shadow, canary } = await readCurrent(s3, LOCATION);
  assert.deepEqual([shadow, canary?.version], [undefined, b]);
  await rollBack(s3, LOCATION, undefined);
  await publish(t, s3, 'b', { trial: { kind: 'shadow' } });
  await rollBack(s3, LOCATION, b);
  assert.equal((await readCurrent(s3, LOCATION)).shadow, undefined);
  await publish(t, s3, 'd', { trial: { kind: 'shadow' } });
  await endShadow(s3, LOCATION, await readCurrent(s3, LOCATION));
  assert.equal((await readCurrent(s3, LOCATION)).shadow, undefined);
});

test('a version on trial is neither surplus nor removed', async (t) => {
  const aws = await startAws({ port: 0, log: quiet });
  t.after(() => aws.close());
  await aws.createBucket(LOCATION.bucket);
  const { s3 } = aws;
  await publish(t, s3, 'a');
  const shadow = await publish(t, s3, 's', { trial: { kind: 'shadow' } });
  const canary = await publish(t, s3, 'b', { trial: CANARY });
  const old = await publish(t, s3, 'old', { activate: false });
  const versions = await listVersions(s3, LOCATION);
  assert.deepEqual(new Map(versions.map(({ version, trial }) => [version, trial])).get(canary), 'canary');
  assert.deepEqual(
    surplus(versions, 0).map(({ version }) => version),
    [old],
  );
  for (const version of [shadow, canary]) assert.equal(await removeVersion(s3, LOCATION, version), false);
});

test('a canary that cannot be read takes no share, and the version that serves stays', async (t) => {
  const { s3, objects } = await strictStore(t);
  const a = await publish(t, s3, 'a');
  await publish(t, s3, 'b', { trial: CANARY });
  const key = `${LOCATION.prefix}current.json`;
  const document = JSON.parse(String(objects.get(key))) as { canary: object };
  for (const canary of [
    {},
    'b',
    null,
    { ...document.canary, share: 0.6 },
    { ...document.canary, version: '../x' },
    { ...document.canary, files: [{ path: '../x', bytes: 1, sha256: '0' }] },
  ]) {
    objects.set(key, Buffer.from(JSON.stringify({ ...document, canary })));
    assert.deepEqual(await seen(s3), { version: a, canary: undefined });
  }
});

test('of two changes of one pointer, one is made and the other is refused, whatever they are', async (t) => {
  const { s3 } = await strictStore(t);
  const names = ['a', 'b', 'c'];
  const versions = new Map<string, string>();
  for (const name of names) versions.set(name, await publish(t, s3, name, { activate: false }));
  const step = fc.constantFrom('push', 'canary', 'shadow', 'promote', 'end', 'rollback');
  const pair = fc.array(fc.tuple(step, step, fc.constantFrom(...names)), { minLength: 1, maxLength: 6 });
  const act = async (what: string, name: string) => {
    if (what === 'push') return publish(t, s3, name);
    if (what === 'canary') return publish(t, s3, name, { trial: CANARY });
    if (what === 'shadow') return publish(t, s3, name, { trial: { kind: 'shadow' } });
    if (what === 'rollback') return (await rollBack(s3, LOCATION, undefined)).version;
    const end = { isPromoted: what === 'promote', reason: what, at };
    return (await endCanary(s3, LOCATION, await readCurrent(s3, LOCATION), end)).version;
  };
  const known = ['conflict', 'not_found'];
  const check = async (pairs: readonly (readonly [string, string, string])[]) => {
    for (const [one, two, name] of pairs) {
      const other = names[(names.indexOf(name) + 1) % names.length] ?? name;
      const ends = await Promise.allSettled([act(one, name), act(two, other)]);
      for (const end of ends)
        if (end.status === 'rejected') assert.ok(known.includes(Object(end.reason).code), String(end.reason));
      const { version, canary, history } = await readCurrent(s3, LOCATION);
      if (canary) assert.notEqual(version, canary.version);
      if (version !== undefined) assert.equal(history.at(-1)?.version, version);
      const made = [...versions.values()];
      assert.ok([version, canary?.version].every((it) => it === undefined || made.includes(it)));
    }
  };
  await fc.assert(fc.asyncProperty(pair, check), { numRuns: 15 });
});
