/**
 * The promises of every packaged stack, for all stages, settings and parameters. The tests of particular stacks are in
 * template-tests.ts (dev), test/infra/package-options.system.test.ts (prod) and
 * test/infra/every-stack/variants.deploy.test.ts (an existing VPC).
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Packaged } from '../../support/packaging.ts';
import {
  propertiesOf,
  referencesOf,
  resourcesOf,
  roleStatements,
  type Statement,
} from '../../support/template.ts';
import { FUNCTION_CHECKS } from './functions.ts';
import { NETWORK_CHECKS } from './network.ts';
import { type Check, days, functionsOf, ownRedis, type Properties } from './parts.ts';
import { RESOURCE_CHECKS } from './resources.ts';
import { VALUE_CHECKS } from './values.ts';

/** IAM defines no resource for these actions, so "*" is the only way to allow them. */
const WITHOUT_RESOURCE = /^ec2:\w+(Network|Subnet|Private)\w*$|^xray:Put\w+$/;

const actionsOf = ({ Action }: Statement): string[] => [Action].flat();

const isOnAny = ({ Resource }: Statement) => [Resource].flat().includes('*');

const ACCESS: readonly Check[] = [
  [
    'nothing allows an action by wildcard, and any resource only where IAM knows none',
    (template) => {
      for (const [name, { ManagedPolicyArns }] of resourcesOf(template, 'AWS::IAM::Role'))
        assert.equal(ManagedPolicyArns, undefined, name);
      assert.deepEqual(resourcesOf(template, 'AWS::IAM::ManagedPolicy'), []);
      for (const [name, { Roles }] of resourcesOf(template, 'AWS::IAM::Policy'))
        assert.ok(referencesOf(Roles).length > 0, name);
      for (const { role, statement } of roleStatements(template)) {
        if (statement.Effect !== 'Allow') continue;
        const actions = actionsOf(statement);
        assert.ok(!actions.some((action) => action.includes('*')), `${role}: ${actions.join()}`);
        if (isOnAny(statement))
          assert.ok(
            actions.every((action) => WITHOUT_RESOURCE.test(action)),
            `${role}: ${actions.join()}`,
          );
      }
    },
  ],
  [
    'a function that Lambda may attach to the VPC is denied the same to its own code, and no other may',
    (template) => {
      for (const { name, properties, subnets } of functionsOf(template)) {
        const own = roleStatements(template)
          .filter(({ role }) => referencesOf(properties['Role']).includes(role))
          .map(({ statement }) => statement);
        const attaching = own.filter((statement) =>
          actionsOf(statement).includes('ec2:CreateNetworkInterface'),
        );
        const allowed = attaching.filter(({ Effect }) => Effect === 'Allow');
        assert.equal(allowed.length, subnets.length > 0 ? 1 : 0, name);
        if (!allowed[0]) continue;
        const denied = attaching.find(({ Effect }) => Effect === 'Deny');
        assert.deepEqual(denied?.Action, allowed[0].Action, name);
        const functionName = String(properties['FunctionName']);
        const condition = JSON.stringify(denied?.Condition);
        assert.ok(condition.includes('lambda:SourceFunctionArn'), name);
        assert.ok(condition.includes(`:function:${functionName}"`), name);
      }
    },
  ],
];

