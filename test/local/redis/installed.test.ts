/** A redis-server that is there and does not start: what is said of it, and when another server takes its place. */
import assert from 'node:assert/strict';
import { chmod, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { isInstalled, startInstalled } from '../../../local/redis/installed.ts';
import { temporaryFolder } from '../../support/runner.ts';

/** A command that says this and ends with an error. */
async function failing(t: TestContext, says: string) {
  const folder = await temporaryFolder(t);
  const command = join(folder, 'redis-server');
  await writeFile(command, `#!/bin/sh\necho "${says}"\nexit 3\n`);
  await chmod(command, 0o700);
  return { command, dataDir: join(folder, 'data'), host: '127.0.0.1', log: () => undefined };
}

test('a start that fails says how it ended, its last words, and what to do about them', async (t) => {
  for (const [says, advice] of [
    ['bind: Address already in use', 'Stop what listens on that port, or choose another.'],
    ["Can't chdir to data: Permission denied", 'Make the folder writable, or choose another.'],
    [
      'Bad file format reading the append only file',
      'Its data cannot be read: move the folder away or repair it.',
    ],
    ["Can't open the log", 'Its data cannot be read: move the folder away or repair it.'],
    ['', 'Choose another port or folder, or start without redis-server on the PATH.'],
  ] as const) {
    const options = await failing(t, says);
    await assert.rejects(startInstalled({ ...options, port: 1 }), {
      code: 'bad_config',
      message: `redis-server did not start on 127.0.0.1:1 with its data in ${options.dataDir} (exit code 3). ${advice} It said: ${says || 'nothing'}`,
    });
  }
});

test('on any free port another one is tried where one is taken, five times', async (t) => {
  const options = await failing(t, 'bind: Address already in use');
  const counted = `${options.command}.count`;
  await writeFile(
    options.command,
    `#!/bin/sh\necho x >> '${counted}'\necho 'Address already in use'\nexit 1\n`,
  );
  await assert.rejects(startInstalled({ ...options, port: 0 }), /Stop what listens on that port/);
  assert.equal(await readFile(counted, 'utf8'), 'x\n'.repeat(5));
});

test('a command that is not there is not installed, and one that does not run is not either, and is logged', async (t) => {
  const told: string[] = [];
  const log = (line: string) => void told.push(line);
  const { command } = await failing(t, 'no');
  assert.equal(await isInstalled(`${command}-none`, log), false);
  assert.deepEqual(told, []);
  assert.equal(await isInstalled(command, log), false);
  assert.match(told.join(), /redis-server is there but does not run, the embedded server takes its place/);
  await writeFile(command, '#!/bin/sh\nexit 0\n');
  assert.equal(await isInstalled(command, log), true);
  assert.equal(told.length, 1);
});
