/** No part of the product grows unnoticed: raise a budget in the commit that needs it, and give the reason there. */
import assert from 'node:assert/strict';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

interface Budget {
  readonly folders: readonly string[];
  /** Most lines of TypeScript, as `wc -l` counts them, without tests. */
  readonly lines: number;
}

const BUDGETS: readonly Budget[] = [
  { folders: ['functions', 'lib'], lines: 51_494 },
  { folders: ['local'], lines: 12_340 },
  { folders: ['cli'], lines: 11_940 },
  { folders: ['infra'], lines: 8_000 },
  { folders: ['sdk'], lines: 3_780 },
  { folders: ['onnx-import', 'release', 'console', 'bench', 'embedded-redis'], lines: 73_436 },
];

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

async function linesOf(folders: readonly string[]): Promise<number> {
  let lines = 0;
  for (const folder of folders) {
    const names = await readdir(join(ROOT, folder), { recursive: true });
    const sources = names.filter(
      (path) => /\.tsx?$/.test(path) && !path.endsWith('.test.ts') && !path.includes('node_modules/'),
    );
    for (const path of sources)
      lines += (await readFile(join(ROOT, folder, path), 'utf8')).split('\n').length - 1;
  }
  return lines;
}

for (const { folders, lines: most } of BUDGETS) {
  test(`${folders.join(' and ')} keep to ${most} lines`, async () => {
    const lines = await linesOf(folders);
    assert.ok(lines > 0);
    assert.ok(
      lines <= most,
      `${lines} lines, ${lines - most} over the budget: delete what is dead or written twice, or raise the budget and say why in the commit`,
    );
  });
}

test('every workspace has a budget', async () => {
  const { workspaces } = JSON.parse(await readFile(join(ROOT, 'package.json'), 'utf8')) as {
    workspaces: readonly string[];
  };
  const held = BUDGETS.flatMap(({ folders }) => folders);
  assert.deepEqual(
    workspaces.filter((folder) => !held.includes(folder)),
    [],
  );
});
