/**
 * Values that no parameter changes and that a user would miss: the values of infra/stack/, and the reason for each. A resource that a
 * stack does not have is passed over; every row is of some stack (test/infra/templates.test.ts).
 */
import assert from 'node:assert/strict';
import type { Template } from '../../support/template.ts';
import type { Check } from './parts.ts';

type Tree = Readonly<Record<string, unknown>>;
export type Row = readonly [resource: string, path: string, expected: unknown, why: string];

export const ref = (name: string) => ({ Ref: name });
export const sub = (text: string) => ({ 'Fn::Sub': text });
export const attribute = (name: string, of = 'Arn') => ({ 'Fn::GetAtt': [name, of] });
/** A bucket or a queue refuses what comes without TLS, from anybody and about anything. */
const tlsOnly = (service: string, resource: unknown) => ({
  Sid: 'TlsOnly',
  Effect: 'Deny',
  Principal: '*',
  Action: `${service}:*`,
  Resource: resource,
  Condition: { Bool: { 'aws:SecureTransport': 'false' } },
});
export const OUR_BUCKET = [attribute('Bucket'), sub('${Bucket.Arn}/*')];
/** A service of AWS may do it, under a condition. */
const serviceMay = (Sid: string, service: string, Action: string, Resource: unknown, Condition: object) => ({
  Sid,
  Effect: 'Allow',
  Principal: { Service: `${service}.amazonaws.com` },
  Action,
  Resource,
  Condition,
});
const OF_THIS_ACCOUNT = { StringEquals: { 'aws:SourceAccount': ref('AWS::AccountId') } };
const ALARMS_MAY_PUBLISH = serviceMay(
  'AlarmsOfThisAccount',
  'cloudwatch',
  'sns:Publish',
  ref('AlarmTopic'),
  OF_THIS_ACCOUNT,
);
/** Roles of the functions that use Redis. */
export const IN_VPC = ['PredictRole', 'BatchRole', 'PredictionsRole', 'StatusRole', 'DeadLetterRole'];

const STORAGE: readonly Row[] = [
  ['DeadLetterQueue', 'VisibilityTimeout', 180, 'six times the 30 s of the dead-letter function'],
  ['DeadLetterQueue', 'MessageRetentionPeriod', 1_209_600, '14 days, the most'],
  ['QueuePolicy', 'Queues', [ref('Queue')], 'the policy is of the queue'],
  ['QueuePolicy', 'PolicyDocument.Statement', [tlsOnly('sqs', attribute('Queue'))], 'TLS only'],
  ['DeadLetterQueuePolicy', 'Queues', [ref('DeadLetterQueue')], 'the policy is of the dead letters'],
  [
    'DeadLetterQueuePolicy',
    'PolicyDocument.Statement',
    [tlsOnly('sqs', attribute('DeadLetterQueue'))],
    'TLS only',
  ],
  ['BucketPolicy', 'Bucket', ref('Bucket'), 'the policy is of the bucket'],
  ['BucketPolicy', 'PolicyDocument.Statement', [tlsOnly('s3', OUR_BUCKET)], 'TLS only'],
  [
    'Bucket',
    'OwnershipControls',
    { Rules: [{ ObjectOwnership: 'BucketOwnerEnforced' }] },
    'no object belongs to who sent it',
  ],
  [
    'Bucket',
    'LifecycleConfiguration.Rules.0',
    { Id: 'dead-letters', Status: 'Enabled', Prefix: 'dead-letters/', ExpirationInDays: 30 },
    'docs/how-to/runbook.md: a month to look at them',
  ],
  [
    'Bucket',
    'LifecycleConfiguration.Rules.1',
    { Id: 'payloads', Status: 'Enabled', Prefix: 'payloads/', ExpirationInDays: 45 },
    '14 days in a queue, 30 as a dead letter, and one to replay it',
  ],
  [
    'Bucket',
    'LifecycleConfiguration.Rules.3',
    { Id: 'torn-uploads', Status: 'Enabled', AbortIncompleteMultipartUpload: { DaysAfterInitiation: 1 } },
    'an upload that was left unfinished is not paid for',
  ],
  ['Bucket', 'LifecycleConfiguration.Rules.2.Id', 'large-results', 'the list in the console is read by ids'],
];

/** S3 tells a queue of new objects before the bucket exists, so it is known by its account. */
const newObjects = (queue: string) =>
  serviceMay('NewObjects', 's3', 'sqs:SendMessage', attribute(queue), OF_THIS_ACCOUNT);
