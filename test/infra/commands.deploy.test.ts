/**
 * `serverless deploy`, `info`, `publish` and `remove` as a user types them, with fake credentials, against S3,
 * CloudFormation and STS on this machine. Two stacks live their whole lives first; the tests then examine what was
 * recorded. Whether AWS accepts the template is not tested here.
 */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { DeleteObjectCommand } from '@aws-sdk/client-s3';
import type { LocalAws } from '../../local/aws/aws.ts';
import { findStack } from '../../sdk/index.ts';
import { useAws } from '../support/environment.ts';
import { identityModel } from '../support/onnx.ts';
import { resourcesOf, type Template } from '../support/template.ts';
import {
  ACCESS_KEY,
  type Account,
  bodyOf,
  look,
  objectsOf,
  type Run,
  type Seen,
  startAccount,
} from './account.ts';

const TEMPLATE = 'cloudformation-template-update-stack.json';
const NO_SPACE =
  'cache.t4g.small (VPC) is not currently supported in the availability zone us-east-1e. Retry the launch with no availability zone or target: us-east-1a, us-east-1f. (Service: ElastiCache, Status Code: 400)';
const OUTPUTS = [
  'HttpApiUrl',
  'QueueUrl',
  'BucketName',
  'ModelLocation',
  'RedisUrl',
  'DeadLetterQueueUrl',
  'JobName',
  'Auth',
];

async function servingVersion(aws: LocalAws, Bucket: string, jobName: string): Promise<string> {
  const text = await bodyOf(aws, Bucket, `models/${jobName}/current.json`);
  return (JSON.parse(Buffer.from(text).toString()) as { version: string }).version;
}

/** `aws s3 rm --recursive` of docs/how-to/deploy.md. */
async function empty(aws: LocalAws, Bucket: string): Promise<void> {
  for (const Key of Object.keys((await objectsOf(aws, Bucket)) ?? {}))
    await aws.s3.send(new DeleteObjectCommand({ Bucket, Key }));
}

async function writeModel({ folder }: Account, columns: number): Promise<Uint8Array> {
  const bytes = identityModel([{ name: 'x', dtype: 'float32', shape: ['n', columns] }]);
  await mkdir(join(folder, 'model'), { recursive: true });
  await writeFile(join(folder, 'model', 'identity.onnx'), bytes);
  return bytes;
}

function sha256(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex');
}

/** The stack's own statuses, or a resource's. */
function statuses({ events }: Seen, logicalId: string): string[] {
  return events.filter((event) => event.LogicalResourceId === logicalId).map((event) => event.ResourceStatus);
}

