/** Stacks with different parameters, as test/infra/compose.ts makes them, and the values that follow their parameters. */
import { redisUser } from '../../infra/template/redis-access.ts';
import type { Template } from '../support/template.ts';
import { composeJob, composeSharedRedis, type Request } from './compose.ts';
import { attribute, IN_VPC, OUR_BUCKET, type Row, ref, sub } from './every-stack/values.ts';

const SUBNETS = ['subnet-0123456789abcdef0', 'subnet-0123456789abcdef1'];
const VPC = 'vpc-0123456789abcdef0';
const GROUP = 'sg-0123456789abcdef0';
const EXISTING = { vpcId: VPC, subnetIds: SUBNETS.join() };
const CERTIFICATE = 'arn:aws:acm:us-east-1:123456789012:certificate/12345678-1234-1234-1234-123456789012';
const BOUNDARY = 'arn:aws:iam::123456789012:policy/limits';
const KEY = 'arn:aws:kms:us-east-1:123456789012:key/12345678-1234-1234-1234-123456789012';
const PUBLIC_CACHE = `${redisUser('cluster-serving', 'dev')}-public`;
export const STACKS = {
  dev: {},
  prod: { stage: 'prod' },
  signedIn: { parameters: { redisAuth: 'iam', respondAsync: 'on' } },
  serverless: {
    now: new Date('2026-11-28T07:45:12.345Z'),
    parameters: { redis: 'serverless', redisAuth: 'iam', keepData: 'on', redisMaxGB: 3 },
  },
  public: { parameters: { redis: 'public', redisMaxGB: 3, respondAsync: 'on' } },
  table: { parameters: { results: 'dynamodb', respondAsync: 'on' } },
  shared: { parameters: { redis: 'shared', redisStack: 'shared-redis-dev' } },
  url: {
    parameters: {
      redis: 'url',
      redisUrl: 'rediss://redis.example.com:6379',
      redisPassword: '/job/redis',
      respondAsync: 'on',
    },
  },
  existing: {
    parameters: {
      ...EXISTING,
      routeTableIds: 'rtb-0123456789abcdef0',
      securityGroup: GROUP,
      respondAsync: 'routed',
      alarmEmail: 'ops@example.com',
      auth: 'jwt',
      jwtIssuer: 'https://issuer.example.com/',
      jwtAudience: 'first, second',
      domain: 'api.example.com',
      certificateArn: CERTIFICATE,
      provisioned: 3,
    },
  },
  company: {
    parameters: {
      permissionsBoundary: BOUNDARY,
      rolePath: '/team/',
      tags: 'team=a b, cost=1',
      kmsKey: KEY,
      logPrefix: '/company',
      pollers: '2-20',
      auth: 'jwt',
      jwtIssuer: 'https://issuer.example.com/',
      jwtAudience: 'first',
      jwtScopes: 'predict=run, predictions=read write',
      callerLog: 'on',
    },
  },
  worker: { config: 'examples/worker-python/config.yaml', parameters: EXISTING },
} as const satisfies Readonly<Record<string, Request>>;

/** A job with everything that config.yaml can add. */
const EVERYTHING: Request = { config: 'test/infra/every-stack/everything.yaml' };

export type StackName = keyof typeof STACKS | 'redis' | 'everything';

/** Made when the first test asks. */
const made = new Map<string, Template>();
export function stack(name: StackName): Template {
  const make = () =>
    name === 'redis'
      ? composeSharedRedis({ parameters: { jobs: 'a@dev,b@prod' } })
      : composeJob(name === 'everything' ? EVERYTHING : STACKS[name]);
  const template = made.get(name) ?? make();
  made.set(name, template);
  return template;
}
export const NAMES = Object.keys(STACKS) as (keyof typeof STACKS)[];

const OWN_SUBNETS = [ref('SubnetA'), ref('SubnetB')];
const OWN = 'arn:${AWS::Partition}';
const HERE = '${AWS::Region}:${AWS::AccountId}';
const ARN = `${OWN}:elasticache:${HERE}`;
const imported = (name: string) => ({ 'Fn::ImportValue': `shared-redis-dev:${name}` });