const LOOK_AT_THE_OUTBOX = serviceMay(
  'LookAtTheOutbox',
  'events',
  'sqs:SendMessage',
  attribute('NotifyQueue'),
  { ArnEquals: { 'aws:SourceArn': attribute('OutboxRule') } },
);

/** Queues that config.yaml adds, with what may send to them. */
const QUEUES: readonly Row[] = [
  ...Object.entries({
    HighQueue: [],
    NotifyQueue: [newObjects('NotifyQueue'), LOOK_AT_THE_OUTBOX],
    NotifyDeadLetterQueue: [],
    JobsQueue: [newObjects('JobsQueue')],
    JobsDeadLetterQueue: [],
  }).flatMap(([queue, senders]): Row[] => [
    [queue, 'SqsManagedSseEnabled', true, 'encrypted'],
    [queue, 'MaximumMessageSize', 1_048_576, 'the most of SQS'],
    [`${queue}Policy`, 'Queues', [ref(queue)], 'the policy is of the queue'],
    [
      `${queue}Policy`,
      'PolicyDocument.Statement',
      [tlsOnly('sqs', attribute(queue)), ...senders],
      'TLS only, and who sends besides functions',
    ],
  ]),
  ['NotifyQueue', 'MessageRetentionPeriod', 345_600, 'four days without a notifier lose nothing'],
  ['NotifyDeadLetterQueue', 'MessageRetentionPeriod', 1_209_600, '14 days, the most'],
  ['JobsQueue', 'MessageRetentionPeriod', 1_209_600, 'a job may take 14 days'],
  ['JobsDeadLetterQueue', 'MessageRetentionPeriod', 1_209_600, '14 days, the most'],
  ['HighQueue', 'RedrivePolicy.deadLetterTargetArn', attribute('DeadLetterQueue'), 'that of all records'],
  ['NotifyQueue', 'RedrivePolicy.deadLetterTargetArn', attribute('NotifyDeadLetterQueue'), 'of notices'],
  ['JobsQueue', 'RedrivePolicy.deadLetterTargetArn', attribute('JobsDeadLetterQueue'), 'of jobs'],
  ['BatchEventSourceMappingSQSHighQueue', 'Enabled', true, 'records are taken from the start'],
  [
    'BatchEventSourceMappingSQSHighQueue',
    'FunctionResponseTypes',
    ['ReportBatchItemFailures'],
    'what fails comes again, and the others do not',
  ],
  ['OutboxRule', 'ScheduleExpression', 'rate(15 minutes)', 'a lost event costs a notice that time'],
  ['TrialsRule', 'ScheduleExpression', 'rate(1 minute)', 'a bad canary answers for a minute'],
  ['ThrottleRule', 'ScheduleExpression', 'rate(1 minute)', 'a limit is passed for a minute'],
  ['MonthlyBudget', 'Budget.BudgetType', 'COST', 'budget.perMonth is in dollars'],
  ['MonthlyBudget', 'Budget.TimeUnit', 'MONTHLY', 'budget.perMonth'],
  ['MonthlyBudget', 'Budget.BudgetLimit.Unit', 'USD', 'budget.perMonth'],
];

