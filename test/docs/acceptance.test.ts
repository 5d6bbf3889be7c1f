/** The table of what must hold of workers names tests that are there. */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const SENTENCES = 28;

test('every sentence of what must hold of workers names a test, by its file and its title', async () => {
  const document = await readFile(join(ROOT, 'docs/explanation/reliability-tests.md'), 'utf8');
  const [, section = ''] = document.split('\n## What must hold of workers\n');
  const rows = [...(section.split('\n## ')[0] as string).matchAll(/^\| (\d+) \| .+? \| (.+) \|$/gm)];
  assert.deepEqual(
    rows.map(([, number]) => Number(number)),
    Array.from({ length: SENTENCES }, (_, i) => i + 1),
  );
  for (const [, number, tests = ''] of rows) {
    for (const cell of tests.split('<br>')) {
      const [, file = '', titles = ''] = /^`(test\/[\w/.-]+\.ts)`: (.+)$/.exec(cell) ?? [];
      const source = await readFile(join(ROOT, file), 'utf8').catch(() => '');
      // A title may have a semicolon of its own.
      const missing = titles.split('; ').filter((title) => !source.includes(title));
      assert.deepEqual([source !== '', missing], [true, []], `${number}: ${cell}`);
    }
  }
});
