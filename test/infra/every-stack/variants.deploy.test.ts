import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { type Packaged, packageProject } from '../../support/packaging.ts';
import {
  importsOf,
  propertiesOf,
  referencesOf,
  resourcesOf,
  roleStatements,
  type Template,
} from '../../support/template.ts';
import { lintTest } from '../lint.ts';
import { NETWORK_CHECKS } from './network.ts';
import type { Properties } from './parts.ts';
import { everyStackTests } from './tests.ts';

const VPC = 'vpc-0123456789abcdef0';
const SUBNETS = ['subnet-0123456789abcdef0', 'subnet-0123456789abcdef1'];
const GROUP = 'sg-0123456789abcdef0';
const CERTIFICATE = 'arn:aws:acm:eu-central-1:123456789012:certificate/12345678-1234-1234-1234-123456789012';

describe('serverless package into a network that is there, with a name, tokens and warm environments', () => {
  let packaged: Packaged;
  let template: Template;

  before(async () => {
    const parameters = {
      vpcId: VPC,
      subnetIds: SUBNETS.join(),
      routeTableIds: 'rtb-0123456789abcdef0',
      securityGroup: GROUP,
      respondAsync: 'routed',
      auth: 'jwt',
      jwtIssuer: 'https://issuer.example.com/',
      jwtAudience: 'first, second',
      domain: 'api.example.com',
      certificateArn: CERTIFICATE,
      provisioned: '3',
      redisAuth: 'iam',
      alarmEmail: 'ops@example.com',
      metrics: 'off',
    };
    packaged = await packageProject({
      options: Object.entries(parameters).flatMap(([name, value]) => ['--param', `${name}=${value}`]),
    });
    assert.equal(packaged.exitCode, 0, packaged.output);
    template = await packaged.template();
  });
  after(() => packaged?.remove());

  lintTest(() => packaged);
  describe('the template, as that of every stack', () => everyStackTests(() => packaged));

  test('no network of its own is made: functions and Redis sit in the subnets that were named', () => {
    const types = new Set(Object.values(template.Resources).map(({ Type }) => Type));
    for (const type of ['VPC', 'Subnet', 'RouteTable', 'NatGateway', 'SubnetRouteTableAssociation'])
      assert.ok(!types.has(`AWS::EC2::${type}`), type);
    const inside = resourcesOf(template, 'AWS::Lambda::Function').filter(([, { VpcConfig }]) => VpcConfig);
    assert.equal(inside.length, 5);
    for (const [name, { VpcConfig }] of inside)
      assert.deepEqual(VpcConfig, { SecurityGroupIds: [GROUP], SubnetIds: SUBNETS }, name);
    assert.deepEqual(propertiesOf(template, 'RedisSubnets')['SubnetIds'], SUBNETS);
    assert.equal(propertiesOf(template, 'RedisSecurityGroup')['VpcId'], VPC);
  });

  test('the functions’ own group is unchanged, and Redis admits only it', () => {
    const groups = resourcesOf(template, 'AWS::EC2::SecurityGroup').map(([name]) => name);
    assert.deepEqual(groups, ['RedisSecurityGroup']);
    assert.deepEqual(resourcesOf(template, 'AWS::EC2::SecurityGroupEgress'), []);
    const rules = resourcesOf(template, 'AWS::EC2::SecurityGroupIngress').map(([, rule]) => rule);
    assert.deepEqual(
      rules.map(({ GroupId, SourceSecurityGroupId, FromPort }) => [GroupId, SourceSecurityGroupId, FromPort]),
      [[{ Ref: 'RedisSecurityGroup' }, GROUP, 6379]],
    );
  });

  test('the way to S3 is free and open to all in those subnets, and there is no endpoint for SQS', () => {
    const endpoints = resourcesOf(template, 'AWS::EC2::VPCEndpoint').map(([, endpoint]) => endpoint);
    assert.deepEqual(
      endpoints.map(({ VpcEndpointType, RouteTableIds, PolicyDocument }) => [
        VpcEndpointType,
        RouteTableIds,
        PolicyDocument,
      ]),
      [['Gateway', ['rtb-0123456789abcdef0'], undefined]],
    );
    const predict = propertiesOf(template, 'PredictLambdaFunction')['Environment'] as {
      Variables: Record<string, unknown>;
    };
    assert.deepEqual(predict.Variables['CLUSTER_SERVING_QUEUE_URL'], { Ref: 'Queue' });
  });

  test('every route wants a token of the issuer for one of the audiences', () => {
    const [[name, authorizer], ...others] = resourcesOf(template, 'AWS::ApiGatewayV2::Authorizer') as [
      [string, Readonly<Record<string, unknown>>],
    ];
    assert.deepEqual(others, []);
    assert.equal(authorizer['AuthorizerType'], 'JWT');
    assert.deepEqual(authorizer['JwtConfiguration'], {
      Issuer: 'https://issuer.example.com/',
      Audience: ['first', 'second'],
    });
    assert.deepEqual(authorizer['IdentitySource'], ['$request.header.Authorization']);
    const routes = resourcesOf(template, 'AWS::ApiGatewayV2::Route');
    assert.ok(routes.length > 10);
    for (const [, { RouteKey, AuthorizationType, AuthorizerId }] of routes)
      assert.deepEqual([AuthorizationType, AuthorizerId], ['JWT', { Ref: name }], String(RouteKey));
  });

  test('the API answers under the name, over TLS 1.2, and the outputs say where to point it', () => {
    const domain = propertiesOf(template, 'Domain');
    assert.equal(domain['DomainName'], 'api.example.com');
    assert.deepEqual(domain['DomainNameConfigurations'], [
      { CertificateArn: CERTIFICATE, EndpointType: 'REGIONAL', SecurityPolicy: 'TLS_1_2' },
    ]);
    const mapping = propertiesOf(template, 'DomainMapping');
    assert.deepEqual([mapping['ApiId'], mapping['DomainName']], [{ Ref: 'HttpApi' }, { Ref: 'Domain' }]);
    assert.deepEqual(mapping['Stage'], { Ref: 'HttpApiStage' });
    assert.deepEqual(template.Outputs['DomainTarget']?.Value, {
      'Fn::GetAtt': ['Domain', 'RegionalDomainName'],
    });
  });

  test('predict has warm environments behind an alias, the API calls that alias, and no other function has a version', () => {
    const [[name, alias], ...others] = resourcesOf(template, 'AWS::Lambda::Alias') as [
      [string, Readonly<Record<string, unknown>>],
    ];
    assert.deepEqual(others, []);
    assert.deepEqual(alias['ProvisionedConcurrencyConfig'], { ProvisionedConcurrentExecutions: 3 });
    const versions = resourcesOf(template, 'AWS::Lambda::Version');
    assert.deepEqual(
      versions.map(([, { FunctionName }]) => FunctionName),
      [{ Ref: 'PredictLambdaFunction' }],
    );
    // A version that stays with each deployment would keep its zip and its environments forever.
    assert.equal(template.Resources[versions[0]?.[0] as string]?.DeletionPolicy, undefined);
    const { IntegrationUri } = propertiesOf(template, 'HttpApiIntegrationPredict');
    assert.deepEqual(IntegrationUri, {
      'Fn::Join': [':', [{ 'Fn::GetAtt': ['PredictLambdaFunction', 'Arn'] }, alias['Name']]],
    });
    const permission = propertiesOf(template, 'PredictLambdaPermissionHttpApi');
    assert.deepEqual(permission['FunctionName'], IntegrationUri);
    assert.equal(template.Resources['HttpApiIntegrationPredict']?.DependsOn, name);
  });

  test('functions that read or write Redis may sign in as its user, and get its name and the cache’s', () => {
    const user = propertiesOf(template, 'RedisUser');
    assert.equal(user['UserId'], user['UserName']);
    assert.match(String(user['UserId']), /^[a-z][a-z0-9-]{0,39}$/);
    assert.deepEqual(user['AuthenticationMode'], { Type: 'iam' });
    assert.deepEqual(propertiesOf(template, 'Redis')['UserGroupIds'], [{ Ref: 'RedisUserGroup' }]);
    const may = new Set(
      roleStatements(template)
        .filter(({ statement }) => statement.Action === 'elasticache:Connect')
        .map(({ role, statement }) => {
          assert.deepEqual(referencesOf(statement.Resource), ['Redis', 'RedisUser']);
          return role;
        }),
    );
    for (const [name, { Environment, Role }] of resourcesOf(template, 'AWS::Lambda::Function')) {
      const { Variables } = Environment as { Variables: Record<string, unknown> };
      const reads = Object.hasOwn(Variables, 'CLUSTER_SERVING_REDIS_URL');
      assert.equal(may.has(referencesOf(Role)[0] as string), reads, name);
      assert.equal(Variables['CLUSTER_SERVING_REDIS_USER'], reads ? user['UserId'] : undefined, name);
      assert.deepEqual(Variables['CLUSTER_SERVING_REDIS_CACHE'], reads ? { Ref: 'Redis' } : undefined, name);
    }
  });

  test('every function is configured to write no metrics', () => {
    for (const [name, { Environment }] of resourcesOf(template, 'AWS::Lambda::Function')) {
      const { Variables } = Environment as { Variables: Record<string, unknown> };
      assert.equal(Variables['CLUSTER_SERVING_METRICS'], 'off', name);
    }
  });

  test('an address hears of the alarms', () => {
    const mail = propertiesOf(template, 'AlarmMail');
    assert.deepEqual([mail['Protocol'], mail['Endpoint']], ['email', 'ops@example.com']);
    assert.deepEqual(propertiesOf(template, 'QueueAgeAlarm')['AlarmActions'], [{ Ref: 'AlarmTopic' }]);
  });
});