/** Values that follow the parameters. */
export const FOLLOWING: readonly (readonly [stack: StackName, ...Row])[] = [
  ['dev', 'Bucket', 'DeletionPolicy', 'Delete', 'keepData=off'],
  ['dev', 'Bucket', 'UpdateReplacePolicy', 'Delete', 'keepData=off'],
  ['dev', 'Redis', 'DeletionPolicy', 'Delete', 'keepData=off'],
  ['dev', 'Redis', 'UpdateReplacePolicy', 'Delete', 'keepData=off'],
  ['prod', 'Bucket', 'DeletionPolicy', 'Retain', 'keepData=on'],
  [
    'prod',
    'Bucket',
    'UpdateReplacePolicy',
    'Retain',
    'keepData=on, for a change that makes a new bucket too',
  ],
  ['prod', 'Redis', 'DeletionPolicy', 'Snapshot', 'keepData=on'],
  [
    'prod',
    'Redis',
    'UpdateReplacePolicy',
    'Snapshot',
    'keepData=on, for a change that makes a new Redis too',
  ],
  ['prod', 'Redis', 'SnapshotRetentionLimit', 7, 'keepData=on: a week of snapshots'],
  ['prod', 'AlarmTopic', 'DisplayName', 'cluster-serving-prod', 'who sends the mail'],
  ['existing', 'AlarmTopic', 'DisplayName', 'cluster-serving-dev', 'who sends the mail'],
  ['existing', 'AlarmMail', 'Endpoint', 'ops@example.com', 'alarmEmail'],
  ['company', 'PredictRole', 'PermissionsBoundary', BOUNDARY, 'permissionsBoundary'],
  ['company', 'PredictRole', 'Path', '/team/', 'rolePath'],
  ['company', 'PredictLogGroup', 'LogGroupName', '/company/lambda/cluster-serving-dev-predict', 'logPrefix'],
  ['company', 'PredictLogGroup', 'KmsKeyId', KEY, 'kmsKey'],
  ['company', 'PredictLambdaFunction', 'KmsKeyArn', KEY, 'kmsKey'],
  ['company', 'Queue', 'KmsMasterKeyId', KEY, 'kmsKey'],
  ['company', 'Redis', 'KmsKeyId', KEY, 'kmsKey'],
  [
    'company',
    'BatchEventSourceMappingSQSQueue',
    'ProvisionedPollerConfig',
    { MinimumPollers: 2, MaximumPollers: 20 },
    'pollers',
  ],
  ['serverless', 'RedisServerless', 'SnapshotRetentionLimit', 7, 'keepData=on: a week of snapshots'],
  ['serverless', 'RedisServerless', 'CacheUsageLimits.DataStorage.Maximum', 3, 'redisMaxGB'],
  ['serverless', 'RedisServerless', 'CacheUsageLimits.ECPUPerSecond.Maximum', 5000, 'redisMaxECPU'],
  [
    'serverless',
    'RedisThrottleAlarm',
    'Dimensions',
    [{ Name: 'clusterId', Value: ref('RedisServerless') }],
    'this',
  ],
  ['public', 'RedisThrottleAlarm', 'Dimensions', [{ Name: 'clusterId', Value: ref('RedisPublic') }], 'this'],
  [
    'table',
    'ResultTableReadManyPolicy',
    'Roles',
    ['BatchRole', 'PredictionsRole', 'StatusRole', 'DeadLetterRole'].map(ref),
    'neither predict nor submit',
  ],
  [
    'table',
    'ResultTableReadPolicy',
    'Roles',
    ['PredictRole', 'SubmitRole', 'BatchRole', 'PredictionsRole', 'StatusRole', 'DeadLetterRole'].map(ref),
    'all that announce, save or show',
  ],
  ['serverless', 'RedisServerless', 'SubnetIds', OWN_SUBNETS, 'those of the functions'],
  ['serverless', 'RedisServerless', 'UserGroupId', ref('RedisUserGroup'), 'redisAuth=iam'],
  ['public', 'RedisPublic', 'ServerlessCacheName', PUBLIC_CACHE, 'its own name'],
  ['public', 'RedisPublic', 'CacheUsageLimits.DataStorage.Maximum', 3, 'redisMaxGB'],
  ['public', 'RedisPublic', 'CacheUsageLimits.ECPUPerSecond.Maximum', 5000, 'redisMaxECPU'],
  ['public', 'RedisMemoryAlarm', 'Threshold', Math.round(3 * 2 ** 30 * 0.6), '60 % of redisMaxGB'],
  [
    'public',
    'RedisSubmitPolicy',
    'PolicyDocument.Statement.0.Resource',
    [sub(`${ARN}:serverlesscache:\${RedisPublic}`), sub(`${ARN}:user:\${RedisUser}`)],
    'this cache, as this user',
  ],
  ['signedIn', 'Redis', 'UserGroupIds', [ref('RedisUserGroup')], 'redisAuth=iam'],
  ['redis', 'Redis', 'UserGroupIds', [ref('RedisUserGroup')], 'a user for each job'],
  ['signedIn', 'RedisUserGroup', 'UserIds', [ref('RedisUser')], 'redisAuth=iam'],
  ['signedIn', 'SqsEndpoint', 'SubnetIds', OWN_SUBNETS, 'those of the functions'],
  ['signedIn', 'SqsEndpoint', 'VpcId', ref('Vpc'), 'that of the functions'],
  [
    'signedIn',
    'RedisConnectPolicy',
    'PolicyDocument.Statement.0.Resource',
    [sub(`${ARN}:replicationgroup:\${Redis}`), sub(`${ARN}:user:\${RedisUser}`)],
    'this Redis, as this user',
  ],
  [
    'serverless',
    'RedisConnectPolicy',
    'PolicyDocument.Statement.0.Resource',
    [sub(`${ARN}:serverlesscache:\${RedisServerless}`), sub(`${ARN}:user:\${RedisUser}`)],
    'this cache, as this user',
  ],
  ['dev', 'RedisSubnets', 'SubnetIds', OWN_SUBNETS, 'those of the functions'],
  ['dev', 'RedisSecurityGroup', 'VpcId', ref('Vpc'), 'that of the functions'],
  ['dev', 'FunctionSecurityGroup', 'VpcId', ref('Vpc'), 'that of the functions'],
  ['dev', 'S3Endpoint', 'VpcId', ref('Vpc'), 'that of the functions'],
  ['dev', 'S3Endpoint', 'RouteTableIds', [ref('RouteTable')], 'that of the subnets'],
  [
    'dev',
    'S3Endpoint',
    'PolicyDocument.Statement',
    [
      {
        Sid: 'OurBucketOnly',
        Effect: 'Allow',
        Principal: '*',
        Action: ['s3:GetObject', 's3:PutObject', 's3:ListBucket'],
        Resource: OUR_BUCKET,
      },
    ],
    'it reaches no other bucket',
  ],
  ['existing', 'S3Endpoint', 'VpcId', VPC, 'vpcId'],
  ['existing', 'S3Endpoint', 'RouteTableIds', ['rtb-0123456789abcdef0'], 'routeTableIds'],
  ['existing', 'S3Endpoint', 'PolicyDocument', undefined, 'others use these routes too'],
  ['existing', 'RedisFromFunction', 'SourceSecurityGroupId', GROUP, 'securityGroup'],
  ['existing', 'Domain', 'DomainName', 'api.example.com', 'domain'],
  [
    'existing',
    'Domain',
    'DomainNameConfigurations',
    [{ CertificateArn: CERTIFICATE, EndpointType: 'REGIONAL', SecurityPolicy: 'TLS_1_2' }],
    'certificateArn, and nothing older than TLS 1.2',
  ],
  ['dev', 'PredictLambdaFunction', 'MemorySize', 1769, 'one whole processor'],
  ['dev', 'BatchLambdaFunction', 'MemorySize', 1769, 'one whole processor'],
  ['dev', 'PredictLambdaFunction', 'EphemeralStorage.Size', 512, 'tmpMB'],
  ['dev', 'BatchLambdaFunction', 'EphemeralStorage.Size', 512, 'tmpMB'],
  ['dev', 'PredictLambdaFunction', 'Timeout', 29, 'under the 30 s of the gateway'],
  ['dev', 'BatchLambdaFunction', 'Timeout', 30, 'function.timeoutSeconds'],
  [
    'dev',
    'FunctionSecurityGroup',
    'DependsOn',
    [...IN_VPC, 'InterfacesPolicy'],
    'is deleted first, and while functions leave their network interfaces there',
  ],
  [
    'dev',
    'InterfacesPolicy',
    'PolicyDocument.Statement.0.Action',
    [
      'ec2:CreateNetworkInterface',
      'ec2:DescribeNetworkInterfaces',
      'ec2:DescribeSubnets',
      'ec2:DeleteNetworkInterface',
      'ec2:AssignPrivateIpAddresses',
      'ec2:UnassignPrivateIpAddresses',
    ],
    'those of AWSLambdaVPCAccessExecutionRole',
  ],
  ['dev', 'InterfacesPolicy', 'Roles', IN_VPC.map(ref), 'of the functions that use Redis'],
  [
    'prod',
    'TracingPolicy',
    'PolicyDocument.Statement',
    [
      {
        Sid: 'SendTraces',
        Effect: 'Allow',
        Action: ['xray:PutTraceSegments', 'xray:PutTelemetryRecords'],
        Resource: '*',
      },
    ],
    'tracing=on',
  ],
  ['prod', 'TracingPolicy', 'Roles', IN_VPC.toSpliced(2, 0, 'SubmitRole').map(ref), 'of all functions'],
  ['signedIn', 'PredictQueuesPolicy', 'Roles', [ref('PredictRole')], 'respondAsync=on'],
  [
    'signedIn',
    'PredictQueuesPolicy',
    'PolicyDocument.Statement',
    [
      { Sid: 'SendRecords', Effect: 'Allow', Action: 'sqs:SendMessage', Resource: attribute('Queue') },
      {
        Sid: 'StoreLargeRecords',
        Effect: 'Allow',
        Action: 's3:PutObject',
        Resource: sub('${Bucket.Arn}/payloads/serving_stream/*'),
      },
    ],
    'respondAsync=on: as POST /predictions',
  ],
  [
    'shared',
    'RedisConnectPolicy',
    'PolicyDocument.Statement.0.Resource',
    [imported('Arn'), imported(redisUser('shared-redis-dev', 'serving_stream@dev'))],
    'the Redis of that stack, as the user of this job and stage',
  ],
  [
    'url',
    'RedisPasswordPolicy',
    'PolicyDocument.Statement.1',
    {
      Sid: 'DecryptPassword',
      Effect: 'Allow',
      Action: 'kms:Decrypt',
      Resource: sub(`${OWN}:kms:${HERE}:key/*`),
      Condition: {
        StringEquals: {
          'kms:ViaService': sub('ssm.${AWS::Region}.${AWS::URLSuffix}'),
          'kms:EncryptionContext:PARAMETER_ARN': sub(`${OWN}:ssm:${HERE}:parameter/job/redis`),
        },
      },
    },
    'any key, but only by Systems Manager and for this parameter',
  ],
  [
    'existing',
    'PredictProvConcLambdaAlias',
    'ProvisionedConcurrencyConfig.ProvisionedConcurrentExecutions',
    3,
    'provisioned',
  ],
];

