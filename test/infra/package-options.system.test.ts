/** The package of a deployment with a config.yaml and parameters, on an older Node if there is one. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { serviceName } from '../../infra/template/config.ts';
import { readEnvironment } from '../../lib/config/environment.ts';
import { type Packaged, packageProject } from '../support/packaging.ts';
import {
  propertiesOf,
  referencesOf,
  resourcesOf,
  roleStatements,
  type Template,
} from '../support/template.ts';
import { readArchive } from './archive.ts';
import { composeJob } from './compose.ts';
import { everyStackTests } from './every-stack/tests.ts';
import { lintTest } from './lint.ts';
import { monitoringTests } from './monitoring-tests.ts';
import { assertComposed } from './same-as-composed.ts';

const CONFIG = `
jobName: night_shift
modelPath: /somewhere/private
postProcessing: topN(3)
batchSize: 64
queue: { batchSize: 100, windowSeconds: 5, maximumConcurrency: 40, maxReceiveCount: 3 }
function: { memoryMB: 3538, timeoutSeconds: 60 }
flinkRestUrl: localhost:8081
http: { timeoutMs: 9500, corsOrigins: ['https://example.com'] }
worker: { class: server.Worker, batchGroupTimeout: 20, logDir: /somewhere/private }
`;

const WORKER = 'export class Worker { getModel() {} predict(_, items) { return items; } }';

const PARAMETERS = [
  'arch=arm64',
  'auth=none',
  'logDays=30',
  'redisNodes=2',
  'redisNodeType=cache.t4g.medium',
  'requestsPerSecond=50',
  'respondAsync=on',
];

/** A Node of this machine that cannot import TypeScript, as many who deploy have. */
function olderNode(): string | undefined {
  const places = (process.env['PATH'] ?? '').split(delimiter).map((folder) => join(folder, 'node'));
  return places.find((path) => existsSync(path) && Number(versionOf(path).split('.')[0]) < 22);
}

function versionOf(node: string): string {
  return execFileSync(node, ['-p', 'process.versions.node'], { encoding: 'utf8' }).trim();
}

