import assert from 'node:assert/strict';
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, existsSync, openSync } from 'node:fs';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { OutputQueue } from '../../sdk/index.ts';
import { temporaryFolder } from '../support/runner.ts';
import { start, startReady } from '../support/start.ts';
import { connect } from './grpc/client.ts';

const OUTPUT_URL = new URL('../../local/machine/output.ts', import.meta.url).href;

test('--once shows every image twice with uri, class, probability and times, and exits with 0', async (t) => {
  const { lines, exited } = start(t, '--once', '--port', '0', '--data-dir', await temporaryFolder(t));
  assert.equal(await exited, 0, lines.join('\n'));
  for (let digit = 0; digit < 10; digit++) {
    const line = lines.find((text) => text.includes(`digit-${digit}.png  predict`));
    const answer = `class ${digit} p 0\\.9\\d+ +[\\d.]+ ms|class ${digit} p 1\\.0000 +[\\d.]+ ms`;
    assert.match(line ?? '', new RegExp(`predict (${answer}) +queue (${answer}) +sample-`));
  }
  assert.ok(lines.some((line) => line.includes('10 of 10 right, both ways the same')));
  assert.ok(!lines.some((line) => line.startsWith('ready')));
});

test('what was stored survives Ctrl-C, which leaves no lock behind, and a kill, whose lock does not block the next start', async (t) => {
  const dataDir = await temporaryFolder(t);
  const first = await startReady(t, '--data-dir', dataDir);
  const uri = first.addresses.sample.rows[4]?.uri as string;
  first.child.kill('SIGINT');
  assert.equal(await first.exited, 0, first.lines.join('\n'));
  assert.ok(!existsSync(join(dataDir, 'lock.json')));
  const second = await startReady(t, '--data-dir', dataDir);
  await assertFour(t, second.addresses.redisUrl, uri);
  second.child.kill('SIGKILL');
  await second.exited;
  assert.ok(existsSync(join(dataDir, 'lock.json')));
  const third = await startReady(t, '--data-dir', dataDir);
  assert.equal(third.addresses.sample.right, 10);
  await assertFour(t, third.addresses.redisUrl, uri);
});

/** The stored result of this uri is still the digit 4. */
async function assertFour(t: TestContext, url: string, uri: string): Promise<void> {
  const output = new OutputQueue({ url });
  t.after(() => output.close());
  const data = (await output.query(uri))?.outputs[0]?.data as Float32Array;
  assert.equal(data.indexOf(Math.max(...data)), 4);
}

test('--grpc-port opens another port, which the addresses say', async (t) => {
  const options = ['--grpc-port', '0', '--data-dir', await temporaryFolder(t)];
  const { addresses, child, exited } = await startReady(t, ...options);
  const [, port] = /^localhost:(\d+)$/.exec(addresses.grpc ?? '') ?? [];
  assert.deepEqual([...(await connect(t, Number(port))('ServerReady'))], [8, 1]);
  child.kill('SIGTERM');
  assert.equal(await exited, 0);
});

test('a second start on the same port says which process holds it, one on the same folder likewise', async (t) => {
  const dataDir = await temporaryFolder(t);
  const { child, addresses } = await startReady(t, '--data-dir', dataDir);
  const port = new URL(addresses.http).port;
  const samePort = start(t, '--port', port, '--data-dir', await temporaryFolder(t));
  assert.equal(await samePort.exited, 2);
  assert.match(
    samePort.lines.join('\n'),
    new RegExp(`port ${port} is in use by process ${child.pid} .*--port`),
  );
  const sameFolder = start(t, '--port', '0', '--data-dir', dataDir);
  assert.equal(await sameFolder.exited, 2);
  assert.match(
    sameFolder.lines.join('\n'),
    new RegExp(`in use by process ${child.pid}; stop it or choose another with --data-dir`),
  );
});

test('a service whose output finds no room serves on, and says the next thing when there is room', {
  skip: process.getuid?.() === 0 ? false : 'needs root, to mount a tmpfs',
}, async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'cs-small-'));
  const mount = spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=64k', 'tmpfs', folder]);
  let child: ChildProcess | undefined;
  t.after(async () => {
    child?.kill('SIGKILL');
    if (mount.status === 0) spawnSync('umount', ['-l', folder]);
    await rm(folder, { recursive: true, force: true });
  });
  if (mount.status !== 0) return t.skip('needs a system that lets us mount a tmpfs');
  const [log, filler] = [join(folder, 'log'), join(folder, 'filler')];
  const code = `
    const { outliveOutput } = await import(${JSON.stringify(OUTPUT_URL)});
    outliveOutput();
    process.on('message', (line) => {
      process.stdout.write(line + ' out\\n');
      process.stderr.write(line + ' err\\n');
      setTimeout(() => process.send('alive'), 20);
    });`;
  const file = openSync(log, 'a');
  const speaker = spawn(process.execPath, ['--input-type=module', '-e', code], {
    stdio: ['ignore', file, file, 'ipc'],
  });
  child = speaker;
  closeSync(file);
  const ended = once(speaker, 'exit').then(([status]) => `ended with ${String(status)}`);
  const say = async (line: string) => {
    speaker.send(line);
    return Promise.race([once(speaker, 'message').then(([answer]) => String(answer)), ended]);
  };
  const long = 'x'.repeat(8_000);
  assert.equal(await say('before'), 'alive');
  await writeFile(filler, Buffer.alloc(128 * 1024)).catch(() => undefined);
  for (let i = 0; i < 3; i++) assert.equal(await say(long), 'alive');
  await rm(filler);
  assert.equal(await say('after'), 'alive');
  const said = await readFile(log, 'utf8');
  assert.match(said, /^before out\nbefore err\n/);
  assert.match(said, /after out\nafter err\n$/);
  assert.ok(said.length < 6 * long.length, 'the disk was never full');
});

const REFUSED: [string, string[], RegExp][] = [
  ['an unknown option', ['--prot', '1'], /Unknown option '--prot'[\s\S]*Usage: npm start/],
  ['a port that is none', ['--port', '70000'], /--port: expected a port from 0 to 65535, got "70000"/],
  [
    '--watch without a worker',
    ['--watch'],
    /--watch: no job has a worker; a model is replaced by .*model push/,
  ],
  ['a config that is missing', ['--config', 'nowhere.yaml'], /nowhere.yaml cannot be read/],
];
for (const [name, options, expected] of REFUSED) {
  test(`${name} is refused with what to do, and exit code 2`, async (t) => {
    const { lines, exited } = start(t, ...options);
    assert.equal(await exited, 2);
    assert.match(lines.join('\n'), expected);
  });
}

test('a config with problems, or without its model, is refused before anything is served', async (t) => {
  const folder = await temporaryFolder(t);
  const config = join(folder, 'config.yaml');
  await writeFile(config, 'modelpth: x\nbatchSize: 0\n');
  const typos = start(t, '--config', config, '--port', '0', '--data-dir', join(folder, 'data'));
  assert.equal(await typos.exited, 2);
  assert.match(
    typos.lines.join('\n'),
    /line 1: modelpth: unknown key; did you mean modelPath\?[\s\S]*line 2: batchSize: expected a whole number from 1/,
  );
  await writeFile(config, 'modelPath: nowhere\n');
  const noModel = start(t, '--config', config, '--port', '0', '--data-dir', join(folder, 'data'));
  assert.equal(await noModel.exited, 1);
  assert.match(noModel.lines.join('\n'), /error: model directory .*nowhere cannot be read/);
});
