/** What another version left in a data folder: a record or options without what this one has, or with more. */
import assert from 'node:assert/strict';
import promises, { writeFile } from 'node:fs/promises';
import { syncBuiltinESMExports } from 'node:module';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { placesText } from '../../cli/places.ts';
import { findRunning, lastOptions, writeOptions } from '../../local/data-folder.ts';
import { identify } from '../../local/process.ts';
import { readSettings, startArguments } from '../../local/start-options.ts';
import { temporaryFolder } from '../support/runner.ts';

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

const written = promises.writeFile;

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
  const write = t.mock.method(promises, 'writeFile', async (...given: Parameters<typeof writeFile>) => {
    for (let turn = 0; turn < 20; turn++) await setImmediate();
    assert.deepEqual(await lastOptions(dataDir), { port: '0' });
    return written(...given);
  });
  syncBuiltinESMExports();
  t.after(() => {
    write.mock.restore();
    syncBuiltinESMExports();
  });
  await writeOptions(dataDir, { port: '1' });
  assert.deepEqual(await lastOptions(dataDir), { port: '1' });
});
