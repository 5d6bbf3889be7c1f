/** Servers that hold the stored data, and one version of the product running on them. */
import type { FunctionEnvironment } from './function-environment.ts';
import { JOB_NAMES, JOBS, type Job } from './jobs.ts';
import type { FunctionName, InputClient, OutputClient, ParkedPlace, Product } from './product.ts';
import { openInput, openOutput, openServers, type Servers, startFunctions, writeConfig } from './servers.ts';
import { loadBucket, loadRedis, type Stored } from './stored.ts';

const FUNCTIONS: Readonly<Record<Job, readonly FunctionName[]>> = {
  line: ['batch', 'predictions', 'predict', 'dead-letter', 'status'],
  kinds: ['batch', 'predictions'],
  top: ['batch', 'predictions', 'predict'],
  text: ['batch', 'predictions', 'predict'],
};

export interface World extends Servers {
  readonly product: Product;
  /** An environment for each job. */
  readonly functions: Readonly<Record<Job, FunctionEnvironment>>;
  /** Where the dead letters of a job are parked. */
  readonly parked: (job: Job) => ParkedPlace;
  /** Starts another environment of a job, optionally with another config. */
  readonly startFunctions: (job: Job, config?: string) => Promise<FunctionEnvironment>;
  /** Resets Redis and S3 to the stored state. */
  readonly restore: (stored: Stored) => Promise<void>;
  readonly output: <T>(job: string, work: (queue: OutputClient) => Promise<T>) => Promise<T>;
  /** @param claims whether the client connects to Redis and claims its uris */
  readonly input: <T>(job: Job, claims: boolean, work: (queue: InputClient) => Promise<T>) => Promise<T>;
  /** Removes all messages from a queue and returns their bodies. */
  readonly sent: (job: Job) => Promise<string[]>;
}

export async function openWorld(product: Product): Promise<World> {
  const servers = await openServers(product, JOB_NAMES);
  const { redis, redisUrl, aws, bucket, receive, remove } = servers;
  const configFiles = new Map<Job, string>();
  for (const job of JOB_NAMES) configFiles.set(job, await writeConfig(servers, job, JOBS[job]));
  const start = (job: Job, config: string = JOBS[job]) =>
    startFunctions(product, servers, { name: job, config, load: FUNCTIONS[job] });
  const started = await Promise.all(JOB_NAMES.map(async (job) => [job, await start(job)] as const));
  return {
    ...servers,
    product,
    functions: Object.fromEntries(started) as Record<Job, FunctionEnvironment>,
    parked: (job) => ({ bucket, configFile: configFiles.get(job) ?? '', redisUrl }),
    startFunctions: start,
    async restore(stored) {
      await Promise.all([loadRedis(redis, stored.redis), loadBucket(aws.s3, bucket, stored.objects)]);
    },
    async output(job, work) {
      const queue = openOutput(product, servers, job);
      try {
        return await work(queue);
      } finally {
        await queue.close();
      }
    },
    async input(job, claims, work) {
      const queue = openInput(product, servers, job, claims);
      try {
        return await work(queue);
      } finally {
        await queue.close();
      }
    },
    async sent(job) {
      const bodies: string[] = [];
      for (;;) {
        const records = await receive(job);
        if (records.length === 0) return bodies;
        bodies.push(...records.map(({ body }) => body));
        await remove(job, records);
      }
    },
  };
}
