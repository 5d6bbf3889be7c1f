/** The settings of a deployment of another version: its variable lacks what this version added, or has more. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readEnvironment } from '../../../lib/config/environment.ts';
import { DEFAULT_JOB } from '../../../lib/config/job.ts';
import { GROUPS, SETTINGS } from '../../../lib/config/schema.ts';

const jobOf = (settings: unknown) =>
  readEnvironment({ CLUSTER_SERVING_CONFIG: JSON.stringify(settings) }).job;

/** DEFAULT_JOB without one setting. */
function without(path: string): object {
  const job = structuredClone(DEFAULT_JOB) as unknown as Record<string, Record<string, unknown>>;
  const [first = '', second] = path.split('.');
  if (second === undefined) delete job[first];
  else delete job[first]?.[second];
  return job;
}

test('a variable that lacks any one setting gives its default, and nothing else changes', () => {
  assert.ok(SETTINGS.size > 50);
  for (const path of SETTINGS.keys()) assert.deepEqual(jobOf(without(path)), DEFAULT_JOB, path);
});

test('a variable that lacks a group, or has an empty or null one, gives the defaults of the group', () => {
  for (const group of Object.keys(GROUPS).filter(Boolean)) {
    const { [group as keyof typeof DEFAULT_JOB]: _, ...others } = DEFAULT_JOB;
    for (const settings of [others, { ...others, [group]: {} }, { ...others, [group]: null }])
      assert.deepEqual(jobOf(settings), DEFAULT_JOB, JSON.stringify(settings));
  }
  assert.deepEqual(jobOf({}), DEFAULT_JOB);
});

test('each single setting of the variable is kept beside the defaults of all others', () => {
  for (const [path, { defaultValue }] of SETTINGS) {
    const [group = '', key] = path.split('.');
    const isMap = typeof defaultValue === 'object' && !Array.isArray(defaultValue);
    const value = isMap ? { other: { batchAxis: 1 } } : 'other';
    const settings = key === undefined ? { [group]: value } : { [group]: { [key]: value } };
    const own = key === undefined ? value : { ...Object(Object(DEFAULT_JOB)[group]), [key]: value };
    assert.deepEqual(jobOf(settings), { ...DEFAULT_JOB, [group]: own }, path);
  }
});

test('no default is a map with keys, which would be merged with the one that a job sets', () => {
  for (const [path, { defaultValue }] of SETTINGS)
    if (typeof defaultValue === 'object' && !Array.isArray(defaultValue))
      assert.deepEqual(defaultValue, {}, path);
});

test('what the variable sets is kept, in every group', () => {
  const {
    http,
    function: functions,
    worker,
    queue,
    image,
  } = jobOf({
    http: { tokensPerSecond: 7, corsOrigins: ['https://a.example'] },
    function: { memoryMB: 512 },
    worker: { class: 'server.Worker', deviceMap: [0, 1] },
    queue: { windowSeconds: 0 },
    image: { mean: [1, 2, 3] },
  });
  assert.deepEqual(http, {
    ...DEFAULT_JOB.http,
    tokensPerSecond: 7,
    corsOrigins: ['https://a.example'],
  });
  assert.deepEqual(functions, { memoryMB: 512, timeoutSeconds: 30 });
  assert.deepEqual(worker, { ...DEFAULT_JOB.worker, class: 'server.Worker', deviceMap: [0, 1] });
  assert.deepEqual(queue, DEFAULT_JOB.queue);
  assert.deepEqual(image, { mean: [1, 2, 3] });
});

test('settings and groups of a later version do not disturb', () => {
  const groups = Object.entries(DEFAULT_JOB).map(([key, value]) => {
    return [key, key in GROUPS ? { ...Object(value), later: { deep: [1] } } : value];
  });
  const job = jobOf({ ...Object.fromEntries(groups), jobName: 'digits', later: 1, laterGroup: { a: 1 } });
  assert.equal(job.jobName, 'digits');
  for (const path of SETTINGS.keys()) {
    const valueIn = (from: object) => path.split('.').reduce<unknown>((at, key) => Object(at)[key], from);
    if (path !== 'jobName') assert.deepEqual(valueIn(job), valueIn(DEFAULT_JOB), path);
  }
});

test('a variable that is not JSON is named', () => {
  assert.throws(() => readEnvironment({ CLUSTER_SERVING_CONFIG: '{' }).job, {
    code: 'bad_config',
    message: /^CLUSTER_SERVING_CONFIG is not JSON: /,
  });
});

