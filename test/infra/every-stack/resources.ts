/**
 * AWS's demands on the resources of a stack, with or without functions: required properties, whole policies, rules of
 * security groups, and alarms that mean what they say.
 */
import assert from 'node:assert/strict';
import { resourcesOf, type Statement, type Template } from '../../support/template.ts';
import { type Check, ownRedis, type Properties } from './parts.ts';

/** By type, what AWS refuses to be without, and what it would fill in otherwise than meant. */
export const REQUIRED: Readonly<Record<string, string>> = {
  'AWS::ApiGatewayV2::ApiMapping': 'ApiId DomainName Stage',
  'AWS::ApiGatewayV2::DomainName': 'DomainName DomainNameConfigurations',
  'AWS::Budgets::Budget': 'Budget NotificationsWithSubscribers',
  'AWS::CloudWatch::Alarm':
    'AlarmDescription ComparisonOperator EvaluationPeriods Threshold TreatMissingData',
  'AWS::DynamoDB::Table': 'AttributeDefinitions BillingMode KeySchema TimeToLiveSpecification',
  'AWS::EC2::RouteTable': 'VpcId',
  'AWS::EC2::SecurityGroup': 'GroupDescription SecurityGroupEgress VpcId',
  'AWS::EC2::SecurityGroupEgress':
    'Description DestinationSecurityGroupId FromPort GroupId IpProtocol ToPort',
  'AWS::EC2::SecurityGroupIngress': 'Description FromPort GroupId IpProtocol SourceSecurityGroupId ToPort',
  'AWS::EC2::Subnet': 'AvailabilityZone CidrBlock Tags VpcId',
  'AWS::EC2::SubnetRouteTableAssociation': 'RouteTableId SubnetId',
  'AWS::EC2::VPC': 'CidrBlock EnableDnsHostnames EnableDnsSupport Tags',
  'AWS::EC2::VPCEndpoint': 'ServiceName VpcEndpointType VpcId',
  'AWS::ElastiCache::ParameterGroup': 'CacheParameterGroupFamily Description Properties',
  'AWS::ElastiCache::ReplicationGroup':
    'CacheNodeType CacheParameterGroupName CacheSubnetGroupName Engine EngineVersion NumCacheClusters Port ReplicationGroupDescription SecurityGroupIds SnapshotRetentionLimit',
  'AWS::ElastiCache::ServerlessCache':
    'CacheUsageLimits Description Engine FinalSnapshotName MajorEngineVersion ServerlessCacheName SnapshotRetentionLimit',
  'AWS::ElastiCache::SubnetGroup': 'Description SubnetIds',
  'AWS::ElastiCache::User': 'AccessString AuthenticationMode Engine UserId UserName',
  'AWS::ElastiCache::UserGroup': 'Engine UserGroupId UserIds',
  'AWS::Events::Rule': 'ScheduleExpression Targets',
  'AWS::IAM::Policy': 'PolicyDocument PolicyName Roles',
  'AWS::IAM::Role': 'AssumeRolePolicyDocument Policies',
  'AWS::S3::Bucket': 'BucketEncryption PublicAccessBlockConfiguration',
  'AWS::S3::BucketPolicy': 'Bucket PolicyDocument',
  'AWS::SNS::Subscription': 'Endpoint Protocol TopicArn',
  'AWS::SNS::Topic': 'DisplayName',
  'AWS::SNS::TopicPolicy': 'PolicyDocument Topics',
  'AWS::SQS::Queue': 'MaximumMessageSize MessageRetentionPeriod QueueName',
  'AWS::SQS::QueuePolicy': 'PolicyDocument Queues',
};

/** Made by osls, whose business its other resources are. */
const OSLS = /^ServerlessDeployment/;

interface Document {
  readonly Version?: unknown;
  readonly Statement: readonly (Statement & { readonly Principal?: unknown })[];
}

/** Roles that another than Lambda may assume. */
const TRUSTED: Readonly<Record<string, unknown>> = {
  // Whom the account lets.
  CaptureReaderRole: { AWS: { 'Fn::Sub': 'arn:${AWS::Partition}:iam::${AWS::AccountId}:root' } },
};

/** Every policy of the template, and whether it stands at a resource and so says who. */
function policiesOf(template: Template) {
  return Object.entries(template.Resources).flatMap(([name, { Properties = {} }]) => {
    const { PolicyDocument, AssumeRolePolicyDocument, Policies = [], Roles } = Properties;
    const own = (Policies as Properties[]).map((policy) => {
      assert.ok(policy['PolicyName'], name);
      return { name, document: policy['PolicyDocument'] as Document, isAtResource: false };
    });
    const isAtResource = Roles === undefined;
    const others = [PolicyDocument, AssumeRolePolicyDocument].flatMap((document) =>
      document === undefined ? [] : [{ name, document: document as Document, isAtResource }],
    );
    return OSLS.test(name) ? [] : [...own, ...others];
  });
}

