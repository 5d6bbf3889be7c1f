/** The tutorial of workers as it stands but for the ports; the checkout takes the place of the installed packages. */
import assert from 'node:assert/strict';
import { symlink } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { serviceFolder } from '../cli/cli.ts';
import { blocksOf, walk } from '../support/documents.ts';
import { childEnvironment } from '../support/environment.ts';
import { PYTHON, WITH_PYTHON } from '../support/python.ts';
import { temporaryFolder } from '../support/runner.ts';
import { ROOT } from '../support/start.ts';
import { localPorts } from '../support/tutorial.ts';

test('every command of the tutorial of workers prints what it shows', WITH_PYTHON, async (t) => {
  const folder = await serviceFolder(t);
  await symlink(join(ROOT, 'node_modules'), join(folder, 'node_modules'));
  const blocks = await blocksOf('docs/tutorial/bring-your-own-code.md');
  const local = blocks.filter(({ section }) => section !== 'Install');
  assert.ok(local.length > 15);
  const ports = localPorts(folder);
  await walk(local, {
    folder,
    state: join(await temporaryFolder(t), 'state'),
    environment: childEnvironment({
      CLONE: ROOT,
      npm_config_loglevel: 'error',
      PYTHONDONTWRITEBYTECODE: '1',
    }),
    // A Python of the user may come first in PATH and have no numpy.
    adapted: async (text) =>
      (await ports(text))
        .replace(' python3 ', ` ${PYTHON} `)
        .replace('numWorker: 2', `$&\n  python: ${PYTHON}`),
  });
});
