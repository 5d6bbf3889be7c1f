/**
 * In: what `serverless package` wrote with all defaults. Out: one test for each promise its template makes.
 * Trap: packaging takes seconds, so these share one run with the tests of the archives (package.test.ts).
 */
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { DEFAULT_JOB } from '../../lib/config/job.ts';
import type { Packaged } from '../support/packaging.ts';
import {
  propertiesOf,
  referencesOf,
  resourcesOf,
  roleStatements,
  type Statement,
  type Template,
} from '../support/template.ts';

const FUNCTIONS = ['batch', 'dead-letter', 'predict', 'predictions', 'status', 'submit'];
const ROUTES: Readonly<Record<string, string>> = {
  'POST /predict': 'predict',
  'POST /v2/{path+}': 'predict',
  'GET /v2/{path+}': 'predict',
  'HEAD /v2/{path+}': 'predict',
  'GET /v2': 'predict',
  'HEAD /v2': 'predict',
  'POST /predictions': 'submit',
  'GET /predictions': 'predictions',
  'HEAD /predictions': 'predictions',
  'HEAD /predictions/{uri+}': 'predictions',
  'HEAD /': 'status',
  'HEAD /metrics': 'status',
  'HEAD /ready': 'status',
  'GET /status': 'predictions',
  'POST /cancel': 'predictions',
  'DELETE /predictions': 'predictions',
  'GET /predictions/{uri+}': 'predictions',
  'DELETE /predictions/{uri+}': 'predictions',
  'GET /': 'status',
  'GET /metrics': 'status',
  'GET /ready': 'status',
};
const BUCKET = 'CLUSTER_SERVING_BUCKET';
const CONFIG = 'CLUSTER_SERVING_CONFIG';
const QUEUE = 'CLUSTER_SERVING_QUEUE_URL';
const REDIS = 'CLUSTER_SERVING_REDIS_URL';
const VARIABLES: Readonly<Record<string, readonly string[]>> = {
  batch: [BUCKET, CONFIG, REDIS],
  'dead-letter': [BUCKET, CONFIG, REDIS],
  predict: [BUCKET, CONFIG, REDIS],
  predictions: [CONFIG, REDIS],
  status: [BUCKET, CONFIG, REDIS],
  submit: [BUCKET, CONFIG, QUEUE],
};
/** All that a role may do, besides what every function needs for its log and its place in the VPC. */
const ACTIONS: Readonly<Record<string, readonly string[]>> = {
  BatchRole: [
    's3:GetObject Bucket models/serving_stream/*',
    's3:GetObject Bucket payloads/serving_stream/*',
    's3:ListBucket Bucket',
    'sqs:DeleteMessage Queue',
    'sqs:GetQueueAttributes Queue',
    'sqs:ReceiveMessage Queue',
  ],
  DeadLetterRole: [
    's3:PutObject Bucket parked/serving_stream/*',
    'sqs:DeleteMessage DeadLetterQueue',
    'sqs:GetQueueAttributes DeadLetterQueue',
    'sqs:ReceiveMessage DeadLetterQueue',
  ],
  PredictRole: ['s3:GetObject Bucket models/serving_stream/*', 's3:ListBucket Bucket'],
  PredictionsRole: [],
  StatusRole: ['s3:GetObject Bucket models/serving_stream/current.json', 's3:ListBucket Bucket'],
  SubmitRole: ['s3:PutObject Bucket payloads/serving_stream/*', 'sqs:SendMessage Queue'],
};