/** The rules of security groups, in their own resources or in those of the groups. */
function rulesOf(template: Template): [string, Properties][] {
  const inside = resourcesOf(template, 'AWS::EC2::SecurityGroup').flatMap(([name, group]) =>
    [group['SecurityGroupIngress'], group['SecurityGroupEgress']]
      .flatMap((rules) => (rules ?? []) as Properties[])
      .map((rule): [string, Properties] => [name, rule]),
  );
  const types = ['AWS::EC2::SecurityGroupEgress', 'AWS::EC2::SecurityGroupIngress'];
  return [...inside, ...types.flatMap((type) => resourcesOf(template, type))];
}

/** Ports by what is spoken there. */
const PORTS: Readonly<Record<string, number>> = { S3: 443, Redis: 6379 };
const TO_NOBODY = { IpProtocol: 'icmp', FromPort: -1, ToPort: -1, CidrIp: '127.0.0.1/32' };

/** Statistic, period in seconds, number of periods, operator, threshold: what the description of the alarm says. */
const ALARMS: Readonly<Record<string, readonly unknown[]>> = {
  // For a quarter of an hour, and still after as long.
  QueueAgeAlarm: ['Maximum', 300, 3, 'GreaterThanThreshold', 900],
  // From the first record that is lost.
  DeadLetterAlarm: ['Sum', 300, 1, 'GreaterThanOrEqualToThreshold', 1],
  HighQueueAgeAlarm: ['Maximum', 300, 3, 'GreaterThanThreshold', 900],
  NotifyGivenUpAlarm: ['Maximum', 300, 1, 'GreaterThanOrEqualToThreshold', 1],
  // A notice that comes again may wait for a quarter of an hour.
  NotifyAgeAlarm: ['Maximum', 300, 3, 'GreaterThanThreshold', 1_800],
  JobsGivenUpAlarm: ['Maximum', 300, 1, 'GreaterThanOrEqualToThreshold', 1],
  CanaryRolledBackAlarm: ['Sum', 300, 1, 'GreaterThanOrEqualToThreshold', 1],
  BudgetExceededAlarm: ['Sum', 300, 1, 'GreaterThanOrEqualToThreshold', 1],
  BudgetUnknownAlarm: ['Sum', 300, 1, 'GreaterThanOrEqualToThreshold', 1],
  // Half an hour of a whole processor.
  RedisCreditsAlarm: ['Minimum', 300, 3, 'LessThanOrEqualToThreshold', 30],
  RedisThrottleAlarm: ['Sum', 300, 1, 'GreaterThanThreshold', 0],
  // Those of a burst are sent again.
  ResultTableThrottleAlarm: ['Sum', 300, 1, 'GreaterThanThreshold', 100],
};

interface Query {
  readonly Id?: string;
  readonly Expression?: string;
  readonly Label?: string;
  readonly ReturnData?: boolean;
  readonly MetricStat?: { readonly Stat?: string; readonly Period?: number };
}

const RESOURCES: readonly Check[] = [
  [
    'every resource has the properties that AWS requires, and those that it must not choose',
    (template) => {
      for (const [name, { Type, Properties = {} }] of Object.entries(template.Resources)) {
        assert.match(Type, /^AWS::\w+::\w+$/, name);
        for (const property of (REQUIRED[Type] ?? '').split(' ').filter(Boolean))
          assert.notEqual(Properties[property], undefined, `${name}: no ${property}`);
      }
    },
  ],
  [
    'every policy has the version that knows variables, and each statement says what, on what, and at a resource who',
    (template) => {
      for (const { name, document, isAtResource } of policiesOf(template)) {
        assert.equal(document.Version, '2012-10-17', name);
        for (const { Sid, Effect, Action, Resource, Principal, Condition } of document.Statement) {
          const where = `${name} ${Sid}`;
          assert.match(Effect, /^(Allow|Deny)$/, where);
          assert.ok(
            [Action].flat().every((action) => /^\w+:[\w*]+$/.test(action)),
            where,
          );
          const isTrust = Action === 'sts:AssumeRole';
          if (isTrust)
            assert.deepEqual(Principal, TRUSTED[name] ?? { Service: 'lambda.amazonaws.com' }, where);
          assert.equal(Resource === undefined, isTrust, where);
          assert.equal(Principal !== undefined, isAtResource, where);
          if (!isTrust) assert.match(String(Sid), /^[A-Z]\w+$/, where);
          // Who is anybody: then a denial, or what else limits it.
          if (Effect === 'Deny') assert.notEqual(Condition, undefined, where);
        }
      }
    },
  ],
  [
    'a rule of a security group opens one port, in TCP, for what its description names',
    (template) => {
      for (const [name, { Description, ...rule }] of rulesOf(template)) {
        if (Description === 'none') {
          assert.deepEqual(rule, TO_NOBODY, name);
          continue;
        }
        // Into the endpoint of SQS, which speaks HTTPS, or into Redis.
        const into = name === 'SqsEndpointSecurityGroup' ? 443 : 6379;
        const port = Description === 'functions' ? into : PORTS[String(Description)];
        assert.deepEqual([rule['IpProtocol'], rule['FromPort'], rule['ToPort']], ['tcp', port, port], name);
        const ends = ['CidrIp', 'SourceSecurityGroupId', 'DestinationSecurityGroupId'];
        assert.equal(ends.filter((end) => rule[end] !== undefined).length, 1, name);
      }
    },
  ],
];

