/** A planted fault must be plantable, which a change of its file can undo. planted.system.test.ts asks whether it is found. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { ROOT } from '../../support/start.ts';
import { PLANTED } from './list.ts';

test('each planted fault has the text that it replaces exactly once in its file', () => {
  const times = PLANTED.map(({ name, file, find }) => {
    const parts = readFileSync(join(ROOT, file), 'utf8').split(find);
    return `${name}: ${parts.length - 1}`;
  });
  assert.deepEqual(
    times,
    PLANTED.map(({ name }) => `${name}: 1`),
  );
});