/** The tests of a packaged default deployment; `packaged` is asked when they run. */
export function templateTests(packaged: () => Packaged): void {
  let template: Template;
  const functions = new Map<string, Readonly<Record<string, unknown>>>();

  before(async () => {
    template = await packaged().template();
    for (const [, properties] of resourcesOf(template, 'AWS::Lambda::Function'))
      functions.set(String(properties['FunctionName']).replace('cluster-serving-dev-', ''), properties);
  });

  const functionBehind = (reference: unknown) => {
    const [name] = (reference as { 'Fn::GetAtt': [string] })['Fn::GetAtt'];
    return String(propertiesOf(template, name)['FunctionName']).replace('cluster-serving-dev-', '');
  };

  test('it has the six functions on Node 24 and x86_64, each with its own role', () => {
    assert.deepEqual([...functions.keys()].sort(), FUNCTIONS);
    const roles = new Set([...functions.values()].flatMap(({ Role }) => referencesOf(Role)));
    assert.equal(roles.size, FUNCTIONS.length);
    for (const { Runtime, Architectures } of functions.values())
      assert.deepEqual([Runtime, Architectures], ['nodejs24.x', ['x86_64']]);
  });

  test('it has these routes, each to its function and each for signed requests only', () => {
    const routes = resourcesOf(template, 'AWS::ApiGatewayV2::Route').map(([, route]) => {
      const [integration] = referencesOf(route['Target']) as [string];
      return [
        String(route['RouteKey']),
        functionBehind(propertiesOf(template, integration)['IntegrationUri']),
      ];
    });
    assert.deepEqual(Object.fromEntries(routes), ROUTES);
    for (const [, route] of resourcesOf(template, 'AWS::ApiGatewayV2::Route'))
      assert.equal(route['AuthorizationType'], 'AWS_IAM', String(route['RouteKey']));
  });

  test('no page of another origin may call', () => {
    assert.equal(propertiesOf(template, 'HttpApi')['CorsConfiguration'], undefined);
  });

  test('the gateway limits the rate of requests', () => {
    const [[, stage]] = resourcesOf(template, 'AWS::ApiGatewayV2::Stage') as [
      [string, Record<string, unknown>],
    ];
    assert.deepEqual(stage['DefaultRouteSettings'], {
      DetailedMetricsEnabled: false,
      ThrottlingRateLimit: 1000,
      ThrottlingBurstLimit: 1000,
    });
  });

  test('the queue feeds batch and the dead letters feed dead-letter, both with partial failures', () => {
    const mappings = resourcesOf(template, 'AWS::Lambda::EventSourceMapping').map(([, mapping]) => ({
      from: referencesOf(mapping['EventSourceArn'])[0],
      to: functionBehind(mapping['FunctionName']),
      size: mapping['BatchSize'],
      window: mapping['MaximumBatchingWindowInSeconds'] ?? 0,
      types: mapping['FunctionResponseTypes'],
      scaling: mapping['ScalingConfig'],
    }));
    const types = ['ReportBatchItemFailures'];
    assert.deepEqual(mappings, [
      { from: 'Queue', to: 'batch', size: 10, window: 0, types, scaling: { MaximumConcurrency: 10 } },
      {
        from: 'DeadLetterQueue',
        to: 'dead-letter',
        size: 10,
        window: 0,
        types,
        scaling: { MaximumConcurrency: 2 },
      },
    ]);
  });

  test('a queue hides a message for at least six times its function timeout', () => {
    for (const [, mapping] of resourcesOf(template, 'AWS::Lambda::EventSourceMapping')) {
      const queue = propertiesOf(template, referencesOf(mapping['EventSourceArn'])[0] as string);
      const timeout = Number(functions.get(functionBehind(mapping['FunctionName']))?.['Timeout']);
      assert.ok(Number(queue['VisibilityTimeout']) >= 6 * timeout, JSON.stringify(queue));
    }
  });

  test('the queue gives up to the dead letters, which keep longer and take from this queue only', () => {
    const queue = propertiesOf(template, 'Queue');
    const dead = propertiesOf(template, 'DeadLetterQueue');
    assert.deepEqual(queue['RedrivePolicy'], {
      deadLetterTargetArn: { 'Fn::GetAtt': ['DeadLetterQueue', 'Arn'] },
      maxReceiveCount: DEFAULT_JOB.queue.maxReceiveCount,
    });
    assert.ok(Number(dead['MessageRetentionPeriod']) > Number(queue['MessageRetentionPeriod']));
    const { redrivePermission, sourceQueueArns } = dead['RedriveAllowPolicy'] as Record<string, unknown>;
    assert.equal(redrivePermission, 'byQueue');
    const [source] = sourceQueueArns as [{ 'Fn::Sub': string }];
    assert.ok(source['Fn::Sub'].endsWith(`:${String(queue['QueueName'])}`));
  });

  test('an HTTP function ends before the gateway gives up at 30 s', () => {
    for (const name of new Set(Object.values(ROUTES)))
      assert.ok(Number(functions.get(name)?.['Timeout']) < 30, name);
  });

  test('each function has exactly the variables of its side', () => {
    const variables = [...functions].map(([name, { Environment }]) => [
      name,
      Object.keys((Environment as { Variables: object }).Variables).sort(),
    ]);
    assert.deepEqual(Object.fromEntries(variables), VARIABLES);
  });

  test('all functions but submit are in the VPC, whose only way out is to S3', () => {
    const outside = [...functions].filter(([, { VpcConfig }]) => VpcConfig === undefined);
    assert.deepEqual(
      outside.map(([name]) => name),
      ['submit'],
    );
    const types = Object.values(template.Resources).map(({ Type }) => Type);
    for (const type of ['NatGateway', 'InternetGateway', 'EIP', 'VPCGatewayAttachment'])
      assert.ok(!types.includes(`AWS::EC2::${type}`), type);
    const endpoints = resourcesOf(template, 'AWS::EC2::VPCEndpoint').map(
      ([, { VpcEndpointType }]) => VpcEndpointType,
    );
    assert.deepEqual(endpoints, ['Gateway']);
  });

  test('a role may do what its function does, on what it does it to', () => {
    const allowed: Record<string, string[]> = Object.fromEntries(
      Object.keys(ACTIONS).map((role) => [role, []]),
    );
    for (const { role, statement } of roleStatements(template)) {
      if (statement.Effect !== 'Allow' || ['AttachToVpc', 'WriteLogs'].includes(statement.Sid ?? ''))
        continue;
      for (const action of actionsOf(statement))
        allowed[role]?.push(`${action} ${resourceText(statement.Resource)}`.trim());
    }
    for (const actions of Object.values(allowed)) actions.sort();
    assert.deepEqual(allowed, ACTIONS);
  });

  test('a role writes only the log of its own function', () => {
    for (const [name, { Role }] of functions) {
      const logs = roleStatements(template).filter(
        ({ role, statement }) => referencesOf(Role).includes(role) && statement.Sid === 'WriteLogs',
      );
      assert.equal(logs.length, 1, name);
      const [group] = referencesOf(logs[0]?.statement.Resource) as [string];
      assert.equal(propertiesOf(template, group)['LogGroupName'], `/aws/lambda/cluster-serving-dev-${name}`);
      assert.equal(propertiesOf(template, group)['RetentionInDays'], 14);
    }
  });

  test('nothing allows an action by wildcard, and any resource only for the network interfaces', () => {
    for (const { role, statement } of roleStatements(template)) {
      if (statement.Effect !== 'Allow') continue;
      assert.ok(!actionsOf(statement).some((action) => action.includes('*')), role);
      if (JSON.stringify(statement.Resource).includes('"*"'))
        assert.ok(
          actionsOf(statement).every((action) => /^ec2:\w+(Network|Subnet|Private)/.test(action)),
          role,
        );
    }
  });

  test('a function that may attach itself to the VPC is denied the same to its own code', () => {
    for (const [name, { Role, VpcConfig }] of functions) {
      const own = roleStatements(template).filter(({ role }) => referencesOf(Role).includes(role));
      const attach = own.find(({ statement }) => statement.Sid === 'AttachToVpc')?.statement;
      assert.equal(attach !== undefined, VpcConfig !== undefined, name);
      if (!attach) continue;
      const denied = own.find(({ statement }) => statement.Effect === 'Deny')?.statement as Statement;
      assert.deepEqual(denied.Action, attach.Action);
      assert.match(JSON.stringify(denied.Condition), new RegExp(`:function:cluster-serving-dev-${name}"`));
    }
  });

  test('queues, bucket and Redis are encrypted at rest and refuse plain connections', () => {
    for (const name of ['Queue', 'DeadLetterQueue'])
      assert.equal(propertiesOf(template, name)['SqsManagedSseEnabled'], true);
    assert.match(JSON.stringify(propertiesOf(template, 'Bucket')['BucketEncryption']), /AES256/);
    const redis = propertiesOf(template, 'Redis');
    assert.equal(redis['AtRestEncryptionEnabled'], true);
    assert.deepEqual([redis['TransitEncryptionEnabled'], redis['TransitEncryptionMode']], [true, 'required']);
    for (const name of ['BucketPolicy', 'QueuePolicy', 'DeadLetterQueuePolicy'])
      assert.match(
        JSON.stringify(propertiesOf(template, name)),
        /"Effect":"Deny".*"Bool":\{"aws:SecureTransport":"false"\}/,
      );
  });

  test('Redis is one shard that never evicts', () => {
    const redis = propertiesOf(template, 'Redis');
    assert.equal(redis['NumNodeGroups'], undefined);
    assert.equal(redis['Engine'], 'valkey');
    const [group] = referencesOf(redis['CacheParameterGroupName']) as [string];
    assert.deepEqual(propertiesOf(template, group)['Properties'], {
      'maxmemory-policy': 'noeviction',
      'hash-max-listpack-value': 1024,
    });
  });

  test('a dev stack is cheap: one small Redis, three alarms that tell nobody, no dashboard, nothing kept warm or traced', () => {
    const redis = propertiesOf(template, 'Redis');
    assert.deepEqual(
      [redis['CacheNodeType'], redis['NumCacheClusters'], redis['SnapshotRetentionLimit']],
      ['cache.t4g.micro', 1, 0],
    );
    const alarms = resourcesOf(template, 'AWS::CloudWatch::Alarm');
    assert.deepEqual(alarms.map(([name]) => name).sort(), [
      'DeadLetterAlarm',
      'QueueAgeAlarm',
      'RedisMemoryAlarm',
    ]);
    for (const [name, { AlarmActions }] of alarms) assert.deepEqual(AlarmActions, [], name);
    const absent = [
      'CloudWatch::Dashboard',
      'SNS::Topic',
      'Lambda::Version',
      'Lambda::Alias',
      'ElastiCache::User',
    ];
    for (const type of absent) assert.deepEqual(resourcesOf(template, `AWS::${type}`), [], type);
    for (const { TracingConfig } of functions.values())
      assert.deepEqual(TracingConfig, { Mode: 'PassThrough' });
  });

  test('a dev stack leaves nothing behind but a bucket that is not empty', () => {
    for (const [name, { DeletionPolicy, Type }] of Object.entries(template.Resources))
      assert.ok(DeletionPolicy === undefined || DeletionPolicy === 'Delete', `${name}: ${Type}`);
  });

  test('every reference finds its resource', () => {
    const missing = referencesOf([template.Resources, template.Outputs]).filter(
      (name) => !Object.hasOwn(template.Resources, name),
    );
    assert.deepEqual(missing, []);
  });

  test('no resource waits for itself in a circle', () => {
    const done = new Set<string>();
    const visit = (name: string, path: readonly string[]) => {
      assert.ok(!path.includes(name), `a circle: ${[...path, name].join(' -> ')}`);
      if (done.has(name)) return;
      for (const reference of new Set(referencesOf(template.Resources[name])))
        visit(reference, [...path, name]);
      done.add(name);
    };
    for (const name of Object.keys(template.Resources)) visit(name, []);
  });
}

function actionsOf({ Action }: Statement): string[] {
  return [Action].flat();
}

/** `{"Fn::Sub": "${Bucket.Arn}/models/*"}` -> Bucket models/*. */
function resourceText(resource: unknown): string {
  const [name] = referencesOf(resource);
  const text = (resource as { 'Fn::Sub'?: string })['Fn::Sub'] ?? '';
  return [name, text.replace(/^\$\{[^}]*\}\//, '')].join(' ').trim();
}
