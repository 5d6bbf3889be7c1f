/**
 * BullMQ's worker on the servers' core, with the concurrency that is its best on this machine. The jobs are added and
 * their results read by a second process on the clients' core; neither is timed, as on our side.
 */

import { join } from 'node:path';
import { elementAt } from '../../lib/contract/present.ts';
import { startChild } from '../processes/child.ts';
import { type QueueWork, rowsOf } from '../queue-work.ts';
import { assertSame } from '../raw.ts';
import type { InstalledPeer } from './installed.ts';

interface Settings {
  readonly concurrency: number;
  /** True: jobs that are under way at once share a run. */
  readonly batched: boolean;
}

/** The methods of bullmq/program.mjs, the same for both of its sides. */
type Program = Readonly<{
  open(question: object): Promise<void>;
  fill(question: object): Promise<void>;
  drain(question: Settings & { readonly jobs: number }): Promise<{ ms: number; cpuMs: number }>;
  results(question: object): Promise<number[][]>;
}>;

const CONCURRENCIES = [1, 16, 64, 128, 256, 512];
const TUNE_JOBS = 2_048;
const TUNE_TRIES = 2;

export async function startBullMq(peer: InstalledPeer, work: QueueWork, redisUrl: string) {
  const { model, answers } = work;
  const { hostname: host, port } = new URL(redisUrl);
  const question = { model, connection: { host, port: Number(port), maxRetriesPerRequest: null } };
  const program = join(peer.source, 'program.mjs');
  const environment = { BENCH_INSTALLED: peer.folder };
  const client = await startChild<Program>(program, { environment, role: 'client' });
  const worker = await startChild<Program>(program, { environment, role: 'server' });
  const close = async () => {
    await worker.close();
    await client.close();
  };
  for (const child of [client, worker]) await child.call('open', question);
  const rows = rowsOf(work);

  async function timed(settings: Settings, jobs: number) {
    await client.call('fill', { jobs, rows });
    return worker.call('drain', { jobs, ...settings });
  }

  return {
    /** @returns the fastest concurrency, by two short tries of each */
    async tune(batched: boolean, between: () => Promise<unknown>): Promise<number> {
      const times = new Map(CONCURRENCIES.map((concurrency) => [concurrency, Infinity]));
      for (let attempt = 0; attempt < TUNE_TRIES; attempt++) {
        for (const [concurrency, best] of times) {
          await between();
          times.set(concurrency, Math.min(best, (await timed({ concurrency, batched }, TUNE_JOBS)).ms));
        }
      }
      return [...times].reduce((best, each) => (each[1] < best[1] ? each : best))[0];
    },

    /** @throws when a job returned a wrong answer */
    async drain(settings: Settings, jobs: number) {
      const took = await timed(settings, jobs);
      for (const [i, scores] of (await client.call('results', { jobs })).entries())
        assertSame(scores ?? [], elementAt(answers, i % answers.length, 'answers'), `BullMQ, job ${i}`);
      return took;
    },
    close,
  };
}
