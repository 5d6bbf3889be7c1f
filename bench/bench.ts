/**
 * Things that scenarios share: a temporary folder, models, services and peers. Closing ends them in the opposite order.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { type LocalAws, startAws } from '../local/aws/aws.ts';
import { type BenchModel, type ModelName, makeModel } from './models.ts';
import { type InstalledPeer, pinsOf } from './peers/installed.ts';
import { startChild } from './processes/child.ts';
import type { RedisProcess, RunningRedis } from './processes/redis.ts';
import { QUIET } from './quiet.ts';
import type { Line } from './report.ts';
import { JOB } from './served.ts';

const SIGNALS = ['SIGINT', 'SIGTERM'] as const;

export interface Scenario {
  readonly name: string;
  readonly about: string;
  run(bench: Bench): Promise<Line[]>;
}

interface BenchOptions {
  /** Only cases whose name contains this; default all. */
  readonly only?: string;
  /** One repeat instead of five, a fifth as long: shows that everything works. */
  readonly quick?: boolean;
}

export class Bench {
  readonly folder: string;
  readonly quick: boolean;
  /** Number of times that each measurement is repeated. */
  readonly repeats: number;
  /** Versions of each peer that took part. */
  readonly peers: Record<string, string> = {};
  readonly #closers: (() => Promise<unknown>)[] = [];
  readonly #models = new Map<ModelName, Promise<BenchModel>>();
  readonly #only: string;
  #redis: Promise<RunningRedis> | undefined;
  #aws: Promise<LocalAws> | undefined;
  #closing: Promise<void> | undefined;

  /** Peers are ended when this process exits; a signal alone would leave them and the folder. */
  readonly #onSignal = () => void this.close().finally(() => process.exit(130));

  private constructor(folder: string, { only = '', quick = false }: BenchOptions) {
    this.folder = folder;
    this.quick = quick;
    this.repeats = quick ? 1 : 5;
    this.#only = only.toLowerCase();
  }

  static async open(options: BenchOptions = {}): Promise<Bench> {
    const folder = await mkdtemp(join(tmpdir(), 'cluster-serving-bench-'));
    const bench = new Bench(folder, options);
    bench.onClose(() => rm(folder, { recursive: true, force: true }));
    for (const signal of SIGNALS) process.once(signal, bench.#onSignal);
    return bench;
  }

  onClose(close: () => Promise<unknown>): void {
    this.#closers.push(close);
  }

  wants(name: string): boolean {
    return name.toLowerCase().includes(this.#only);
  }

  /** How long to measure: a fifth of it in a quick run. */
  ms(fullMs: number): number {
    return this.quick ? fullMs / 5 : fullMs;
  }

  model(name: ModelName): Promise<BenchModel> {
    const made = this.#models.get(name) ?? makeModel(name, join(this.folder, 'models'));
    this.#models.set(name, made);
    return made;
  }

  /** The models that were made so far; one that could not be made has failed its own scenario. */
  async models(): Promise<BenchModel[]> {
    const made = await Promise.allSettled(this.#models.values());
    return made.flatMap((each) => (each.status === 'fulfilled' ? [each.value] : []));
  }

  /** Notes for the report that the peer takes part. */
  addPeer({ name }: InstalledPeer): void {
    this.peers[name] = Object.entries(pinsOf(name))
      .map(([of, version]) => `${of} ${version}`)
      .join(', ');
  }

  /** The machine's redis-server, else the embedded one; either in a process of its own. */
  redis(): Promise<RunningRedis> {
    this.#redis ??= this.#startRedis();
    return this.#redis;
  }

  /** Results that one scenario left would be wrong answers to the next, whose uris may be the same. */
  async emptyRedis(): Promise<void> {
    if (!this.#redis) return;
    const client = new Redis((await this.#redis).url);
    await client.flushall().finally(() => client.disconnect());
  }

  async #startRedis(): Promise<RunningRedis> {
    const child = await startChild<RedisProcess>('redis', { role: 'client' });
    this.onClose(() => child.close());
    return child.call('start', join(this.folder, 'redis'));
  }

  /** Emulated SQS and S3 in this process, with a bucket named JOB. */
  aws(): Promise<LocalAws> {
    this.#aws ??= startAws({ port: 0, log: QUIET }).then(async (aws) => {
      this.onClose(() => aws.close());
      await aws.createBucket(JOB);
      return aws;
    });
    return this.#aws;
  }

  /** Every caller waits for the same end. */
  close(): Promise<void> {
    this.#closing ??= this.#closeAll();
    return this.#closing;
  }

  async #closeAll(): Promise<void> {
    for (const close of this.#closers.toReversed()) {
      await close().catch((error: unknown) => console.error(error));
    }
    for (const signal of SIGNALS) process.off(signal, this.#onSignal);
  }
}