const STORAGE: readonly Check[] = [
  [
    'every bucket is private and encrypted',
    (template) => {
      const buckets = resourcesOf(template, 'AWS::S3::Bucket');
      assert.deepEqual(buckets.map(([name]) => name).sort(), ['Bucket', 'ServerlessDeploymentBucket']);
      for (const [name, bucket] of buckets) {
        assert.deepEqual(
          bucket['PublicAccessBlockConfiguration'],
          {
            BlockPublicAcls: true,
            BlockPublicPolicy: true,
            IgnorePublicAcls: true,
            RestrictPublicBuckets: true,
          },
          name,
        );
        assert.match(JSON.stringify(bucket['BucketEncryption']), /"SSEAlgorithm":"(AES256|aws:kms)"/, name);
      }
    },
  ],
  [
    'buckets and queues refuse requests without TLS',
    (template) => {
      const policies = [
        ...resourcesOf(template, 'AWS::S3::BucketPolicy'),
        ...resourcesOf(template, 'AWS::SQS::QueuePolicy'),
      ].map(([, policy]) => policy);
      const guarded = policies
        .filter((policy) =>
          /"Effect":"Deny".*"Bool":\{"aws:SecureTransport":(false|"false")\}/.test(JSON.stringify(policy)),
        )
        .flatMap(({ Bucket, Queues }) => referencesOf(Bucket ?? Queues));
      for (const type of ['AWS::S3::Bucket', 'AWS::SQS::Queue'])
        for (const [name] of resourcesOf(template, type)) assert.ok(guarded.includes(name), name);
    },
  ],
  [
    'payloads outlive the dead letters that point to them, uploads a day, and large results their pointers, models never expire and broken uploads are removed',
    (template) => {
      const { Rules } = propertiesOf(template, 'Bucket')['LifecycleConfiguration'] as {
        Rules: readonly Properties[];
      };
      const enabled = Rules.filter(({ Status }) => Status === 'Enabled');
      const expiring = enabled.filter(({ ExpirationInDays }) => ExpirationInDays !== undefined);
      const uploads = expiring
        .map(({ Prefix }) => String(Prefix))
        .find((each) => /^payloads\/[\w-]+\/uploads\/$/.test(each));
      assert.ok(uploads);
      assert.deepEqual(expiring.map(({ Prefix }) => String(Prefix)).sort(), [
        'dead-letters/',
        'payloads/',
        uploads,
        'results/',
      ]);
      const daysOf = (prefix: string) =>
        Number(expiring.find(({ Prefix }) => Prefix === prefix)?.['ExpirationInDays']);
      assert.equal(daysOf(uploads), 1);
      const archived = daysOf('dead-letters/');
      assert.ok(daysOf('payloads/') > days(propertiesOf(template, 'DeadLetterQueue')) + archived);
      const [first] = functionsOf(template);
      const { resultTtlSeconds } = JSON.parse(String(first?.variables['CLUSTER_SERVING_CONFIG'])) as {
        resultTtlSeconds: number;
      };
      assert.ok(daysOf('results/') >= resultTtlSeconds / 86_400 + 1);
      assert.ok(enabled.some((rule) => rule['AbortIncompleteMultipartUpload'] !== undefined));
    },
  ],
];

const WHOLE: readonly Check[] = [
  [
    'the age of the queue, dead letters and the memory of a Redis of its own have an alarm',
    (template) => {
      const watched = (name: string) => {
        const { Namespace, MetricName, Dimensions } = propertiesOf(template, name);
        return [Namespace, MetricName, ...referencesOf(Dimensions)];
      };
      assert.deepEqual(watched('QueueAgeAlarm'), ['AWS/SQS', 'ApproximateAgeOfOldestMessage', 'Queue']);
      // Records that the batch function ended itself, and those that SQS gave up.
      const { Metrics } = propertiesOf(template, 'DeadLetterAlarm');
      const queries = Metrics as { MetricStat?: { Metric: Record<string, unknown> } }[];
      const parts = queries.flatMap(({ MetricStat }) => (MetricStat ? [MetricStat.Metric] : []));
      assert.deepEqual(
        parts.map(({ Namespace: space, MetricName: name }) => [space, name]),
        [
          ['ClusterServing', 'DeadLettered'],
          ['AWS/Lambda', 'Invocations'],
        ],
      );
      assert.deepEqual(referencesOf(parts[1]?.['Dimensions']), ['DeadDashletterLambdaFunction']);
      const redis = ownRedis(template);
      assert.equal(Object.hasOwn(template.Resources, 'RedisMemoryAlarm'), redis !== undefined);
      if (redis === undefined) return;
      const metric = redis === 'Redis' ? 'DatabaseMemoryUsagePercentage' : 'BytesUsedForCache';
      assert.deepEqual(watched('RedisMemoryAlarm'), ['AWS/ElastiCache', metric, redis]);
    },
  ],
  [
    'every reference finds its resource',
    (template) => {
      const missing = referencesOf([template.Resources, template.Outputs]).filter(
        (name) => !Object.hasOwn({ ...template.Resources, ...template.Parameters }, name),
      );
      assert.deepEqual(missing, []);
    },
  ],
  [
    'it stays below the 500 resources and the 1 MB that CloudFormation takes',
    (template) => {
      assert.ok(Object.keys(template.Resources).length <= 450);
      assert.ok(JSON.stringify(template, null, 2).length <= 900_000);
    },
  ],
];

export const EVERY_STACK = [
  ...FUNCTION_CHECKS,
  ...NETWORK_CHECKS,
  ...ACCESS,
  ...STORAGE,
  ...WHOLE,
  ...RESOURCE_CHECKS,
  ...VALUE_CHECKS,
];

/** `packaged` is asked when the tests run. */
export function everyStackTests(packaged: () => Packaged): void {
  for (const [title, check] of EVERY_STACK) test(title, async () => check(await packaged().template()));
}