async function packagedProd(parameters: Readonly<Record<string, string>>): Promise<Packaged> {
  const params = Object.entries(parameters).flatMap(([name, value]) => ['--param', `${name}=${value}`]);
  const packaged = await packageProject({ options: ['--stage', 'prod', ...params] });
  assert.equal(packaged.exitCode, 0, packaged.output);
  return packaged;
}

describe('serverless package with a Redis on the internet', () => {
  let packaged: Packaged;
  let template: Template;

  before(async () => {
    const parameters = {
      redis: 'url',
      redisUrl: 'rediss://app@results.example.com:6380',
      redisPassword: '/my-job/redis',
      respondAsync: 'on',
    };
    packaged = await packagedProd(parameters);
    template = await packaged.template();
  });
  after(() => packaged?.remove());

  lintTest(() => packaged);
  describe('the template, as that of every stack', () => everyStackTests(() => packaged));

  test('there is no VPC, no Redis and no endpoint, and nothing watches one', () => {
    const types = new Set(Object.values(template.Resources).map(({ Type }) => Type));
    for (const type of types) assert.doesNotMatch(type, /^AWS::(EC2|ElastiCache)::/);
    assert.doesNotMatch(JSON.stringify(template), /AWS\/ElastiCache|ec2:/);
    assert.equal(template.Outputs['RedisUrl'], undefined);
  });

  test('functions that use Redis get its address, its user and the name of the password, the others nothing', () => {
    for (const [name, { Environment }] of resourcesOf(template, 'AWS::Lambda::Function')) {
      const { Variables } = Environment as { Variables: Record<string, unknown> };
      const found = Object.entries(Variables).filter(([variable]) => variable.includes('REDIS'));
      const expected = {
        CLUSTER_SERVING_REDIS_URL: 'rediss://results.example.com:6380',
        CLUSTER_SERVING_REDIS_USER: 'app',
        CLUSTER_SERVING_REDIS_PASSWORD_PARAMETER: '/my-job/redis',
      };
      assert.deepEqual(Object.fromEntries(found), name.startsWith('Submit') ? {} : expected, name);
    }
  });
});

