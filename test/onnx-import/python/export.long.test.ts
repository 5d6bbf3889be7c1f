/**
 * Exporters in real environments of Python: pip installs each, so this takes minutes and needs a package registry. Skipped where pip
 * finds none.
 */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { copyFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { importModel } from '../../../onnx-import/import/import.ts';
import { exportable, withExport } from '../../../onnx-import/python/export.ts';
import { models, UNMEASURED } from '../../support/models.ts';
import { temporaryFolder } from '../../support/runner.ts';

const python = process.env['PYTHON'] ?? 'python3';

function hasRegistry(): boolean {
  const folder = mkdtempSync(join(tmpdir(), 'registry-'));
  try {
    const args = ['-m', 'pip', 'download', '--quiet', '--no-deps', '--dest', folder, 'skl2onnx'];
    execFileSync(python, args, { stdio: 'ignore', timeout: 120_000 });
    return true;
  } catch {
    return false;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

const skip = hasRegistry() ? false : 'pip has no registry here';

for (const name of ['pipeline.pkl', 'regression.cbm'])
  test(`${name} is exported by its own framework, and the import compares with its answers there`, {
    skip,
    timeout: 1_800_000,
  }, async (t) => {
    const folder = await temporaryFolder(t);
    await copyFile(fileURLToPath(new URL(`models/${name}`, import.meta.url)), join(folder, name));
    const out = join(folder, 'out');
    await withExport(await exportable(folder), { python }, async ({ directory, reference, note }) => {
      assert.ok(reference, note);
      const options = { out, reference, notes: [note], process: models, ...UNMEASURED };
      const { importReport } = await importModel(directory, options);
      assert.match(
        importReport.notes.join('\n'),
        new RegExp(`${name} was exported in Python by .*==.*its answers there are the reference`),
      );
      assert.equal(importReport.check.reference, 'agrees');
    });
  });
