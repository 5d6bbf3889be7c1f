/** The script that starts and stops a service: what it stopped has ended, however much memory it gives back. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { productionScript } from '../../cli/wkr/production-script.ts';
import { isAlive } from '../../local/machine/process.ts';
import { childEnvironment } from '../support/environment.ts';
import { WITH_PYTHON } from '../support/python.ts';
import { temporaryFolder } from '../support/runner.ts';

const execute = promisify(execFile);

/** Its end takes the system a while, in which it has no command line any more. */
const LARGE = `#!/usr/bin/env python3
import time
memory = bytearray(400_000_000)
memory[::4096] = memory[1::4096]
print("ready http", flush=True)
time.sleep(600)
`;

test('a service that is stopped has ended', WITH_PYTHON, async (t) => {
  const folder = await temporaryFolder(t);
  const script = join(folder, 'large-service');
  await writeFile(script, LARGE, { mode: 0o755 });
  const text = productionScript({
    name: 'large',
    command: 'large-service',
    script,
    args: ['-name', 'large', '-x'],
  });
  await writeFile(join(folder, 'run.sh'), text);
  const options = { cwd: folder, env: childEnvironment({}) };
  const run = (word: string) => execute('sh', ['run.sh', word], options);
  await run('start');
  try {
    const pid = Number(await readFile(join(folder, 'large.pid'), 'utf8'));
    assert.ok(await isAlive({ pid }));
    // At once, because this process would look too late.
    const words = ['-c', `sh run.sh stop; cat /proc/${pid}/stat 2>/dev/null || true`];
    const { stdout } = await execute('sh', words, options);
    assert.match(stdout, /^large has stopped\n(?:\d+ \(.*\) [XZ] .*\n)?$/);
    assert.ok(!(await isAlive({ pid })));
  } finally {
    await run('stopf');
  }
});
