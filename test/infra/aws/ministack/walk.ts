/**
 * walk.ts NAME TOOLS REPORT
 * The life of the variant NAME in the account of ministack.ts, from deploy to remove, by the commands of a user, who knows the name
 * of the stack alone. What was seen on the way is written to the file REPORT. It runs in the namespace of namespace.sh.
 */
import { appendFile, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { ListBucketsCommand, S3Client } from '@aws-sdk/client-s3';
import { ListQueuesCommand, SQSClient } from '@aws-sdk/client-sqs';
import { listOf, recordOf } from '../../../../infra/doctor/template.ts';
import { authorizedFetch } from '../../../../sdk/access.ts';
import { cli, cliJson, IMAGES } from '../../../cli/cli.ts';
import { useAws } from '../../../support/environment.ts';
import { copyProject, packagedIn, removeProject, runServerless } from '../../../support/packaging.ts';
import { type Hooks, temporaryFolder } from '../../../support/runner.ts';
import { SIGNED_ENVIRONMENT, SIGNED_REGION } from '../../../support/signed-api.ts';
import { emptyBucket } from '../buckets.ts';
import { startCluster, startServer } from '../redis.ts';
import { params, STACK } from '../variants.ts';
import { type MiniStack, startMiniStack } from './ministack.ts';
import { WALKED, type Walked } from './variants.ts';

export type Report = Awaited<ReturnType<typeof walk>>;

const DIGIT = 7;
const CONFIG = 'examples/digits/config.yaml';
const AT = ['--stack', STACK];

async function walk(t: Hooks, variant: Walked, tools: string) {
  const folder = await temporaryFolder(t, 'cluster-serving-walk-');
  const redis = await (variant.isCluster ? startCluster(t) : startServer(t, folder));
  const account = await startMiniStack(t, { tools, redisPort: redis.port, certificate: redis.certificate });
  useAws(SIGNED_ENVIRONMENT);
  const project = await copyProject();
  t.after(() => removeProject(project));
  await appendFile(join(project, CONFIG), '\njobs: {maximumConcurrency: 2}\n');
  const options = params({ config: CONFIG, ...variant.parameters(`localhost:${redis.port}`) });
  const serverless = (command: string, ...more: readonly string[]) =>
    runServerless(project, [command, ...options, ...more], {
      ...account.environment,
      // Between two looks at the stack's events; osls's default is 5000.
      SLS_AWS_MONITORING_FREQUENCY: '50',
    });
  await variant.prepare(redis, account);
  const deployed = await succeed('deploy', serverless, account);
  await variant.admit?.(redis, await packagedIn(project).template());
  const outputs = outputsIn(await succeed('info', serverless, account, '--verbose'));
  const first = await use(account, outputs, 'first');
  const job = await answerFiles(account);
  const model = join(project, 'examples', 'digits', 'model', 'model.onnx');
  // The name of its producer (ONNX field 2) a second time: another version, with the same answers.
  await appendFile(model, Uint8Array.of(0x12, 1, 0x78));
  const published = await succeed('publish', serverless, account);
  const afterPublish = await served(account, outputs);
  const rolledBack = await run(account, ['model', 'rollback', ...bucketOf(outputs)]);
  const afterRollback = await served(account, outputs);
  await succeed('deploy', serverless, account, ...params(variant.update));
  const updatedOutputs = outputsIn(await succeed('info', serverless, account, '--verbose'));
  const retention = await retentionIn(account);
  const second = await respondLater(outputs);
  const content = await readFile(model);
  await writeFile(model, content.subarray(0, content.length / 2));
  const refused = await serverless('deploy', ...params(variant.update));
  await writeFile(model, content);
  const afterRefusal = await use(account, outputs, 'after it');
  const s3 = new S3Client();
  const sqs = new SQSClient();
  await emptyBucket(s3, String(outputs['BucketName']));
  await succeed('remove', serverless, account);
  const { Buckets = [] } = await s3.send(new ListBucketsCommand());
  const { QueueUrls = [] } = await sqs.send(new ListQueuesCommand());
  const gone = await serverless('info');
  return {
    outputs,
    updatedOutputs,
    retention,
    texts: { deployed, published },
    refused: { code: refused.exitCode, output: refused.output },
    gone: { code: gone.exitCode, output: gone.output },
    first,
    job,
    afterPublish,
    rolledBack,
    afterRollback,
    second,
    afterRefusal,
    left: { buckets: Buckets.map(({ Name }) => Name), queues: QueueUrls },
  };
}

type Outputs = Readonly<Record<string, string>>;

async function succeed(
  command: string,
  serverless: (command: string, ...more: readonly string[]) => Promise<{ exitCode: number; output: string }>,
  account: MiniStack,
  ...more: readonly string[]
): Promise<string> {
  const { exitCode, output } = await serverless(command, ...more);
  if (exitCode !== 0) throw new Error(`${command}: ${output}\n${account.output().slice(-8_000)}`);
  return output;
}

/** `info --verbose` prints a line of each. */
function outputsIn(text: string): Outputs {
  return Object.fromEntries(
    [...text.matchAll(/^ {2}(\w+): (\S+)$/gm)].map(([, name, value]) => [name, value]),
  );
}

async function run({ environment: env }: MiniStack, command: readonly string[]) {
  const { code, stdout, stderr } = await cli(command, { env });
  return { code, stdout, stderr };
}

/** The commands of a user, once each. */
async function use(account: MiniStack, { HttpApiUrl }: Outputs, uri: string) {
  const { environment: env } = account;
  const image = join(IMAGES, `digit-${DIGIT}.png`);
  const predicted = await run(account, ['predict', image, ...AT]);
  const enqueued = await run(account, ['enqueue', `${uri}=${image}`, ...AT]);
  const queried = await cliJson(['query', uri, '--wait', '60', ...AT], { env });
  const status = await run(account, ['status', ...AT]);
  const unsigned = await fetch(`${HttpApiUrl}/ready`);
  return { predicted, enqueued, queried, status, unsigned: unsigned.status };
}

/** A job over the pictures of a folder, which are uploaded, watched and read by the commands. */
async function answerFiles(account: MiniStack) {
  const ran = await run(account, ['job', 'run', IMAGES, ...AT]);
  const id = /job (\S+) has begun/.exec(ran.stderr)?.[1] ?? '';
  return { ran, results: await run(account, ['job', 'results', id, ...AT]) };
}

function bucketOf({ BucketName = '' }: Outputs): string[] {
  return ['--bucket', BucketName, '--job', 'serving_stream'];
}

/** The version that serves. */
async function served({ environment: env }: MiniStack, outputs: Outputs): Promise<unknown> {
  const { json } = await cliJson(['model', 'list', ...bucketOf(outputs)], { env });
  return listOf(recordOf(json)['versions'])
    .map(recordOf)
    .find(({ serves }) => serves)?.['version'];
}

/** Days, of the log group of each function. */
async function retentionIn(account: MiniStack): Promise<unknown[]> {
  const answer = await account.ask('logs', 'Logs_20140328.DescribeLogGroups', {
    logGroupNamePrefix: `/aws/lambda/${STACK}-`,
  });
  return listOf(recordOf(answer)['logGroups']).map((group) => recordOf(group)['retentionInDays']);
}

/** With respondAsync=on, which the update sets. */
async function respondLater({ HttpApiUrl = '' }: Outputs) {
  const signed = authorizedFetch(HttpApiUrl, { auth: 'iam', region: SIGNED_REGION });
  const image = (await readFile(join(IMAGES, `digit-${DIGIT}.png`))).toString('base64');
  const accepted = await signed(`${HttpApiUrl}/predict`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', prefer: 'respond-async' },
    body: JSON.stringify({ uri: 'later', instances: [{ image }] }),
  });
  const text = await accepted.text();
  if (accepted.status !== 202) return { accepted: accepted.status, text, status: undefined };
  const at = new URL(accepted.headers.get('location') ?? '/', HttpApiUrl).href;
  const answer = await signed(at, { method: 'GET', headers: { prefer: 'wait=20' } });
  return { accepted: accepted.status, text, status: recordOf(await answer.json())['status'] };
}

const [name, tools = '', report = ''] = process.argv.slice(2);
const variant = WALKED.find((one) => one.name === name);
if (variant) {
  const closers: (() => Promise<void>)[] = [];
  try {
    const seen = await walk({ after: (close) => closers.push(close) }, variant, tools);
    await writeFile(report, JSON.stringify(seen));
  } finally {
    for (const close of closers.reverse()) await close();
  }
}
