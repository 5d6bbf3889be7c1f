/** A local stack with messages that the dead-letter function has archived in its bucket. */
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, type TestContext } from 'node:test';
import { DeleteObjectCommand, ListObjectsV2Command } from '@aws-sdk/client-s3';
import { SendMessageBatchCommand } from '@aws-sdk/client-sqs';
import { encodeMessage } from '../../../lib/codecs/message.ts';
import { deadLetterPrefix } from '../../../lib/contract/names.ts';
import type { Inputs } from '../../../lib/contract/values.ts';
import { RedisConnection } from '../../../lib/redis/connection.ts';
import type { Stack } from '../../../local/service/stack.ts';
import { OutputQueue } from '../../../sdk/index.ts';
import { deadlyModel } from '../../support/endless.ts';
import { quietLog } from '../../support/faults/quiet.ts';
import { PATIENT } from '../../support/redis.ts';
import { type Hooks, temporaryFolder } from '../../support/runner.ts';
import { testStack } from '../../support/stack.ts';
import { until } from '../../support/until.ts';
import { type CliAnswer, cleaningUp, type Ran } from '../cli.ts';
import { warmCli, warmCliJson } from '../warm.ts';

export const JOB = 'loops';

export interface Dlq {
  readonly stack: Stack;
  readonly output: OutputQueue;
  readonly configFile: string;
  /** Sends message bodies to the dead-letter queue and waits until all are archived. */
  readonly archive: (bodies: readonly string[]) => Promise<void>;
  /** Ids of what is archived, in order. */
  readonly archived: () => Promise<string[]>;
  /** `cluster-serving dlq ...` on this job. */
  readonly dlq: (...args: string[]) => Promise<Ran>;
  readonly dlqJson: <T>(...args: string[]) => Promise<CliAnswer<T>>;
}

/** A record of the model, whose y is its rounds. */
export function loopRecord(rounds: number): Inputs {
  const tensor = { dtype: 'float64' as const, shape: [], data: Float64Array.of(rounds) };
  return new Map([['rounds', { kind: 'tensor', tensor }]]);
}

export const loopMessage = (uri: string, rounds: number): string => encodeMessage(uri, loopRecord(rounds));

const CONFIG = `jobName: ${JOB}\nmodelRefreshSeconds: 1\nresultTtlSeconds: 3600\nqueue:\n  maxReceiveCount: 2\n`;

/** Shared by the tests of a file: a service, and the folder of its model. */
export interface DlqService {
  readonly stack: Stack;
  readonly folder: string;
}

export async function startService(hooks: Hooks): Promise<DlqService> {
  const folder = await temporaryFolder(hooks, 'cs-dlq-');
  await writeFile(join(folder, 'model.onnx'), deadlyModel());
  return { stack: await testStack(hooks, { config: CONFIG, modelDirectory: folder }), folder };
}

/** Opens a service before the tests of a file. @returns what gives it to a test, without records and dead letters */
export function sharedDlq(): (t: TestContext) => Promise<Dlq> {
  const cleanups: (() => Promise<void>)[] = [];
  let service: DlqService;
  before(
    cleaningUp(cleanups, async () => {
      service = await startService({ after: (cleanup) => cleanups.unshift(cleanup) });
    }),
  );
  after(async () => {
    for (const cleanup of cleanups) await cleanup();
  });
  return async (t) => {
    const dlq = await openDlqOf(t, service);
    const { stack } = service;
    for (const id of await dlq.archived()) {
      const Key = `${deadLetterPrefix(JOB)}${id}.json`;
      await stack.aws.s3.send(new DeleteObjectCommand({ Bucket: stack.bucket, Key }));
    }
    const connection = new RedisConnection(stack.redisUrl, PATIENT);
    await connection.use((redis) => redis.flushall(), false);
    await connection.close();
    return dlq;
  };
}

/** A service of the test alone. */
export async function startDlq(t: TestContext): Promise<Dlq> {
  return openDlqOf(t, await startService(t));
}

async function openDlqOf(t: TestContext, { stack, folder }: DlqService): Promise<Dlq> {
  quietLog(t);
  const configFile = join(await temporaryFolder(t), 'config.yaml');
  await writeFile(configFile, CONFIG);
  const output = new OutputQueue({ name: JOB, url: stack.redisUrl });
  t.after(() => output.close());
  const place = ['--bucket', stack.bucket, '-c', configFile, '--redis-url', stack.redisUrl];
  const options = { env: stack.aws.environment, cwd: folder };
  const archived = async () => {
    const ids: string[] = [];
    let token: string | undefined;
    do {
      const Prefix = deadLetterPrefix(JOB);
      const list = new ListObjectsV2Command({ Bucket: stack.bucket, Prefix, ContinuationToken: token });
      const page = await stack.aws.s3.send(list);
      for (const { Key = '' } of page.Contents ?? []) ids.push(Key.slice(Prefix.length, -'.json'.length));
      token = page.NextContinuationToken;
    } while (token !== undefined);
    return ids;
  };
  return {
    stack,
    output,
    configFile,
    archived,
    async archive(bodies) {
      const countBefore = (await archived()).length;
      for (let i = 0; i < bodies.length; i += 10) {
        const Entries = bodies.slice(i, i + 10).map((MessageBody, id) => ({ Id: String(id), MessageBody }));
        const send = new SendMessageBatchCommand({ QueueUrl: stack.deadLetterUrl, Entries });
        assert.deepEqual((await stack.aws.sqs.send(send)).Failed ?? [], []);
      }
      const isDone = async () => (await archived()).length === countBefore + bodies.length;
      // A listing of a thousand objects takes the same SQLite and thread that archive them.
      await until(isDone, 300_000, 20 + bodies.length);
    },
    dlq: (...args) => warmCli(['dlq', ...args, ...place], options),
    dlqJson: async <T>(...args: string[]) =>
      (await warmCliJson(['dlq', ...args, ...place], options)) as CliAnswer<T>,
  };
}

/** The state of a uri: the value of its result, or the code of its failure; undefined for nothing. */
export async function outcomeOf(output: OutputQueue, uri: string): Promise<unknown> {
  try {
    return (await output.query(uri))?.outputs[0]?.data[0];
  } catch (error) {
    return (error as { code?: string }).code;
  }
}
