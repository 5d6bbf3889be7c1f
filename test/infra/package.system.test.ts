/**
 * The package of a default deployment. test/infra/every-stack/variants.deploy.test.ts checks that packaging twice gives
 * the same.
 */
import assert from 'node:assert/strict';
import { readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { type Packaged, packageProject, withoutNetwork } from '../support/packaging.ts';
import { resourcesOf } from '../support/template.ts';
import { readArchive } from './archive.ts';
import { archiveTests } from './archive-tests.ts';
import { composeJob } from './compose.ts';
import { everyStackTests } from './every-stack/tests.ts';
import { lintTest } from './lint.ts';
import { assertComposed } from './same-as-composed.ts';
import { templateTests } from './template-tests.ts';

describe('what serverless package writes without a config.yaml', () => {
  let packaged: Packaged;

  before(async () => {
    packaged = await packageProject();
    assert.equal(packaged.exitCode, 0, packaged.output);
  });
  after(() => packaged?.remove());

  test('it needs no network', (t) => {
    if (withoutNetwork().length === 0) return t.skip('this machine does not let us take the network away');
    assert.equal(packaged.exitCode, 0);
  });

  test('it tells the size of every archive, zipped and unzipped, and its largest parts', async () => {
    for (const [, { Code }] of resourcesOf(await packaged.template(), 'AWS::Lambda::Function')) {
      const name = (Code as { S3Key: string }).S3Key.replace(/^.*\/|\.zip$/g, '');
      const [, zipped, unzipped] =
        new RegExp(`^${name} +([\\d,]+) kB +([\\d,]+) kB +\\S.*? [\\d,]+ kB, `, 'm').exec(packaged.output) ??
        [];
      const { size } = await stat(packaged.archive(name));
      const entries = await readArchive(packaged.archive(name));
      const bytes = entries.reduce((sum, entry) => sum + entry.bytes, 0);
      assert.deepEqual(
        [zipped, unzipped],
        [size, bytes].map((count) => Math.ceil(count / 1000).toLocaleString('en')),
        packaged.output,
      );
    }
  });

  test('what is not deployed is not bundled', async () => {
    const folders = await readdir(join(packaged.folder, 'dist'));
    assert.deepEqual(folders.sort(), ['batch', 'dead-letter', 'predict', 'predictions', 'status']);
  });

  test('the template is the one that test/infra/templates.test.ts looks at', async () =>
    assertComposed(await packaged.template(), composeJob()));
  lintTest(() => packaged);
  describe('the template, as that of every stack', () => everyStackTests(() => packaged));
  describe('the template', () => templateTests(() => packaged));
  describe('the archives', () => archiveTests(() => packaged));
});
