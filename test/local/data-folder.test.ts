/** Data folders of other versions: a record or options with fewer or more fields than this one has. */
import assert from 'node:assert/strict';
import { mkdir, readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { placesText } from '../../cli/places.ts';
import { identify, isAlive } from '../../local/machine/process.ts';
import {
  claimFolder,
  deleteFolder,
  findRunning,
  lastOptions,
  writeOptions,
} from '../../local/service/data-folder.ts';
import { serve } from '../../local/service/serve.ts';
import { readSettings, startArguments } from '../../local/service/start-options.ts';
import { temporaryFolder } from '../support/runner.ts';
import { slowDisk } from '../support/slow-disk.ts';

const RECORD = {
  job: 'digits',
  model: 'v1',
  modelNotes: [],
  http: 'http://localhost:10020',
  queueUrl: 'http://localhost:10021/000000000000/digits',
  deadLetterUrl: 'http://localhost:10021/000000000000/digits-dead-letter',
  redisUrl: 'redis://localhost:10022',
  redis: 'embedded',
  redisVersion: '7',
  bucket: 'cluster-serving',
  since: '2026-01-01T00:00:00Z',
};
const LATER = { jobs: [RECORD], environment: { AWS_REGION: 'eu-west-1' }, startedWith: { port: '0' } };

async function folderWith(t: TestContext, files: Readonly<Record<string, object>>): Promise<string> {
  const folder = await temporaryFolder(t);
  for (const [name, value] of Object.entries(files))
    await writeFile(join(folder, name), JSON.stringify(value));
  return folder;
}

test('a record that lacks any field that was added is read with what stands for it', async (t) => {
  const whole = { ...RECORD, ...LATER, ...(await identify(process.pid)) };
  for (const missing of Object.keys(LATER) as (keyof typeof LATER)[]) {
    const { [missing]: _, ...old } = whole;
    const dataDir = await folderWith(t, { 'stack.json': old, 'options.json': { port: '1' } });
    const record = (await findRunning(dataDir))?.record;
    assert.ok(record, missing);
    assert.match(placesText(record), /job digits, model version v1[^]*http:\/\/localhost:10020/);
    assert.deepEqual(await lastOptions(dataDir), missing === 'startedWith' ? { port: '1' } : { port: '0' });
  }
});

test('a restart leaves out the options that this version does not have', async (t) => {
  const dataDir = await folderWith(t, { 'options.json': { port: '0', later: 'x', 'later-flag': true } });
  const settings = readSettings({ ...(await lastOptions(dataDir)), 'data-dir': dataDir });
  assert.equal(settings.ports.http, 0);
  assert.deepEqual(Object.keys(settings.startedWith).toSorted(), ['config', 'data-dir', 'port']);
  assert.doesNotMatch(startArguments(settings.startedWith).join(' '), /later/);
});

test('what a service writes has its name only when it is whole', async (t) => {
  const dataDir = await folderWith(t, { 'options.json': { port: '0' } });
  slowDisk(t, ['writeFile', 'rename']);
  await writeOptions(dataDir, { port: '1' });
  assert.deepEqual(await lastOptions(dataDir), { port: '1' });
});

test('the mark of a folder that is deleted goes last, and what is not of a service stays', async (t) => {
  const dataDir = join(await temporaryFolder(t), 'data');
  await claimFolder(dataDir);
  const ours = [
    'stack.json',
    'options.json',
    'lock.json',
    'start.log',
    'start.log.1',
    'credentials.json',
    'token',
  ];
  const halves = ['stack.json.1', 'options.json.22', 'lock.json.333', 'credentials.json.4', 'token.5'];
  const others = ['stack.json.x', 'token.json', 'mine.json', 'xtoken.1'];
  for (const name of [...ours, ...halves, ...others]) await writeFile(join(dataDir, name), '');
  for (const name of ['aws', 'imported', 'models', 'redis', 'copied', 'hub', 'replays'])
    await mkdir(join(dataDir, name));
  const left: string[][] = [];
  slowDisk(t, ['rm'], async (path) => {
    for (let turn = 0; turn < 20; turn++) await setImmediate();
    if (path.endsWith('cluster-serving.txt')) left.push(await readdir(dataDir));
  });
  assert.deepEqual((await deleteFolder(dataDir)).toSorted(), others.toSorted());
  assert.deepEqual(
    left.map((names) => names.toSorted()),
    [['cluster-serving.txt', ...others].toSorted()],
  );
  await assert.rejects(deleteFolder(dataDir), { code: 'bad_config', message: /its files there: none$/ });
});

test('the options of a start are kept although it fails, except for those of a look with --once', async (t) => {
  const umask = process.umask();
  const listeners = (['SIGINT', 'SIGTERM'] as const).map((name) => [name, process.listeners(name)] as const);
  t.after(() => {
    process.umask(umask);
    for (const [name, before] of listeners)
      for (const one of process.listeners(name)) if (!before.includes(one)) process.off(name, one);
  });
  slowDisk(t, ['mkdir', 'writeFile', 'rename']);
  for (const once of [false, true]) {
    const dataDir = join(await temporaryFolder(t), 'data');
    const settings = readSettings({ port: '0', 'data-dir': dataDir });
    // Two jobs of one name.
    const jobs = [settings.jobs[0], ...settings.jobs] as const;
    await assert.rejects(serve({ ...settings, jobs, once }, { json: true }), { code: 'bad_config' });
    assert.deepEqual((await lastOptions(dataDir))?.port, once ? undefined : '0');
  }
});

test('a number that names a group of processes, or none, is that of no process', async () => {
  assert.equal(await isAlive({ pid: process.pid }), true);
  for (const pid of [0, -1, -process.pid, 1.5, Number.NaN])
    assert.equal(await isAlive({ pid }), false, `${pid}`);
});
