/** What a local service keeps, credentials among it, is for its user alone. */
import assert from 'node:assert/strict';
import { chmod, mkdir, readdir, readFile, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { InputQueue, OutputQueue } from '../../sdk/index.ts';
import { cleaningUp, cli, IMAGES, type Ran, serviceFolder } from '../cli/cli.ts';
import { warmCli, warmCliJson } from '../cli/warm.ts';
import { useAws } from '../support/environment.ts';
import { temporaryFolder } from '../support/runner.ts';
import { testStack } from '../support/stack.ts';
import { startReady } from '../support/start.ts';

/** A service in the background, for the tests that only look at it. */
let folder: string;
let started: Ran;
const cleanups: (() => Promise<void>)[] = [];
before(
  cleaningUp(cleanups, async () => {
    folder = await serviceFolder({ after: (cleanup) => cleanups.push(cleanup) });
    started = await cli(['start', '--port', '0', '--embedded-redis'], { cwd: folder });
    assert.equal(started.code, 0, started.stderr);
  }),
);
after(async () => {
  for (const cleanup of cleanups) await cleanup();
});

const modeOf = async (path: string) => (await stat(path)).mode & 0o777;

/** Everything at and below a path that its group or others may use, with its mode. */
async function openToOthers(path: string): Promise<string[]> {
  const found = await readdir(path, { recursive: true, withFileTypes: true });
  const paths = [path, ...found.map(({ parentPath, name }) => join(parentPath, name))];
  const modes = await Promise.all(paths.map(async (each) => ({ each, mode: await modeOf(each) })));
  return modes
    .filter(({ mode }) => (mode & 0o077) !== 0)
    .map(({ each, mode }) => `${mode.toString(8)} ${each}`);
}

test('the credentials are made at the first start, kept in a file of mode 600, and the same ever after', async (t) => {
  const dataDir = await temporaryFolder(t);
  const first = await testStack(t, { dataDir });
  // The AWS SDK adds a field of its own to what it is given.
  const { accessKeyId, secretAccessKey } = first.aws.credentials;
  const credentials = { accessKeyId, secretAccessKey };
  const path = join(dataDir, 'credentials.json');
  assert.equal(await modeOf(path), 0o600);
  assert.deepEqual(JSON.parse(await readFile(path, 'utf8')), credentials);
  await first.close();
  const second = await testStack(t, { dataDir });
  assert.equal(second.aws.credentials.accessKeyId, accessKeyId);
  assert.equal(second.aws.credentials.secretAccessKey, secretAccessKey);
  assert.notEqual((await testStack(t)).aws.credentials.secretAccessKey, secretAccessKey);
});

test('a file that holds no credentials is an error that names it, and nothing is served', async (t) => {
  const dataDir = await temporaryFolder(t);
  const path = join(dataDir, 'credentials.json');
  for (const text of ['', '{', '[]', '{"accessKeyId":"a"}', '{"accessKeyId":"","secretAccessKey":""}']) {
    await writeFile(path, text);
    await assert.rejects(testStack(t, { dataDir }), {
      code: 'bad_config',
      message: `${path} holds no credentials; delete it, and the next start makes new ones`,
    });
  }
});

test('no other user can read a file of the folder, however the service was started', async (t) => {
  const foreground = join(await temporaryFolder(t), 'data');
  await startReady(t, '--data-dir', foreground);
  assert.deepEqual(await openToOthers(foreground), []);
  assert.ok((await readdir(foreground)).includes('stack.json'));

  const background = join(folder, '.cluster-serving');
  assert.deepEqual(await openToOthers(background), []);
  assert.ok((await readFile(join(background, 'start.log'), 'utf8')).includes('AWS_SECRET_ACCESS_KEY'));
});

test('what an earlier version left open is closed by the next start; a folder of the user stays as it is', async (t) => {
  const dataDir = await temporaryFolder(t);
  for (const name of ['aws', 'redis', 'models']) await mkdir(join(dataDir, name), { mode: 0o755 });
  for (const name of ['options.json', 'start.log', 'cluster-serving.txt', 'notes.txt'])
    await writeFile(join(dataDir, name), '{}', { mode: 0o644 });
  await chmod(dataDir, 0o755);
  await (await testStack(t, { dataDir })).close();
  const left = (await readdir(dataDir)).filter((name) => name !== 'notes.txt');
  for (const name of left) assert.equal((await modeOf(join(dataDir, name))) & 0o077, 0, name);
  assert.equal(await modeOf(dataDir), 0o700);
  assert.equal(await modeOf(join(dataDir, 'notes.txt')), 0o644);

  const own = await temporaryFolder(t);
  await writeFile(join(own, 'notes.txt'), '');
  await chmod(own, 0o755);
  await (await testStack(t, { dataDir: own })).close();
  assert.equal(await modeOf(own), 0o755);
  assert.equal(await modeOf(join(own, 'aws')), 0o700);
});

test('the printed exports are all that a client needs, and our own commands need none', async (t) => {
  const lines = [...started.stdout.matchAll(/^ {4}export (\w+)=(\S+)$/gm)];
  const exported = Object.fromEntries(lines.map(([, name, value]) => [name, value]));
  const kept = JSON.parse(
    await readFile(join(folder, '.cluster-serving/credentials.json'), 'utf8'),
  ) as object;
  assert.deepEqual(Object.values(kept), [exported['AWS_ACCESS_KEY_ID'], exported['AWS_SECRET_ACCESS_KEY']]);
  const { environment, redisUrl } = (await warmCliJson(['status'], { cwd: folder })).json as {
    environment: Record<string, string>;
    redisUrl: string;
  };
  assert.deepEqual(environment, exported);

  useAws(exported);
  const [input, output] = [new InputQueue(), new OutputQueue({ url: redisUrl })];
  t.after(() => Promise.all([input.close(), output.close()]));
  await input.enqueue('by the SDK', { image: join(IMAGES, 'digit-3.png') });
  assert.equal((await output.wait('by the SDK')).outputs[0]?.shape[0], 10);

  // Credentials of a real account in the terminal do not get in the way.
  const env = { AWS_ACCESS_KEY_ID: 'AKIAREAL', AWS_SECRET_ACCESS_KEY: 'real' };
  for (const args of [
    ['enqueue', `by the CLI=${join(IMAGES, 'digit-3.png')}`],
    ['query', 'by the CLI', '--wait', '20'],
    ['model', 'list'],
    ['dlq', 'list'],
  ]) {
    const { code, stderr } = await warmCli(args, { cwd: folder, env });
    assert.equal(code, 0, `${args.join(' ')}: ${stderr}`);
  }
});
