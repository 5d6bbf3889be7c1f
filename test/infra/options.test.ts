/** The settings of a deployment: defaults, refusals and names. test/infra/package-options.system.test.ts looks at what is packaged. */
import assert from 'node:assert/strict';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { parse } from 'yaml';
import {
  PARAMETER_NAMES,
  type Parameters,
  type Request,
  readJobConfig,
  readService,
  readSettings,
  serviceName,
} from '../../infra/template/config.ts';
import { DEFAULT_JOB } from '../../lib/config/job.ts';

describe('the settings of a deployment', () => {
  const parameters: Parameters = {
    arch: 'x86_64',
    auth: 'iam',
    jwtIssuer: '',
    jwtAudience: '',
    requestsPerSecond: '1000',
    respondAsync: 'off',
    results: 'redis',
    redis: 'node',
    redisStack: '',
    redisUrl: '',
    redisPassword: '',
    redisMaxGB: 1,
    redisMaxECPU: 5_000,
    redisNodeType: 'cache.t4g.micro',
    redisNodes: 1,
    redisAuth: 'none',
    tmpMB: 512,
    logDays: 14,
    keepData: 'off',
    monitoring: 'basic',
    metrics: 'on',
    alarmEmail: '',
    alarmTopic: 'none',
    tracing: 'off',
    otlpEndpoint: '',
    otlpRatio: 1,
    provisioned: 0,
    zones: '',
    vpcId: '',
    subnetIds: '',
    routeTableIds: '',
    securityGroup: '',
    domain: '',
    certificateArn: '',
    deploymentRole: '',
    workerImage: '',
    permissionsBoundary: '',
    rolePath: '',
    tags: '',
    kmsKey: '',
    logPrefix: '',
    pollers: '',
    jwtScopes: '',
    callerLog: 'off',
  };
  const url = {
    redis: 'url',
    redisUrl: 'rediss://user@redis.example.com:6379',
    redisPassword: '/job/redis',
  };
  const request: Request = { stage: 'dev', config: undefined, parameters };
  const problemsOf = (changed: Partial<Parameters>, more: Partial<Request> = {}): string => {
    const refused = { ...request, ...more, parameters: { ...parameters, ...changed } };
    try {
      readSettings(folder, refused);
    } catch (error) {
      assert.equal((error as { code?: string }).code, 'bad_config');
      return (error as Error).message;
    }
    return '';
  };
  let folder: string;
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'cluster-serving-settings-'));
  });
  after(() => rm(folder, { recursive: true, force: true }));

  test('without a config.yaml they are the defaults', () => {
    const settings = readSettings(folder, request);
    assert.equal(settings.jobName, DEFAULT_JOB.jobName);
    assert.equal(settings.batchSize, DEFAULT_JOB.queue.batchSize);
    assert.equal(readService(folder, undefined), 'cluster-serving');
  });

  test('a worker on a device, a worker that is not there, and an image for none are refused', async (t) => {
    const directory = await mkdtemp(join(tmpdir(), 'cluster-serving-worker-'));
    t.after(() => rm(directory, { recursive: true, force: true }));
    const problems = async (worker: string, changed: Partial<Parameters> = {}) => {
      await writeFile(join(directory, 'worker.yaml'), `worker: ${worker}\n`);
      return problemsOf(changed, { config: join(directory, 'worker.yaml') });
    };
    const notes = () =>
      readJobConfig(folder, join(directory, 'worker.yaml')).notes.map((note) => note.split(':')[0]);
    const image = `123456789012.dkr.ecr.us-east-1.amazonaws.com/jobs/py@sha256:${'a'.repeat(64)}`;
    assert.match(await problems('{ class: server.Worker }'), /^worker\.class: there is no .*server\.py/);
    await writeFile(join(directory, 'server.py'), '');
    assert.equal(await problems('{ class: server.Worker }'), '');
    assert.equal(await problems('{ class: server.Worker }', { workerImage: image }), '');
    assert.match(
      await problems('{ class: server.Worker }', { workerImage: image.split('@')[0] as string }),
      /^param workerImage "1.*": expected an image in ECR/,
    );
    assert.match(
      await problems('{ class: server.Worker, deviceMap: [-1, 0] }'),
      /^worker\.deviceMap: Lambda has no GPU/,
    );
    await problems('{ class: server.Worker, python: /venv/bin/python, stopTimeout: 1 }');
    assert.deepEqual(notes(), [
      'worker.stopTimeout has no effect when deployed',
      'worker.python has no effect when deployed',
    ]);
    await problems('{ class: server.Worker, python: python3.13 }');
    assert.deepEqual(notes(), []);
    await writeFile(join(directory, 'net.mts'), '');
    assert.match(
      await problems('{ class: net.Worker, deviceMap: [0] }'),
      /^worker\.deviceMap: Lambda has no GPU/,
    );
    assert.match(
      await problems('{ class: net.Worker }', { workerImage: image }),
      /^param workerImage belongs/,
    );
    assert.equal(await problems('{ class: net.Worker, numWorker: 3 }'), '');
    assert.deepEqual(notes(), ['worker.numWorker has no effect when deployed']);
  });

  test('with a worker in Python the names of two functions differ, and stay within 64 characters', async (t) => {
    const directory = await mkdtemp(join(tmpdir(), 'cluster-serving-worker-'));
    t.after(() => rm(directory, { recursive: true, force: true }));
    const config = join(directory, 'config.yaml');
    const codeOf = async (worker: string) => {
      await writeFile(config, `jobName: ${'n'.repeat(60)}\n${worker}\n`);
      await writeFile(join(directory, 'server.py'), '');
      return readSettings(folder, { ...request, stage: 's'.repeat(15), config }).code;
    };
    const [model, python] = [await codeOf(''), await codeOf('worker: { class: server.Worker }')];
    for (const name of ['predict', 'batch'] as const) {
      assert.notEqual(model[name].name, python[name].name);
      assert.ok(python[name].name.length <= 64, python[name].name);
      assert.deepEqual([model[name].image, python[name].handler], [undefined, undefined]);
    }
  });

  test('a Redis on the internet needs an address with TLS and no password, a parameter, and no VPC', () => {
    assert.equal(problemsOf(url), '');
    assert.equal(problemsOf({ ...url, redisUrl: 'rediss://redis.example.com' }), '');
    assert.equal(problemsOf({ ...url, redisUrl: `${url.redisUrl}?cluster=on` }), '');
    for (const redisUrl of [
      'redis://redis.example.com:6379',
      'rediss://user:secret@redis.example.com:6379',
      'redis.example.com',
      'rediss://a b',
    ])
      assert.match(problemsOf({ ...url, redisUrl }), /^param redisUrl ".*": expected rediss:\/\/host:port/);
    for (const redisPassword of ['secret', '/a b', '/aws/x', '/SSM/x', '/', `/${'a/'.repeat(16)}a`])
      assert.match(
        problemsOf({ ...url, redisPassword }),
        /^param redisPassword ".*": expected the name of a/,
      );
    assert.match(problemsOf({ ...url, redisUrl: '' }), /^param redis=url needs redisUrl and redisPassword$/);
    assert.match(
      problemsOf({ ...url, redis: 'node' }),
      /^params redisUrl and redisPassword belong to redis=url/,
    );
    assert.match(problemsOf({ ...url, redisAuth: 'iam' }), /^param redis=url uses no VPC/);
    assert.match(problemsOf({ ...url, respondAsync: 'routed' }), /param redis=url uses no VPC/);
    const { variables, vpc, vpcDependencies, files } = readSettings(folder, {
      ...request,
      parameters: { ...parameters, ...url },
    });
    assert.deepEqual([vpc, vpcDependencies, files.network, files.sqsEndpoint], [null, [], 'none', 'off']);
    assert.equal(variables.batch['CLUSTER_SERVING_REDIS_USER'], 'user');
  });

  test('a serverless Redis is in cluster mode, in the VPC, and has two limits', () => {
    const of = (own: object) =>
      readSettings(folder, { ...request, parameters: { ...parameters, redis: 'serverless', ...own } });
    const { variables, vpc, files, redisAlarmBytes } = of({ redisMaxGB: '2', redisAuth: 'iam' });
    assert.deepEqual(variables.batch['CLUSTER_SERVING_REDIS_URL'], {
      'Fn::Sub': 'rediss://${RedisServerless.Endpoint.Address}:${RedisServerless.Endpoint.Port}?cluster=on',
    });
    assert.deepEqual(variables.batch['CLUSTER_SERVING_REDIS_CACHE'], { Ref: 'RedisServerless' });
    assert.deepEqual([files.redis, files.redisAuth, files.network], ['serverless', 'iam', 'own']);
    assert.deepEqual([vpc?.securityGroupIds.length, redisAlarmBytes], [1, 1_717_986_918]);
    const now = new Date('2026-11-28T07:45:12.345Z');
    const snapshotOf = (keepData: string) =>
      readSettings(folder, {
        ...request,
        parameters: { ...parameters, redis: 'serverless', keepData },
        now,
      }).redisLastSnapshot;
    assert.match(JSON.stringify(snapshotOf('on')), /^"cluster-serving-[a-z0-9-]+-20261128074512"$/);
    assert.deepEqual(snapshotOf('off'), { Ref: 'AWS::NoValue' });
    for (const [name, wrong] of [
      ['redisMaxGB', 0],
      ['redisMaxGB', 5_001],
      ['redisMaxECPU', 999],
    ] as const)
      assert.match(problemsOf({ redis: 'serverless', [name]: wrong }), new RegExp(`^param ${name} `));
  });

  test('a public Redis needs no VPC, signs its users in, and is reached by submit too', () => {
    const of = (own: object) =>
      readSettings(folder, { ...request, parameters: { ...parameters, redis: 'public', ...own } });
    const { variables, vpc, files, redisAlarmBytes } = of({ redisMaxGB: 2 });
    assert.deepEqual([vpc, files.network, files.interfaces, files.redisGroup], [null, 'none', 'off', 'none']);
    assert.deepEqual([files.redisAuth, files.redisUsers, redisAlarmBytes], ['iam', 'public', 1_288_490_189]);
    const { CLUSTER_SERVING_REDIS_URL: address, ...others } = variables.submit;
    assert.deepEqual(address, {
      'Fn::Sub': 'rediss://${RedisPublic.Endpoint.Address}:${RedisPublic.Endpoint.Port}?cluster=on',
    });
    assert.deepEqual(others['CLUSTER_SERVING_REDIS_CACHE'], { Ref: 'RedisPublic' });
    assert.equal(others['CLUSTER_SERVING_REDIS_MAX_GB'], '2');
    assert.equal(of({ redis: 'serverless' }).variables.submit['CLUSTER_SERVING_REDIS_URL'], undefined);
    for (const own of [
      { vpcId: 'vpc-0123456789abcdef0', subnetIds: 'subnet-0123456789abcdef0,subnet-0123456789abcdef1' },
      { respondAsync: 'routed' },
    ])
      assert.match(
        problemsOf({ redis: 'public', ...own }),
        /param redis=public uses no VPC: leave out vpcId/,
      );
  });

  test('results in a table need neither a Redis nor a VPC, and what belongs to those is refused', async () => {
    const own = { ...parameters, results: 'dynamodb' };
    const { variables, vpc, vpcDependencies, files, network } = readSettings(folder, {
      ...request,
      parameters: own,
    });
    assert.deepEqual([vpc, vpcDependencies, network], [null, [], undefined]);
    assert.deepEqual(
      [files.redis, files.network, files.interfaces, files.redisGroup, files.redisAuth, files.redisUsers],
      ['dynamodb', 'none', 'off', 'none', 'none', 'none'],
    );
    const named = Object.entries(variables).filter(([, of]) => 'CLUSTER_SERVING_TABLE' in of);
    assert.deepEqual(named.map(([name]) => name).sort(), [
      'batch',
      'deadLetter',
      'predict',
      'predictions',
      'status',
      'submit',
      'trials',
    ]);
    assert.ok(!JSON.stringify(variables).includes('REDIS'));
    for (const [given, problem] of [
      [{ redis: 'public' }, /^param results=dynamodb has no Redis: leave out redis and redisAuth$/],
      [{ redisAuth: 'iam' }, /^param results=dynamodb has no Redis: /],
      [{ redisUrl: url.redisUrl }, /^params redisUrl and redisPassword belong to redis=url/],
      [{ redisStack: 'shared-redis-dev' }, /^params redis=shared and redisStack belong together/],
      [{ zones: 'us-east-1a,us-east-1c' }, /^param results=dynamodb uses no VPC: leave out vpcId/],
      [{ respondAsync: 'routed' }, /^param results=dynamodb uses no VPC: /m],
      [{ kmsKey: 'arn:aws:kms:us-east-1:123456789012:key/1' }, /^param results=dynamodb: .* takes no kmsKey/],
    ] as const)
      assert.match(problemsOf({ results: 'dynamodb', ...given }), problem);
    assert.match(problemsOf({ results: 'table' }), /^param results "table": expected "redis", "dynamodb"$/);
    const config = join(folder, 'limited.yaml');
    await writeFile(config, 'http: { tokenBucketEnabled: true, tokensPerSecond: 1001 }\n');
    const limited = { config };
    assert.equal(problemsOf({}, limited), '');
    assert.match(
      problemsOf({ results: 'dynamodb' }, limited),
      /^http\.tokensPerSecond 1001: results=dynamodb counts 1000 requests a second at most; /,
    );
  });

  test('conventions of a company are checked before anything is built', () => {
    const jwt = { auth: 'jwt', jwtIssuer: 'https://issuer.example.com/', jwtAudience: 'a' };
    for (const [name, right, ...wrong] of [
      [
        'permissionsBoundary',
        'arn:aws:iam::123456789012:policy/team/limits',
        'limits',
        'arn:aws:iam::1:role/x',
      ],
      ['rolePath', '/team/', 'team', '/team', '//', '/a b/'],
      ['tags', 'team=a b,cost=1', 'team', 'aws:x=1', 'a=1,a=1', '=1'],
      [
        'kmsKey',
        'arn:aws:kms:eu-west-1:123456789012:key/12345678-1234',
        'alias/x',
        'arn:aws:kms:eu-west-1:1:key/x',
      ],
      ['logPrefix', '/company/team', '/aws', '/aws/x', 'company', '/company/'],
      ['pollers', '2-20', '2', '1-20', '20-2', '2-2001', '201-300'],
      [
        'jwtScopes',
        'predict=run,predictions=read write',
        'predict',
        'other=run',
        'predict=',
        'predict=a,predict=b',
      ],
    ] as const) {
      assert.equal(problemsOf({ ...jwt, [name]: right }), '', name);
      for (const value of wrong)
        assert.match(problemsOf({ ...jwt, [name]: value }), new RegExp(`^param ${name}`), `${name} ${value}`);
    }
    assert.match(problemsOf({ jwtScopes: 'predict=run' }), /^param jwtScopes belongs to auth=jwt/);
  });

  test('scopes are asked of the routes of a function, and callers are named where that is wanted', () => {
    const jwt = { auth: 'jwt', jwtIssuer: 'https://issuer.example.com/', jwtAudience: 'a' };
    const { httpEvents, accessLogFormat, tags } = readSettings(folder, {
      ...request,
      parameters: { ...parameters, ...jwt, jwtScopes: 'predict=run all', callerLog: 'on', tags: 'a=b=c' },
    });
    const scoped = { name: 'jwt', scopes: ['run', 'all'] };
    for (const { httpApi } of httpEvents.predict) assert.deepEqual(httpApi.authorizer, scoped);
    for (const { httpApi } of httpEvents.status) assert.deepEqual(httpApi.authorizer, { name: 'jwt' });
    assert.match(accessLogFormat, /"sourceIp":"\$context.identity.sourceIp"/);
    assert.doesNotMatch(readSettings(folder, request).accessLogFormat, /identity|claims/);
    assert.deepEqual(tags, { a: 'b=c' });
  });

  test('a config file that is named must exist', () => {
    assert.throws(() => readSettings(folder, { ...request, config: 'absent.yaml' }), {
      code: 'bad_config',
    });
  });

  test('a config file that is named is read instead of config.yaml', async () => {
    await writeFile(join(folder, 'other.yaml'), 'jobName: other\n');
    assert.equal(readService(folder, 'other.yaml'), 'cluster-serving-other');
    assert.equal(readSettings(folder, { ...request, config: 'other.yaml' }).jobName, 'other');
  });

  test('requestsPerSecond is limited by the account alone', () => {
    for (const requestsPerSecond of ['10000', '10001', '500000'])
      assert.equal(
        readSettings(folder, { ...request, parameters: { ...parameters, requestsPerSecond } })
          .requestsPerSecond,
        Number(requestsPerSecond),
      );
    assert.match(problemsOf({ requestsPerSecond: '3000000000' }), /^param requestsPerSecond /);
  });

  test('every wrong parameter is named in one error, with what was expected', () => {
    const wrong = {
      arch: 'riscv',
      auth: 'apikey',
      jwtIssuer: 'http://plain.example.com',
      jwtAudience: 'a,a',
      requestsPerSecond: '0',
      respondAsync: 'yes',
      redisNodeType: 'large',
      redisNodes: 1.5,
      redisAuth: 'password',
      tmpMB: 10_241,
      zones: 'us-east-1,us-east-1a',
      deploymentRole: 'role/deployer',
      logDays: '15',
      keepData: 'maybe',
      monitoring: 'none',
      metrics: 'emf',
      alarmEmail: 'nobody',
      alarmTopic: 'arn:aws:sqs:us-east-1:123456789012:queue',
      tracing: 'Active',
      provisioned: -1,
      vpcId: 'vpc-xyz',
      subnetIds: 'subnet-0123456789abcdef0,',
      routeTableIds: 'subnet-0123456789abcdef0',
      securityGroup: 'default',
      domain: 'no dots',
      certificateArn: 'arn:aws:iam::123456789012:server-certificate/x',
    } satisfies Partial<Parameters>;
    const message = problemsOf(wrong, { stage: 'a_b' });
    for (const [name, value] of Object.entries(wrong))
      assert.ok(message.includes(`param ${name} ${JSON.stringify(value)}: expected `), `${name}: ${message}`);
    assert.match(message, /stage "a_b": expected/);
  });

  test('functions learn of a receiver of spans where one is named, except for the one that says whether all is well, and the notifier, trials and throttle, which run no record', () => {
    const named = { ...url, otlpEndpoint: 'https://otlp.example.com', otlpRatio: '0.05' };
    const { status, notifier, trials, throttle, ...others } = readSettings(folder, {
      ...request,
      parameters: { ...parameters, ...named },
    }).variables;
    const tracesOf = (variables: object) => Object.entries(variables).filter(([name]) => /OTEL/.test(name));
    for (const variables of Object.values(others))
      assert.deepEqual(tracesOf(variables), [
        ['OTEL_EXPORTER_OTLP_ENDPOINT', 'https://otlp.example.com'],
        ['OTEL_TRACES_SAMPLER', 'parentbased_traceidratio'],
        ['OTEL_TRACES_SAMPLER_ARG', '0.05'],
      ]);
    assert.deepEqual([status, notifier, trials, throttle].map(tracesOf), [[], [], [], []]);
    for (const variables of Object.values(readSettings(folder, request).variables))
      assert.deepEqual(tracesOf(variables), []);
  });

  test('an unknown parameter is refused, with the one that was probably meant', () => {
    assert.match(problemsOf({}, { named: ['redisNode'] }), /redisNode: unknown; did you mean redisNodes\?/);
    assert.equal(problemsOf({}, { named: ['config', 'arch'] }), '');
  });

  test('serverless.yml has a default for every parameter, and docs/how-to/deploy.md has it too, for dev and for prod', async () => {
    const { params } = parse(await readFile(new URL('../../serverless.yml', import.meta.url), 'utf8'), {
      logLevel: 'silent',
    }) as { params: Record<'default' | 'prod', Record<string, string | number>> };
    assert.deepEqual(Object.keys(params.default).sort(), [...PARAMETER_NAMES].sort());
    assert.deepEqual(problemsOf(params.default as unknown as Parameters), '');
    assert.deepEqual(problemsOf({ ...params.default, ...params.prod }), '');
    const text = await readFile(new URL('../../docs/how-to/deploy.md', import.meta.url), 'utf8');
    const rows = text
      .split('\n')
      .map((line) => line.split('|').map((cell) => cell.trim().replaceAll('`', '')));
    for (const name of PARAMETER_NAMES) {
      const row = rows.find(([, names = '']) => names.split(', ').includes(name));
      assert.ok(row, `${name} is not in the table`);
      const dev = String(params.default[name]);
      assert.deepEqual(row.slice(2, 4), [dev, dev === '' ? '' : String(params.prod[name] ?? dev)], name);
    }
  });

  test('parameters that make sense only together are refused apart', () => {
    const subnets = 'subnet-0123456789abcdef0,subnet-0123456789abcdef1';
    const vpc = { vpcId: 'vpc-0123456789abcdef0', subnetIds: subnets };
    const certificateArn = 'arn:aws:acm:us-east-1:123456789012:certificate/0';
    const together: readonly Partial<Parameters>[] = [
      vpc,
      { zones: 'us-east-1a, us-west-2-lax-1a' },
      { ...vpc, respondAsync: 'routed', routeTableIds: 'rtb-01234567', securityGroup: 'sg-01234567' },
      { auth: 'jwt', jwtIssuer: 'https://issuer.example.com/', jwtAudience: 'a, b' },
      { domain: 'api.example.com', certificateArn },
      { ...vpc, securityGroup: 'sg-01234567', otlpEndpoint: 'http://collector.internal:4318' },
      { ...url, otlpEndpoint: 'https://otlp.example.com/otlp', otlpRatio: '0.05' },
      { alarmEmail: 'a@example.com', alarmTopic: 'own' },
    ];
    for (const one of together) assert.equal(problemsOf(one), '');
    const apart: readonly Partial<Parameters>[] = [
      { zones: 'us-east-1a' },
      { ...vpc, zones: 'us-east-1a,us-east-1c' },
      { vpcId: vpc.vpcId },
      { vpcId: vpc.vpcId, subnetIds: 'subnet-0123456789abcdef0' },
      { subnetIds: subnets },
      { securityGroup: 'sg-01234567' },
      { respondAsync: 'routed' },
      { auth: 'jwt' },
      { auth: 'jwt', jwtIssuer: 'https://issuer.example.com/' },
      { jwtAudience: 'a' },
      { domain: 'api.example.com' },
      { otlpEndpoint: 'https://otlp.example.com' },
      { ...vpc, otlpEndpoint: 'https://otlp.example.com' },
      { ...url, otlpEndpoint: 'https://user:password@otlp.example.com' },
      { otlpRatio: '2' },
      { certificateArn },
      { monitoring: 'full', metrics: 'off' },
      { alarmEmail: 'a@example.com', alarmTopic: 'arn:aws:sns:us-east-1:123456789012:alarms' },
    ];
    for (const one of apart) assert.notEqual(problemsOf(one), '', JSON.stringify(one));
  });

  test('settings too large for the environment of a function are refused, naming both sizes', async () => {
    await writeFile(join(folder, 'large.yaml'), `postProcessing: "topN(${' '.repeat(4000)}5)"\n`);
    assert.throws(() => readSettings(folder, { ...request, config: 'large.yaml' }), {
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
