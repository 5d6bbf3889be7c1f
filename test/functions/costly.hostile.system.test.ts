/**
 * No body of 6 MiB costs more than 8 times the processor time of JSON.parse for as many bytes, or 16 times its own size in memory.
 * Each is refused with its reason, and the next request is served. In a process with a small heap, which a reader
 * that collects what it should refuse does not survive.
 */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { temporaryFolder } from '../support/runner.ts';
import type { Cost } from './hostile/costly.ts';
import { COSTLY } from './hostile/tables/costly.ts';

const MOST_TIMES = 8;
/** 16 times 6 MiB. */
const MOST_MIB = 96;
/** The cost of the handlers without a body, and with it. */
const HEAP_MIB = 64 + MOST_MIB;

test('a body costs no more than a few times its length, and the next request is served', async (t) => {
  const script = fileURLToPath(new URL('./hostile/costly.ts', import.meta.url));
  const node = [`--max-old-space-size=${HEAP_MIB}`, script, await temporaryFolder(t)];
  const { stdout } = await promisify(execFile)(process.execPath, node, { maxBuffer: 4 * 1024 * 1024 });
  const costs = stdout
    .split('\n')
    .filter((line) => line.startsWith('{"name"'))
    .map((line) => JSON.parse(line) as Cost);
  assert.deepEqual(
    costs.map(({ name }) => name),
    COSTLY.map(({ name }) => name),
  );
  for (const [i, { name, status, answer, ms, parseMs, grownMiB, next }] of costs.entries()) {
    await t.test(name, () => {
      const { status: expected, message } = COSTLY[i] as (typeof COSTLY)[number];
      assert.equal(status, expected, answer);
      assert.match(answer.replaceAll('\\"', '"'), new RegExp(message.source.replaceAll(/^\^|\$$/g, '')));
      assert.ok(ms <= MOST_TIMES * parseMs, `${ms} ms of the processor, JSON.parse takes ${parseMs}`);
      assert.ok(grownMiB <= MOST_MIB, `the process grew by ${grownMiB} MiB`);
      assert.equal(next, 200);
    });
  }
});
