/** In: nothing. Out: what can be wrong with roles, storage, alarms and the template, and what only looks so; for doctor.test.ts. */
import { textOf } from '../../../infra/doctor/template.ts';
import type { Case, Draft, QuietCase } from './draft.ts';

export const ACCOUNT_CASES: readonly Case[] = [
  {
    rule: 'iam-wildcard-action',
    name: 'all of SQS',
    severity: 'error',
    found: /^sqs:\*$/,
    change: (draft) => draft.allow('BatchRole', 'sqs:*', { 'Fn::GetAtt': ['Queue', 'Arn'] }),
  },
  {
    rule: 'iam-wildcard-action',
    name: "AWS's policy for everything",
    severity: 'error',
    found: /AmazonS3FullAccess/,
    change: (draft) =>
      draft.set('StatusRole', 'ManagedPolicyArns', ['arn:aws:iam::aws:policy/AmazonS3FullAccess']),
  },
  {
    rule: 'iam-wildcard-resource',
    name: 'every queue of the account',
    severity: 'error',
    found: /^sqs:SendMessage on "\*"$/,
    change: (draft) => draft.allow('SubmitRole', ['sqs:SendMessage'], '*'),
  },
  {
    rule: 'iam-wildcard-resource',
    name: 'every bucket, in a policy beside the role',
    severity: 'error',
    found: /^s3:GetObject on "\*"$/,
    change: (draft) =>
      draft.add('Wide', 'AWS::IAM::Policy', {
        PolicyDocument: { Statement: [{ Effect: 'Allow', Action: 's3:GetObject', Resource: ['*'] }] },
      }),
  },
  {
    rule: 'iam-shared-role',
    name: 'two functions with one role',
    severity: 'warning',
    found: /the role of predict, .*batch|the role of .*batch.*predict/,
    change: (draft) => draft.set('PredictLambdaFunction', 'Role', { 'Fn::GetAtt': ['BatchRole', 'Arn'] }),
  },
  {
    rule: 'iam-interfaces',
    name: 'network interfaces for the code',
    severity: 'warning',
    found: /not denied to the code/,
    change: (draft) => draft.allow('SubmitRole', 'ec2:CreateNetworkInterface', '*'),
  },
  {
    rule: 'secrets-in-environment',
    name: 'a variable named like a password',
    severity: 'error',
    found: /^DB_PASSWORD: named like a secret, with a value$/,
    change: (draft) => draft.variable('StatusLambdaFunction', 'DB_PASSWORD', 'hunter2'),
  },
  {
    rule: 'secrets-in-environment',
    name: 'a password in the url of Redis',
    severity: 'error',
    found: /^CLUSTER_SERVING_REDIS_URL: a url with a password$/,
    change: (draft) =>
      draft.variable('StatusLambdaFunction', 'CLUSTER_SERVING_REDIS_URL', {
        'Fn::Sub': 'rediss://:hunter2@${Redis.PrimaryEndPoint.Address}:6379',
      }),
  },
  {
    rule: 'secrets-in-environment',
    name: 'an access key under another name',
    severity: 'error',
    found: /^UPLOADER: an AWS access key$/,
    change: (draft) => draft.variable('StatusLambdaFunction', 'UPLOADER', `AKIA${'Q'.repeat(16)}`),
  },
  {
    rule: 'bucket-public-access',
    name: 'a block with a hole',
    severity: 'error',
    found: /^without BlockPublicPolicy$/,
    change: (draft) => draft.set('Bucket', 'PublicAccessBlockConfiguration.BlockPublicPolicy', false),
  },
  {
    rule: 'bucket-encryption',
    name: 'nothing said of encryption',
    severity: 'warning',
    found: /no BucketEncryption/,
    change: (draft) => draft.set('Bucket', 'BucketEncryption', undefined),
  },
  {
    rule: 'deployment-bucket-encryption',
    name: 'nothing said of encryption',
    severity: 'warning',
    found: /no BucketEncryption/,
    change: (draft) => draft.set('ServerlessDeploymentBucket', 'BucketEncryption', undefined),
  },
  {
    rule: 'tls-only',
    name: 'a bucket that answers over plain HTTP',
    severity: 'warning',
    found: /no policy that refuses plain HTTP/,
    change: (draft) => draft.remove('BucketPolicy'),
  },
  {
    rule: 'tls-only',
    name: 'a queue whose policy allows instead',
    severity: 'warning',
    found: /no policy that refuses plain HTTP/,
    change: (draft) => draft.set('QueuePolicy', 'PolicyDocument.Statement.0.Effect', 'Allow'),
  },
  {
    rule: 'bucket-payload-lifetime',
    name: 'payloads gone before their dead letters',
    severity: 'error',
    found: /^payloads expire after 7 days$/,
    change: (draft) => draft.set('Bucket', 'LifecycleConfiguration.Rules.1.ExpirationInDays', 7),
  },
  {
    rule: 'bucket-payload-lifetime',
    name: 'payloads for ever',
    severity: 'info',
    found: /never expire/,
    change: (draft) => draft.set('Bucket', 'LifecycleConfiguration.Rules.1.Status', 'Disabled'),
  },
  {
    rule: 'bucket-model-expiry',
    name: 'everything in the bucket expires',
    severity: 'error',
    found: /^objects below "" expire after 45 days, models\/serving_stream\/ with them$/,
    change: (draft) => draft.set('Bucket', 'LifecycleConfiguration.Rules.1.Prefix', ''),
  },
  {
    rule: 'bucket-torn-uploads',
    name: 'parts for ever',
    severity: 'info',
    found: /uploads that broke off stay/,
    change: (draft) => draft.set('Bucket', 'LifecycleConfiguration.Rules.2.Status', 'Disabled'),
  },
  {
    rule: 'data-kept',
    name: 'a bucket that goes with the stack in prod',
    severity: 'warning',
    stage: 'prod',
    found: /DeletionPolicy/,
    change: (draft) => {
      draft.resource('Bucket')['DeletionPolicy'] = 'Delete';
    },
  },
  {
    rule: 'log-group-missing',
    name: 'a function without a log',
    severity: 'error',
    found: /no AWS::Logs::LogGroup/,
    change: (draft) => draft.remove('BatchLogGroup'),
  },
  {
    rule: 'log-retention',
    name: 'logs for ever',
    severity: 'warning',
    found: /no RetentionInDays/,
    change: (draft) => draft.set('BatchLogGroup', 'RetentionInDays', undefined),
  },
  {
    rule: 'log-retention-short',
    name: 'three days in prod',
    severity: 'warning',
    stage: 'prod',
    found: /^3 days$/,
    change: (draft) => draft.set('BatchLogGroup', 'RetentionInDays', 3),
  },
  {
    rule: 'log-retention-short',
    name: 'three days in prod, without a template',
    severity: 'warning',
    stage: 'prod',
    found: /^3 days$/,
    change: (draft) => {
      draft.withoutTemplate();
      draft.facts.settings = { ...draft.facts.settings, logDays: 3 };
    },
  },
  alarmCase('alarm-queue-age', 'ApproximateAgeOfOldestMessage', 'warning', 'dev'),
  {
    rule: 'alarm-queue-age',
    name: 'an alarm on the age of the dead letters instead',
    severity: 'warning',
    found: /none on ApproximateAgeOfOldestMessage of Queue$/,
    change: (draft) =>
      draft.set('QueueAgeAlarm', 'Dimensions', [
        { Name: 'QueueName', Value: { 'Fn::GetAtt': ['DeadLetterQueue', 'QueueName'] } },
      ]),
  },
  alarmCase('alarm-dead-letters', 'Invocations', 'warning', 'dev'),
  alarmCase('alarm-redis-memory', 'DatabaseMemoryUsagePercentage', 'warning', 'dev'),
  alarmCase('alarm-errors', 'Errors', 'warning', 'prod'),
  alarmCase('alarm-throttles', 'Throttles', 'warning', 'prod'),
  alarmCase('alarm-duration', 'Duration', 'warning', 'prod'),
  alarmCase('alarm-redis-evictions', 'Evictions', 'warning', 'prod'),
  {
    rule: 'alarm-errors',
    name: 'an alarm for predict alone',
    severity: 'warning',
    stage: 'prod',
    found: /^none on Errors of batch$/,
    change: (draft) => draft.remove('BatchErrorsAlarm'),
  },
  {
    rule: 'alarm-actions',
    name: 'alarms that tell nobody in prod',
    severity: 'warning',
    stage: 'prod',
    found: /no AlarmActions/,
    change: (draft) => draft.set('QueueAgeAlarm', 'AlarmActions', []),
  },
  {
    rule: 'alarm-topic-unheard',
    name: 'a topic without a subscription',
    severity: 'info',
    found: /no subscription/,
    change: (draft) => draft.add('Topic', 'AWS::SNS::Topic', {}),
  },
  {
    rule: 'template-references',
    name: 'a name that is not there',
    severity: 'error',
    found: /^Ref of Quene$/,
    change: (draft) => draft.variable('SubmitLambdaFunction', 'CLUSTER_SERVING_QUEUE_URL', { Ref: 'Quene' }),
  },
  {
    rule: 'template-references',
    name: 'a queue that was taken out',
    severity: 'error',
    found: /^Fn::GetAtt of DeadLetterQueue$/,
    change: (draft) => draft.remove('DeadLetterQueue'),
  },
  {
    rule: 'template-references',
    name: 'a name inside a text',
    severity: 'error',
    found: /^Fn::Sub of Buckets$/,
    change: (draft) =>
      draft.set('SubnetA', 'Tags', [{ Key: 'Name', Value: { 'Fn::Sub': '${Buckets.Arn}' } }]),
  },
  {
    rule: 'template-limits',
    name: '501 resources',
    severity: 'error',
    found: /^501 resources$/,
    change: (draft) => fill(draft, 501),
  },
  {
    rule: 'template-limits',
    name: '460 resources',
    severity: 'warning',
    found: /^460 resources$/,
    change: (draft) => fill(draft, 460),
  },
  {
    rule: 'template-limits',
    name: 'more than 1 MB',
    severity: 'error',
    found: /^1\.2 MB$/,
    change: ({ facts }) => {
      facts.templateBytes = 1.2 * 1024 * 1024;
    },
  },
  {
    rule: 'template-stale',
    name: 'another memory since',
    severity: 'warning',
    found: /^packaged with other values of function$/,
    change: ({ facts }) => {
      const { settings } = facts;
      const text = textOf(settings.variables.batch['CLUSTER_SERVING_CONFIG']);
      const batch = { CLUSTER_SERVING_CONFIG: text.replace('"memoryMB":1769', '"memoryMB":1024') };
      facts.settings = { ...settings, variables: { ...settings.variables, batch } };
    },
  },
  {
    rule: 'template-stale',
    name: 'packaged for another stage',
    severity: 'warning',
    found: /^packaged for dev$/,
    change: ({ facts }) => {
      facts.stageGiven = 'test';
    },
  },
  {
    rule: 'template-stale',
    name: 'packaged for the other processor',
    severity: 'warning',
    found: /^packaged for x86_64$/,
    change: ({ facts }) => {
      facts.given = new Set(['arch']);
      facts.parameters = { ...facts.parameters, arch: 'arm64' };
    },
  },
];

