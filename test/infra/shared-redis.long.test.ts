/**
 * One Redis of several jobs and stages: its stack and theirs, from the first deploy to the last remove, on a stand-in for
 * CloudFormation; then their packaged functions side by side on one redis-server, with the users of the packaged template.
 * A password stands for the signature with which a function signs in.
 */
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { after, before, describe, test } from 'node:test';
import { modelPrefix, resultKey } from '../../lib/contract/names.ts';
import { RedisConnection } from '../../lib/redis/connection.ts';
import { publishModel } from '../../lib/registry/publish.ts';
import { type CliAnswer, cleaningUp, IMAGES, MODEL } from '../cli/cli.ts';
import { warmCliJson } from '../cli/warm.ts';
import { type Packaged, packageProject } from '../support/packaging.ts';
import { type ProtectedRedis, protectedRedis } from '../support/protected-redis.ts';
import type { Hooks } from '../support/runner.ts';
import { startStandIn } from '../support/stand-in-stack.ts';
import { resourcesOf } from '../support/template.ts';
import { type Account, look, type Run, startAccount } from './account.ts';
import { BUCKET, type Deployed, deployLocally } from './deployed.ts';

const STACK = 'shared-redis-dev';
const SHARED = ['--param', 'redis=shared', '--param', `redisStack=${STACK}`];
const redisFor = (...jobs: string[]) => ['--config', 'shared-redis.yml', '--param', `jobs=${jobs.join()}`];

/** Every command, in the order of docs/how-to/share-a-redis.md, with what goes wrong on the way. */
async function lives(account: Account) {
  const { serverless } = account;
  const seen = (stack: string, run: Run) => look(account, stack, run);
  const job = (stage: string, ...more: string[]) =>
    serverless('deploy', '--stage', stage, ...SHARED, '--param', 'sample=on', ...more);
  const early = await seen('cluster-serving-dev', await job('dev'));
  const created = await seen(STACK, await serverless('deploy', ...redisFor('serving_stream@dev')));
  const unlisted = await seen('cluster-serving-prod', await job('prod'));
  const all = ['serving_stream@dev', 'serving_stream@prod'];
  const added = await seen(STACK, await serverless('deploy', ...redisFor(...all)));
  const dev = await seen('cluster-serving-dev', await job('dev'));
  const prod = await seen('cluster-serving-prod', await job('prod'));
  const outputs = account.cloudFormation.outputs('cluster-serving-prod');
  const needed = await seen(STACK, await serverless('deploy', ...redisFor('serving_stream@dev')));
  const used = await seen(STACK, await serverless('remove', '--config', 'shared-redis.yml'));
  const gone = await seen('cluster-serving-prod', await serverless('remove', '--stage', 'prod'));
  const fewer = await seen(STACK, await serverless('deploy', ...redisFor('serving_stream@dev')));
  return { early, created, unlisted, added, dev, prod, outputs, needed, used, gone, fewer };
}

describe('the stacks of a Redis and of two stages', () => {
  let account: Account;
  let life: Awaited<ReturnType<typeof lives>>;

  before(async () => {
    account = await startAccount();
    life = await lives(account);
  });
  after(() => account?.close());

  test('a job whose Redis is not there, or does not know it, is refused with the command to run, before anything is created', () => {
    const { early, unlisted } = life;
    assert.match(
      early.output,
      /there is no stack shared-redis-dev with a Redis yet\. Create it first: npx serverless deploy --config shared-redis\.yml --stage dev --param jobs=serving_stream@dev\. Nothing was changed/,
    );
    assert.match(
      unlisted.output,
      /serving_stream@prod is not one of the jobs of shared-redis-dev \(serving_stream@dev\)\. Add it first: .* --param jobs=serving_stream@dev,serving_stream@prod\. Nothing/,
    );
    for (const { exitCode, status, calls } of [early, unlisted])
      assert.deepEqual([exitCode, status, calls.includes('CreateChangeSet')], [1, undefined, false]);
  });

  test('a job is added to the Redis without a change to anything else of it', () => {
    const { created, added } = life;
    assert.deepEqual([created.exitCode, created.status], [0, 'UPDATE_COMPLETE'], created.output);
    assert.deepEqual([added.exitCode, added.status], [0, 'UPDATE_COMPLETE'], added.output);
    const changed = added.events.slice(created.events.length).map((event) => event.LogicalResourceId);
    const parts = [...new Set(changed)].map((name) => name.replace(/^User.+/, 'User')).sort();
    assert.deepEqual(parts, ['RedisUserGroup', 'User', STACK]);
  });

  test('a job has no Redis and no network of its own, and finds them', () => {
    const { dev, prod, outputs } = life;
    for (const { exitCode, status, output, resources } of [dev, prod]) {
      assert.deepEqual([exitCode, status], [0, 'UPDATE_COMPLETE'], output);
      for (const name of ['Redis', 'Vpc', 'S3Endpoint', 'RedisUser']) assert.ok(!(name in resources), name);
    }
    assert.ok(!('RedisUrl' in outputs));
  });

  test('what a job uses cannot be taken away before the job is removed', () => {
    const { needed, used, gone, fewer } = life;
    for (const { exitCode, output } of [needed, used]) {
      assert.equal(exitCode, 1);
      assert.match(
        output,
        /Export shared-redis-dev:\S+ cannot be deleted as it is in use by cluster-serving-/,
      );
    }
    assert.deepEqual([gone.exitCode, gone.status], [0, undefined], gone.output);
    assert.deepEqual([fewer.exitCode, fewer.status], [0, 'UPDATE_COMPLETE'], fewer.output);
  });
});

