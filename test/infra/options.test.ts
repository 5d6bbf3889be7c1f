import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { type Parameters, readService, readSettings, serviceName } from '../../infra/config.ts';
import { readEnvironment } from '../../lib/config/environment.ts';
import { DEFAULT_JOB } from '../../lib/config/job.ts';
import { readArchive } from './archive.ts';
import { type Packaged, packageProject } from './packaging.ts';
import { propertiesOf, referencesOf, resourcesOf, type Template } from './template.ts';

const CONFIG = `
jobName: night_shift
modelPath: /somewhere/private
postProcessing: topN(3)
batchSize: 64
queue: { batchSize: 100, windowSeconds: 5, maximumConcurrency: 40, maxReceiveCount: 3 }
function: { memoryMB: 3538, timeoutSeconds: 60 }
flinkRestUrl: localhost:8081
http: { timeoutMs: 9500, corsOrigins: ['https://example.com'] }
`;

const PARAMETERS = [
  'arch=arm64',
  'auth=none',
  'logDays=30',
  'redisNodes=2',
  'redisNodeType=cache.r7g.large',
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

  test('queue, batch and memory follow config.yaml', () => {
    const queue = propertiesOf(template, 'Queue');
    assert.equal(queue['QueueName'], 'cluster-serving-night_shift');
    assert.equal(queue['VisibilityTimeout'], 6 * 60 + 5);
    assert.equal((queue['RedrivePolicy'] as { maxReceiveCount: number }).maxReceiveCount, 3);
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
      [2, true, true, 'cache.r7g.large'],
    );
    for (const [, route] of resourcesOf(template, 'AWS::ApiGatewayV2::Route'))
      assert.equal(route['AuthorizationType'], undefined);
  });

  test('with respondAsync predict knows the queue, may send to it, and has a private way there', () => {
    const { Variables } = functionNamed('predict')['Environment'] as { Variables: Record<string, unknown> };
    assert.deepEqual(Variables['CLUSTER_SERVING_QUEUE_URL'], { Ref: 'Queue' });
    const policy = propertiesOf(template, 'PredictQueuesPolicy');
    assert.deepEqual(policy['RoleName'], { Ref: 'PredictRole' });
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
    const group = propertiesOf(template, 'SqsEndpointSecurityGroup')['SecurityGroupIngress'];
    assert.deepEqual(referencesOf(group), ['FunctionSecurityGroup']);
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

describe('the settings of a deployment', () => {
  const parameters: Parameters = {
    stage: 'dev',
    config: undefined,
    auth: 'iam',
    requestsPerSecond: '1000',
    respondAsync: 'off',
    redisNodes: 1,
    logDays: 14,
  };
  let folder: string;
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'cluster-serving-settings-'));
  });
  after(() => rm(folder, { recursive: true, force: true }));

  test('without a config.yaml they are the defaults', () => {
    const settings = readSettings(folder, parameters);
    assert.equal(settings.jobName, DEFAULT_JOB.jobName);
    assert.equal(settings.batchSize, DEFAULT_JOB.queue.batchSize);
    assert.equal(readService(folder, undefined), 'cluster-serving');
  });

  test('a config file that is named must exist', () => {
    assert.throws(() => readSettings(folder, { ...parameters, config: 'absent.yaml' }), {
      code: 'bad_config',
    });
  });

  test('a config file that is named is read instead of config.yaml', async () => {
    await writeFile(join(folder, 'other.yaml'), 'jobName: other\n');
    assert.equal(readService(folder, 'other.yaml'), 'cluster-serving-other');
    assert.equal(readSettings(folder, { ...parameters, config: 'other.yaml' }).jobName, 'other');
  });

  test('every wrong parameter is named in one error', () => {
    const wrong = {
      ...parameters,
      stage: 'a_b',
      auth: 'maybe',
      requestsPerSecond: '0',
      respondAsync: 'yes',
      redisNodes: 1.5,
      logDays: '',
    };
    assert.throws(
      () => readSettings(folder, wrong),
      (error: Error & { code?: string }) => {
        assert.equal(error.code, 'bad_config');
        for (const name of ['stage', 'auth', 'requestsPerSecond', 'respondAsync', 'redisNodes', 'logDays'])
          assert.match(error.message, new RegExp(`${name} "?`));
        return true;
      },
    );
  });

  test('settings too large for the environment of a function are refused, naming both sizes', async () => {
    await writeFile(join(folder, 'large.yaml'), `postProcessing: "topN(${' '.repeat(4000)}5)"\n`);
    assert.throws(() => readSettings(folder, { ...parameters, config: 'large.yaml' }), {
      code: 'bad_config',
      message: /\d{4} bytes as JSON, over the limit of 3072/,
    });
  });

  test('no two jobs share a stack, and every name leaves room for stage and function', () => {
    const long = 'x'.repeat(60);
    const jobs = [
      'serving_stream',
      'serving-stream',
      'a_b',
      'a-b',
      long,
      `${long.slice(1)}y`,
      `${long.slice(2)}_z`,
    ];
    const names = jobs.map(serviceName);
    assert.equal(new Set(names).size, jobs.length, names.join());
    for (const name of names) {
      assert.match(name, /^[a-z][a-z0-9-]*$/);
      assert.ok(`${name}-${'s'.repeat(15)}-dead-letter`.length <= 64, name);
    }
  });
});
