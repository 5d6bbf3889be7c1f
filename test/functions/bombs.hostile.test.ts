/** Few bytes that promise many are refused before they become many: in a process with a heap of 128 MiB. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { type TestContext, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { temporaryFolder } from '../support/runner.ts';
import type { Bomb } from './hostile/bombs.ts';

const HEAP_MIB = 128;
/** A body of 6 MiB as text, as base64, as bytes and unzipped up to the limit; the smallest bomb promises 250 MiB. */
const MOST_GROWTH_MIB = 64;

const STATUS: Readonly<Record<string, number>> = {
  'a PNG of 800 MB': 413,
  'a JPEG header of 65500x65500': 413,
  '300 PNGs of 4096x4096': 413,
  'sparse 10^18': 413,
  '1,000 sparse tensors of 256 MB': 413,
  'sparse of another shape': 400,
  '6 GB of gzip': 413,
  'an Arrow column of 2^40 rows': 400,
  '256 Arrow columns over one body': 400,
  '256 safetensors over one body': 400,
  'objects a million deep': 413,
  'arrays three million deep': 413,
  'arrays three million deep, to be queued': 413,
  'arrays eight million deep, in the queue': 413,
  'the next one': 200,
};

async function explode(t: TestContext, ...options: string[]): Promise<Bomb[]> {
  const script = fileURLToPath(new URL('./hostile/bombs.ts', import.meta.url));
  const node = [`--max-old-space-size=${HEAP_MIB}`, script, await temporaryFolder(t), ...options];
  const { stdout } = await promisify(execFile)(process.execPath, node, { maxBuffer: 1024 * 1024 });
  return stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Bomb);
}

test('a bomb is refused before it is expanded, and the next request is served', async (t) => {
  const bombs = await explode(t);
  assert.deepEqual(Object.fromEntries(bombs.map(({ name, status }) => [name, status])), STATUS);
  for (const { name, grownMiB, error } of bombs) {
    await t.test(name, () => {
      assert.ok(grownMiB < MOST_GROWTH_MIB, `the process grew by ${Math.round(grownMiB)} MiB`);
      assert.ok(error.length < 500);
    });
  }
});

test('an image that becomes 192 MiB is seen by the same measure', async (t) => {
  const [control] = await explode(t, 'control');
  assert.equal(control?.status, 200);
  assert.ok(control.grownMiB > 2 * MOST_GROWTH_MIB, `it grew the process by ${control.grownMiB} MiB`);
});
