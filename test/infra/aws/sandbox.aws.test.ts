/** The place in which the functions of account.aws.test.ts run is as bare as Lambda's. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { chmod, mkdir, readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { temporaryFolder } from '../../support/runner.ts';
import { sandboxed, withoutSandbox } from './functions.ts';

/** What a process finds out about its place; in its own file, so that no quote is lost on the way. */
const PROBE = `
import fs from 'node:fs';
import os from 'node:os';
const written = (path) => {
  try {
    fs.writeFileSync(path, '');
    return 'written';
  } catch ({ code }) {
    return code;
  }
};
const places = ['/new', '/var/task/new', '/var/task/probe.mjs', '/usr/new', '/etc/hosts', '/var/lang/ca.pem', '/tmp/new'];
console.log(JSON.stringify({
  ids: [process.getuid(), process.getgid(), process.getgroups()],
  home: [process.env.HOME ?? null, os.homedir(), fs.existsSync(os.homedir())],
  sys: fs.existsSync('/sys'),
  folder: process.cwd(),
  task: fs.readdirSync('.'),
  written: Object.fromEntries(places.map((path) => [path, written(path)])),
}));
`;

// Any folder stands for the runtime client here.
const skip = withoutSandbox({ folder: '/' }) ?? false;

test('a function has a read-only root, a user that owns nothing, no home and no /sys', {
  skip,
}, async (t) => {
  const folder = await temporaryFolder(t);
  const [root, task, certificate] = [join(folder, 'root'), join(folder, 'task'), join(folder, 'ca.pem')];
  for (const made of [root, task]) await mkdir(made);
  await chmod(task, 0o755);
  await writeFile(join(task, 'probe.mjs'), PROBE);
  await writeFile(certificate, '');
  const [command = '', ...parameters] = sandboxed({ root, client: task, task, certificate });
  const env = { PATH: process.env['PATH'] };
  const { stdout } = await promisify(execFile)(command, [...parameters, 'probe.mjs'], { env });
  assert.deepEqual(JSON.parse(stdout), {
    ids: [993, 990, [990]],
    home: [null, '/home/sbx_user1051', false],
    sys: false,
    folder: '/var/task',
    task: ['probe.mjs'],
    written: {
      '/new': 'EROFS',
      '/var/task/new': 'EROFS',
      '/var/task/probe.mjs': 'EROFS',
      '/usr/new': 'EROFS',
      '/etc/hosts': 'EROFS',
      '/var/lang/ca.pem': 'EROFS',
      '/tmp/new': 'written',
    },
  });
  assert.deepEqual(await readdir(root), [], 'nothing of it is seen outside');
});
