/** Stacks by their names, and both queues of a deployment. */
import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';
import { connect, findStack } from '../../sdk/index.ts';
import { useAws } from '../support/environment.ts';
import { SIGNED_ENVIRONMENT, SIGNED_REGION, startSignedApi } from '../support/signed-api.ts';
import { startStandIn } from '../support/stand-in-stack.ts';

const OUTPUTS = {
  HttpApiUrl: 'https://a1b2c3.execute-api.eu-west-1.amazonaws.com',
  QueueUrl: 'https://sqs.eu-west-1.amazonaws.com/123456789012/serving_stream',
  BucketName: 'a-bucket',
  JobName: 'serving_stream',
  Auth: 'iam',
};
const { JobName: _job, Auth: _auth, ...OLD } = OUTPUTS;

beforeEach(() => useAws(SIGNED_ENVIRONMENT));

test('a stack is found by its name, with its region', async (t) => {
  const { url: endpoint, asked } = await startStandIn(t, { one: { outputs: OUTPUTS } });
  const found = await findStack('one', { endpoint });
  assert.deepEqual(found, {
    stack: 'one',
    region: SIGNED_REGION,
    url: OUTPUTS.HttpApiUrl,
    auth: 'iam',
    job: 'serving_stream',
    queueUrl: OUTPUTS.QueueUrl,
    bucket: 'a-bucket',
    redisUrl: undefined,
  });
  assert.equal((await findStack('one', { endpoint, region: 'us-gov-west-1' })).region, 'us-gov-west-1');
  assert.deepEqual(asked, ['one', 'one']);
});

test('only a Redis that is public is among the places of a stack', async (t) => {
  const redis = 'rediss://u@cache.example.com:6379?cluster=on&iam=c&region=eu-west-1&maxGB=1';
  const { url: endpoint } = await startStandIn(t, {
    vpc: { outputs: { ...OUTPUTS, RedisUrl: 'rediss://cache.example.com:6379?cluster=on' } },
    public: { outputs: { ...OUTPUTS, RedisUrl: redis } },
  });
  assert.equal((await findStack('vpc', { endpoint })).redisUrl, undefined);
  assert.equal((await findStack('public', { endpoint })).redisUrl, redis);
});

test('an ARN says its region itself', async (t) => {
  const arn = 'arn:aws-cn:cloudformation:cn-north-1:123456789012:stack/one/0a1b';
  const { url: endpoint } = await startStandIn(t, { [arn]: { outputs: OUTPUTS } });
  assert.equal((await findStack(arn, { endpoint, region: 'eu-west-1' })).region, 'cn-north-1');
});

test('a stack that is deployed again is found with what it has now', async (t) => {
  const stacks = { one: { outputs: OUTPUTS } };
  const { url: endpoint } = await startStandIn(t, stacks);
  await findStack('one', { endpoint });
  stacks.one = { outputs: { ...OUTPUTS, Auth: 'none' } };
  assert.equal((await findStack('one', { endpoint })).auth, 'none');
});

test('a stack that is being updated is found with the outputs of before', async (t) => {
  const status = 'UPDATE_IN_PROGRESS';
  const { url: endpoint } = await startStandIn(t, { one: { status, outputs: OUTPUTS } });
  assert.equal((await findStack('one', { endpoint })).job, 'serving_stream');
});

const BUCKET_ONLY = { ServerlessDeploymentBucketName: 'b' };
const REFUSED = {
  nobody: [undefined, 'not_found', /no stack nobody in eu-west-1/],
  creating: [{ status: 'CREATE_IN_PROGRESS', outputs: {} }, 'queue_unavailable', /still being created/],
  first: [{ status: 'UPDATE_IN_PROGRESS', outputs: BUCKET_ONLY }, 'queue_unavailable', /still being created/],
  rolled: [
    { status: 'ROLLBACK_COMPLETE', outputs: BUCKET_ONLY },
    'bad_config',
    /QueueUrl, .*: its deployment failed/,
  ],
  going: [{ status: 'DELETE_IN_PROGRESS', outputs: OUTPUTS }, 'not_found', /being removed/],
  old: [{ outputs: OLD }, 'bad_config', /no output JobName, Auth: .*not a stack of Cluster Serving/],
  other: [{ outputs: { Website: 'x' } }, 'bad_config', /not a stack of Cluster Serving/],
  newer: [{ outputs: { ...OUTPUTS, Auth: 'mtls' } }, 'bad_config', /auth mtls.*update the client/],
  denied: [
    { code: 'AccessDenied', message: 'User: x is not authorized' },
    'unauthorized',
    /cloudformation:DescribeStacks.*not authorized/,
  ],
  expired: [{ code: 'ExpiredToken', message: 'expired' }, 'unauthorized', /have expired/],
  unknown: [
    { code: 'InvalidClientTokenId', message: 'no' },
    'unauthorized',
    /does not know these credentials/,
  ],
  broken: [{ code: 'InternalFailure', message: 'oh' }, 'queue_unavailable', /cannot be looked up: oh/],
} as const;

