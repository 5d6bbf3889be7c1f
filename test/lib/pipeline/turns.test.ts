import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Turns } from '../../../lib/pipeline/batch/turns.ts';

test('works of one key run in the order of the calls, past failures, and those of other keys meanwhile', async () => {
  const turns = new Turns();
  const begun: string[] = [];
  const ends: (() => void)[] = [];
  const work = (name: string) => () => {
    begun.push(name);
    return new Promise<string>((resolve) => ends.push(() => resolve(name)));
  };
  const fails = turns.run('a', async () => {
    begun.push('a0');
    throw new Error('a0');
  });
  const all = ['a1', 'b1', 'a2'].map((name) => turns.run(name.slice(0, 1), work(name)));
  // The first of a key begins in the call.
  assert.deepEqual(begun, ['a0', 'b1']);
  await assert.rejects(fails, /a0/);
  await new Promise(setImmediate);
  assert.deepEqual(begun, ['a0', 'b1', 'a1']);
  for (const end of ends) end();
  await new Promise(setImmediate);
  ends.at(-1)?.();
  assert.deepEqual(await Promise.all(all), ['a1', 'b1', 'a2']);
  const later = turns.run('a', work('a3'));
  assert.equal(begun.at(-1), 'a3');
  ends.at(-1)?.();
  await later;
});
