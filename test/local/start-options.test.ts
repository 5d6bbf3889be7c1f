/** The meaning of start options, without a start, and the printed addresses. */
import assert from 'node:assert/strict';
import { chmod, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { test } from 'node:test';
import { readAccess, readToken, securityOf } from '../../local/machine/access.ts';
import { addressText } from '../../local/service/address-text.ts';
import type { Addresses } from '../../local/service/data-folder.ts';
import { readSettings, type StartValues, startArguments } from '../../local/service/start-options.ts';
import { temporaryFolder } from '../support/runner.ts';
import { SAMPLE } from '../support/stack.ts';

const CONFIG = join(SAMPLE, 'config.yaml');
const read = (values: StartValues = {}) => readSettings({ config: [CONFIG], ...values });

test('a word that is not given is no, and one that is given is what it says', () => {
  for (const said of [undefined, false, true]) {
    const { preferEmbeddedRedis, once, verbose, jobs } = read({
      'embedded-redis': said,
      once: said,
      verbose: said,
      'drop-golden': said,
    });
    assert.deepEqual(
      [preferEmbeddedRedis, once, verbose, jobs[0].dropGolden],
      [!!said, !!said, !!said, said],
    );
  }
  assert.throws(() => read({ watch: true }), {
    code: 'bad_config',
    message: /^--watch: no job has a worker/,
  });
});

test('ports are beside the default one, and free ones where 0 is asked for', () => {
  for (const [values, ports] of [
    [{}, { http: 10_020, aws: 10_021, redis: 10_022, grpc: undefined }],
    [{ port: '7' }, { http: 7, aws: 10_021, redis: 10_022, grpc: undefined }],
    [{ port: '0' }, { http: 0, aws: 0, redis: 0, grpc: undefined }],
    [
      { port: '0', 'aws-port': '1', 'redis-port': '65535', 'grpc-port': '00003' },
      { http: 0, aws: 1, redis: 65_535, grpc: 3 },
    ],
  ] as const)
    assert.deepEqual(read(values).ports, ports);
  for (const option of ['port', 'aws-port', 'redis-port', 'grpc-port'])
    for (const text of ['', '-1', '65536', '1.5', '0x1', '000001', ' 1'])
      assert.throws(() => read({ [option]: text }), {
        code: 'bad_config',
        message: `--${option}: expected a port from 0 to 65535, got ${JSON.stringify(text)}`,
      });
});

test('a start may be repeated from any folder with what it was given, except for once', async (t) => {
  const folder = await temporaryFolder(t);
  const { dataDir, startedWith, sample } = read({ once: true, verbose: true, watch: false, port: '7' });
  assert.deepEqual([dataDir, sample], [resolve('.cluster-serving'), join(CONFIG, '..')]);
  const given = { verbose: true, watch: false, port: '7', config: [CONFIG], 'data-dir': dataDir };
  assert.deepEqual(startedWith, given);
  assert.deepEqual(startArguments(startedWith).toSorted(), [
    `--config=${CONFIG}`,
    `--data-dir=${dataDir}`,
    '--port=7',
    '--verbose',
  ]);
  const file = join(folder, 'token');
  await writeFile(file, 't'.repeat(16), { mode: 0o600 });
  assert.equal(read({ 'token-file': file }).startedWith['token-file'], file);
  assert.equal(read({ 'data-dir': 'a' }).dataDir, resolve('a'));
});

test('a model can be served without a config, or instead of that of one config', async (t) => {
  const folder = await temporaryFolder(t);
  const before = process.cwd();
  process.chdir(folder);
  t.after(() => process.chdir(before));
  const HUB = 'hf://org/name@main';
  for (const [model, place] of [
    ['a', join(folder, 'a')],
    [HUB, HUB],
    ['s3://bucket/a', 's3://bucket/a'],
  ] as const) {
    const alone = readSettings({ model });
    assert.deepEqual(
      [alone.sample, alone.jobs[0].modelDirectory, alone.jobs[0].directory],
      [undefined, place, folder],
    );
    assert.deepEqual(
      [alone.jobs.length, alone.startedWith['config'], alone.startedWith['model']],
      [1, [], place],
    );
  }
  await writeFile(join(folder, 'config.yaml'), 'jobName: mine\nmodelPath: b\n');
  const { jobs } = readSettings({ model: HUB });
  assert.deepEqual([jobs[0].modelDirectory, jobs[0].job.jobName], [HUB, 'mine']);
  await writeFile('worker.yaml', 'worker: {class: a.B}\n');
  for (const [values, message] of [
    [{ model: HUB, config: [CONFIG, CONFIG] }, /^--model: it is of one job, but there are several --config$/],
    [{ model: ' ' }, /^--model: expected a folder, s3:/],
    [{ model: HUB, config: ['worker.yaml'] }, /^--model: the job has a worker/],
  ] as const)
    assert.throws(() => readSettings(values), { code: 'bad_config', message });
});

test('16 jobs may be started together, none of which is then the sample, and a note says whose it is', async (t) => {
  const folder = await temporaryFolder(t);
  const config = join(folder, 'config.yaml');
  await writeFile(config, `jobName: other\nmodelPath: ${join(SAMPLE, 'model')}\nredisHost: localhost\n`);
  const { notes, sample, jobs } = read({ config: [config] });
  assert.deepEqual([sample, jobs[0].directory, notes.length > 0], [undefined, folder, true]);
  const several = read({ config: [config, CONFIG] });
  assert.equal(several.sample, undefined);
  assert.deepEqual(
    several.notes.filter((note) => note.includes('redisHost')),
    notes.map((note) => `other: ${note}`),
  );
  assert.equal(read({ config: Array(16).fill(CONFIG) }).jobs.length, 16);
  assert.throws(() => read({ config: Array(17).fill(CONFIG) }), {
    code: 'bad_config',
    message: '--config: 17 jobs are over the limit of 16',
  });
});

test('other machines call with a token, or where none is wanted', async (t) => {
  assert.deepEqual(readAccess({}), { host: '127.0.0.1', allowedHosts: [], token: undefined });
  assert.equal(readAccess({ host: 'localhost' }).host, '127.0.0.1');
  assert.deepEqual(readAccess({ 'allow-host': ['A.Example'] }).allowedHosts, ['a.example']);
  assert.equal(readAccess({ host: '0.0.0.0', 'no-token': true }).token, undefined);
  assert.match(readAccess({ host: '::', 'make-token': true }).token ?? '', /^.{16,}$/);
  for (const [values, message] of [
    [{ host: 'a.example' }, /^--host: expected an address of this machine or localhost, got "a.example"$/],
    [{ host: '0.0.0.0' }, /^--host 0\.0\.0\.0 lets other machines call; pass /],
    [{ 'no-token': true, 'make-token': true }, /^--make-token and --no-token exclude each other/],
    [{ 'allow-host': ['a:1'] }, /^--allow-host: expected a name without a port, got "a:1"$/],
  ] as const)
    assert.throws(() => readAccess(values), { code: 'bad_config', message });
  assert.deepEqual([securityOf({ token: undefined }), securityOf({ token: 't' })], ['none', 'token']);

  const file = join(await temporaryFolder(t), 'token');
  for (const [text, mode, message] of [
    ['t'.repeat(15), 0o600, /: expected a token of 16 to 512 letters/],
    ['t'.repeat(513), 0o600, /: expected a token of 16 to 512 letters/],
    ['t'.repeat(16), 0o640, /: other users may use it; run: chmod 600 /],
  ] as const) {
    await writeFile(file, text);
    await chmod(file, mode);
    assert.throws(() => readToken(file), { code: 'bad_config', message });
  }
  await chmod(file, 0o600);
  assert.equal(readToken(file), 't'.repeat(16));
  assert.throws(() => readToken(file, 15, '--other'), { message: /^--other .* of 16 to 15 letters/ });
  assert.throws(() => readToken(`${file}x`), { message: /ENOENT.*; this makes one: \(umask 077; openssl/ });
});

test('a start prints where its jobs are, and each one’s address where there are several', () => {
  const job = {
    job: 'j',
    model: 'v',
    modelNotes: ['a note'],
    http: 'http://localhost:1',
    queueUrl: 'http://localhost:2/q',
    deadLetterUrl: '',
  };
  const common = { ...job, redisUrl: 'redis://r', redisVersion: '7', bucket: 'b', environment: { A: '1' } };
  const one: Addresses = { ...common, jobs: [job], redis: 'embedded' };
  const exports = ['  for the AWS SDK and the aws command line:', '    export A=1'];
  assert.deepEqual(addressText(one).split('\n'), [
    'job j, model version v',
    '  model   a note',
    '  queue   http://localhost:2/q',
    '  redis   redis://r (embedded, for local use only; install redis-server to use the real one)',
    '  bucket  s3://b',
    ...exports,
  ]);
  const two: Addresses = { ...one, jobs: [job, job], redis: 'redis-server', grpc: 'h:3', isWorker: true };
  const each = [
    'job j, model version v',
    '  model   a note',
    '  http    http://localhost:1',
    '  queue   http://localhost:2/q',
  ];
  assert.deepEqual(addressText(two).split('\n'), [
    ...each,
    ...each,
    '  grpc    h:3',
    '  redis   redis://r (redis-server 7)',
    '  bucket  s3://b',
  ]);
});
