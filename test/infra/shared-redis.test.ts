/** The stack of a Redis of several jobs and stages, and what a job's settings take from it; nothing is packaged here. */
import assert from 'node:assert/strict';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { parse } from 'yaml';
import { sharedStackOf } from '../../infra/doctor/template.ts';
import { readSettings } from '../../infra/template/config.ts';
import { deployerPolicies } from '../../infra/template/deployer-policy.ts';
import type { Parameters } from '../../infra/template/parameters.ts';
import { accessRules } from '../../infra/template/redis-access.ts';
import {
  assertSharedRedis,
  readSharedRedis,
  SHARED_PARAMETER_NAMES,
} from '../../infra/template/shared-redis.ts';
import { readEnvironment } from '../../lib/config/environment.ts';
import { assertKeyspace } from '../../lib/queue/names.ts';
import { OutputQueue } from '../../sdk/index.ts';
import { importsOf } from '../support/template.ts';

type Values = Record<string, string | number>;

async function paramsOf(file: string): Promise<{ default: Values; prod: Values }> {
  const text = await readFile(new URL(`../../${file}`, import.meta.url), 'utf8');
  return (parse(text, { logLevel: 'silent' }) as { params: { default: Values; prod: Values } }).params;
}

async function shared(given: Values = {}, stage = 'dev', needsJobs = true) {
  const params = await paramsOf('shared-redis.yml');
  const parameters = {
    ...params.default,
    ...(stage === 'prod' ? params.prod : {}),
    jobs: 'images@dev,images@prod',
    ...given,
  };
  return readSharedRedis({ stage, parameters, named: Object.keys(given), needsJobs });
}

test('shared-redis.yml has a default for every parameter, and docs/how-to/share-a-redis.md has it too', async () => {
  const params = await paramsOf('shared-redis.yml');
  assert.deepEqual(Object.keys(params.default).sort(), [...SHARED_PARAMETER_NAMES].sort());
  const text = await readFile(new URL('../../docs/how-to/share-a-redis.md', import.meta.url), 'utf8');
  for (const name of SHARED_PARAMETER_NAMES) {
    const [dev, prod] = [params.default[name], params.prod[name] ?? params.default[name]];
    const cells = [dev, prod].map((value) => (value === '' ? ' ' : ` \`${value}\` `)).join('|');
    assert.ok(text.includes(`| \`${name}\` |${cells}|`), `${name} ${cells}`);
  }
});

test('jobs that cannot be, or are too many, are refused together with other mistakes', async () => {
  const many = Array.from({ length: 61 }, (_, i) => `job${i}@dev`).join();
  const refused: readonly (readonly [Values, RegExp])[] = [
    [{ jobs: '' }, /^param jobs is empty: name the jobs/],
    [{ jobs: 'images' }, /^param jobs "images": expected jobs with their stages, as images@dev/],
    [{ jobs: 'a@dev,a@dev' }, /^param jobs/],
    [{ jobs: 'a*@dev' }, /^job name "a\*": expected/],
    [{ jobs: 'a@d_v' }, /^stage "d_v": expected/],
    [{ jobs: 'a@dev@x' }, /^stage "dev@x": expected/],
    [{ jobs: many }, /^param jobs: 61 are over the limit of 60$/],
    [{ job: 'a@dev' }, /^param job: unknown; did you mean jobs\?$/],
    [
      { zones: 'us-east-1a', redisNodes: 0 },
      /^param redisNodes 0: expected .*\nparam zones "us-east-1a": expected two/,
    ],
    [{ subnetIds: 'subnet-01234567,subnet-12345678' }, /belong to a vpcId/],
  ];
  for (const [given, message] of refused)
    await assert.rejects(shared(given), { code: 'bad_config', message }, JSON.stringify(given));
  // To remove the stack, nobody needs to know its jobs.
  await shared({ jobs: '' }, 'dev', false);
});

test('each job has a user with its own rules, in one group, and the template stays within the limits of AWS', async () => {
  const jobs = Array.from({ length: 60 }, (_, i) => `${'j'.repeat(58)}${i + 10}@${'s'.repeat(15)}`);
  const { parts } = await shared({ jobs: jobs.join() }, 'prod');
  const users = Object.values(parts.Resources).filter(({ Type }) => Type === 'AWS::ElastiCache::User');
  assert.deepEqual(
    users.map(({ Properties }) => String(Properties['AccessString'])).sort(),
    jobs.map((job) => accessRules(job).join(' ')).sort(),
  );
  assert.equal(new Set(users.map(({ Properties }) => Properties['UserId'])).size, 60);
  const group = parts.Resources['RedisUserGroup'];
  assert.equal((group?.Properties['UserIds'] as unknown[]).length, 60);
  assert.ok(Object.keys(parts.Outputs).length < 190);
  assert.ok('RedisCpuAlarm' in parts.Resources);
});

/** The settings of a job's stack with redis=shared. */
async function jobSettings(t: TestContext, stage: string, given: Values = {}) {
  const folder = await mkdtemp(join(tmpdir(), 'cluster-serving-shared-'));
  t.after(() => rm(folder, { recursive: true, force: true }));
  await writeFile(join(folder, 'config.yaml'), 'jobName: images\n');
  const defaults = (await paramsOf('serverless.yml')).default;
  const parameters = { ...defaults, redis: 'shared', redisStack: 'shared-redis-dev', ...given };
  return readSettings(folder, { stage, config: undefined, parameters: parameters as unknown as Parameters });
}

