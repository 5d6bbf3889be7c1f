/**
 * The tutorial up to AWS, as it stands but for the ports. Here the checkout takes the place of the installed packages, so
 * that it needs no registry; tutorial.deploy.test.ts walks through the same commands with the packages, and CI runs that one.
 */
import assert from 'node:assert/strict';
import { symlink } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { serviceFolder } from '../cli/cli.ts';
import { blocksOf, walk } from '../support/documents.ts';
import { childEnvironment } from '../support/environment.ts';
import { temporaryFolder } from '../support/runner.ts';
import { ROOT } from '../support/start.ts';
import { localPorts, TUTORIAL } from '../support/tutorial.ts';

test('every command of the tutorial up to AWS prints what it shows', async (t) => {
  const folder = await serviceFolder(t);
  await symlink(join(ROOT, 'node_modules'), join(folder, 'node_modules'));
  const blocks = await blocksOf(TUTORIAL);
  const aws = blocks.findIndex(({ section }) => section === 'Package for AWS');
  const local = blocks.slice(0, aws).filter(({ section }) => section !== 'Install');
  assert.ok(local.length > 10);
  await walk(local, {
    folder,
    state: join(await temporaryFolder(t), 'state'),
    environment: childEnvironment({ CLONE: ROOT, npm_config_loglevel: 'error' }),
    adapted: localPorts(folder),
  });
});
