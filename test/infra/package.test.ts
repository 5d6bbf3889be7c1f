import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { readdir, readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { readArchive } from './archive.ts';
import { archiveTests } from './archive-tests.ts';
import { lintTest } from './lint.ts';
import { type Packaged, packageProject, withoutNetwork } from './packaging.ts';
import { resourcesOf } from './template.ts';
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
        new RegExp(`^${name} +([\\d,]+) kB +([\\d,]+) kB +\\S+ [\\d,]+ kB, `, 'm').exec(packaged.output) ??
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

  test('packaged twice, every archive has the same bytes', async () => {
    const again = await packageProject();
    try {
      assert.equal(again.exitCode, 0, again.output);
      const names = (await readdir(join(packaged.folder, '.serverless'))).filter((name) =>
        name.endsWith('.zip'),
      );
      assert.equal(names.length, 6);
      const digest = async ({ folder }: Packaged, name: string) =>
        createHash('sha256')
          .update(await readFile(join(folder, '.serverless', name)))
          .digest('hex');
      for (const name of names) assert.equal(await digest(again, name), await digest(packaged, name), name);
    } finally {
      await again.remove();
    }
  });

  lintTest(() => packaged);
  describe('the template', () => templateTests(() => packaged));
  describe('the archives', () => archiveTests(() => packaged));
});
