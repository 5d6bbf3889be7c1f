/** What can be wrong with the parameters and with access, and what only looks wrong; for test/infra/doctor/doctor.deploy.test.ts. */
import { textOf } from '../../../infra/doctor/template.ts';
import { DEFAULT_JOB, type JobConfig } from '../../../lib/config/job.ts';
import type { Case, QuietCase } from './draft.ts';

const ROUTE = 'HttpApiRoutePostPredict';
const VPC = {
  vpcId: 'vpc-0123456789abcdef0',
  subnetIds: 'subnet-0123456789abcdef0,subnet-0123456789abcdef1',
};
const EVERY_ORIGIN = { http: { ...DEFAULT_JOB.http, corsOrigins: ['*'] } };

export const PARAMETER_CASES: readonly Case[] = [
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
    rule: 'data-kept',
    name: 'a bucket that is deleted with the stack in prod',
    severity: 'warning',
    stage: 'prod',
    found: /DeletionPolicy/,
    change: (draft) => draft.parameters({ keepData: 'off' }),
  },
  {
    rule: 'log-retention-short',
    name: 'three days in prod',
    severity: 'warning',
    stage: 'prod',
    found: /^3 days$/,
    change: (draft) => draft.parameters({ logDays: 3 }),
  },
  {
    rule: 'monitoring-basic',
    name: 'three alarms in prod',
    severity: 'warning',
    stage: 'prod',
    found: /the age of the queue, dead letters and the memory of Redis only/,
    change: (draft) => draft.parameters({ monitoring: 'basic' }),
  },
  {
    rule: 'alarm-actions',
    name: 'alarms without a notification in prod',
    severity: 'warning',
    stage: 'prod',
    found: /no AlarmActions/,
    change: (draft) => draft.parameters({ alarmTopic: 'none' }),
  },
  {
    rule: 'alarm-topic-unheard',
    name: 'a topic without a subscription',
    severity: 'info',
    found: /no subscription/,
    change: (draft) => draft.parameters({ alarmTopic: 'own' }),
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
  {
    rule: 'redis-access',
    name: 'a security group that others may have',
    severity: 'info',
    found: /no authentication; its security group admits everything in sg-01234567$/,
    change: (draft) => draft.parameters({ ...VPC, securityGroup: 'sg-01234567' }),
  },
  {
    rule: 'redis-single-node',
    name: 'one node in prod',
    severity: 'warning',
    stage: 'prod',
    found: /^1 node in stage prod$/,
    change: (draft) => draft.parameters({ redisNodes: 1 }),
  },
  {
    rule: 'network-sqs-endpoint',
    name: 'a VPC that has a route to SQS, or not',
    severity: 'info',
    found: /^respondAsync=routed, and no endpoint/,
    change: (draft) => draft.parameters({ ...VPC, respondAsync: 'routed' }),
  },
  {
    rule: 'network-s3-endpoint',
    name: 'subnets that have a route to S3, or not',
    severity: 'info',
    found: /no way to S3 from subnet-0123456789abcdef0,subnet-0123456789abcdef1 in this template/,
    change: (draft) => draft.parameters(VPC),
  },
  {
    rule: 'api-auth',
    name: 'an open route in dev',
    severity: 'warning',
    found: /no authorization for POST \/predict in stage dev/,
    change: (draft) => draft.set(ROUTE, 'AuthorizationType', undefined),
  },
  {
    rule: 'api-auth',
    name: 'an open route in prod',
    severity: 'error',
    stage: 'prod',
    found: /no authorization for POST \/predict in stage prod/,
    change: (draft) => draft.set(ROUTE, 'AuthorizationType', 'NONE'),
  },
  {
    rule: 'api-auth',
    name: 'auth=none, without a template',
    severity: 'warning',
    found: /every route/,
    change: (draft) => {
      draft.withoutTemplate();
      draft.parameters({ auth: 'none' });
    },
  },
  {
    rule: 'api-cors',
    name: 'every origin and no authorization',
    severity: 'warning',
    found: /every origin/,
    change: (draft) => {
      draft.job(EVERY_ORIGIN);
      draft.set(ROUTE, 'AuthorizationType', 'NONE');
    },
  },
];

export const PARAMETER_QUIET: readonly QuietCase[] = [
  {
    rule: 'template-stale',
    name: 'packaged by a version without a group of settings and without a setting, which have their defaults',
    change: ({ facts }) => {
      const { settings } = facts;
      const { worker: _, ...job } = JSON.parse(
        textOf(settings.variables.batch['CLUSTER_SERVING_CONFIG']),
      ) as JobConfig;
      const { memoryMB: __, ...functions } = job.function;
      const batch = { CLUSTER_SERVING_CONFIG: JSON.stringify({ ...job, function: functions }) };
      facts.settings = { ...settings, variables: { ...settings.variables, batch } };
    },
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
    rule: 'data-kept',
    name: 'a bucket that is deleted with the stack in dev',
    change: (draft) => draft.parameters({ keepData: 'off' }),
  },
  {
    rule: 'log-retention-short',
    name: 'three days in dev',
    change: (draft) => draft.parameters({ logDays: 3 }),
  },
  {
    rule: 'alarm-actions',
    name: 'a topic of another stack',
    stage: 'prod',
    change: (draft) => draft.parameters({ alarmTopic: 'arn:aws:sns:eu-west-1:123456789012:t' }),
  },
  {
    rule: 'api-cors',
    name: 'every origin, with signed requests',
    change: (draft) => draft.job(EVERY_ORIGIN),
  },
];
