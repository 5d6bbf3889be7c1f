/**
 * A stack costs as much idle as README and the documents say, and the policies of `deployer-policy` allow its
 * deployment.
 */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { after, before, describe, test } from 'node:test';
import { idlePrice } from '../../infra/doctor/idle-price.ts';
import {
  deployerPolicies,
  MAX_POLICY_CHARACTERS,
  POLICY_KINDS,
} from '../../infra/template/deployer-policy.ts';
import { type Packaged, packageProject } from '../support/packaging.ts';
import type { Template } from '../support/template.ts';
import { composeJob, composeSharedRedis } from './compose.ts';

const SHARING = { redis: 'shared', redisStack: 'shared-redis-dev' };
const SHARED = { parameters: { jobs: 'a@dev,b@dev,c@dev' } };
const ALL = {
  redisAuth: 'iam',
  respondAsync: 'on',
  alarmEmail: 'ops@example.com',
  tracing: 'on',
  provisioned: 1,
  domain: 'api.example.com',
  certificateArn: 'arn:aws:acm:us-east-1:123456789012:certificate/0',
};

/** As test/infra/compose.ts makes them, in a moment. */
const STACKS = {
  dev: composeJob(),
  prod: composeJob({ stage: 'prod' }),
  url: composeJob({
    parameters: {
      redis: 'url',
      redisUrl: 'rediss://redis.example.com:6379',
      redisPassword: '/my-job/redis',
    },
  }),
  serverless: composeJob({ parameters: { redis: 'serverless' } }),
  table: composeJob({ parameters: { results: 'dynamodb' } }),
  all: composeJob({ parameters: ALL }),
  sharing: composeJob({ parameters: SHARING }),
  sharingProd: composeJob({ stage: 'prod', parameters: SHARING }),
  shared: composeSharedRedis(SHARED),
  sharedProd: composeSharedRedis({ stage: 'prod', ...SHARED }),
} as const;

describe('a stack', () => {
  const packages: Packaged[] = [];
  const templates = new Map<string, Template>(Object.entries(STACKS));

  before(async () => {
    const parameters = Object.entries(ALL).flatMap(([name, value]) => ['--param', `${name}=${value}`]);
    for (const [name, options] of Object.entries({ dev: [], all: parameters })) {
      const packaged = await packageProject({ options });
      packages.push(packaged);
      assert.equal(packaged.exitCode, 0, packaged.output);
      templates.set(`packaged ${name}`, await packaged.template());
    }
  });
  after(() => Promise.all(packages.map((packaged) => packaged.remove())));

  test('costs idle as much when it is packaged', () => {
    for (const name of ['dev', 'all'] as const)
      assert.deepEqual(idlePrice(templates.get(`packaged ${name}`) as Template), idlePrice(STACKS[name]));
  });

  const priceOf = (name: keyof typeof STACKS) => {
    const price = idlePrice(STACKS[name]);
    assert.deepEqual(price.unknown, []);
    return price;
  };
  const partOf = (name: keyof typeof STACKS, what: string) =>
    priceOf(name).parts.find((part) => part.what === what)?.dollars;
  const document = (path: string) => readFile(new URL(`../../${path}`, import.meta.url), 'utf8');

  test('costs idle what README, tutorial and docs/explanation/costs.md say', async () => {
    const [dev, prod] = [priceOf('dev').dollars, priceOf('prod').dollars].map((sum) => sum?.toFixed(2));
    const [table, own, serverless] = (['table', 'url', 'serverless'] as const).map((name) =>
      priceOf(name).dollars?.toFixed(2),
    );
    assert.match(
      await document('README.md'),
      new RegExp(
        `${own} dollars with a Redis that you have, ${table} with a table in DynamoDB, ${serverless} with a serverless Redis, ${dev} with a node of its own, ${prod} with two`,
      ),
    );
    assert.match(await document('docs/tutorial/first-model.md'), new RegExp(`costs ${dev} dollars a month`));
    const costs = await document('docs/explanation/costs.md');
    const row = (head: string) =>
      new RegExp(`^\\| ${head} \\| (\\S+) \\| (\\S+) \\|`, 'm')
        .exec(costs)
        ?.slice(1)
        .map((cell) => Number(cell.replaceAll('*', '')));
    assert.deepEqual(row('\\*\\*together\\*\\*'), [Number(dev), Number(prod)]);
    assert.deepEqual(row('Redis'), [partOf('dev', 'Redis'), partOf('prod', 'Redis')]);
    const others = (['alarms', 'dashboard'] as const).map((what) => partOf('prod', what) ?? 0);
    assert.deepEqual(row('alarms, dashboard'), [
      partOf('dev', 'alarms'),
      others.reduce((sum, part) => sum + part, 0),
    ]);
    assert.match(
      costs,
      new RegExp(`\`respondAsync=on\` adds ${partOf('all', 'interface endpoints')?.toFixed(2)}`),
    );
    assert.match(
      costs,
      new RegExp(`\`provisioned=1\` would be ${partOf('all', 'warm environments')} a month`),
    );
  });

  test('with a shared Redis costs idle what docs/how-to/share-a-redis.md says', async () => {
    const text = await document('docs/how-to/share-a-redis.md');
    const dollars = (name: keyof typeof STACKS) => priceOf(name).dollars?.toFixed(2);
    for (const row of [
      `| the stack of the Redis | ${dollars('shared')} | ${dollars('sharedProd')} |`,
      `| each job with it | ${dollars('sharing')} | ${dollars('sharingProd')} |`,
      `| each job with a Redis of its own, for comparison | ${dollars('dev')} | ${dollars('prod')} |`,
    ])
      assert.ok(text.includes(row), row);
    const [own, sharing, shared] = (['dev', 'sharing', 'shared'] as const).map(
      (name) => priceOf(name).dollars ?? 0,
    );
    const three = [(shared as number) + 3 * (sharing as number), 3 * (own as number)].map((sum) =>
      sum.toFixed(2),
    );
    assert.ok(
      text.includes(`three jobs in \`dev\` cost ${three[0]} dollars instead of ${three[1]}`),
      String(three),
    );
  });

  test('has a right for every type of its resources, no action by wildcard, and documents within the limit of IAM', () => {
    for (const [name, template] of templates)
      for (const kind of POLICY_KINDS) {
        const policies = deployerPolicies({
          kind,
          template,
          service: 'cluster-serving',
          stage: name === 'prod' ? 'prod' : 'dev',
          queueName: 'cluster-serving-dev-queue',
          redisStack: undefined,
          account: '123456789012',
          region: 'us-east-1',
          partition: 'aws',
          deploymentRole: 'arn:aws:iam::123456789012:role/cloudformation',
        });
        assert.ok(policies.length <= 2, `${name} ${kind}: ${policies.length}`);
        for (const policy of policies) {
          assert.ok(JSON.stringify(policy).length <= MAX_POLICY_CHARACTERS);
          for (const { Action, Resource } of policy.Statement) {
            assert.ok(Resource.length > 0);
            for (const action of Action) assert.match(action, /^[a-z0-9]+:[A-Za-z0-9]+$/);
          }
        }
      }
  });
});
