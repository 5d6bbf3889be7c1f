/**
 * The promises of a default dev stack's template beyond every-stack/tests.ts. Packaging takes seconds, so these tests
 * share one run with those of the archives (test/infra/package.system.test.ts).
 */
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { DEFAULT_JOB } from '../../lib/config/job.ts';
import { ROUTES } from '../../lib/http/routes.ts';
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
const BUCKET = 'CLUSTER_SERVING_BUCKET';
const CONFIG = 'CLUSTER_SERVING_CONFIG';
const QUEUE = 'CLUSTER_SERVING_QUEUE_URL';
const REDIS = 'CLUSTER_SERVING_REDIS_URL';
const VARIABLES: Readonly<Record<string, readonly string[]>> = {
  batch: [BUCKET, CONFIG, REDIS],
  'dead-letter': [BUCKET, CONFIG, REDIS],
  predict: [BUCKET, CONFIG, REDIS],
  predictions: [BUCKET, CONFIG, REDIS],
  status: [BUCKET, CONFIG, REDIS],
  submit: [BUCKET, CONFIG, QUEUE],
};
/** All that a role may do, besides what every function needs for its log and its place in the VPC. */
const ACTIONS: Readonly<Record<string, readonly string[]>> = {
  BatchRole: [
    's3:GetObject Bucket models/serving_stream/*',
    's3:GetObject Bucket payloads/serving_stream/*',
    's3:ListBucket Bucket',
    's3:PutObject Bucket dead-letters/serving_stream/*',
    's3:PutObject Bucket results/serving_stream/*',
    'sqs:DeleteMessage Queue',
    'sqs:GetQueueAttributes Queue',
    'sqs:ReceiveMessage Queue',
  ],
  DeadLetterRole: [
    's3:PutObject Bucket dead-letters/serving_stream/*',
    'sqs:DeleteMessage DeadLetterQueue',
    'sqs:GetQueueAttributes DeadLetterQueue',
    'sqs:ReceiveMessage DeadLetterQueue',
  ],
  PredictRole: [
    's3:GetObject Bucket models/serving_stream/*',
    's3:GetObject Bucket payloads/serving_stream/uploads/*',
    's3:ListBucket Bucket',
  ],
  PredictionsRole: ['s3:GetObject Bucket results/serving_stream/*'],
  StatusRole: ['s3:GetObject Bucket models/serving_stream/current.json', 's3:ListBucket Bucket'],
  SubmitRole: [
    's3:GetObject Bucket payloads/serving_stream/uploads/*',
    's3:ListBucket Bucket',
    's3:PutObject Bucket payloads/serving_stream/*',
    'sqs:SendMessage Queue',
  ],
};

/** The tests of a packaged default deployment; `packaged` is asked when they run. */
export function templateTests(packaged: () => Pick<Packaged, 'template'>): void {
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

  test('it has the declared routes, each to its function and each for signed requests only', () => {
    const routes = resourcesOf(template, 'AWS::ApiGatewayV2::Route').map(([, route]) => {
      const [integration] = referencesOf(route['Target']) as [string];
      return [
        String(route['RouteKey']),
        functionBehind(propertiesOf(template, integration)['IntegrationUri']),
      ];
    });
    const own = ROUTES.filter(({ needs }) => needs === undefined);
    const declared = own.map(({ method, path, function: name }) => [`${method} ${path}`, name]);
    assert.ok(declared.length > 0);
    assert.deepEqual(Object.fromEntries(routes), Object.fromEntries(declared));
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

  test('the queue gives a record up after more than a day of deliveries; the function ends it by its runs before', () => {
    const { RedrivePolicy, VisibilityTimeout } = propertiesOf(template, 'Queue');
    const { maxReceiveCount } = RedrivePolicy as Record<string, unknown>;
    assert.equal(maxReceiveCount, 1_000);
    assert.equal(VisibilityTimeout, 180);
    const { Variables } = functions.get('batch')?.['Environment'] as { Variables: Record<string, string> };
    assert.equal(
      JSON.parse(Variables[CONFIG] as string).queue.maxReceiveCount,
      DEFAULT_JOB.queue.maxReceiveCount,
    );
  });

  test('the alarm on dead letters looks at both functions that make them', () => {
    const { Metrics } = propertiesOf(template, 'DeadLetterAlarm');
    const metrics = (
      Metrics as { MetricStat?: { Metric: { MetricName: string; Dimensions: unknown } } }[]
    ).flatMap(({ MetricStat }) => MetricStat?.Metric ?? []);
    assert.deepEqual(
      metrics.map(({ MetricName }) => MetricName),
      ['DeadLettered', 'Invocations'],
    );
    assert.deepEqual(metrics[0]?.Dimensions, [
      { Name: 'Job', Value: 'serving_stream' },
      { Name: 'Function', Value: functions.get('batch')?.['FunctionName'] },
    ]);
    assert.deepEqual(referencesOf(metrics[1]?.Dimensions), ['DeadDashletterLambdaFunction']);
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

  test('Redis is Valkey that never evicts and stores small results in one piece', () => {
    const redis = propertiesOf(template, 'Redis');
    assert.equal(redis['Engine'], 'valkey');
    const [group] = referencesOf(redis['CacheParameterGroupName']) as [string];
    assert.deepEqual(propertiesOf(template, group)['Properties'], {
      'maxmemory-policy': 'noeviction',
      'hash-max-listpack-value': 1024,
    });
  });

  test('a dev stack is cheap: one small Redis, three alarms without a notification, no dashboard, nothing kept warm or traced', () => {
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