test('what a job imports is exported, and its keys bear its name and stage', async (t) => {
  const settings = await jobSettings(t, 'prod');
  const { parts } = await shared();
  const text = await readFile(new URL('../../infra/stack/shared-redis.yml', import.meta.url), 'utf8');
  const exported = [...text.matchAll(/\$\{AWS::StackName\}(:\w+)/g)].map(
    ([, name]) => `shared-redis-dev${name}`,
  );
  const ofUsers = Object.values(parts.Outputs).flatMap((output) =>
    output.Export ? [output.Export.Name] : [],
  );
  const own = `shared-redis-dev:${settings.redisUser}`;
  assert.ok(ofUsers.includes(own), own);
  for (const name of importsOf([settings.vpc, settings.vpcId, settings.redisGroup, settings.variables]))
    assert.ok(exported.includes(name), name);
  const { batch, submit } = settings.variables;
  assert.equal(batch['CLUSTER_SERVING_REDIS_KEYSPACE'], 'images@prod');
  assert.deepEqual(importsOf(submit), []);
  const { files } = settings;
  assert.deepEqual(
    [files.network, files.redis, files.redisAuth, files.functionGroup, files.interfaces],
    ['none', 'shared', 'none', 'own', 'on'],
  );
  assert.notEqual((await jobSettings(t, 'dev')).redisUser, settings.redisUser);
});

test('what contradicts a shared Redis is refused', async (t) => {
  const vpc = { vpcId: 'vpc-01234567', subnetIds: 'subnet-01234567,subnet-12345678' };
  const refused: readonly (readonly [Values, RegExp])[] = [
    [{ redisStack: '' }, /redis=shared and redisStack belong together/],
    [{ redis: 'node' }, /redis=shared and redisStack belong together/],
    [{ redisStack: 'mine' }, /^param redisStack "mine": expected the name of a stack, as shared-redis-dev$/],
    [vpc, /uses the network of redisStack/],
    [{ zones: 'us-east-1a,us-east-1b' }, /uses the network of redisStack/],
    [{ respondAsync: 'on' }, /uses the network of redisStack/],
  ];
  for (const [given, message] of refused)
    await assert.rejects(
      jobSettings(t, 'dev', given),
      { code: 'bad_config', message },
      JSON.stringify(given),
    );
  // In an existing network that has a way to SQS.
  await jobSettings(t, 'dev', { respondAsync: 'routed' });
});

test('a stack that an earlier version deployed with fewer rights is deployed first', async () => {
  const { access } = await shared();
  const redis = { stack: 'shared-redis-team-a', keyspace: 'images@dev' };
  assertSharedRedis({ Access: access, Job1: 'images@dev' }, redis);
  const command = 'npx serverless deploy --config shared-redis.yml --stage team-a --param jobs=images@dev';
  assert.throws(
    () => assertSharedRedis({ Access: access.replace(' +zcount', ''), Job1: 'images@dev' }, redis),
    new RegExp(`another version, which does not give \\+zcount\\. Deploy it first: ${command}\\. Nothing`),
  );
  // A later version may give more.
  assertSharedRedis({ Access: `${access} +append`, Job1: 'images@dev' }, redis);
  assert.throws(() => assertSharedRedis({}, redis), /there is no stack shared-redis-team-a with a Redis yet/);
});

test('a job without a stage, and one with it, name its keys; no other text does', () => {
  for (const name of ['serving_stream', 'a@dev', `${'j'.repeat(60)}@${'s'.repeat(15)}`])
    assert.equal(assertKeyspace(name), name);
  for (const name of ['', '@dev', 'a@', 'a@b@c', 'a:b@dev', 'a@d*'])
    assert.throws(() => assertKeyspace(name), { code: 'bad_config' }, name);
  assert.throws(() => new OutputQueue({ name: 'a@d*' }), { code: 'bad_config' });
  const variables = { CLUSTER_SERVING_CONFIG: '{"jobName":"a"}' };
  assert.equal(readEnvironment(variables).keyspace, 'a');
  assert.equal(readEnvironment({ ...variables, CLUSTER_SERVING_REDIS_KEYSPACE: 'a@dev' }).keyspace, 'a@dev');
});

test('the rights to deploy a job contain the look at the stack of its Redis, and no more of it', async () => {
  const { parts } = await shared();
  const template = { Resources: parts.Resources, Outputs: parts.Outputs };
  assert.deepEqual(sharedStackOf(template), { service: 'shared-redis', stage: 'dev' });
  assert.equal(sharedStackOf({ Resources: {} }), undefined);
  const policies = deployerPolicies({
    kind: 'deployer',
    template,
    service: 'cluster-serving',
    stage: 'dev',
    queueName: 'q',
    redisStack: 'shared-redis-dev',
    account: '123456789012',
    region: 'us-east-1',
    partition: 'aws',
    deploymentRole: null,
  });
  const about = policies
    .flatMap(({ Statement }) => Statement)
    .filter(({ Resource }) => JSON.stringify(Resource).includes('shared-redis'));
  assert.deepEqual(
    about.map(({ Action, Resource }) => [Action, Resource]),
    [
      [
        ['cloudformation:DescribeStacks'],
        ['arn:aws:cloudformation:us-east-1:123456789012:stack/shared-redis-dev/*'],
      ],
    ],
  );
});