/** Of three jobs and stages: where each is, and the digit that is sent to it under the same uri. */
const DEPLOYMENTS = [
  { job: 'images', stage: 'dev', digit: 3 },
  { job: 'images', stage: 'prod', digit: 7 },
  { job: 'mages', stage: 'dev', digit: 1 },
] as const;

/** Systems Manager that says the password of each user. */
async function startPasswords(t: Hooks): Promise<string> {
  const server = createServer((request, response) => {
    void (async () => {
      const { Name } = JSON.parse(await text(request)) as { Name: string };
      response.end(JSON.stringify({ Parameter: { Value: `of ${Name.slice(1)}` } }));
    })();
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(async () => {
    server.close();
    server.closeAllConnections();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** The users of the packaged stack in a redis-server, by job. */
async function createUsers(packaged: Packaged, server: ProtectedRedis): Promise<Map<string, string>> {
  const users = new Map<string, string>();
  for (const [, { UserId, AccessString }] of resourcesOf(
    await packaged.template(),
    'AWS::ElastiCache::User',
  )) {
    await server.setUser(String(UserId), String(AccessString).split(' '), `of ${String(UserId)}`);
    users.set(/~cluster-serving_(\S+):\*/.exec(String(AccessString))?.[1] ?? '', String(UserId));
  }
  return users;
}

describe('three deployments side by side on one Redis', () => {
  const cleanups: (() => Promise<void>)[] = [];
  const hooks: Hooks = { after: (cleanup) => void cleanups.push(cleanup) };
  const deployed = new Map<string, Deployed>();
  let server: ProtectedRedis | undefined;
  let users: Map<string, string>;
  let cloudFormation: string;

  const packaged = async (config: string, ...options: string[]) => {
    const made = await packageProject({ config, options });
    hooks.after(() => made.remove());
    assert.equal(made.exitCode, 0, made.output);
    return made;
  };

  before(
    cleaningUp(cleanups, async () => {
      server = await protectedRedis(hooks);
      if (!server) return;
      const { url } = server;
      const names = DEPLOYMENTS.map(({ job, stage }) => `${job}@${stage}`);
      users = await createUsers(await packaged('', ...redisFor(...names)), server);
      const passwords = await startPasswords(hooks);
      const stacks: Record<string, { outputs: Record<string, string> }> = {};
      for (const { job, stage } of DEPLOYMENTS) {
        const config = `jobName: ${job}\nimageResize: 8,8\npostProcessing: topN(1)\n`;
        const own = await packaged(config, '--stage', stage, ...SHARED);
        const prepare = async ({ s3 }: Deployed['aws']) =>
          void (await publishModel(s3, { bucket: BUCKET, prefix: modelPrefix(job) }, MODEL));
        const running = await deployLocally(own, prepare, {
          exports: { [`${STACK}:Url`]: url, [`${STACK}:Cache`]: 'cache' },
          variables: ({ CLUSTER_SERVING_REDIS_USER: user }) =>
            user === undefined
              ? {}
              : { CLUSTER_SERVING_REDIS_PASSWORD_PARAMETER: `/${user}`, AWS_ENDPOINT_URL_SSM: passwords },
        });
        hooks.after(() => running.close());
        deployed.set(`${job}@${stage}`, running);
        const { url: HttpApiUrl, queueUrl: QueueUrl } = running;
        const outputs = { HttpApiUrl, QueueUrl, BucketName: BUCKET, JobName: job, Auth: 'none' };
        stacks[`cluster-serving-${job}-${stage}`] = { outputs };
      }
      cloudFormation = (await startStandIn(hooks, stacks)).url;
    }),
  );
  after(async () => {
    for (const cleanup of cleanups.toReversed()) await cleanup();
  });

  interface Answers {
    readonly results: readonly { readonly uri: string; readonly status: string; readonly value: string }[];
  }
  const run = async (name: string, ...args: string[]) => {
    const { aws } = deployed.get(name) as Deployed;
    const env = {
      ...aws.environment,
      AWS_ENDPOINT_URL_CLOUDFORMATION: cloudFormation,
      AWS_ENDPOINT_URL_SQS: aws.url,
    };
    const stack = `cluster-serving-${name.replace('@', '-')}`;
    return (await warmCliJson([...args, '--stack', stack], { env })) as CliAnswer<Answers>;
  };

  test('enqueue and query with --stack alone give each its own answer to the same uri', async (t) => {
    if (!server) return t.skip('no redis-server on this machine');
    for (const { job, stage, digit } of DEPLOYMENTS) {
      const sent = await run(`${job}@${stage}`, 'enqueue', `u=${join(IMAGES, `digit-${digit}.png`)}`);
      assert.equal(sent.code, 0, sent.stdout + sent.stderr);
    }
    for (const { job, stage, digit } of DEPLOYMENTS) {
      const found = await run(`${job}@${stage}`, 'query', 'u', '--wait', '20');
      assert.equal(found.code, 0, found.stdout + found.stderr);
      assert.match(JSON.stringify(found.json), new RegExp(`\\[\\[${digit},`), job + stage);
    }
    const keys = (await server.admin.keys('cluster-serving_*')).sort();
    assert.deepEqual(keys, DEPLOYMENTS.map(({ job, stage }) => resultKey(`${job}@${stage}`, 'u')).sort());
  });

  test('the credentials of one read the result of no other', async (t) => {
    if (!server) return t.skip('no redis-server on this machine');
    for (const [own, user] of users) {
      const signIn = { username: user, password: () => `of ${user}` };
      const connection = new RedisConnection(server.url, { signIn });
      hooks.after(() => connection.close());
      for (const name of users.keys()) {
        const read = connection.use((redis) => redis.hget(resultKey(name, 'u'), 'value'), false);
        if (name === own) assert.equal(typeof (await read), 'string');
        else await assert.rejects(read, { message: /NOPERM/ });
      }
    }
  });
});
