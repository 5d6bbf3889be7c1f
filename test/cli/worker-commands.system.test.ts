/** The commands of a job with a worker: its dead letters are replayed by its code, and its files are not pushed to a machine. */
import assert from 'node:assert/strict';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { SendMessageBatchCommand, SQSClient } from '@aws-sdk/client-sqs';
import { encodeMessage } from '../../lib/codecs/message.ts';
import type { StackRecord } from '../../local/service/data-folder.ts';
import { OutputQueue } from '../../sdk/index.ts';
import { useAws } from '../support/environment.ts';
import { until } from '../support/until.ts';
import { type CliAnswer, cli, cliJson, serviceFolder } from './cli.ts';
import type { Replayed } from './dlq/poison.ts';
import { outcomeOf } from './dlq/support.ts';
import { warmCli, warmCliJson } from './warm.ts';

const JOB = 'sums';
const CONFIG = `
jobName: ${JOB}
batchSize: 4
function: { timeoutSeconds: 5 }
worker: { class: server.Worker, modelName: add.txt, numWorker: 2 }
`;

/** Adds the number of its file. At -1 it raises, at -2 its process ends, at -3 it never ends. */
const WORKER = `
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';

export class Worker {
  async getModel(_envs, modelDir, modelName) {
    return Number(await readFile(join(modelDir, modelName), 'utf8'));
  }
  predict(add, items) {
    const numbers = items.map((item) => Number(item.data[0]));
    if (numbers.includes(-3)) for (;;);
    if (numbers.includes(-2)) process.kill(process.pid, 'SIGKILL');
    if (numbers.includes(-1)) throw new RangeError('poison');
    return numbers.map((x) => ({ dtype: 'float64', shape: [1], data: Float64Array.of(x + add) }));
  }
}
`;

async function startService(t: TestContext) {
  const cwd = await serviceFolder(t);
  for (const [folder, number] of [
    ['model', 100],
    ['published', 200],
  ] as const) {
    await mkdir(join(cwd, folder));
    await writeFile(join(cwd, folder, 'add.txt'), String(number));
  }
  await writeFile(join(cwd, 'config.yaml'), CONFIG);
  await writeFile(join(cwd, 'server.mjs'), WORKER);
  const started = await cli(['start', '--port', '0'], { cwd });
  assert.equal(started.code, 0, started.stderr);
  const text = await readFile(join(cwd, '.cluster-serving', 'stack.json'), 'utf8');
  const record = JSON.parse(text) as StackRecord;
  useAws(record.environment);
  const sqs = new SQSClient({
    endpoint: record.environment.AWS_ENDPOINT_URL as string,
    useQueueUrlAsEndpoint: false,
  });
  t.after(() => sqs.destroy());
  const output = new OutputQueue({ name: JOB, url: record.redisUrl });
  t.after(() => output.close());
  return {
    cwd,
    record,
    /** Sends numbers, as the records of their uris, to the dead letters. */
    kill: async (numbers: Readonly<Record<string, number>>): Promise<void> => {
      const { count } = (await warmCliJson(['dlq', 'list'], { cwd })).json as { count: number };
      const Entries = Object.entries(numbers).map(([uri, x], i) => {
        const tensor = { dtype: 'float64' as const, shape: [1], data: Float64Array.of(x) };
        return {
          Id: String(i),
          MessageBody: encodeMessage(uri, new Map([['x', { kind: 'tensor', tensor }]])),
        };
      });
      const QueueUrl = `${record.queueUrl}-dlq`;
      assert.deepEqual((await sqs.send(new SendMessageBatchCommand({ QueueUrl, Entries }))).Failed ?? [], []);
      await until(async () => {
        const listed = (await warmCliJson(['dlq', 'list'], { cwd })).json as { count: number };
        return listed.count === count + Entries.length;
      }, 60_000);
    },
    outcome: (uri: string) => outcomeOf(output, uri),
    replay: async (...args: string[]) => {
      const answer = await cliJson(['dlq', 'replay', '--all', ...args], { cwd, env: record.environment });
      return answer as CliAnswer<Replayed>;
    },
  };
}

test('dead letters of a worker are replayed by its code, here with its folder, deployed with the files of its bucket', async (t) => {
  const { cwd, record, kill, outcome, replay } = await startService(t);
  await kill({ a: 1, poison: -1, crash: -2, b: 2, endless: -3 });
  const { json, code, stderr } = await replay();
  assert.equal(code, 1, stderr);
  assert.deepEqual([json.model, json.succeeded, json.stillFailing], ['server.Worker', 2, 3]);
  assert.deepEqual(json.failed.map((each) => `${each.uri} ${each.code}`).sort(), [
    'crash model_failed',
    'endless model_failed',
    'poison model_failed',
  ]);
  assert.deepEqual(await Promise.all(['a', 'b'].map(outcome)), [101, 102]);

  const to = ['--bucket', record.bucket, '--job', JOB];
  const env = record.environment;
  const pushed = await warmCliJson(['model', 'push', 'published', '-c', 'config.yaml', ...to], { cwd, env });
  assert.equal(pushed.code, 0, pushed.stderr);
  await kill({ c: 3 });
  const deployed = await replay('--bucket', record.bucket, '--redis-url', record.redisUrl);
  assert.deepEqual([deployed.json.succeeded, deployed.json.stillFailing], [1, 3], deployed.stderr);
  assert.equal(deployed.json.model, (pushed.json as { version: string }).version);
  assert.equal(await outcome('c'), 203);

  const refused = await warmCli(['model', 'push', 'published', '-c', 'config.yaml'], { cwd });
  assert.equal(refused.code, 2, refused.stdout);
  assert.match(refused.stderr, /is served from its folders, not from S3.*cluster-serving restart/);

  await writeFile(
    join(cwd, 'server.mjs'),
    'export class Worker { getModel() { throw new Error("no licence"); } predict() {} }',
  );
  const broken = await replay();
  assert.equal(broken.code, 1);
  assert.match(broken.stdout + broken.stderr, /the worker did not start: .*no licence/);
});
