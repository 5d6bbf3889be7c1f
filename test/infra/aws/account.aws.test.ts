/**
 * Stacks live their whole lives in an emulated AWS account (moto): deploy, info, publish, an update with changed parameters and
 * remove, by osls itself. In between their functions run as on Lambda, for clients that know the name of the stack alone.
 * What an account alone can show stands in docs/explanation/tested-on-aws.md.
 */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { deployerPolicies } from '../../../infra/template/deployer-policy.ts';
import { isInstalled } from '../../../local/redis/installed.ts';
import { withoutSandbox } from './functions.ts';
import { CHANGED, DEPLOYER_KEY, DIGIT, type Life, live, REDIS_DEPLOYER_KEY } from './life.ts';
import { REGION, type Role } from './moto.ts';
import { type Call, callOf, refusedCalls, unusedRights } from './policies.ts';
import { motoTools, runtimeClient } from './tools.ts';
import { DEPLOYED, REDIS_STACK, STACK } from './variants.ts';

const tools = await motoTools();
const client = 'folder' in tools ? await runtimeClient() : { missing: 'there is no account' };
const SKIP =
  'missing' in tools
    ? tools.missing
    : (await isInstalled('redis-server', () => undefined))
      ? false
      : 'no redis-server is installed';

const BY_LAMBDA =
  'Lambda itself does this with the role of the function, and nothing here does it in its place.';

/** Rights that no call of the run made use of, by statement and action. One that is used, or gone, fails. */
const UNUSED: Readonly<Record<string, string>> = {
  'WriteLogs logs:CreateLogStream': BY_LAMBDA,
  'WriteLogs logs:PutLogEvents': BY_LAMBDA,
  'AttachToVpc ec2:CreateNetworkInterface': BY_LAMBDA,
  'AttachToVpc ec2:DescribeNetworkInterfaces': BY_LAMBDA,
  'AttachToVpc ec2:DescribeSubnets': BY_LAMBDA,
  'AttachToVpc ec2:DeleteNetworkInterface': BY_LAMBDA,
  'AttachToVpc ec2:AssignPrivateIpAddresses': BY_LAMBDA,
  'AttachToVpc ec2:UnassignPrivateIpAddresses': BY_LAMBDA,
  'SignLargeResults s3:GetObject':
    'An address is signed for a client, who then calls S3 with it; no result of this model is large enough.',
  'StoreLargeResults s3:PutObject': 'No result of this model is large enough.',
  'ArchiveMessages s3:PutObject':
    'Of the batch function, for records that end its process again and again, which none here does. The letters of the dead-letter function are compared above.',
  'SignIn elasticache:Connect':
    'The password is a signature, which a function makes by itself: no service is called, and only ElastiCache can check it.',
  'DecryptPassword kms:Decrypt':
    'Systems Manager does this for the caller, with a key of the account that AWS or its user keeps.',
};

const OF_REDIS = { key: REDIS_DEPLOYER_KEY, service: 'shared-redis', redisStack: undefined };
/** The role whose policy the test checks. */
const DEPLOYER = {
  kind: 'deployer',
  stage: 'dev',
  queueName: `${STACK}-queue`,
  account: '123456789012',
  region: REGION,
  partition: 'aws',
  deploymentRole: null,
} as const;

const seen = new Set<string>();