test('what the environment says of the function, and what it lacks', () => {
  const bare = readEnvironment({});
  const facts = (environment: typeof bare) => {
    const {
      hasQueue,
      hasResults,
      aws,
      inLambda,
      memoryMB,
      hasMetrics,
      functionName,
      isProvisioned,
      traceId,
      traces,
    } = environment;
    return {
      hasQueue,
      hasResults,
      aws,
      inLambda,
      memoryMB,
      hasMetrics,
      functionName,
      isProvisioned,
      traceId,
      traces,
    };
  };
  assert.deepEqual(facts(bare), {
    hasQueue: false,
    hasResults: false,
    aws: { endpoint: undefined },
    inLambda: false,
    memoryMB: 1769,
    hasMetrics: true,
    functionName: '',
    isProvisioned: false,
    traceId: undefined,
    traces: undefined,
  });
  const variables = {
    CLUSTER_SERVING_QUEUE_URL: 'https://queue',
    CLUSTER_SERVING_REDIS_URL: 'redis://host',
    CLUSTER_SERVING_BUCKET: 'bucket',
    AWS_ENDPOINT_URL: 'http://localhost:1',
    AWS_LAMBDA_RUNTIME_API: 'localhost:2',
    AWS_LAMBDA_FUNCTION_MEMORY_SIZE: '512',
    AWS_LAMBDA_FUNCTION_NAME: 'predict',
    AWS_LAMBDA_INITIALIZATION_TYPE: 'provisioned-concurrency',
    CLUSTER_SERVING_METRICS: 'off',
    _X_AMZN_TRACE_ID: 'Root=1-2-3;Parent=4',
    OTEL_EXPORTER_OTLP_ENDPOINT: 'http://collector',
  };
  const full = readEnvironment(variables);
  assert.deepEqual(facts(full), {
    hasQueue: true,
    hasResults: true,
    aws: { endpoint: 'http://localhost:1' },
    inLambda: true,
    memoryMB: 512,
    hasMetrics: false,
    functionName: 'predict',
    isProvisioned: true,
    traceId: '1-2-3',
    traces: variables,
  });
  assert.deepEqual([full.bucket, full.queueUrl, full.redisUrl], ['bucket', 'https://queue', 'redis://host']);
  assert.deepEqual([full.keyspace, full.service], [DEFAULT_JOB.jobName, DEFAULT_JOB.jobName]);
  const named = readEnvironment({ CLUSTER_SERVING_REDIS_KEYSPACE: 'k', POWERTOOLS_SERVICE_NAME: 's' });
  assert.deepEqual([named.keyspace, named.service], ['k', 's']);
  for (const name of ['bucket', 'queueUrl', 'redisUrl'] as const)
    assert.throws(() => bare[name], /CLUSTER_SERVING_(BUCKET|QUEUE_URL|REDIS_URL)/);
});

test('spans go where one of two variables says, unless they are off', () => {
  const own = { OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: 'http://traces' };
  assert.equal(readEnvironment(own).traces, own);
  for (const off of [{ OTEL_SDK_DISABLED: 'true' }, { OTEL_TRACES_EXPORTER: 'none' }])
    assert.equal(readEnvironment({ ...own, ...off }).traces, undefined);
  for (const on of [{ OTEL_SDK_DISABLED: 'false' }, { OTEL_TRACES_EXPORTER: 'otlp' }])
    assert.deepEqual(readEnvironment({ ...own, ...on }).traces, { ...own, ...on });
});

test('an empty AWS_ENDPOINT_URL means that of AWS, as for the AWS SDK', () => {
  const variables = {
    AWS_ENDPOINT_URL: '',
    AWS_ENDPOINT_URL_SSM: '',
    AWS_REGION: 'eu-west-1',
    AWS_ACCESS_KEY_ID: 'k',
    AWS_SECRET_ACCESS_KEY: 's',
    CLUSTER_SERVING_REDIS_PASSWORD_PARAMETER: '/p',
  };
  const { aws, redisSignIn } = readEnvironment(variables);
  assert.deepEqual(aws, { endpoint: undefined });
  assert.ok(redisSignIn !== undefined && 'endpoint' in redisSignIn);
  assert.equal(redisSignIn.endpoint, undefined);
});
