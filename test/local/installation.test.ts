/** The folder of the package that a command belongs to, in the repository and in the published form. */
import assert from 'node:assert/strict';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { installation, packageFolder, sampleConfig } from '../../local/machine/installation.ts';
import { temporaryFolder } from '../support/runner.ts';
import { ROOT } from '../support/start.ts';

const BIN = { 'cluster-serving': 'bin/x.mjs' };

test('the command is that of the package, or of its workspace cli', async (t) => {
  for (const [manifests, home, name] of [
    [{ '': { name: 'a', version: '1', bin: BIN } }, '', 'a'],
    [{ '': { name: 'a', version: '1' }, cli: { name: 'b', version: '1', bin: BIN } }, 'cli', 'b'],
    [{ '': { name: 'a', version: '1', bin: BIN }, cli: { name: 'b', version: '1', bin: BIN } }, '', 'a'],
    [{ '': { name: 'a', bin: BIN } }],
    [{ '': { version: '1', bin: BIN } }],
    [{ '': { name: 'a', version: '1', bin: { other: 'x' } } }],
    [{}],
  ] as const) {
    const folder = await temporaryFolder(t);
    for (const [place, manifest] of Object.entries(manifests)) {
      await mkdir(join(folder, place), { recursive: true });
      await writeFile(join(folder, place, 'package.json'), JSON.stringify(manifest));
    }
    if (home === undefined) {
      const message = `no package.json of ${folder} has a bin cluster-serving`;
      assert.throws(() => installation(folder), { code: 'internal', message });
      continue;
    }
    const command = join(folder, home, 'bin/x.mjs');
    assert.deepEqual(installation(folder), { folder, name, version: '1', command });
  }
});

test('without a folder it is the one above the code', () => {
  assert.equal(join(packageFolder(), '/'), ROOT);
  assert.equal(sampleConfig(), join(ROOT, 'examples/digits/config.yaml'));
  assert.deepEqual(installation(), installation(packageFolder()));
});
