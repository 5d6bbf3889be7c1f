/** The README is for a reader in a hurry. readme.system.test.ts runs what it shows. */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { ROOT } from '../support/start.ts';

test('README.md is short, and leads to the rest by few links', async () => {
  const readme = await readFile(join(ROOT, 'README.md'), 'utf8');
  const prose = readme.replaceAll(/^```[\s\S]*?^```$/gm, '').replaceAll(/\]\([^)]*\)/g, ']');
  const words = prose.split(/\s+/).filter((word) => /\w/.test(word)).length;
  assert.ok(words < 600, `${words} words`);
  assert.ok([...readme.matchAll(/(?<!!\[[^\]]*)\]\(/g)].length <= 10);
});