const REDIS: readonly Row[] = [
  ['Redis', 'Engine', 'valkey', 'its users, parameters and version are Valkey’s'],
  ['Redis', 'EngineVersion', '8.0', 'of the family of its parameters'],
  ['RedisParameters', 'CacheParameterGroupFamily', 'valkey8', 'of the version of the engine'],
  ['Redis', 'Port', 6379, 'that of the security groups'],
  ['Redis', 'AutoMinorVersionUpgrade', true, 'fixes of security holes arrive by themselves'],
  ['Redis', 'CacheParameterGroupName', ref('RedisParameters'), 'never evicts'],
  ['Redis', 'CacheSubnetGroupName', ref('RedisSubnets'), 'in the private subnets'],
  ['Redis', 'SecurityGroupIds', [ref('RedisSecurityGroup')], 'which admits functions only'],
  ['RedisMemoryAlarm', 'Namespace', 'AWS/ElastiCache', 'where ElastiCache writes'],
  ['RedisServerless', 'Engine', 'valkey', 'its users, parameters and version are Valkey’s'],
  ['RedisServerless', 'MajorEngineVersion', '8', 'the one that is tested'],
  ['RedisServerless', 'CacheUsageLimits.DataStorage.Unit', 'GB', 'redisMaxGB'],
  ['RedisServerless', 'SecurityGroupIds', [ref('RedisSecurityGroup')], 'which admits functions only'],
  ['RedisPublic', 'Engine', 'valkey', 'its users, parameters and version are Valkey’s'],
  ['RedisPublic', 'MajorEngineVersion', '9', 'the first that is public'],
  ['RedisPublic', 'ConnectionType', 'public', 'redis=public'],
  ['RedisPublic', 'CacheUsageLimits.DataStorage.Unit', 'GB', 'redisMaxGB'],
  ['RedisPublic', 'UserGroupId', ref('RedisUserGroup'), 'there is no other protection'],
  ['RedisSubmitPolicy', 'Roles', [ref('SubmitRole')], 'it announces what it sends'],
  ['RedisSubmitPolicy', 'PolicyDocument.Statement.0.Action', 'elasticache:Connect', 'to sign in'],
  ['RedisThrottleAlarm', 'MetricName', 'ThrottledCmds', 'commands over the limit of ECPUs'],
  ['RedisThrottleAlarm', 'Namespace', 'AWS/ElastiCache', 'where ElastiCache writes'],
  ['ResultTable', 'BillingMode', 'PAY_PER_REQUEST', 'nothing is paid idle'],
  ['ResultTable', 'TimeToLiveSpecification', { AttributeName: 'ttl', Enabled: true }, 'lib/table/entry.ts'],
  ['ResultTable', 'GlobalSecondaryIndexes.0.IndexName', 'listed', 'lib/table/index-pages.ts'],
  [
    'ResultTable',
    'GlobalSecondaryIndexes.0.Projection',
    { ProjectionType: 'INCLUDE', NonKeyAttributes: ['bytes'] },
    'pages keep to their bytes',
  ],
  ['ResultTableThrottleAlarm', 'MetricName', 'WriteThrottleEvents', 'writes that are refused'],
  ['ResultTableThrottleAlarm', 'Namespace', 'AWS/DynamoDB', 'where DynamoDB writes'],
  [
    'ResultTableWritePolicy',
    'PolicyDocument.Statement.0.Action',
    ['dynamodb:UpdateItem', 'dynamodb:DeleteItem'],
    'every change is an update',
  ],
  ['ResultTableReadPolicy', 'PolicyDocument.Statement.0.Action', 'dynamodb:GetItem', 'to decide'],
  ['ResultTableReadManyPolicy', 'PolicyDocument.Statement.0.Action', 'dynamodb:BatchGetItem', 'batches'],
  ['ResultTableListPolicy', 'PolicyDocument.Statement.0.Action', 'dynamodb:Query', 'DELETE /predictions'],
  ['ResultTableListPolicy', 'Roles', [ref('PredictionsRole')], 'which alone lists results'],
  [
    'ResultTableListPolicy',
    'PolicyDocument.Statement.0.Resource',
    sub('${ResultTable.Arn}/index/listed'),
    'the index alone',
  ],
  ['RedisUser', 'AuthenticationMode', { Type: 'iam' }, 'no password'],
  ['RedisUser', 'Engine', 'valkey', 'that of the cache'],
  ['RedisUserGroup', 'Engine', 'valkey', 'that of the cache'],
  ['RedisPasswordPolicy', 'Roles', IN_VPC.map(ref), 'of the functions that use Redis'],
  ['RedisConnectPolicy', 'Roles', IN_VPC.map(ref), 'of the functions that use Redis'],
  ['RedisConnectPolicy', 'PolicyDocument.Statement.0.Action', 'elasticache:Connect', 'to sign in'],
];

