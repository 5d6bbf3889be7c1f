/** bunqueue in one process on the servers' core, under Bun, with the concurrency that is its best on this machine. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { elementAt } from '../../lib/contract/present.ts';
import { variables } from '../../lib/contract/variables.ts';
import { pinned } from '../cores.ts';
import { type QueueWork, rowsOf } from '../queue-work.ts';
import { assertSame } from '../raw.ts';
import type { InstalledPeer } from './installed.ts';

interface Outcome {
  readonly ms: number;
  readonly results: readonly (readonly number[])[];
  readonly error?: string;
}

const CONCURRENCIES = [1, 16, 64, 256];
const TUNE_JOBS = 1_024;

/** @param folder for its database */
export async function startBunqueue(peer: InstalledPeer, work: QueueWork, folder: string) {
  const { model, answers } = work;
  const bun = join(peer.folder, 'node_modules', '@oven', 'bun-linux-x64', 'bin', 'bun');
  const [command, args] = pinned('server', bun, [join(peer.source, 'program.mjs')]);
  const child = spawn(command, args, {
    stdio: ['pipe', 'pipe', 'inherit'],
    env: {
      ...variables,
      BENCH_INSTALLED: peer.folder,
      BENCH_MODEL: model.path,
      BENCH_INPUT: model.input,
      BENCH_ROW_SHAPE: JSON.stringify(model.rowShape),
      BENCH_DATA: await mkdtemp(join(folder, 'bunqueue-')),
    },
  });
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const rows = rowsOf(work).map((row) => Array.from(row, (value) => Number(value.toPrecision(9))));
  let drains = 0;

  /** @throws when a job returned a wrong answer */
  async function drain(concurrency: number, jobs: number): Promise<{ ms: number }> {
    const question = { queue: `bench-${++drains}`, jobs, rows, concurrency };
    child.stdin.write(`${JSON.stringify(question)}\n`);
    for (;;) {
      const { done, value: line = '' } = await lines.next();
      if (done) throw new Error('bunqueue ended');
      // Others are its log.
      if (!/^\{"(ms|error)"/.test(line)) continue;
      const { ms, results, error }: Outcome = JSON.parse(line);
      if (error !== undefined) throw new Error(`bunqueue: ${error}`);
      for (const [i, scores] of results.entries())
        assertSame(scores, elementAt(answers, i % answers.length, 'answers'), `bunqueue, job ${i}`);
      return { ms };
    }
  }

  return {
    drain,
    /** @returns the fastest concurrency, by a short try of each */
    async tune(): Promise<number> {
      let [best, bestMs] = [1, Infinity];
      for (const concurrency of CONCURRENCIES) {
        const { ms } = await drain(concurrency, TUNE_JOBS);
        if (ms < bestMs) [best, bestMs] = [concurrency, ms];
      }
      return best;
    },
    async close() {
      child.stdin.end();
      if (child.exitCode === null) await once(child, 'exit');
    },
  };
}
