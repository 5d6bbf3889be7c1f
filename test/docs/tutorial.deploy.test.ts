/**
 * The whole tutorial in an empty folder, as it stands but for the ports: npm installs the packages, and an emulation
 * takes the place of AWS. CloudFormation there creates buckets only, so the packaged functions that answer run beside it,
 * with the model that the deployment published. Skipped where npm cannot reach its registry.
 */
import assert from 'node:assert/strict';
import { appendFile, chmod, mkdir, writeFile } from 'node:fs/promises';
import { delimiter, dirname, join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { PutObjectCommand } from '@aws-sdk/client-s3';
import type { LocalAws } from '../../local/aws/aws.ts';
import { serviceFolder } from '../cli/cli.ts';
import { type Account, bodyOf, look, objectsOf, startAccount } from '../infra/account.ts';
import { BUCKET, deployLocally } from '../infra/deployed.ts';
import { type Block, blocksOf, walk } from '../support/documents.ts';
import { childEnvironment } from '../support/environment.ts';
import { olderNode } from '../support/installed.ts';
import { MADE_ONCE, packagedIn } from '../support/packaging.ts';
import { temporaryFolder } from '../support/runner.ts';
import { ROOT } from '../support/start.ts';
import { localPorts, TUTORIAL } from '../support/tutorial.ts';

const STACK = 'cluster-serving-digits-dev';
const UNREACHABLE = /ENOTFOUND|ECONNREFUSED|EAI_AGAIN|ETIMEDOUT|ENETUNREACH/;

test('every command of the tutorial prints what it shows', async (t) => {
  const folder = await serviceFolder(t);
  const state = join(await temporaryFolder(t), 'state');
  const environment = await shellOf(t);
  const blocks = await blocksOf(TUTORIAL);
  const aws = blocks.findIndex(({ section }) => section === 'Package for AWS');
  assert.ok(aws > 0);
  const clone = (text: string) => text.replace('$HOME/cluster-serving', ROOT);
  const ported = localPorts(folder);
  try {
    const install = blocks.filter(({ section }) => section === 'Install');
    await walk(install, { folder, state, environment, adapted: clone });
  } catch (error) {
    if (UNREACHABLE.test((error as Error).message)) return t.skip('the registry cannot be reached');
    throw error;
  }
  const local = blocks.slice(0, aws).filter(({ section }) => section !== 'Install');
  await walk(local, { folder, state, environment, adapted: ported });

  const account = await startAccount(folder);
  t.after(() => account.close());
  await walk(blocks.slice(aws), {
    folder,
    state,
    environment: { ...environment, ...account.environment },
    adapted: (text) => text,
    after: async ({ text }: Block) => {
      if (!text.includes('serverless deploy')) return;
      const url = await answering(t, account, folder);
      await appendFile(state, `export HTTP_API_URL=${url}\n`);
    },
  });
  const left = await look(account, STACK, { exitCode: 0, output: '', calls: [] });
  assert.deepEqual([left.resources, left.bucket], [{}, undefined]);
});

/** A shell in which nothing of this checkout is on the PATH, with an `aws` that knows the one command of the tutorial. */
async function shellOf(t: TestContext): Promise<Record<string, string>> {
  const bin = await temporaryFolder(t);
  await mkdir(bin, { recursive: true });
  const program = join(ROOT, 'test/support/empty-bucket.ts');
  await writeFile(join(bin, 'aws'), `#!/bin/sh\nexec "${process.execPath}" "${program}" "$@"\n`);
  await chmod(join(bin, 'aws'), 0o755);
  const node = dirname((await olderNode()) ?? process.execPath);
  const path = (process.env['PATH'] ?? '')
    .split(delimiter)
    .filter((place) => !place.includes('node_modules'));
  return childEnvironment({
    ...MADE_ONCE,
    PATH: [bin, node, ...path].join(delimiter),
    npm_config_loglevel: 'error',
    npm_config_prefer_offline: 'true',
    npm_config_audit: 'false',
  });
}

/** Runs the packaged functions with the objects of the deployed bucket. @returns the address of the API */
async function answering(t: TestContext, account: Account, folder: string): Promise<string> {
  const {
    resources,
    status,
    bucket = {},
  } = await look(account, STACK, { exitCode: 0, output: '', calls: [] });
  assert.equal(status, 'UPDATE_COMPLETE');
  assert.ok('models/digits/current.json' in bucket);
  const deployed = await deployLocally(packagedIn(folder), ({ s3 }: LocalAws) => copied(s3));
  t.after(() => deployed.close());
  return deployed.url;

  async function copied(s3: LocalAws['s3']): Promise<void> {
    const from = resources['Bucket'] as string;
    for (const Key of Object.keys((await objectsOf(account.aws, from)) ?? {}))
      await s3.send(
        new PutObjectCommand({ Bucket: BUCKET, Key, Body: await bodyOf(account.aws, from, Key) }),
      );
  }
}