/** The last packaged files, and their copies in the deployment bucket: sha256 by file name. */
async function packagedAndUploaded({ folder, aws }: Account, { deployment = {}, resources }: Seen) {
  const files = (await readdir(join(folder, '.serverless'))).filter((name) => name.endsWith('.zip'));
  const packaged = files.map(
    async (name) => [name, sha256(await readFile(join(folder, '.serverless', name)))] as const,
  );
  const bucket = resources['ServerlessDeploymentBucket'] as string;
  const bodies = Object.keys(deployment).map(
    async (key) => [key.replace(/^.*\//, ''), await bodyOf(aws, bucket, key)] as const,
  );
  const uploaded = new Map(await Promise.all(bodies));
  return {
    packaged: Object.fromEntries(await Promise.all(packaged)),
    template: JSON.parse(await readFile(join(folder, '.serverless', TEMPLATE), 'utf8')) as Template,
    uploaded: Object.fromEntries(
      [...uploaded].filter(([name]) => name.endsWith('.zip')).map(([name, bytes]) => [name, sha256(bytes)]),
    ),
    uploadedTemplate: JSON.parse(
      Buffer.from(uploaded.get('compiled-cloudformation-template.json') ?? []).toString(),
    ) as Template,
  };
}

/** A dev stack, from the first deploy to the last remove. */
async function devLife(account: Account) {
  const { aws, serverless, folder } = account;
  const seen = (run: Run) => look(account, 'cluster-serving-dev', run);
  const modelless = await seen(await serverless('deploy'));
  const sampled = await look(
    account,
    'cluster-serving-sample',
    await serverless('deploy', '--stage', 'sample', '--param', 'sample=on'),
  );
  const model = await writeModel(account, 2);
  const created = await seen(await serverless('deploy'));
  assert.equal(created.exitCode, 0, created.output);
  const files = await packagedAndUploaded(account, created);
  const bucket = created.resources['Bucket'] as string;
  const first = await servingVersion(aws, bucket, 'serving_stream');
  const stored = await bodyOf(aws, bucket, `models/serving_stream/versions/${first}/identity.onnx`);
  const again = await seen(await serverless('deploy'));
  const moved = await seen(await serverless('deploy', '--param', 'zones=us-east-1d,us-east-1f'));
  await writeFile(join(folder, 'config.yaml'), 'function: { memoryMB: 3538 }\n');
  const changed = await seen(await serverless('deploy'));
  const info = await seen(await serverless('info', '--verbose'));
  useAws(account.environment);
  const found = await findStack('cluster-serving-dev', { endpoint: account.cloudFormation.url });
  await writeModel(account, 3);
  const published = await seen(await serverless('publish'));
  const second = await servingVersion(aws, bucket, 'serving_stream');
  const full = await seen(await serverless('remove'));
  await empty(aws, bucket);
  const removed = await seen(await serverless('remove'));
  const left = await Promise.all(
    [bucket, created.resources['ServerlessDeploymentBucket']].map((name) => objectsOf(aws, name)),
  );
  return {
    modelless,
    sampled,
    model,
    stored,
    files,
    created,
    again,
    moved,
    changed,
    info,
    found,
    first,
    published,
    second,
    full,
    removed,
    left,
  };
}

/** A prod stack that has trouble being born, and keeps its data. */
async function prodLife(account: Account) {
  const { aws, serverless, folder, cloudFormation } = account;
  const name = 'cluster-serving-prod';
  const seen = (run: Run) => look(account, name, run);
  await mkdir(join(folder, 'model'));
  await writeFile(join(folder, 'model', 'broken.onnx'), 'not a model');
  const refused = await seen(await serverless('deploy', '--stage', 'prod'));
  await rm(join(folder, 'model'), { recursive: true });
  await writeModel(account, 2);
  cloudFormation.refuse(name, 'Redis', NO_SPACE);
  const failed = await seen(await serverless('deploy', '--stage', 'prod'));
  cloudFormation.refuse(name, 'Redis', undefined);
  const repaired = await seen(await serverless('deploy', '--stage', 'prod'));
  const removed = await seen(await serverless('remove', '--stage', 'prod'));
  const { Bucket, ServerlessDeploymentBucket } = repaired.resources;
  const [kept, deployment] = await Promise.all(
    [Bucket, ServerlessDeploymentBucket].map((b) => objectsOf(aws, b)),
  );
  return { refused, failed, repaired, removed, kept, deployment };
}

describe('a stack on S3 and CloudFormation of this machine', () => {
  const accounts: Account[] = [];
  let dev: Awaited<ReturnType<typeof devLife>>;
  let prod: Awaited<ReturnType<typeof prodLife>>;

  before(async () => {
    for (let count = 0; count < 2; count += 1) accounts.push(await startAccount());
    const [first, second] = accounts as [Account, Account];
    const [devLived, prodLived] = await Promise.allSettled([devLife(first), prodLife(second)]);
    // Both have ended by now, so that `after` takes no folder from a command that runs.
    if (devLived.status === 'rejected') throw devLived.reason;
    if (prodLived.status === 'rejected') throw prodLived.reason;
    [dev, prod] = [devLived.value, prodLived.value];
  });
  after(() => Promise.all(accounts.map((account) => account.close())));

  test('a first deploy without a model is refused before anything is created', () => {
    const { modelless } = dev;
    assert.equal(modelless.exitCode, 1);
    assert.match(modelless.output, /there is no model: .*\/model is not a directory.*--param sample=on/);
    assert.deepEqual([modelless.status, modelless.calls.includes('CreateChangeSet')], [undefined, false]);
  });

  test('deploy with sample=on needs no model, and serves the sample', () => {
    const { sampled } = dev;
    assert.deepEqual([sampled.exitCode, sampled.status], [0, 'UPDATE_COMPLETE'], sampled.output);
    assert.ok('models/serving_stream/current.json' in (sampled.bucket ?? {}));
    assert.match(sampled.output, /examples\/digits\/model serves from now on/);
  });

  test('deploy creates every resource of the template and waits until CloudFormation is done', () => {
    const { created, files } = dev;
    // The deployment bucket comes first, so that there is a place for the archives.
    assert.deepEqual(statuses(created, 'cluster-serving-dev'), [
      'CREATE_IN_PROGRESS',
      'CREATE_COMPLETE',
      'UPDATE_IN_PROGRESS',
      'UPDATE_COMPLETE',
    ]);
    for (const name of Object.keys(files.template.Resources))
      assert.deepEqual(statuses(created, name), ['CREATE_COMPLETE'], name);
    assert.deepEqual(Object.keys(created.resources).sort(), Object.keys(files.template.Resources).sort());
    assert.match(created.output, /Service deployed to stack cluster-serving-dev/);
  });

  test('deploy uploads the archives and the template that were packaged', () => {
    const { packaged, uploaded, template, uploadedTemplate } = dev.files;
    assert.equal(Object.keys(packaged).length, 6);
    assert.deepEqual(uploaded, packaged);
    assert.deepEqual(uploadedTemplate, template);
    const keys = resourcesOf(template, 'AWS::Lambda::Function').map(
      ([, { Code }]) => (Code as { S3Key: string }).S3Key,
    );
    for (const key of keys) assert.ok(key in (dev.created.deployment ?? {}), key);
  });

  test('deploy promotes the model of modelPath in the bucket of the stack', () => {
    assert.deepEqual(Buffer.from(dev.stored), Buffer.from(dev.model));
    assert.match(dev.created.output, new RegExp(`model ${dev.first} from .*/model serves from now on`));
  });

  test('deploy prints every route with its address, and every function', () => {
    const { template } = dev.files;
    const address = `https://${dev.created.resources['HttpApi']}.execute-api.us-east-1.amazonaws.com`;
    for (const [, { RouteKey }] of resourcesOf(template, 'AWS::ApiGatewayV2::Route')) {
      const [method, path] = String(RouteKey).split(' ');
      assert.ok(dev.created.output.includes(`${method} - ${address}${path}\n`), String(RouteKey));
    }
    for (const [, { FunctionName }] of resourcesOf(template, 'AWS::Lambda::Function'))
      assert.ok(dev.created.output.includes(`: ${String(FunctionName)} (`), String(FunctionName));
  });

  test('a second deploy without a change says so, and leaves stack, archives and model as they are', () => {
    const { created, again } = dev;
    assert.deepEqual([again.exitCode, again.calls.includes('CreateChangeSet')], [0, false], again.output);
    assert.match(again.output, /No changes to deploy/);
    for (const part of ['status', 'events', 'resources', 'deployment', 'bucket'] as const)
      assert.deepEqual(again[part], created[part], part);
  });

  test('a deploy to other zones is refused before anything is uploaded', () => {
    const { again, moved } = dev;
    assert.equal(moved.exitCode, 1, moved.output);
    assert.match(
      moved.output,
      /cluster-serving-dev is in the first two zones of the region, and CloudFormation cannot move it \(zones\)\./,
    );
    for (const part of ['status', 'events', 'resources', 'deployment', 'bucket'] as const)
      assert.deepEqual(moved[part], again[part], part);
  });

  test('a deploy with a changed config updates the functions that hold it, in place, and nothing that keeps data', () => {
    const { again, changed } = dev;
    assert.equal(changed.exitCode, 0, changed.output);
    const updated = changed.events
      .slice(again.events.length)
      .filter((e) => e.ResourceStatus === 'UPDATE_COMPLETE');
    const names = updated.map(({ LogicalResourceId }) => LogicalResourceId);
    for (const name of ['PredictLambdaFunction', 'BatchLambdaFunction', 'cluster-serving-dev'])
      assert.ok(names.includes(name), name);
    for (const name of ['Bucket', 'Redis', 'Queue', 'ServerlessDeploymentBucket'])
      assert.ok(!names.includes(name), name);
    assert.deepEqual(changed.resources, again.resources);
    assert.deepEqual(changed.bucket, again.bucket);
    // The archives of before stay, beside the new ones.
    const both = { ...changed.deployment, ...again.deployment };
    assert.deepEqual(changed.deployment, both);
    assert.equal(Object.keys(both).length, 2 * Object.keys(again.deployment ?? {}).length);
  });

  test('info prints the address, the functions and the outputs that docs/how-to/deploy.md names, and changes nothing', () => {
    const { info, changed } = dev;
    assert.equal(info.exitCode, 0, info.output);
    assert.ok(info.output.includes(`POST - https://${info.resources['HttpApi']}.execute-api.`), info.output);
    assert.match(info.output, / dead-letter: cluster-serving-dev-dead-letter\n/);
    for (const name of OUTPUTS) assert.match(info.output, new RegExp(`^ +${name}: \\S`, 'm'));
    assert.ok(info.output.includes(`BucketName: ${info.resources['Bucket']}\n`), info.output);
    assert.deepEqual([...new Set(info.calls)].sort(), ['DescribeStacks', 'ListStackResources']);
    assert.deepEqual(info.events, changed.events);
  });

  test('a client finds the stack by its name', () => {
    const { found, info } = dev;
    const { HttpApi, Queue, Bucket } = info.resources;
    const url = `https://${HttpApi}.execute-api.us-east-1.amazonaws.com`;
    const { queueUrl, ...rest } = found;
    const expected = {
      stack: 'cluster-serving-dev',
      region: 'us-east-1',
      auth: 'iam',
      job: 'serving_stream',
    };
    assert.deepEqual(rest, { ...expected, url, bucket: Bucket, redisUrl: undefined });
    assert.ok(queueUrl !== '' && queueUrl === Queue, `${queueUrl} ${Queue}`);
  });

  test('publish promotes a new model, beside the old one, and leaves the stack alone', () => {
    const { published, first, second, changed } = dev;
    assert.equal(published.exitCode, 0, published.output);
    assert.notEqual(second, first);
    assert.match(published.output, new RegExp(`model ${second} from `));
    for (const version of [first, second])
      assert.ok(
        `models/serving_stream/versions/${version}/identity.onnx` in (published.bucket ?? {}),
        version,
      );
    assert.deepEqual(published.calls, ['DescribeStackResource']);
    assert.deepEqual(published.events, changed.events);
  });

  test('remove fails, naming the bucket, as long as the bucket is not empty, and loses no model', () => {
    const { full, published } = dev;
    assert.equal(full.exitCode, 1);
    assert.match(full.output, /DELETE_FAILED: Bucket [^]*not empty/);
    assert.deepEqual([full.status, full.bucket], ['DELETE_FAILED', published.bucket]);
    assert.deepEqual(Object.keys(full.resources), ['Bucket']);
  });

  test('remove after emptying the bucket, as docs/how-to/deploy.md says, leaves no stack and no bucket', () => {
    assert.equal(dev.removed.exitCode, 0, dev.removed.output);
    assert.match(dev.removed.output, /has been successfully removed/);
    assert.equal(dev.removed.status, undefined);
    assert.deepEqual(dev.left, [undefined, undefined]);
  });

  test('a model that cannot serve ends a deploy before anything is created', () => {
    const { refused } = prod;
    assert.equal(refused.exitCode, 1);
    assert.match(refused.output, /broken\.onnx: /);
    assert.deepEqual([refused.status, refused.calls.includes('CreateChangeSet')], [undefined, false]);
  });

  test('a resource that cannot be made fails the deploy with its reason, and no model is published', () => {
    const { failed } = prod;
    assert.equal(failed.exitCode, 1);
    assert.ok(failed.output.includes(NO_SPACE), failed.output);
    assert.match(failed.output, /CREATE_FAILED: Redis/);
    assert.match(failed.output, /AWS does not offer this in us-east-1e: --param zones=us-east-1a,us-east-1f/);
    assert.doesNotMatch(failed.output, /serves from now on/);
    assert.equal(failed.status, 'UPDATE_ROLLBACK_COMPLETE');
    // keepData: CloudFormation leaves the bucket even when it rolls back, and it is empty.
    assert.deepEqual([statuses(failed, 'Bucket').at(-1), failed.bucket], ['DELETE_SKIPPED', {}]);
  });

  test('the next deploy after a failed one makes what is missing', () => {
    const { repaired } = prod;
    assert.deepEqual([repaired.exitCode, repaired.status], [0, 'UPDATE_COMPLETE'], repaired.output);
    assert.equal(statuses(repaired, 'Redis').at(-1), 'CREATE_COMPLETE');
    assert.ok('models/serving_stream/current.json' in (repaired.bucket ?? {}));
  });

  test('remove of a stack with keepData=on needs no empty bucket, and leaves the model in it', () => {
    assert.deepEqual([prod.removed.exitCode, prod.removed.status], [0, undefined], prod.removed.output);
    assert.deepEqual(prod.kept, prod.repaired.bucket);
    assert.equal(prod.deployment, undefined);
  });

  test('no command called a service that nothing here stands for', () => {
    for (const { cloudFormation } of accounts) assert.deepEqual(cloudFormation.refused, []);
  });

  test('the stand-in refuses what CloudFormation refuses', async () => {
    const { cloudFormation } = accounts[0] as Account;
    const ask = async (fields: Readonly<Record<string, string>>) => {
      const headers = { authorization: `AWS4-HMAC-SHA256 Credential=${ACCESS_KEY}/x` };
      const body = new URLSearchParams(fields);
      const response = await fetch(cloudFormation.url, { method: 'POST', headers, body });
      return `${response.status} ${await response.text()}`;
    };
    const validate = (field: string, value: string) => ask({ Action: 'ValidateTemplate', [field]: value });
    const dangling = JSON.stringify({ Resources: { A: { Type: 'T', Properties: { b: { Ref: 'B' } } } } });
    const absent = 'https://s3.amazonaws.com/no-such-bucket/template.json';
    assert.match(await validate('TemplateBody', 'Resources: {}'), /^400 .*ValidationError.*not well-formed/);
    assert.match(await validate('TemplateBody', '{"Resources":{}}'), /^400 .*At least one Resources member/);
    assert.match(await validate('TemplateBody', dangling), /^400 .*Unresolved resource dependencies \[B\]/);
    assert.match(await validate('TemplateURL', absent), /^400 .*S3 error: /);
    assert.match(
      await ask({ Action: 'DescribeStacks', StackName: 'x' }),
      /^400 .*Stack with id x does not exist/,
    );
  });
});
