/**
 * examples/rows.py with many rows and one kill in the middle: no row is lost or doubled, and memory stays as it is after
 * the first chunks. EXAMPLE_ROWS says how many.
 */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { createReadStream, createWriteStream } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { test } from 'node:test';
import { childEnvironment } from '../support/environment.ts';
import { PYTHON, PYTHON_PACKAGE, WITH_PYTHON } from '../support/python.ts';
import { temporaryFolder } from '../support/runner.ts';
import { ROOT, startReady } from '../support/start.ts';

const ROWS = Number(process.env['EXAMPLE_ROWS'] ?? 100_000);
/** Rows of a chunk, as by default. */
const CHUNK = 1000;
/** Of resident memory, between the third chunk and the end: the heaps of some thirty threads. The rows would be a GB. */
const GROWTH_KB = 32 * 1024;

test('rows.py goes through many rows in constant memory', WITH_PYTHON, async (t) => {
  const folder = await temporaryFolder(t);
  const { addresses } = await startReady(t, '--data-dir', join(folder, 'data'));
  const sample = await readFile(join(ROOT, 'examples/digits/rows.csv'), 'utf8');
  const [header, ...hundred] = sample.trimEnd().split('\n');
  const input = join(folder, 'rows.csv');
  const output = join(folder, 'classes.csv');
  const rowOf = (i: number) => hundred[i % hundred.length] as string;
  await pipeline(
    Readable.from(
      (function* () {
        yield `${header}\n`;
        for (let i = 0; i < ROWS; i++) yield `${rowOf(i)}\n`;
      })(),
    ),
    createWriteStream(input),
  );

  /** @returns its resident memory at the end of each chunk, in kB */
  const run = async (stopAfter: number): Promise<number[]> => {
    const child = spawn(PYTHON, [join(ROOT, 'examples/rows.py'), input, output], {
      env: childEnvironment({
        PYTHONPATH: PYTHON_PACKAGE,
        PYTHONDONTWRITEBYTECODE: '1',
        CLUSTER_SERVING_URL: addresses.http,
      }),
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    const memory: number[] = [];
    let last = '';
    for await (const line of createInterface({ input: child.stderr })) {
      last = line;
      const status = await readFile(`/proc/${child.pid}/status`, 'utf8').catch(() => '');
      const [, resident] = /^VmRSS:\s*(\d+) kB/m.exec(status) ?? [];
      if (resident !== undefined) memory.push(Number(resident));
      if (memory.length >= stopAfter) child.kill('SIGKILL');
    }
    t.diagnostic(`${last}; resident ${memory[2]} kB after three chunks, ${memory.at(-1)} kB at the end`);
    return memory;
  };
  await run(Math.floor(ROWS / CHUNK / 4));
  const memory = await run(Number.POSITIVE_INFINITY);
  if (memory.length > 4) assert.ok((memory.at(-1) as number) - (memory[2] as number) < GROWTH_KB);

  let i = -1;
  for await (const line of createInterface({ input: createReadStream(output) })) {
    if (i >= 0) assert.match(line, new RegExp(`^${i},${rowOf(i)[0]},[01]\\.\\d+,$`));
    i++;
  }
  assert.equal(i, ROWS);
});
