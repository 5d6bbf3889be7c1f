/**
 * In: an installed BullMQ, a model and a Redis. Out: how long its worker takes to drain a queue, with the settings that
 * are its best on this machine. Trap: the jobs are added and their results read by a second process, on the clients'
 * core; neither is timed, as on our side.
 */
import { join } from 'node:path';
import type { BenchModel } from '../models.ts';
import { type Child, startChild } from '../processes/child.ts';
import type { InstalledPeer } from './installed.ts';

export interface BullMqSettings {
  readonly concurrency: number;
  readonly batched: boolean;
}

interface Timed {
  readonly ms: number;
  /** Processor time of the worker's process. */
  readonly cpuMs: number;
}

const PLAIN_CONCURRENCY = [1, 16, 64, 256];
const BATCHED_CONCURRENCY = [32, 64, 128, 256, 512];
const TUNE_JOBS = 2_048;
const TUNE_TRIES = 2;
const QUEUE = 'bench';

export class BullMq {
  readonly #client: Child<object, unknown>;
  readonly #worker: Child<object, unknown>;
  readonly #rows: readonly Float32Array[];

  private constructor(
    client: Child<object, unknown>,
    worker: Child<object, unknown>,
    rows: readonly Float32Array[],
  ) {
    this.#client = client;
    this.#worker = worker;
    this.#rows = rows;
  }

  static async start(
    peer: InstalledPeer,
    model: BenchModel,
    redisUrl: string,
    rows: readonly Float32Array[],
  ): Promise<BullMq> {
    const { hostname: host, port } = new URL(redisUrl);
    const connection = { host, port: Number(port), maxRetriesPerRequest: null };
    const open = async (role: 'server' | 'client') => {
      const environment = { BENCH_INSTALLED: peer.folder };
      const program = join(peer.source, 'program.mjs');
      return startChild<object, unknown>(program, { environment, role });
    };
    const bullmq = new BullMq(await open('client'), await open('server'), rows);
    try {
      for (const child of [bullmq.#client, bullmq.#worker])
        await child.ask({ kind: 'open', model, connection });
      return bullmq;
    } catch (error) {
      await bullmq.close();
      throw error;
    }
  }

  /** The fastest concurrency of each way to work, by a short try of each. */
  async tune(between: () => Promise<unknown>): Promise<{ plain: BullMqSettings; batched: BullMqSettings }> {
    const best = async (batched: boolean, concurrencies: readonly number[]) => {
      const times = new Map(concurrencies.map((concurrency) => [concurrency, Number.POSITIVE_INFINITY]));
      for (let attempt = 0; attempt < TUNE_TRIES; attempt++) {
        for (const [concurrency, before] of times) {
          const { ms } = await this.#time({ concurrency, batched }, TUNE_JOBS);
          times.set(concurrency, Math.min(before, ms));
          await between();
        }
      }
      const [fastest] = [...times].sort((a, b) => a[1] - b[1]) as [[number, number]];
      return { concurrency: fastest[0], batched };
    };
    return { plain: await best(false, PLAIN_CONCURRENCY), batched: await best(true, BATCHED_CONCURRENCY) };
  }

  /** @returns ms, and what each job returned, by its number; a job's row is its number modulo their count */
  async drain(settings: BullMqSettings, jobs: number): Promise<Timed & { values: number[][] }> {
    const timed = await this.#time(settings, jobs);
    const values = (await this.#client.ask({ kind: 'results', queue: QUEUE, jobs })) as number[][];
    return { ...timed, values };
  }

  async #time(settings: BullMqSettings, jobs: number): Promise<Timed> {
    await this.#client.ask({ kind: 'fill', queue: QUEUE, jobs, rows: this.#rows });
    return (await this.#worker.ask({ kind: 'drain', queue: QUEUE, jobs, ...settings })) as Timed;
  }

  async close(): Promise<void> {
    await this.#worker.close();
    await this.#client.close();
  }
}