for (const variant of DEPLOYED) {
  describe(`a stack with redis=${variant.name} in an emulated account`, { skip: SKIP }, () => {
    const closers: (() => Promise<void>)[] = [];
    let life: Life;

    before(async () => {
      if ('folder' in tools)
        life = await live({ after: (close) => closers.push(close) }, variant, tools.folder, client);
    });
    after(async () => {
      for (const close of closers.reverse()) await close();
    });

    test('deploy creates it, and its outputs and functions are shown by info', () => {
      const { created, outputs } = life;
      assert.deepEqual(
        created.stacks.map(({ StackName, StackStatus }) => [StackName, StackStatus]),
        [...(variant.shared ? [REDIS_STACK] : []), STACK].map((name) => [name, 'UPDATE_COMPLETE']),
      );
      assert.equal(created.functions.length, 6);
      for (const { FunctionName } of created.functions) assert.ok(outputs.info.includes(FunctionName));
      for (const output of ['HttpApiUrl', 'QueueUrl', 'BucketName', 'Auth'])
        assert.match(outputs.info, new RegExp(`^ +${output}: \\S`, 'm'));
    });

    test('publish makes another version of the model serve', () => {
      const [first, second] = [life.outputs.deployed, life.outputs.published].map(
        (text) => /model (\w+) from .* serves from now on/.exec(text)?.[1],
      );
      assert.ok(first !== undefined && second !== undefined && first !== second, `${first} ${second}`);
    });

    test('enqueue, query, predict and status need nothing but its name, and the answer is right', () => {
      const { enqueued, queried, predicted, status } = life.first;
      assert.equal(enqueued.code, 0, enqueued.stderr);
      const [result] = queried.json.results;
      assert.deepEqual([queried.code, result?.status], [0, 'succeeded'], queried.stdout);
      assert.equal(classOf(result?.outputs?.[0]?.data), DIGIT, queried.stdout);
      const text = String(predicted.json.predictions[0]).slice('{value='.length, -1);
      assert.equal(classOf((JSON.parse(text) as { data: number[] }).data), DIGIT, text);
      assert.equal(status.code, 0, status.stderr);
    });

    test('the HTTP API refuses a request that is not signed, and no other', () => {
      assert.deepEqual([life.first.unsigned, life.first.refused], [403, ['no signature: ']]);
    });

    test('a record over the limit of a message is answered, and one that was delivered too often is kept', () => {
      const { submitted, large, deleted, letters } = life.first;
      assert.deepEqual([submitted, large.status, deleted, letters.length], [202, 'succeeded', 200, 1]);
    });

    test('each of its six functions answered under the runtime client of AWS, in a place as bare as Lambda', (t) => {
      const { answered } = life.first;
      assert.equal(Object.keys(answered).length, 6);
      for (const [name, count] of Object.entries(answered)) assert.ok(count > 0, name);
      const why = withoutSandbox(client);
      if (why !== undefined) t.skip(`they ran in processes that Node restricts: ${why}`);
    });

    test('an update with other parameters changes what they name and keeps the data', () => {
      const { created, changed } = life;
      assert.deepEqual(changed.buckets, created.buckets);
      assert.deepEqual(changed.queues, created.queues);
      assert.deepEqual(
        new Set(changed.logGroups.map(({ retentionInDays }) => retentionInDays)),
        new Set([Number(CHANGED.logDays)]),
      );
      const predict = changed.functions.find(({ FunctionName }) => FunctionName.endsWith('-predict'));
      assert.match(String(predict?.Environment.Variables['CLUSTER_SERVING_QUEUE_URL']), /queue$/);
      const { accepted, answer, text } = life.second;
      assert.deepEqual([accepted, answer.status], [202, 'succeeded'], text);
    });

    test('every call of a function is one that its role allows', () => {
      for (const [role, calls] of callsByRole(life))
        assert.deepEqual(refusedCalls(role, calls), [], role.RoleName);
    });

    test('every right of a role was used, or is explained', () => {
      const unused = callsByRole(life).flatMap(([role, calls]) => unusedRights(role, calls));
      for (const right of unused) seen.add(right);
      assert.deepEqual(
        unused.filter((right) => UNUSED[right] === undefined),
        [],
      );
    });

    test('every call of serverless itself is one that the policy of who deploys allows', () => {
      const { recorded, template, redisTemplate } = life;
      const redisStack = variant.shared && REDIS_STACK;
      const deployers = [
        { key: DEPLOYER_KEY, template, service: 'cluster-serving', redisStack },
        ...(redisTemplate === undefined ? [] : [{ ...OF_REDIS, template: redisTemplate }]),
      ];
      for (const { key, ...deployment } of deployers) {
        const policies = deployerPolicies({ ...deployment, ...DEPLOYER });
        const calls = recorded.filter((one) => one.key === key).map((one) => callOf(one, REGION));
        assert.ok(calls.length > 10, `${calls.length} calls`);
        const Statements = policies.flatMap(({ Statement }) => Statement);
        assert.deepEqual(refusedCalls({ Statements }, calls), []);
      }
    });

    test('remove leaves nothing', () => {
      const left = Object.entries(life.left).filter(([, found]) => found.length > 0);
      assert.deepEqual(left, []);
    });
  });
}

test('every explained right is one that no stack made use of', { skip: SKIP }, () => {
  assert.deepEqual(
    Object.keys(UNUSED).filter((right) => !seen.has(right)),
    [],
  );
});

function classOf(data: readonly number[] = []): number {
  return data.indexOf(Math.max(...data));
}

/** With the statements after the update, and the calls of the functions before it and after it. */
function callsByRole({ changed, recorded, keys }: Life): [Role, Call[]][] {
  return changed.roles.map((role) => {
    const own = recorded.filter(({ key }) => keys.get(key) === role.RoleName);
    return [role, own.map((request) => callOf(request, REGION))];
  });
}
