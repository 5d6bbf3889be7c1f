/** Two stages of a job, and two jobs of a stage, in one account and region: no name of one is a name of the other. */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { type Packaged, packageProject } from '../support/packaging.ts';
import { resourcesOf, type Template } from '../support/template.ts';

/** By which AWS knows a resource in an account and region; a resource without one gets a name of CloudFormation's. */
const NAMES: Readonly<Record<string, readonly string[]>> = {
  'AWS::ApiGatewayV2::Api': ['Name'],
  'AWS::CloudWatch::Alarm': ['AlarmName'],
  'AWS::CloudWatch::Dashboard': ['DashboardName'],
  'AWS::ElastiCache::ParameterGroup': ['CacheParameterGroupName'],
  'AWS::ElastiCache::ReplicationGroup': ['ReplicationGroupId'],
  'AWS::ElastiCache::SubnetGroup': ['CacheSubnetGroupName'],
  'AWS::ElastiCache::User': ['UserId', 'UserName'],
  'AWS::ElastiCache::UserGroup': ['UserGroupId'],
  'AWS::EC2::SecurityGroup': ['GroupName'],
  'AWS::IAM::ManagedPolicy': ['ManagedPolicyName'],
  'AWS::IAM::Role': ['RoleName'],
  'AWS::KMS::Alias': ['AliasName'],
  'AWS::Lambda::Function': ['FunctionName'],
  'AWS::Logs::LogGroup': ['LogGroupName'],
  'AWS::S3::Bucket': ['BucketName'],
  'AWS::SNS::Topic': ['TopicName', 'DisplayName'],
  'AWS::SQS::Queue': ['QueueName'],
  'AWS::SSM::Parameter': ['Name'],
  'AWS::SecretsManager::Secret': ['Name'],
};

/** Names that belong to a resource of the same stack, to AWS, or to a caller's own domain. */
const NO_NAME: ReadonlySet<string> = new Set([
  'AWS::ApiGatewayV2::Stage StageName',
  'AWS::ApiGatewayV2::ApiMapping DomainName',
  'AWS::ApiGatewayV2::DomainName DomainName',
  'AWS::CloudWatch::Alarm MetricName',
  'AWS::EC2::SecurityGroupIngress SourceSecurityGroupId',
  'AWS::EC2::VPCEndpoint ServiceName',
  'AWS::ElastiCache::ReplicationGroup CacheParameterGroupName',
  'AWS::ElastiCache::ReplicationGroup CacheSubnetGroupName',
  'AWS::IAM::Policy PolicyName',
  'AWS::Lambda::Alias FunctionName',
  'AWS::Lambda::Alias Name',
  'AWS::Lambda::EventSourceMapping FunctionName',
  'AWS::Lambda::Permission FunctionName',
  'AWS::Lambda::Version FunctionName',
]);

const PARAMETERS = ['redisAuth=iam', 'monitoring=full', 'alarmTopic=own', 'respondAsync=on', 'provisioned=1'];

/** Every name and export of a template, as `type property name`. */
function namesOf({ Resources, Outputs }: Template): string[] {
  const names = Object.values(Resources).flatMap(({ Type, Properties = {} }) =>
    (NAMES[Type] ?? []).flatMap((key) =>
      Properties[key] === undefined ? [] : [`${Type} ${key} ${JSON.stringify(Properties[key])}`],
    ),
  );
  const exports = Object.values(Outputs as Readonly<Record<string, { Export?: { Name: unknown } }>>)
    .filter(({ Export }) => Export !== undefined)
    .map(({ Export }) => `export ${JSON.stringify(Export?.Name)}`);
  return [...names, ...exports];
}

describe('the templates of two stages and of two jobs', () => {
  const packages: Packaged[] = [];
  const templates = new Map<string, Template>();

  before(async () => {
    const options = PARAMETERS.flatMap((parameter) => ['--param', parameter]);
    for (const [name, stage, config] of [
      ['dev', 'dev', ''],
      ['test', 'test', ''],
      ['other', 'dev', 'jobName: night_shift\n'],
    ] as const) {
      const packaged = await packageProject({ config, options: ['--stage', stage, ...options] });
      packages.push(packaged);
      assert.equal(packaged.exitCode, 0, packaged.output);
      templates.set(name, await packaged.template());
    }
  });
  after(() => Promise.all(packages.map((packaged) => packaged.remove())));
  const template = (name: string) => templates.get(name) as Template;

  test('have no name and no export in common', () => {
    for (const [one, other] of [
      ['dev', 'test'],
      ['dev', 'other'],
    ] as const) {
      const [names, others] = [namesOf(template(one)), new Set(namesOf(template(other)))];
      assert.ok(names.length >= 20, names.join('\n'));
      assert.deepEqual(
        names.filter((name) => others.has(name)),
        [],
        `${one} and ${other}`,
      );
    }
  });

  test('every property that looks like a name is known to this test', () => {
    for (const { Type, Properties = {} } of Object.values(template('dev').Resources))
      for (const key of Object.keys(Properties))
        if (/(Name|Alias|Identifier|UserId|GroupId)$/.test(key) && typeof Properties[key] === 'string')
          assert.ok(NAMES[Type]?.includes(key) || NO_NAME.has(`${Type} ${key}`), `${Type} ${key}`);
  });

  test('the access log, the queues and the functions begin with the name of the stack', () => {
    for (const [name, stack] of [
      ['dev', 'cluster-serving-dev'],
      ['test', 'cluster-serving-test'],
    ] as const) {
      const of = (type: string, key: string) =>
        resourcesOf(template(name), type).map(([, properties]) => String(properties[key]));
      assert.deepEqual(of('AWS::SQS::Queue', 'QueueName').sort(), [`${stack}-queue`, `${stack}-queue-dlq`]);
      for (const log of of('AWS::Logs::LogGroup', 'LogGroupName'))
        assert.match(log, new RegExp(`^/aws/(lambda|http-api)/${stack}(-|$)`));
      for (const fn of of('AWS::Lambda::Function', 'FunctionName')) assert.ok(fn.startsWith(`${stack}-`), fn);
    }
  });
});
