/** What observers say of one fixed sequence of requests and records is what they said before: make.ts wrote golden.json. */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { after, before, test } from 'node:test';
import { observe } from './sequence.ts';

type Said = Readonly<Record<string, Readonly<Record<string, unknown>>>>;

const hooks: (() => Promise<void>)[] = [];
const golden = JSON.parse(await readFile(new URL('golden.json', import.meta.url), 'utf8')) as Said;
let said: Said;

before(async () => {
  said = JSON.parse(JSON.stringify(await observe({ after: (hook) => hooks.unshift(hook) }))) as Said;
});
after(async () => {
  for (const hook of hooks) await hook();
});

for (const [where, parts] of Object.entries(golden))
  for (const [what, expected] of Object.entries(parts))
    test(`${where}: ${what} as before`, () => assert.deepEqual(said[where]?.[what], expected));