export const ACCOUNT_QUIET: readonly QuietCase[] = [
  {
    rule: 'iam-wildcard-resource',
    name: 'X-Ray, which knows no resource',
    change: (draft) => draft.allow('SubmitRole', ['xray:PutTraceSegments', 'xray:PutTelemetryRecords'], '*'),
  },
  {
    rule: 'iam-wildcard-resource',
    name: 'a Deny of everything',
    change: (draft) =>
      draft.add('Denied', 'AWS::IAM::Policy', {
        PolicyDocument: { Statement: { Effect: 'Deny', Action: '*', Resource: '*' } },
      }),
  },
  {
    rule: 'secrets-in-environment',
    name: 'the ARN of a secret, a number of tokens',
    change: (draft) => {
      draft.variable('StatusLambdaFunction', 'DB_SECRET_ARN', 'arn:aws:secretsmanager:eu-west-1:1:secret:x');
      draft.variable('StatusLambdaFunction', 'TOKEN', '');
    },
  },
  {
    rule: 'bucket-payload-lifetime',
    name: 'payloads as long as the dead letters',
    change: (draft) => draft.set('Bucket', 'LifecycleConfiguration.Rules.1.ExpirationInDays', 14),
  },
  {
    rule: 'template-references',
    name: 'a parameter, a name of its own in a text, an escaped one',
    change: (draft) => {
      draft.set('SubnetA', 'Tags', [
        { Key: 'a', Value: { 'Fn::Sub': ['${own} ${!Kept} ${AWS::Region}', { own: { Ref: 'Vpc' } }] } },
        { Key: 'b', Value: { Ref: 'Given' } },
      ]);
      draft.facts.template = { ...draft.template, Parameters: { Given: { Type: 'String' } } };
    },
  },
  {
    rule: 'log-retention-short',
    name: 'three days in dev',
    change: (draft) => draft.set('BatchLogGroup', 'RetentionInDays', 3),
  },
  {
    rule: 'alarm-actions',
    name: 'a composite alarm that tells',
    stage: 'prod',
    change: (draft) => {
      draft.set('QueueAgeAlarm', 'AlarmActions', []);
      draft.add('All', 'AWS::CloudWatch::CompositeAlarm', {
        AlarmRule: { 'Fn::Sub': 'ALARM("${QueueAgeAlarm}")' },
        AlarmActions: ['arn:aws:sns:eu-west-1:1:t'],
      });
    },
  },
  {
    rule: 'alarm-redis-evictions',
    name: 'metric math over all nodes',
    stage: 'prod',
    change: (draft) => {
      const { Dimensions, Namespace, MetricName } = {
        Dimensions: [],
        Namespace: 'AWS/ElastiCache',
        MetricName: 'Evictions',
      };
      silence(draft, 'Evictions');
      draft.add('Nodes', 'AWS::CloudWatch::Alarm', {
        AlarmActions: ['arn:aws:sns:eu-west-1:1:t'],
        Metrics: [{ Id: 'a', MetricStat: { Metric: { Namespace, MetricName, Dimensions }, Stat: 'Sum' } }],
      });
    },
  },
];

function silence(draft: Draft, metric: string): void {
  for (const [name, { Type, Properties }] of Object.entries(draft.template.Resources)) {
    if (Type !== 'AWS::CloudWatch::Alarm') continue;
    if (JSON.stringify(Properties).includes(`"MetricName":"${metric}"`)) draft.remove(name);
  }
}

function alarmCase(rule: string, metric: string, severity: Case['severity'], stage: 'dev' | 'prod'): Case {
  return {
    rule,
    name: `nothing looks at ${metric} in ${stage}`,
    severity,
    stage,
    found: /^none on /,
    change: (draft) => silence(draft, metric),
  };
}

function fill(draft: Draft, count: number): void {
  for (let i = Object.keys(draft.template.Resources).length; i < count; i++)
    draft.add(`Filler${i}`, 'AWS::CloudFormation::WaitConditionHandle', {});
}
