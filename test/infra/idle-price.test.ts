/** Prices of single resources; test/infra/idle-price.system.test.ts compares those of packaged stacks with the documents. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { idlePrice, idlePriceText } from '../../infra/doctor/idle-price.ts';
import { stack } from './sample-stacks.ts';

const priceOf = (...resources: readonly (readonly [type: string, properties?: object])[]) =>
  idlePrice({
    Resources: Object.fromEntries(
      resources.map(([Type, Properties = {}], i) => [`R${i}`, { Type, Properties: { ...Properties } }]),
    ),
  });

test('what is billed by use costs nothing idle', () => {
  const free = [
    'AWS::SQS::Queue',
    'AWS::S3::Bucket',
    'AWS::Logs::LogGroup',
    'AWS::EC2::VPC',
    'AWS::IAM::Role',
  ];
  const price = priceOf(...free.map((type) => [type] as const), [
    'AWS::EC2::VPCEndpoint',
    { VpcEndpointType: 'Gateway' },
  ]);
  assert.deepEqual([price.dollars, price.parts, price.unknown], [0, [], []]);
});

test('nodes, zones and metrics are counted', () => {
  const { dollars, parts } = priceOf(
    ['AWS::ElastiCache::ReplicationGroup', { CacheNodeType: 'cache.t4g.micro', NumCacheClusters: 3 }],
    ['AWS::EC2::VPCEndpoint', { VpcEndpointType: 'Interface', SubnetIds: ['a', 'b', 'c'] }],
    ['AWS::CloudWatch::Alarm', { MetricName: 'Errors' }],
    ['AWS::CloudWatch::Alarm', { Metrics: [{ Expression: 'MAX' }, { MetricStat: {} }, { MetricStat: {} }] }],
    ['AWS::SecretsManager::Secret'],
    ['AWS::KMS::Key'],
  );
  assert.deepEqual(parts, [
    { what: 'Redis', dollars: 28.03 },
    { what: 'interface endpoints', dollars: 21.9 },
    { what: 'keys', dollars: 1 },
    { what: 'secrets', dollars: 0.4 },
    { what: 'alarms', dollars: 0.3 },
  ]);
  assert.equal(dollars, 51.63);
});

test('a stack with results in a table costs its alarms idle, and nothing else', () => {
  const { parts, unknown } = idlePrice(stack('table'));
  assert.deepEqual([parts, unknown], [[{ what: 'alarms', dollars: 0.4 }], []]);
});

test('ElastiCache Serverless begins at six dollars', () => {
  assert.equal(priceOf(['AWS::ElastiCache::ServerlessCache']).dollars, 6.13);
});

test('a function that a rule calls costs its calls, and a queue nothing', () => {
  const rule = (ScheduleExpression: string, target: string) => ({
    Type: 'AWS::Events::Rule',
    Properties: { ScheduleExpression, Targets: [{ Id: 'x', Arn: { 'Fn::GetAtt': [target, 'Arn'] } }] },
  });
  const priced = (ScheduleExpression: string, target: string, Architectures = ['x86_64']) =>
    idlePrice({
      Resources: {
        Fn: { Type: 'AWS::Lambda::Function', Properties: { MemorySize: 1769, Architectures } },
        Queue: { Type: 'AWS::SQS::Queue' },
        Rule: rule(ScheduleExpression, target),
      },
    });
  assert.deepEqual(priced('rate(1 minute)', 'Fn').parts, [{ what: 'scheduled calls', dollars: 0.19 }]);
  assert.equal(priced('rate(1 minute)', 'Fn', ['arm64']).dollars, 0.16);
  assert.equal(priced('rate(15 minutes)', 'Fn').dollars, 0.01);
  assert.deepEqual(
    [priced('rate(15 minutes)', 'Queue').dollars, priced('rate(15 minutes)', 'Queue').parts],
    [0, []],
  );
  assert.deepEqual(priced('cron(0 12 * * ? *)', 'Fn').unknown, ['Rule']);
});

test('without a known price there is no sum, and what lacks one is named', () => {
  const price = priceOf(
    ['AWS::ElastiCache::ReplicationGroup', { CacheNodeType: 'cache.r7g.large', NumCacheClusters: 1 }],
    ['AWS::ElastiCache::ReplicationGroup', { CacheNodeType: 'constructor', NumCacheClusters: 1 }],
    ['AWS::CloudWatch::Dashboard'],
    ['AWS::EC2::Instance'],
  );
  assert.equal(price.dollars, undefined);
  assert.deepEqual(price.unknown, ['R0', 'R1', 'AWS::EC2::Instance']);
  assert.match(
    idlePriceText(price),
    /^idle: not known: dashboard 3\.00, and without a price here: R0, R1, AWS::EC2::Instance \(us-east-1, prices of 2026-11; look yours up\)$/,
  );
});
