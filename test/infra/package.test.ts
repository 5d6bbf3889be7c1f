import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { archiveTests } from './archive-tests.ts';
import { type Packaged, packageProject, withoutNetwork } from './packaging.ts';
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

  describe('the template', () => templateTests(() => packaged));
  describe('the archives', () => archiveTests(() => packaged));
});
