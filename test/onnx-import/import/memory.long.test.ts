/**
 * The memory that an import of about 100 MB needs, by kind of model: under four times the model's size and 80 MB in each of
 * its processes. Times are only reported.
 */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { sharedPath } from '../../support/fixtures.ts';
import { temporaryFolder } from '../../support/runner.ts';
import { LARGE, largePickled } from '../support/large.ts';

const COMMAND = fileURLToPath(new URL('../../../cli/bin/cluster-serving.mjs', import.meta.url));
const PICKLED = sharedPath('corpus/pytorch/pickled_simple_py310_cp220/model.pt');
/** What a file does not say. */
const OPTIONS: Readonly<Record<string, readonly string[]>> = {
  bigdl: ['--input', 'input:N,2560'],
  torchscript: ['--input', 'x:N,2560'],
  cloudpickle: ['--input', 'x:N,5120'],
};
const POLL_MS = 20;

/** A file of /proc; empty when its process has ended. */
function read(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}

/** The highest resident bytes of a process and of those that it started, by id. */
function addPeaks(pid: number, peaks: Map<number, number>): void {
  const [, kB = 0] = /VmHWM:\s+(\d+) kB/.exec(read(`/proc/${pid}/status`)) ?? [];
  peaks.set(pid, Math.max(peaks.get(pid) ?? 0, Number(kB) * 1024));
  for (const child of read(`/proc/${pid}/task/${pid}/children`).split(' ')) {
    if (child !== '') addPeaks(Number(child), peaks);
  }
}

/** The peaks of `model import`, that of the command itself first. */
async function importPeaks(folder: string, out: string, options: readonly string[]): Promise<number[]> {
  const args = [COMMAND, 'model', 'import', folder, '--out', out, ...options];
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'pipe'] });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk) => (output += chunk));
  const peaks = new Map<number, number>();
  const timer = setInterval(() => addPeaks(child.pid as number, peaks), POLL_MS);
  const code = await new Promise((resolve) => child.once('close', resolve));
  clearInterval(timer);
  assert.equal(code, 0, output.slice(-2_000));
  return [...peaks.values()];
}

function sizeOf(folder: string): number {
  const stats = readdirSync(folder, { recursive: true }).map((name) => statSync(join(folder, String(name))));
  return stats.reduce((sum, stat) => sum + (stat.isFile() ? stat.size : 0), 0);
}

const MB = (bytes: number) => `${(bytes / 1e6).toFixed(0)} MB`;
const cloudpickle = (folder: string) => largePickled(folder, PICKLED);

for (const [kind, write] of Object.entries({ ...LARGE, cloudpickle })) {
  test(`an import of 100 MB needs under four times its size: ${kind}`, async (t) => {
    if (!existsSync('/proc/self/status')) return t.skip('needs Linux, whose /proc counts the peaks');
    if (kind === 'cloudpickle' && !existsSync(PICKLED)) {
      return t.skip('needs ../shared/corpus, which is not on this machine');
    }
    const folder = await temporaryFolder(t);
    await write(folder);
    const size = sizeOf(folder);
    const start = performance.now();
    const peaks = await importPeaks(folder, join(await temporaryFolder(t), 'out'), OPTIONS[kind] ?? []);
    const seconds = ((performance.now() - start) / 1000).toFixed(1);
    t.diagnostic(`${kind}: ${MB(size)} in ${seconds} s, peaks ${peaks.map(MB).join(', ')}`);
    const limit = 4 * size + 80e6;
    assert.ok(peaks.length > 1, 'the model ran in no process of its own');
    for (const peak of peaks) assert.ok(peak < limit, `${MB(peak)}, the limit is ${MB(limit)}`);
  });
}
