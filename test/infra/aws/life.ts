/** The life of a stack in an emulated account, from the first deploy to `remove`, with what was seen of it on the way. */
import assert from 'node:assert/strict';
import { appendFile } from 'node:fs/promises';
import { join } from 'node:path';
import { DeleteObjectCommand, type S3Client } from '@aws-sdk/client-s3';
import { SendMessageCommand } from '@aws-sdk/client-sqs';
import { authorizedFetch } from '../../../sdk/access.ts';
import { type CliAnswer, cli, cliJson, IMAGES } from '../../cli/cli.ts';
import { useAws } from '../../support/environment.ts';
import { smallJpeg } from '../../support/jpegs.ts';
import { copyProject, packagedIn, removeProject, runServerless } from '../../support/packaging.ts';
import { type Hooks, temporaryFolder } from '../../support/runner.ts';
import { SIGNED_ENVIRONMENT } from '../../support/signed-api.ts';
import { until } from '../../support/until.ts';
import { emptyBucket, keysIn } from './buckets.ts';
import { type AccountState, type Moto, REGION, startMoto } from './moto.ts';
import { startCluster, startServer, type TestRedis } from './redis.ts';
import { clientsOf, type RunningStack, startFunctions, startStack } from './running.ts';
import type { Tool } from './tools.ts';
import { type DeployedVariant, params, STACK } from './variants.ts';

export const DEPLOYER_KEY = 'AKIDDEPLOYER';
/** Key of the role that deploys the stack of shared-redis.yml. */
export const REDIS_DEPLOYER_KEY = 'AKIDREDIS';
export const DIGIT = 7;
const CONFIG = 'examples/digits/config.yaml';
const PASSWORD = 'a/secret+of=redis';
/** Over the 1 MiB of a message, so that it travels through the bucket. */
const LARGE_BYTES = 1024 * 1024;
/** Parameters of `deploy` in the update, beside respondAsync. */
export const CHANGED = { logDays: '30', requestsPerSecond: '50' } as const;

interface Queried {
  readonly results: readonly {
    readonly status: string;
    readonly outputs?: readonly { readonly data: readonly number[] }[];
  }[];
}

/** Texts of the contract: `{value={"data":[…],"shape":[10]}}`. */
interface Predicted {
  readonly predictions: readonly string[];
}

export type Life = Awaited<ReturnType<typeof live>>;