interface Output {
  readonly Value: unknown;
  readonly Export?: { readonly Name: unknown };
}

const exported = (name: string, Value: unknown): Output => ({
  Value,
  Export: { Name: sub(`\${AWS::StackName}:${name}`) },
});

/** Outputs that commands, clients and other stacks read. */
export const OUTPUTS: readonly (readonly [stack: StackName, output: string, expected: Output])[] = [
  ['dev', 'QueueUrl', { Value: ref('Queue') }],
  ['dev', 'DeadLetterQueueUrl', { Value: ref('DeadLetterQueue') }],
  ['dev', 'BucketName', { Value: ref('Bucket') }],
  ['dev', 'ModelLocation', { Value: sub('s3://${Bucket}/models/serving_stream/') }],
  ['dev', 'JobName', { Value: 'serving_stream' }],
  ['dev', 'Auth', { Value: 'iam' }],
  ['existing', 'Auth', { Value: 'jwt' }],
  [
    'dev',
    'RedisUrl',
    { Value: sub('rediss://${Redis.PrimaryEndPoint.Address}:${Redis.PrimaryEndPoint.Port}') },
  ],
  [
    'serverless',
    'RedisUrl',
    {
      Value: sub('rediss://${RedisServerless.Endpoint.Address}:${RedisServerless.Endpoint.Port}?cluster=on'),
    },
  ],
  [
    'public',
    'RedisUrl',
    {
      Value: sub(
        'rediss://${RedisUser}@${RedisPublic.Endpoint.Address}:${RedisPublic.Endpoint.Port}?cluster=on&iam=${RedisPublic}&region=${AWS::Region}&maxGB=3',
      ),
    },
  ],
  ['prod', 'AlarmTopicArn', { Value: ref('AlarmTopic') }],
  ['existing', 'AlarmTopicArn', { Value: ref('AlarmTopic') }],
  ['existing', 'DomainTarget', { Value: attribute('Domain', 'RegionalDomainName') }],
  ['existing', 'DomainZone', { Value: attribute('Domain', 'RegionalHostedZoneId') }],
  ['redis', 'Vpc', exported('Vpc', ref('Vpc'))],
  ['redis', 'Subnets', exported('Subnets', { 'Fn::Join': [',', OWN_SUBNETS] })],
  ['redis', 'Group', exported('Group', ref('RedisSecurityGroup'))],
  [
    'redis',
    'Url',
    exported('Url', sub('rediss://${Redis.PrimaryEndPoint.Address}:${Redis.PrimaryEndPoint.Port}')),
  ],
  ['redis', 'Cache', exported('Cache', ref('Redis'))],
  ['redis', 'Arn', exported('Arn', sub(`${ARN}:replicationgroup:\${Redis}`))],
];
