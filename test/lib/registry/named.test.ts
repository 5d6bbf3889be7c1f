/** The names of a job's further models, their memory, and the room on the disk for them. */
import assert from 'node:assert/strict';
import { mkdir, readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { modelUnavailable } from '../../../lib/contract/errors.ts';
import { assertModelName, modelPrefix, namedModelsPrefix } from '../../../lib/contract/names.ts';
import { readPointer } from '../../../lib/registry/download.ts';
import { memoryOf } from '../../../lib/registry/memory.ts';
import { listModelNames, ModelNames } from '../../../lib/registry/model-names.ts';
import { NamedFolders } from '../../../lib/registry/named-folders.ts';
import { publishModel } from '../../../lib/registry/publish.ts';
import { rollBack } from '../../../lib/registry/versions.ts';
import { putText } from '../../../lib/s3/objects.ts';
import { addModel, modelBucket, modelFolder } from '../../local/swap/models.ts';
import { temporaryFolder } from '../../support/runner.ts';

const MB = 1024 * 1024;

/** Names that are listed from a variable, with the number of lists. */
function namesOf(listed: { names: readonly string[] | Error }) {
  let nowMs = 1_000_000;
  const world = { lists: 0, pass: (ms: number) => (nowMs += ms), now: () => nowMs };
  const names = new ModelNames(
    async () => {
      world.lists++;
      if (listed.names instanceof Error) throw listed.names;
      return listed.names;
    },
    { refreshMs: 30_000, now: () => nowMs },
  );
  return { names, ...world, lists: () => world.lists };
}

test('names are listed once for a refresh, and an unknown one lists them again after two seconds only', async () => {
  const listed = { names: ['a'] };
  const { names, pass, lists } = namesOf(listed);
  assert.deepEqual(await Promise.all([names.has('a'), names.has('a'), names.has('b')]), [true, true, false]);
  assert.equal(lists(), 1);
  listed.names = ['a', 'b'];
  pass(1_999);
  assert.equal(await names.has('b'), false);
  pass(2);
  assert.equal(await names.has('b'), true);
  assert.equal(lists(), 2);
  pass(29_999);
  assert.equal(await names.has('a'), true);
  assert.equal(lists(), 2);
  listed.names = ['b'];
  pass(1);
  assert.equal(await names.has('a'), false);
});

test('a name that is none lists nothing, and one that is asked for since a later time than the last list is looked for', async () => {
  const listed = { names: ['a'] };
  const { names, pass, now, lists } = namesOf(listed);
  for (const name of ['', '..', 'a/b', 'a%2Fb', '*', 'x'.repeat(61), '\0'])
    assert.equal(await names.has(name), false);
  assert.equal(lists(), 0);
  assert.equal(await names.has('a'), true);
  listed.names = ['a', 'new'];
  pass(1);
  assert.equal(await names.has('new', now()), true);
  assert.equal(await names.has('other', now()), false);
  assert.equal(lists(), 2);
});

test('names that were known stay known while S3 is away, and at first it is an error', async () => {
  const listed: { names: readonly string[] | Error } = { names: modelUnavailable('away') };
  const { names, pass } = namesOf(listed);
  await assert.rejects(names.has('a'), { code: 'model_unavailable' });
  listed.names = ['a'];
  assert.equal(await names.has('a'), true);
  listed.names = modelUnavailable('away');
  pass(31_000);
  assert.equal(await names.has('a'), true);
});

test('a name that is new while S3 is away is not one that does not exist: a record of it would fail for good', async () => {
  const listed: { names: readonly string[] | Error } = { names: ['a'] };
  const { names, pass, now } = namesOf(listed);
  assert.equal(await names.has('a'), true);
  listed.names = modelUnavailable('away');
  pass(3_000);
  await assert.rejects(names.has('new', now()), { code: 'model_unavailable' });
  // The failed list counts as one, so this call lists nothing, and knows no more.
  await assert.rejects(names.has('new'), { code: 'model_unavailable' });
  listed.names = ['a', 'new'];
  pass(2_001);
  assert.equal(await names.has('new'), true);
  assert.equal(await names.has('other'), false);
});

test('the folders of S3 are the names, but for those that can name no model', async (t) => {
  const s3 = await modelBucket(t);
  const at = (key: string) => putText(s3, { bucket: 'models', key }, 'x');
  const prefix = namedModelsPrefix('job');
  for (const key of ['a/current.json', 'b/versions/1/m.onnx', 'c d/x', '.e/x', 'loose.json'])
    await at(prefix + key);
  await at('models/other/named/z/current.json');
  assert.deepEqual(await listModelNames(s3, { bucket: 'models', prefix }), ['a', 'b']);
});

test('a name of a model is refused where it is that of the job, or leads elsewhere', () => {
  for (const name of ['job', '..', 'a/b', '', 'ä'])
    assert.throws(() => assertModelName(name, 'job'), { code: 'bad_config' });
  assert.equal(assertModelName('Job', 'job'), 'Job');
});

test('the memory that was measured is stored with the version, and comes back with it; one without is counted with its files', async (t) => {
  const s3 = await modelBucket(t);
  const location = { bucket: 'models', prefix: modelPrefix('job', 'a') };
  const first = await publishModel(s3, location, await modelFolder(t, addModel(1)), { memoryBytes: 9 * MB });
  assert.equal((await readPointer(s3, location)).memoryBytes, 9 * MB);
  await publishModel(s3, location, await modelFolder(t, addModel(2)));
  const second = await readPointer(s3, location);
  assert.equal(second.memoryBytes, undefined);
  assert.ok(memoryOf(second) < 3 * MB);
  await rollBack(s3, location, first.version);
  assert.equal(memoryOf(await readPointer(s3, location)), 11 * MB);
});

test('a model that needs more than the budget is refused before anything is uploaded', async (t) => {
  const s3 = await modelBucket(t);
  const location = { bucket: 'models', prefix: modelPrefix('job', 'a') };
  const named = { name: 'a', budgetBytes: 8 * MB };
  await assert.rejects(
    publishModel(s3, location, await modelFolder(t, addModel(1)), { memoryBytes: 9 * MB, named }),
    { code: 'bad_config', message: /model a needs 11 MB of memory, and models\.memoryMB gives 8 MB/ },
  );
  assert.deepEqual(await listModelNames(s3, { bucket: 'models', prefix: namedModelsPrefix('job') }), []);
});

test('a disk without room loses the downloads of closed models, those of an earlier process first, and none of an open one', async (t) => {
  const root = await temporaryFolder(t);
  for (const name of ['open', 'old', 'used']) {
    await mkdir(join(root, name, 'v1'), { recursive: true });
    await writeFile(join(root, name, 'v1', 'model.onnx'), 'x');
  }
  const version = { version: 'v1', files: [{ path: 'model.onnx', bytes: 10, key: 'k' }] };
  let left = 0;
  const folders = new NamedFolders(root, {
    isUsed: (name) => name === 'open',
    freeBytes: async () => (left-- > 0 ? 0 : 1_000 * MB),
  });
  await folders.makeRoom('used', version);
  left = 1;
  await folders.makeRoom('new', version);
  assert.deepEqual((await readdir(root)).sort(), ['open', 'used']);
  left = 99;
  await folders.makeRoom('new', version);
  assert.deepEqual(await readdir(root), ['open']);
});