describe('serverless package with the Redis of another stack', () => {
  let packaged: Packaged;
  let template: Template;

  before(async () => {
    const parameters = { redis: 'shared', redisStack: 'shared-redis-prod' };
    packaged = await packagedProd(parameters);
    template = await packaged.template();
  });
  after(() => packaged?.remove());

  lintTest(() => packaged);
  describe('the template, as that of every stack', () => everyStackTests(() => packaged));

  test('there is no Redis, no network and no alarm on them; functions sign in as one user', () => {
    const types = new Set(Object.values(template.Resources).map(({ Type }) => Type));
    for (const type of types) assert.doesNotMatch(type, /^AWS::(ElastiCache::|EC2::(VPC|Subnet|Route))/);
    assert.doesNotMatch(JSON.stringify(template), /AWS\/ElastiCache/);
    const allowed = roleStatements(template).filter(
      ({ statement }) => statement.Action === 'elasticache:Connect',
    );
    assert.equal(allowed.length, 5);
    for (const { statement } of allowed)
      assert.deepEqual(
        importsOf(statement.Resource).map((name) => name.replace(/-[0-9a-f]{12}$/, '')),
        ['shared-redis-prod:Arn', 'shared-redis-prod:cluster-serving'],
      );
  });

  test('only the group of its functions is let in to the Redis, which it reaches on one port', () => {
    const [[, rule], ...others] = resourcesOf(template, 'AWS::EC2::SecurityGroupIngress') as [
      [string, Properties],
    ];
    assert.deepEqual(others, []);
    assert.deepEqual(
      [rule['GroupId'], rule['SourceSecurityGroupId'], rule['FromPort'], rule['ToPort']],
      [{ 'Fn::ImportValue': 'shared-redis-prod:Group' }, { Ref: 'FunctionSecurityGroup' }, 6379, 6379],
    );
  });
});