/** @param tools the folder with python */
export async function live(t: Hooks, variant: DeployedVariant, tools: string, client: Tool) {
  const moto = await startMoto(t, tools);
  const folder = await temporaryFolder(t, 'cluster-serving-aws-');
  const redis = await (variant.isCluster ? startCluster(t) : startServer(t, folder));
  await moto.place({ redis: ['localhost', redis.port] });
  if (variant.password) await protect(redis, variant.password, moto);
  const project = await copyProject();
  t.after(() => removeProject(project));
  const environment = { ...SIGNED_ENVIRONMENT, AWS_ENDPOINT_URL: moto.url };
  useAws(environment);
  const as = (key: string, options: readonly string[]) =>
    serverlessIn(project, moto, environment, key, options);
  const serverless = as(
    DEPLOYER_KEY,
    params({ config: CONFIG, ...variant.parameters(`localhost:${redis.port}`) }),
  );
  const ofRedis = variant.shared && as(REDIS_DEPLOYER_KEY, ['--config', 'shared-redis.yml']);
  const keys = new Map<string, string>();
  const look = async (): Promise<AccountState> => {
    const state = await moto.state();
    for (const { Credentials, RoleName } of state.roles) keys.set(Credentials.AccessKeyId, RoleName);
    return state;
  };
  const running = async () => ({
    moto,
    state: await look(),
    folder,
    certificate: redis.certificate,
    client,
  });

  await ofRedis?.('deploy', ...params(variant.shared ?? {}));
  const redisTemplate = ofRedis && (await packagedIn(project).template());
  const deployed = await serverless('deploy');
  const created = await look();
  // This Redis can check no signature of IAM, so it takes any password of a user; what the user may do is real.
  for (const { UserName, AccessString } of created.redisUsers)
    await redis.allow(UserName, ...AccessString.split(' '), 'nopass');
  const info = await serverless('info', '--verbose');
  const { s3 } = clientsOf(moto);
  const bucket = String(created.buckets.find((name) => name.startsWith('cluster-serving-dev-bucket')));
  await withoutModel(s3, bucket, await running());
  const model = join(project, 'examples', 'digits', 'model', 'model.onnx');
  // The name of its producer (ONNX field 2) a second time: another version, with the same answers.
  await appendFile(model, Uint8Array.of(0x12, 1, 0x78));
  const published = await serverless('publish');
  const first = await using(async (hooks) => {
    const stack = await startStack(hooks, await running());
    const seen = { ...(await use(stack, environment)), ...(await strain(moto, stack, bucket)) };
    // The last one writes its letter before it answers.
    await until(() => [...stack.functions.values()].every((one) => one.answered() > 0));
    const answered = [...stack.functions.values()].map((one) => [one.name, one.answered()] as const);
    return { ...seen, answered: Object.fromEntries(answered) };
  });
  const { respondAsync } = variant;
  const updated = await serverless('deploy', ...params({ ...CHANGED, respondAsync }));
  const changed = await look();
  const template = await packagedIn(project).template();
  const second = await using(async (hooks) => respondLater(await startStack(hooks, await running())));
  const recorded = await moto.recorded();
  for (const name of created.buckets) if (name === bucket) await emptyBucket(s3, name);
  const removed = await serverless('remove');
  await ofRedis?.('remove');
  const left = await moto.state();
  return {
    outputs: { deployed, info, published, updated, removed },
    created,
    changed,
    /** The template of the update, as packaged. */
    template,
    /** The template of the shared-redis.yml stack, if there is one. */
    redisTemplate,
    left,
    first,
    second,
    recorded,
    /** Names of roles by access key. */
    keys,
  };
}

/** osls with the keys of one caller and these options; it must succeed. */
function serverlessIn(
  project: string,
  moto: Moto,
  environment: Readonly<Record<string, string>>,
  key: string,
  options: readonly string[],
) {
  const ofDeployer = {
    ...environment,
    AWS_ACCESS_KEY_ID: key,
    // Between two looks at the stack's events; osls's default is 5000.
    SLS_AWS_MONITORING_FREQUENCY: '50',
  };
  return async (command: string, ...more: readonly string[]) => {
    const run = await runServerless(project, [command, ...options, ...more], ofDeployer);
    assert.equal(run.exitCode, 0, `${command}: ${run.output}\n${moto.output().slice(-4_000)}`);
    return run.output;
  };
}

async function protect(
  redis: TestRedis,
  { user, parameter }: NonNullable<DeployedVariant['password']>,
  moto: Moto,
): Promise<void> {
  await redis.allow(user, `>${PASSWORD}`, '~*', '&*', '+@all');
  await moto.ask('ssm', 'AmazonSSM.PutParameter', {
    Name: parameter,
    Value: PASSWORD,
    Type: 'SecureString',
  });
}

/** Work with hooks of its own, which run when it is over. */
async function using<T>(work: (hooks: Hooks) => Promise<T>): Promise<T> {
  const closers: (() => Promise<void>)[] = [];
  try {
    return await work({ after: (close) => closers.push(close) });
  } finally {
    for (const close of closers.reverse()) await close();
  }
}

