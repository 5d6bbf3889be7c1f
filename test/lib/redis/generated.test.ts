/** The generated module has the current Lua files, and each of them documents its call. */
import assert from 'node:assert/strict';
import { readdir, readFile } from 'node:fs/promises';
import { test } from 'node:test';
import { GENERATED, generate, readScript } from '../../../infra/build/lua.ts';

const FOLDER = new URL('.', GENERATED);

test('the generated module is what the Lua files make (npm run build:lua)', async () => {
  assert.equal(await readFile(GENERATED, 'utf8'), generate());
});

test('an include stands instead of its line, and no comment is left', () => {
  const cancel = readScript('cancel.lua');
  assert.match(cancel, /^local function orderOf\(text\)\n/);
  assert.match(cancel, /\nlocal clock = redis\.call\('TIME'\)\n/);
  assert.doesNotMatch(cancel, /^\s*--|^\s/m);
});

test('each script says what its keys are, its options by name, and what it returns', async () => {
  const names = (await readdir(FOLDER)).filter((name) => name.endsWith('.lua'));
  assert.ok(names.length >= 18, `${names.length}`);
  for (const name of names) {
    const text = await readFile(new URL(name, FOLDER), 'utf8');
    const head = text.slice(0, text.search(/^[^-]/m));
    assert.match(head, /^-- [A-Z]/, name);
    assert.match(head, /^-- KEYS: /m, name);
    assert.match(head, /^-- Returns /m, name);
    const options = new Set([...text.matchAll(/\boptions\.(\w+)/g)].map((found) => found[1] ?? ''));
    for (const option of options) assert.match(head, new RegExp(`\\b${option}\\b`), `${name}: ${option}`);
    if (text.includes('ARGV[1]')) assert.match(head, /^-- ARGV\[1\]: options$/m, name);
  }
});