for (const [name, [stack, code, message]] of Object.entries(REFUSED)) {
  test(`${name}: ${code}, ${message.source}`, async (t) => {
    // The AWS SDK would try a failure of the server again.
    process.env['AWS_MAX_ATTEMPTS'] = '1';
    const { url: endpoint } = await startStandIn(t, stack === undefined ? {} : { [name]: stack });
    await assert.rejects(findStack(name, { endpoint }), { code, message });
  });
}

test('an output that is missing is named, whichever it is', async (t) => {
  const without = Object.keys(OUTPUTS).map((key) => [key, { outputs: { ...OUTPUTS, [key]: '' } }] as const);
  const { url: endpoint } = await startStandIn(t, Object.fromEntries(without));
  for (const [key] of without)
    await assert.rejects(findStack(key, { endpoint }), {
      code: 'bad_config',
      message: new RegExp(`^stack ${key} \\(UPDATE_COMPLETE\\) has no output ${key}: `),
    });
});

test('a name that is none, no region, no credentials and a silent CloudFormation are one clear error each', async (t) => {
  const { url: endpoint, asked } = await startStandIn(t, { one: 'silent' });
  for (const name of ['', 'a b', '-a', 'a'.repeat(129), 'arn:aws:s3:::x'])
    await assert.rejects(findStack(name, { endpoint }), { code: 'bad_config', message: /^stack: expected/ });
  assert.deepEqual(asked, []);
  await assert.rejects(findStack('one', { endpoint, timeoutMs: 50 }), { code: 'timeout', message: /50 ms/ });
  await assert.rejects(findStack('one', { endpoint, timeoutMs: -1 }), { code: 'bad_request' });
  const abort = new AbortController();
  abort.abort(new Error('enough'));
  await assert.rejects(findStack('one', { endpoint, signal: abort.signal }), /enough/);
  useAws({
    AWS_EC2_METADATA_DISABLED: 'true',
    AWS_CONFIG_FILE: '/nowhere',
    AWS_SHARED_CREDENTIALS_FILE: '/nowhere',
  });
  for (const key of ['AWS_ACCESS_KEY_ID', 'AWS_SECRET_ACCESS_KEY']) delete process.env[key];
  await assert.rejects(findStack('one', { endpoint }), {
    code: 'unauthorized',
    message: /no AWS credentials/,
  });
  delete process.env['AWS_REGION'];
  await assert.rejects(findStack('one', { endpoint }), { code: 'bad_config', message: /which region/ });
});

test('connect reads a result with nothing but the name of the stack', async (t) => {
  const found = {
    uri: 'a/{b}',
    status: 'succeeded',
    model: 'v',
    finishedAt: '2026-11-21T00:00:00Z',
    outputs: [],
  };
  const api = await startSignedApi(t, { behind: () => Response.json(found) });
  const { url: endpoint } = await startStandIn(t, { one: { outputs: { ...OUTPUTS, HttpApiUrl: api.url } } });
  process.env['CLUSTER_SERVING_STACK'] = 'one';
  t.after(() => delete process.env['CLUSTER_SERVING_STACK']);
  const { output, places, close } = await connect({ endpoint });
  t.after(close);
  assert.equal(places.url, api.url);
  assert.equal((await output.query('a/{b}'))?.model, 'v');
  assert.deepEqual([api.refused, api.seen.length], [[], 1]);
});

test('a stack with auth=jwt takes a token for HTTPS, and none for its queue', async (t) => {
  const outputs = { ...OUTPUTS, Auth: 'jwt' };
  const { url: endpoint } = await startStandIn(t, { one: { outputs } });
  await assert.rejects(connect({ stack: 'one', endpoint }), {
    code: 'bad_config',
    message: /auth jwt needs a token/,
  });
  const sent: Headers[] = [];
  const fetch = async (_: string, { headers }: RequestInit) => {
    sent.push(new Headers(headers));
    return Response.json({ ready: true, predictions: ['x'] });
  };
  const { input, close } = await connect({ stack: 'one', endpoint, token: 'a.jwt.of-16-characters', fetch });
  t.after(close);
  await input.predict({ instances: [{ x: 1 }] });
  assert.equal(sent[0]?.get('authorization'), 'Bearer a.jwt.of-16-characters');
});
