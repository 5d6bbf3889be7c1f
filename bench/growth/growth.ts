/**
 * In: nothing. Out: what the curves share on the parent's side: a folder, the benchmark's models, servers in processes
 * of their own, and the process of one point.
 * Trap: a server that shared the process of a point would be measured with it.
 */
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Bench } from '../bench.ts';
import { startChild } from '../processes/child.ts';
import type { RedisQuestion, RunningRedis } from '../processes/redis.ts';
import type { PointQuestion, Sample } from './point.ts';
import type { ObjectServerQuestion } from './processes/object-server.ts';
import type { QueueServerAnswer, QueueServerQuestion } from './processes/queue-server.ts';

const program = (name: string) => fileURLToPath(new URL(`processes/${name}.ts`, import.meta.url));
/** The SDK finds the keys, and nobody checks them; onnxruntime shall not tell Microsoft of a benchmark. */
const ENVIRONMENT = {
  AWS_ACCESS_KEY_ID: 'local',
  AWS_SECRET_ACCESS_KEY: 'local',
  ORT_DISABLE_TELEMETRY: '1',
};

export class Growth {
  readonly bench: Bench;
  #servers = 0;

  private constructor(bench: Bench) {
    this.bench = bench;
  }

  static async open(): Promise<Growth> {
    return new Growth(await Bench.open());
  }

  get folder(): string {
    return this.bench.folder;
  }

  /** A Redis of its own, empty. */
  async redis(): Promise<RunningRedis> {
    const child = await startChild<RedisQuestion, RunningRedis>('redis');
    this.bench.onClose(() => child.close());
    return child.ask({ dataDir: join(this.folder, `redis-${this.#servers++}`) });
  }

  /** An S3 whose objects are files. */
  async objects() {
    const child = await startChild<ObjectServerQuestion, string>(program('object-server'));
    this.bench.onClose(() => child.close());
    const endpoint = await child.ask({
      kind: 'open',
      folder: join(this.folder, `objects-${this.#servers++}`),
    });
    return {
      endpoint,
      /** Lets a file of this machine be an object. */
      place: (key: string, path: string) => child.ask({ kind: 'place', key, path }),
      /** Forgets every object whose key begins so, and removes what was uploaded of it. */
      clear: (prefix: string) => child.ask({ kind: 'clear', prefix }),
    };
  }

  /** An SQS. */
  async queues() {
    const child = await startChild<QueueServerQuestion, QueueServerAnswer>(program('queue-server'));
    this.bench.onClose(() => child.close());
    return (question: QueueServerQuestion) => child.ask(question);
  }

  /**
   * One point, in a process that begins and ends with it. It is killed: there is nothing left to do for it, and one in
   * twenty hung while onnxruntime took leave.
   */
  async point(question: PointQuestion, flags: readonly string[] = []): Promise<Sample> {
    const child = await startChild<PointQuestion, Sample>(program('point'), {
      flags: ['--expose-gc', ...flags],
      environment: { ...ENVIRONMENT, NODE_COMPILE_CACHE: join(this.folder, 'compiled') },
    });
    try {
      return await child.ask(question);
    } finally {
      await child.kill();
    }
  }

  close(): Promise<void> {
    return this.bench.close();
  }
}