describe('serverless package with a config.yaml and parameters', () => {
  const older = olderNode();
  let packaged: Packaged;
  let template: Template;

  before(async () => {
    packaged = await packageProject({
      config: CONFIG,
      files: { 'server.mjs': WORKER },
      options: ['--stage', 'prod', ...PARAMETERS.flatMap((parameter) => ['--param', parameter])],
      ...(older ? { node: older } : {}),
    });
    assert.equal(packaged.exitCode, 0, packaged.output);
    template = await packaged.template();
  });
  after(() => packaged?.remove());

  const functionNamed = (name: string) => {
    const found = resourcesOf(template, 'AWS::Lambda::Function').find(([, { FunctionName }]) =>
      String(FunctionName).endsWith(`-prod-${name}`),
    );
    return found?.[1] as Readonly<Record<string, unknown>>;
  };

  test('it works on a Node that cannot import TypeScript', (t) => {
    if (!older) return t.skip('no Node below 22 on the PATH');
    t.diagnostic(`osls ran on Node ${versionOf(older)}`);
    assert.equal(packaged.exitCode, 0);
  });

  test('it tells what stands for a key of the old config', () => {
    assert.match(packaged.output, /flinkRestUrl.*Lambda/);
  });

  test('it tells which settings of a worker have no effect there, and packages its code', async () => {
    for (const name of ['batchGroupTimeout', 'logDir']) {
      assert.equal(packaged.output.split(`worker.${name} has no effect when deployed`).length, 2, name);
    }
    for (const name of ['predict', 'batch']) {
      const names = (await readArchive(packaged.archive(name))).map((entry) => entry.name);
      assert.ok(names.includes(`dist/${name}/worker/server.mjs`), names.join());
      assert.ok(names.includes(`dist/${name}/worker-loop.mjs`), names.join());
    }
  });

  test('queue, batch and memory follow config.yaml', () => {
    const queue = propertiesOf(template, 'Queue');
    assert.equal(queue['QueueName'], `${serviceName('night_shift')}-prod-queue`);
    assert.equal(queue['VisibilityTimeout'], 6 * 60 + 5);
    assert.equal((queue['RedrivePolicy'] as { maxReceiveCount: number }).maxReceiveCount, 1_000);
    const mapping = propertiesOf(template, 'BatchEventSourceMappingSQSQueue');
    assert.equal(mapping['BatchSize'], 100);
    assert.equal(mapping['MaximumBatchingWindowInSeconds'], 5);
    assert.deepEqual(mapping['ScalingConfig'], { MaximumConcurrency: 40 });
    assert.deepEqual([functionNamed('batch')['Timeout'], functionNamed('batch')['MemorySize']], [60, 3538]);
    assert.deepEqual(
      [functionNamed('predict')['Timeout'], functionNamed('predict')['MemorySize']],
      [10, 3538],
    );
  });

  test('pages of the origins in config.yaml may call, with what a signed request brings', () => {
    const cors = propertiesOf(template, 'HttpApi')['CorsConfiguration'] as Record<string, readonly string[]>;
    assert.deepEqual(cors['AllowOrigins'], ['https://example.com']);
    assert.deepEqual(cors['AllowMethods'], ['GET', 'POST', 'DELETE']);
    assert.ok(cors['AllowHeaders']?.includes('authorization'));
  });

  test('a function reads from its environment the job that config.yaml says, and no path of this machine', () => {
    const { Variables } = functionNamed('batch')['Environment'] as { Variables: Record<string, string> };
    const { job } = readEnvironment(Variables);
    assert.equal(job.jobName, 'night_shift');
    assert.equal(job.postProcessing, 'topN(3)');
    assert.equal(job.batchSize, 64);
    assert.deepEqual(job.function, { memoryMB: 3538, timeoutSeconds: 60 });
    assert.doesNotMatch(JSON.stringify(template), /somewhere/);
  });

  test('parameters choose processor, log days, rate and Redis, and open the API', () => {
    assert.deepEqual(functionNamed('batch')['Architectures'], ['arm64']);
    assert.equal(propertiesOf(template, 'BatchLogGroup')['RetentionInDays'], 30);
    const routes = propertiesOf(template, 'HttpApiStage')['DefaultRouteSettings'] as Record<string, unknown>;
    assert.equal(routes['ThrottlingRateLimit'], 50);
    const redis = propertiesOf(template, 'Redis');
    assert.deepEqual(
      [
        redis['NumCacheClusters'],
        redis['AutomaticFailoverEnabled'],
        redis['MultiAZEnabled'],
        redis['CacheNodeType'],
      ],
      [2, true, true, 'cache.t4g.medium'],
    );
    for (const [, route] of resourcesOf(template, 'AWS::ApiGatewayV2::Route'))
      assert.equal(route['AuthorizationType'], undefined);
  });

  test('with respondAsync predict knows the queue, may send to it, and has a private way there', () => {
    const { Variables } = functionNamed('predict')['Environment'] as { Variables: Record<string, unknown> };
    assert.deepEqual(Variables['CLUSTER_SERVING_QUEUE_URL'], { Ref: 'Queue' });
    assert.deepEqual(Object.keys(Variables).sort(), [
      'CLUSTER_SERVING_BUCKET',
      'CLUSTER_SERVING_CONFIG',
      'CLUSTER_SERVING_QUEUE_URL',
      'CLUSTER_SERVING_REDIS_URL',
    ]);
    const policy = propertiesOf(template, 'PredictQueuesPolicy');
    assert.deepEqual(policy['Roles'], [{ Ref: 'PredictRole' }]);
    const { Statement } = policy['PolicyDocument'] as { Statement: readonly Record<string, unknown>[] };
    assert.deepEqual(
      Statement.map(({ Action, Resource }) => [Action, referencesOf(Resource)]),
      [
        ['sqs:SendMessage', ['Queue']],
        ['s3:PutObject', ['Bucket']],
      ],
    );
    const endpoint = propertiesOf(template, 'SqsEndpoint');
    assert.deepEqual(
      [endpoint['VpcEndpointType'], endpoint['PrivateDnsEnabled'], endpoint['SubnetIds']],
      ['Interface', true, [{ Ref: 'SubnetA' }, { Ref: 'SubnetB' }]],
    );
    // In China the names of most interface endpoints, that of SQS too, begin with `cn.`.
    assert.deepEqual(endpoint['ServiceName'], {
      'Fn::Join': [
        '',
        [{ 'Fn::If': ['InChina', 'cn.', ''] }, { 'Fn::Sub': 'com.amazonaws.${AWS::Region}.sqs' }],
      ],
    });
    const { Conditions } = template as unknown as { Conditions: object };
    assert.deepEqual(Conditions, { InChina: { 'Fn::Equals': [{ Ref: 'AWS::Partition' }, 'aws-cn'] } });
    const group = propertiesOf(template, 'SqsEndpointSecurityGroup')['SecurityGroupIngress'];
    assert.deepEqual(referencesOf(group), ['FunctionSecurityGroup']);
  });

  describe('the monitoring of a prod stack', () =>
    monitoringTests(() => template, serviceName('night_shift')));
  test('the template is the one that test/infra/compose.ts makes', () => {
    const parameters = Object.fromEntries(PARAMETERS.map((text) => text.split('=') as [string, string]));
    const config = join(packaged.folder, 'config.yaml');
    assertComposed(template, composeJob({ stage: 'prod', parameters, config }));
  });
  lintTest(() => packaged);
  describe('the template, as that of every stack', () => everyStackTests(() => packaged));

  test('a prod stack keeps its data, traces its requests and has a topic for its alarms', () => {
    const { Bucket, Redis } = template.Resources;
    assert.deepEqual([Bucket?.DeletionPolicy, Bucket?.UpdateReplacePolicy], ['Retain', 'Retain']);
    assert.deepEqual([Redis?.DeletionPolicy, Redis?.UpdateReplacePolicy], ['Snapshot', 'Snapshot']);
    assert.equal(Redis?.Properties?.['SnapshotRetentionLimit'], 7);
    for (const [, { TracingConfig }] of resourcesOf(template, 'AWS::Lambda::Function'))
      assert.deepEqual(TracingConfig, { Mode: 'Active' });
    const roles = new Set(
      roleStatements(template)
        .filter(({ statement }) => statement.Sid === 'SendTraces')
        .map(({ role }) => role),
    );
    assert.equal(roles.size, resourcesOf(template, 'AWS::Lambda::Function').length);
    // Lambda refuses a traced function whose role may not send traces (yet).
    for (const [name] of resourcesOf(template, 'AWS::Lambda::Function'))
      assert.ok([template.Resources[name]?.DependsOn].flat().includes('TracingPolicy'), name);
    const anywhere = roleStatements(template).filter(
      ({ statement }) => statement.Effect === 'Allow' && JSON.stringify(statement.Resource).includes('"*"'),
    );
    assert.deepEqual(
      new Set(anywhere.map(({ statement }) => statement.Sid)),
      new Set(['AttachToVpc', 'SendTraces']),
    );
    const { Statement } = propertiesOf(template, 'AlarmTopicPolicy')['PolicyDocument'] as {
      Statement: readonly Record<string, unknown>[];
    };
    assert.deepEqual(
      Statement.map(({ Principal, Action, Condition }) => [Principal, Action, Condition]),
      [
        [
          { Service: 'cloudwatch.amazonaws.com' },
          'sns:Publish',
          { StringEquals: { 'aws:SourceAccount': { Ref: 'AWS::AccountId' } } },
        ],
      ],
    );
  });

  test('an archive for arm64 holds the runtime of arm64', async () => {
    const names = (await readArchive(packaged.archive('predict'))).map(({ name }) => name);
    const binaries = names.filter((name) => name.includes('/bin/napi-v6/'));
    assert.equal(binaries.length, 2);
    for (const name of binaries) assert.match(name, /linux\/arm64\//);
  });

  test('the archives of submit and predictions have the same bytes, and all entries one time and mode', async () => {
    const [submit, predictions] = [packaged.archive('submit'), packaged.archive('predictions')];
    const facts = async (path: string) =>
      (await readArchive(path)).map(({ name, mode, time, crc, bytes }) => ({ name, mode, time, crc, bytes }));
    assert.deepEqual(await facts(submit), await facts(predictions));
    const times = new Set(
      (await facts(packaged.archive('batch'))).map(({ time, mode }) => `${time} ${mode}`),
    );
    assert.equal(times.size, 1);
  });

  test('wrong settings are all named at once, with no stack trace, and nothing is packaged', async () => {
    const refused = await packageProject({ config: 'jobNmae: x\nqueue: { batchSize: 0 }\n' });
    try {
      assert.equal(refused.exitCode, 1);
      assert.match(refused.output, /jobNmae: unknown key; did you mean jobName\?/);
      assert.match(refused.output, /queue\.batchSize: /);
      assert.doesNotMatch(refused.output, /infra.*:\d+:\d+/);
      await assert.rejects(readArchive(refused.archive('submit')), { code: 'ENOENT' });
    } finally {
      await refused.remove();
    }
  });
});