describe('serverless package of a Redis for several jobs', () => {
  let packaged: Packaged;

  before(async () => {
    packaged = await packageProject({
      options: ['--config', 'shared-redis.yml', '--stage', 'prod', '--param', 'jobs=images@dev,images@prod'],
    });
    assert.equal(packaged.exitCode, 0, packaged.output);
  });
  after(() => packaged?.remove());

  lintTest(() => packaged);
  for (const [title, check] of NETWORK_CHECKS) test(title, async () => check(await packaged.template()));

  test('it has no function and no role, an alarm on its memory, and users in place of nobody', async () => {
    const template = await packaged.template();
    const types = Object.values(template.Resources).map(({ Type }) => Type);
    for (const type of types) assert.doesNotMatch(type, /^AWS::(Lambda|IAM|SQS|ApiGateway)/);
    assert.ok('RedisMemoryAlarm' in template.Resources);
    assert.equal(types.filter((type) => type === 'AWS::ElastiCache::User').length, 2);
    assert.deepEqual(propertiesOf(template, 'Redis')['UserGroupIds'], [{ Ref: 'RedisUserGroup' }]);
  });
});

test('packaged twice, every archive has the same bytes', async (t) => {
  const [first, again] = await Promise.all([packageProject(), packageProject({ isPlain: true })]);
  t.after(() => Promise.all([first.remove(), again.remove()]));
  for (const { exitCode, output } of [first, again]) assert.equal(exitCode, 0, output);
  const archives = async ({ folder }: Packaged) => {
    const names = (await readdir(join(folder, '.serverless'))).filter((name) => name.endsWith('.zip'));
    const digests = names.sort().map(async (name) => {
      const bytes = await readFile(join(folder, '.serverless', name));
      return [name, createHash('sha256').update(bytes).digest('hex')];
    });
    return Promise.all(digests);
  };
  const expected = await archives(first);
  assert.equal(expected.length, 6);
  assert.deepEqual(await archives(again), expected);
});