const NETWORK: readonly Row[] = [
  ['Vpc', 'CidrBlock', '10.20.0.0/22', 'room for both subnets'],
  ['Vpc', 'EnableDnsSupport', true, 'functions find Redis by its name'],
  ['Vpc', 'EnableDnsHostnames', true, 'the endpoint of SQS has the usual name'],
  ['Vpc', 'Tags', [{ Key: 'Name', Value: ref('AWS::StackName') }], 'the list in the console'],
  ['SubnetA', 'CidrBlock', '10.20.0.0/24', 'within the VPC'],
  ['SubnetB', 'CidrBlock', '10.20.1.0/24', 'beside the other'],
  ['SubnetA', 'Tags', [{ Key: 'Name', Value: sub('${AWS::StackName}-a') }], 'the list in the console'],
  ['SubnetB', 'Tags', [{ Key: 'Name', Value: sub('${AWS::StackName}-b') }], 'the list in the console'],
  ['FunctionToRedis', 'GroupId', ref('FunctionSecurityGroup'), 'functions call Redis'],
  ['SqsEndpoint', 'PrivateDnsEnabled', true, 'the usual name of SQS leads to it'],
  ['SqsEndpointSecurityGroup', 'SecurityGroupIngress.0.FromPort', 443, 'SQS speaks HTTPS'],
  ['SqsEndpoint', 'SecurityGroupIds', [ref('SqsEndpointSecurityGroup')], 'which admits functions only'],
  [
    'SqsEndpoint',
    'PolicyDocument.Statement',
    [
      {
        Sid: 'OurQueueOnly',
        Effect: 'Allow',
        Principal: '*',
        Action: 'sqs:SendMessage',
        Resource: attribute('Queue'),
      },
    ],
    'it reaches no other queue',
  ],
  ['Domain', 'DomainNameConfigurations.0.EndpointType', 'REGIONAL', 'an HTTP API has no other'],
  ['DomainMapping', 'ApiId', ref('HttpApi'), 'the name leads to the API'],
  ['DomainMapping', 'DomainName', ref('Domain'), 'the name leads to the API'],
  ['DomainMapping', 'Stage', ref('HttpApiStage'), 'the name leads to the API'],
  ['HttpApiStage', 'DefaultRouteSettings.DetailedMetricsEnabled', false, 'a metric for each route is billed'],
];

const ALARMS: readonly Row[] = [
  ['AlarmTopicPolicy', 'Topics', [ref('AlarmTopic')], 'the policy is of the topic'],
  ['AlarmTopicPolicy', 'PolicyDocument.Statement', [ALARMS_MAY_PUBLISH], 'and no other service'],
  ['AlarmMail', 'TopicArn', ref('AlarmTopic'), 'alarms arrive by mail'],
  ['AlarmMail', 'Protocol', 'email', 'alarms arrive by mail'],
];

const FUNCTIONS: readonly Row[] = [
  [
    'PredictLambdaFunction',
    'Description',
    'POST /predict and /v2, answers at once',
    'the list in the console',
  ],
  ['BatchLambdaFunction', 'Description', 'queue to results', 'the list in the console'],
  ['SubmitLambdaFunction', 'Timeout', 29, 'ends before the gateway gives up at 30 s, and says why'],
  ['SubmitLambdaFunction', 'MemorySize', 512, 'enough processor for TLS and JSON'],
  ['PredictionsLambdaFunction', 'Timeout', 29, 'a GET may wait 20 s for its result'],
  ['PredictionsLambdaFunction', 'MemorySize', 512, 'enough processor for TLS and JSON'],
  ['StatusLambdaFunction', 'Timeout', 10, 'says soon that something is away'],
  ['DeadDashletterLambdaFunction', 'Timeout', 30, 'a sixth of what its queue hides messages'],
  ['DeadDashletterEventSourceMappingSQSDeadLetterQueue', 'BatchSize', 10, 'the most without a window'],
  [
    'DeadDashletterEventSourceMappingSQSDeadLetterQueue',
    'ScalingConfig.MaximumConcurrency',
    2,
    'the least: dead letters must not crowd out the others',
  ],
];

export const ROWS: readonly Row[] = [...STORAGE, ...QUEUES, ...REDIS, ...NETWORK, ...ALARMS, ...FUNCTIONS];

/** A property, or what stands beside the properties: DeletionPolicy. */
export function valueAt({ Resources }: Template, resource: string, path: string): unknown {
  const all = Resources[resource] as Tree | undefined;
  const properties = all?.['Properties'] as Tree | undefined;
  const keys = path.split('.');
  const isBeside = /Policy$|^DependsOn$/.test(path) && properties?.[path] === undefined;
  let value: unknown = isBeside ? all : properties;
  for (const key of keys) value = (value as Tree | undefined)?.[key];
  return value;
}

export const VALUE_CHECKS: readonly Check[] = [
  [
    'every value that no parameter changes is as test/infra/every-stack/values.ts says, and why',
    (template) => {
      for (const [resource, path, expected, why] of ROWS) {
        if (!Object.hasOwn(template.Resources, resource)) continue;
        assert.deepEqual(valueAt(template, resource, path), expected, `${resource}.${path}: ${why}`);
      }
    },
  ],
];