/** Functions that start before there is a model look for one. */
async function withoutModel(
  s3: S3Client,
  Bucket: string,
  options: Parameters<typeof startFunctions>[1],
): Promise<void> {
  await s3.send(new DeleteObjectCommand({ Bucket, Key: 'models/serving_stream/current.json' }));
  await using(async (hooks) => {
    const functions = await startFunctions(hooks, options);
    const http = (method: string, path: string) => ({
      version: '2.0',
      rawPath: path,
      rawQueryString: '',
      headers: { 'content-type': 'application/json' },
      requestContext: { http: { method, path } },
      body: '{"instances":[{"image":""}]}',
      isBase64Encoded: false,
    });
    const message = { messageId: 'm', body: '{"uri":"early"}', attributes: { SentTimestamp: '0' } };
    const events: Readonly<Record<string, unknown>> = {
      predict: http('POST', '/predict'),
      status: http('GET', '/ready'),
      batch: { Records: [message] },
    };
    for (const one of functions.values()) if (one.name in events) await one.invoke(events[one.name]);
  });
}

/** The user's commands, which know only the name of the stack. */
async function use({ api }: RunningStack, env: Readonly<Record<string, string>>) {
  const image = join(IMAGES, `digit-${DIGIT}.png`);
  const at = ['--stack', STACK];
  const enqueued = await cli(['enqueue', `a digit=${image}`, ...at], { env });
  const queried = (await cliJson(['query', 'a digit', '--wait', '60', ...at], { env })) as CliAnswer<Queried>;
  const predicted = (await cliJson(['predict', image, ...at], { env })) as CliAnswer<Predicted>;
  const status = await cli(['status', ...at], { env });
  const unsigned = await fetch(`${api.url}/ready`);
  return { enqueued, queried, predicted, status, unsigned: unsigned.status, refused: [...api.refused] };
}

/** A record over the limit of a message, and one that was delivered too often. */
async function strain(moto: Moto, { api }: RunningStack, bucket: string) {
  const signed = authorizedFetch(api.url, { auth: 'iam', region: REGION });
  const headers = { 'content-type': 'application/json' };
  const body = JSON.stringify({ uri: 'large', instances: [{ image: largePicture() }] });
  const submitted = await signed(`${api.url}/predictions`, { method: 'POST', headers, body });
  const large = await signed(`${api.url}/predictions/large`, {
    method: 'GET',
    headers: { prefer: 'wait=20' },
  });
  const deleted = await signed(`${api.url}/predictions/large`, { method: 'DELETE', headers: {} });
  const { s3, sqs } = clientsOf(moto);
  const { queues } = await moto.state();
  const QueueUrl = String(queues.find((url) => url.endsWith('-dlq') || url.endsWith('-dead-letter')));
  await sqs.send(new SendMessageCommand({ QueueUrl, MessageBody: '{"uri":"poison","data":"no record"}' }));
  const letters = async () => (await keysIn(s3, bucket)).filter((key) => key.startsWith('dead-letters/'));
  await until(async () => (await letters()).length > 0);
  return {
    submitted: submitted.status,
    large: (await large.json()) as { readonly status?: string },
    deleted: deleted.status,
    letters: await letters(),
  };
}

/** With respondAsync=on, after the update. */
async function respondLater({ api }: RunningStack) {
  const signed = authorizedFetch(api.url, { auth: 'iam', region: REGION });
  const accepted = await signed(`${api.url}/predict`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', prefer: 'respond-async' },
    body: JSON.stringify({ uri: 'later', instances: [{ image: largePicture() }] }),
  });
  const text = await accepted.text();
  const location = accepted.headers.get('location');
  const answer = await signed(new URL(location ?? '/', api.url).href, {
    method: 'GET',
    headers: { prefer: 'wait=20' },
  });
  return {
    accepted: accepted.status,
    text,
    location,
    answer: (await answer.json()) as { readonly status?: string },
  };
}

/** In base64. Bytes after the end of a JPEG do not belong to the picture. */
function largePicture(): string {
  return Buffer.concat([smallJpeg('baseline420').bytes, Buffer.alloc(LARGE_BYTES)]).toString('base64');
}
