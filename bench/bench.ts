/**
 * In: nothing. Out: what scenarios share: a temporary folder, the models, a Redis in a process of its own.
 * Trap: what was opened is closed in the opposite order, also when a scenario failed.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type BenchModel, type ModelName, makeModel } from './models.ts';
import { type InstalledPeer, versionText } from './peers/installed.ts';
import { startChild } from './processes/child.ts';
import type { RedisQuestion, RunningRedis } from './processes/redis.ts';
import type { Line } from './report.ts';

const SIGNALS = ['SIGINT', 'SIGTERM'] as const;

export interface Scenario {
  readonly name: string;
  readonly about: string;
  run(bench: Bench): Promise<Line[]>;
}

export class Bench {
  readonly folder: string;
  readonly #closers: (() => Promise<unknown>)[] = [];
  readonly #models = new Map<ModelName, Promise<BenchModel>>();
  readonly #peers = new Map<string, string>();
  #redis: Promise<RunningRedis> | undefined;
  #closing: Promise<void> | undefined;
  readonly #only: string;

  /** Peers are ended when this process exits, and a signal alone would leave them and the folder. */
  readonly #onSignal = () => void this.close().finally(() => process.exit(130));

  private constructor(folder: string, only: string) {
    this.folder = folder;
    this.#only = only.toLowerCase();
  }

  /** @param only cases whose name contains this, "" for all */
  static async open(only = ''): Promise<Bench> {
    const folder = await mkdtemp(join(tmpdir(), 'cluster-serving-bench-'));
    const bench = new Bench(folder, only);
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

  model(name: ModelName): Promise<BenchModel> {
    const made = this.#models.get(name) ?? makeModel(name, join(this.folder, 'models'));
    this.#models.set(name, made);
    return made;
  }

  /** The models that were made so far; one that could not be made has failed its scenario, and no other. */
  async models(): Promise<BenchModel[]> {
    const made = await Promise.allSettled(this.#models.values());
    return made.flatMap((each) => (each.status === 'fulfilled' ? [each.value] : []));
  }

  /** That a peer takes part, for the report. */
  tellPeer(peer: InstalledPeer): void {
    this.#peers.set(peer.name, versionText(peer));
  }

  /** Name and versions of each peer that took part. */
  peers(): ReadonlyMap<string, string> {
    return this.#peers;
  }

  /** The machine's redis-server, else the embedded one; either in a process of its own. */
  redis(): Promise<RunningRedis> {
    this.#redis ??= this.#startRedis();
    return this.#redis;
  }

  async #startRedis(): Promise<RunningRedis> {
    const child = await startChild<RedisQuestion, RunningRedis>('redis', { role: 'client' });
    this.onClose(() => child.close());
    return child.ask({ dataDir: join(this.folder, 'redis') });
  }

  /** Once: whoever comes while it closes waits for its end too. */
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
