/** Servers that hold the stored data, and one version of the product running on them. */
import type { FunctionName } from './code.ts';
import type { FunctionEnvironment } from './function-environment.ts';
import { JOB_NAMES, JOBS, type Job } from './jobs.ts';
import type { Code } from './kept.ts';
import { openInput, openOutput, openServers, type Servers, startFunctions, writeConfig } from './servers.ts';
import { loadBucket, loadRedis, type Stored } from './stored.ts';
import type { DeadLetterPlace } from './today.ts';

const FUNCTIONS: Readonly<Record<Job, readonly FunctionName[]>> = {
  line: ['batch', 'predictions', 'predict', 'dead-letter', 'status'],
  kinds: ['batch', 'predictions'],
  top: ['batch', 'predictions', 'predict'],
  text: ['batch', 'predictions', 'predict'],
};

export interface World extends Servers {
  readonly code: Code;
  /** An environment for each job. */
  readonly functions: Readonly<Record<Job, FunctionEnvironment>>;
  readonly deadLetters: (job: Job) => DeadLetterPlace;
  /** Starts another environment of a job, optionally with another config. */
  readonly startFunctions: (job: Job, config?: string) => Promise<FunctionEnvironment>;
  /** Resets Redis and S3 to the stored state. */
  readonly restore: (stored: Stored) => Promise<void>;
  readonly output: <T>(
    job: string,
    work: (queue: InstanceType<Code['OutputQueue']>) => Promise<T>,
  ) => Promise<T>;
  /** @param announces whether the client connects to Redis and announces what it sends */
  readonly input: <T>(
    job: Job,
    announces: boolean,
    work: (queue: InstanceType<Code['InputQueue']>) => Promise<T>,
  ) => Promise<T>;
  /** Removes all messages from a queue and returns their bodies. */
  readonly sent: (job: Job) => Promise<string[]>;
}

export async function openWorld(code: Code): Promise<World> {
  const servers = await openServers(JOB_NAMES);
  const { redis, redisUrl, aws, bucket, receive, remove } = servers;
  const configFiles = new Map<Job, string>();
  for (const job of JOB_NAMES) configFiles.set(job, await writeConfig(servers, job, JOBS[job]));
  const start = (job: Job, config: string = JOBS[job]) =>
    startFunctions(code, servers, { name: job, config, load: FUNCTIONS[job] });
  const started = await Promise.all(JOB_NAMES.map(async (job) => [job, await start(job)] as const));
  return {
    ...servers,
    code,
    functions: Object.fromEntries(started) as Record<Job, FunctionEnvironment>,
    deadLetters: (job) => ({ bucket, configFile: configFiles.get(job) ?? '', redisUrl }),
    startFunctions: start,
    async restore(stored) {
      await Promise.all([loadRedis(redis, stored.redis), loadBucket(aws.s3, bucket, stored.objects)]);
    },
    async output(job, work) {
      const queue = openOutput(code, servers, job);
      try {
        return await work(queue);
      } finally {
        await queue.close();
      }
    },
    async input(job, announces, work) {
      const queue = openInput(code, servers, job, announces);
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