const ALARM_CHECKS: readonly Check[] = [
  [
    'an alarm turns red at the value that it names, is silent without data and tells both when it turns red and when it is over',
    (template) => {
      for (const [name, alarm] of resourcesOf(template, 'AWS::CloudWatch::Alarm')) {
        const { AlarmDescription, TreatMissingData, AlarmActions, OKActions } = alarm;
        assert.ok(String(AlarmDescription).length > 20, name);
        assert.equal(TreatMissingData, 'notBreaching', name);
        assert.deepEqual(AlarmActions, OKActions, name);
        const queries = (alarm['Metrics'] ?? []) as readonly Query[];
        const parts = queries.flatMap(({ MetricStat }) => MetricStat ?? []);
        const [statistic, period] = [
          alarm['Statistic'] ?? alarm['ExtendedStatistic'] ?? parts[0]?.Stat,
          alarm['Period'] ?? parts[0]?.Period,
        ];
        assert.match(JSON.stringify(statistic), /^"(Sum|Maximum|Minimum|Average|p99)"$/, name);
        assert.match(JSON.stringify(period), /^(300|3600)$/, name);
        const found = [
          statistic,
          period,
          alarm['EvaluationPeriods'],
          alarm['ComparisonOperator'],
          alarm['Threshold'],
        ];
        if (ALARMS[name]) assert.deepEqual(found, ALARMS[name], name);
      }
    },
  ],
  [
    'an alarm on several metrics looks at one value of all, over the same time',
    (template) => {
      for (const [name, { Metrics = [] }] of resourcesOf(template, 'AWS::CloudWatch::Alarm')) {
        const [whole, ...parts] = Metrics as readonly Query[];
        if (whole === undefined) continue;
        assert.match(String(whole.Expression), /^(SUM|MAX|MIN)\(METRICS\(\)\)$/, name);
        assert.deepEqual([whole.ReturnData, typeof whole.Label], [true, 'string'], name);
        assert.equal(new Set([whole, ...parts].map(({ Id }) => Id)).size, parts.length + 1, name);
        for (const { Id = '' } of [whole, ...parts]) assert.match(Id, /^[a-z]\w*$/, name);
        for (const { ReturnData, MetricStat } of parts) {
          assert.equal(ReturnData, false, name);
          assert.deepEqual(
            [MetricStat?.Stat, MetricStat?.Period],
            [parts[0]?.MetricStat?.Stat, parts[0]?.MetricStat?.Period],
            name,
          );
        }
      }
    },
  ],
  [
    'the alarm on the memory of Redis is red from 80 % of a node or of the limit (60 % on the internet), at the first sight',
    (template) => {
      const alarm = template.Resources['RedisMemoryAlarm']?.Properties;
      const own = ownRedis(template);
      const cache = own === 'Redis' || own === undefined ? undefined : template.Resources[own]?.Properties;
      const share = own === 'RedisPublic' ? 0.6 : 0.8;
      if (!alarm) return;
      const { DataStorage } = (cache?.['CacheUsageLimits'] ?? {}) as { DataStorage?: { Maximum: unknown } };
      const bytes = Math.round(share * Number(DataStorage?.Maximum) * 1024 ** 3);
      assert.deepEqual(
        [
          alarm['Statistic'],
          alarm['Period'],
          alarm['EvaluationPeriods'],
          alarm['ComparisonOperator'],
          alarm['Threshold'],
        ],
        ['Maximum', 300, 1, 'GreaterThanThreshold', cache ? bytes : 80],
      );
    },
  ],
];

const OUTPUTS: readonly Check[] = [
  [
    'an output is of this stack, and says what it is or is for another stack',
    (template) => {
      for (const [name, output] of Object.entries(template.Outputs)) {
        const { Value, Export, Description } = output as typeof output & { readonly Description?: string };
        assert.notEqual(Value, undefined, name);
        if (MADE_BY_OSLS.test(name)) continue;
        // That of a shared Redis for each job names the job.
        const isSaid = Export !== undefined || (Description ?? '').length > 10 || /^Job\w{12}$/.test(name);
        assert.ok(isSaid, name);
        if (Export) assert.match(JSON.stringify(Export.Name), /AWS::StackName|^"shared-redis-/, name);
      }
    },
  ],
];

const MADE_BY_OSLS = /^(ServerlessDeploymentBucketName|HttpApiId|HttpApiUrl|\w+LambdaFunctionQualifiedArn)$/;

export const RESOURCE_CHECKS = [...RESOURCES, ...ALARM_CHECKS, ...OUTPUTS];
