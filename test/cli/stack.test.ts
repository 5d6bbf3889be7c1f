/** Commands with --stack: a deployment with auth=iam, whose API verifies signatures, and its CloudFormation stack. */
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { temporaryFolder } from '../support/runner.ts';
import { SIGNED_REGION, type SignedApi, startSignedApi } from '../support/signed-api.ts';
import { testStack } from '../support/stack.ts';
import { startStandIn } from '../support/stand-in-stack.ts';
import { type CliAnswer, cleaningUp, IMAGES } from './cli.ts';
import { warmCli, warmCliJson } from './warm.ts';

const IMAGE = join(IMAGES, 'digit-3.png');

describe('with a deployment', () => {
  const cleanups: (() => Promise<void>)[] = [];
  const hooks = { after: (cleanup: () => Promise<void>) => void cleanups.push(cleanup) };
  let api: SignedApi;
  let folder: string;
  let env: Readonly<Record<string, string>>;

  before(
    cleaningUp(cleanups, async () => {
      const stack = await testStack(hooks);
      folder = await temporaryFolder(hooks);
      const { AWS_ACCESS_KEY_ID = '', AWS_SECRET_ACCESS_KEY = '' } = stack.aws.environment;
      const keys = { accessKeyId: AWS_ACCESS_KEY_ID, secretAccessKey: AWS_SECRET_ACCESS_KEY };
      api = await startSignedApi(hooks, { behind: stack.url, keys });
      const outputs = {
        HttpApiUrl: api.url,
        QueueUrl: stack.queueUrl,
        BucketName: stack.bucket,
        JobName: 'serving_stream',
        Auth: 'iam',
      };
      const { JobName: _job, Auth: _auth, ...old } = outputs;
      const standIn = await startStandIn(hooks, {
        dev: { outputs },
        old: { outputs: old },
        young: { status: 'CREATE_IN_PROGRESS', outputs: {} },
        hidden: { code: 'AccessDenied', message: 'User: x is not authorized to perform: DescribeStacks' },
        jwt: { outputs: { ...outputs, Auth: 'jwt' } },
      });
      env = {
        AWS_ACCESS_KEY_ID,
        AWS_SECRET_ACCESS_KEY,
        AWS_EC2_METADATA_DISABLED: 'true',
        AWS_ENDPOINT_URL_CLOUDFORMATION: standIn.url,
        AWS_ENDPOINT_URL_SQS: stack.aws.url,
      };
    }),
  );

  after(async () => {
    for (const cleanup of cleanups.toReversed()) await cleanup();
  });

  const run = (...args: string[]) => warmCli([...args, '--region', SIGNED_REGION], { cwd: folder, env });
  const runJson = async <T>(...args: string[]) =>
    (await warmCliJson([...args, '--region', SIGNED_REGION], { cwd: folder, env })) as CliAnswer<T>;

  test('predict, enqueue, query and status need its name alone', async () => {
    const predicted = await run('predict', IMAGE, '--stack', 'dev');
    assert.match(predicted.stdout, /digit-3\.png {2}\{value=/, predicted.stderr);
    const uri = 'day/{1} ü?.png';
    const sent = await run('enqueue', `${uri}=${IMAGE}`, '--stack', 'dev', '--tenant', 'me');
    assert.match(sent.stdout, /^1 record enqueued in http/, sent.stderr);
    const found = await runJson<{ results: { uri: string; status: string }[] }>(
      'query',
      uri,
      '--stack',
      'dev',
      '--wait',
      '20',
    );
    assert.deepEqual([found.code, found.json.results[0]?.status], [0, 'succeeded'], found.stdout);
    const status = await runJson<{ ready: boolean; http: string }>('status', '--stack', 'dev');
    assert.deepEqual([status.code, status.json.ready, status.json.http], [0, true, api.url]);
    assert.deepEqual(api.refused, []);
  });

  const FAILURES: readonly (readonly [stack: string, code: number, message: RegExp])[] = [
    ['nobody', 1, /no stack nobody in eu-west-1/],
    ['young', 1, /still being created/],
    ['hidden', 1, /cloudformation:DescribeStacks/],
    ['old', 2, /not a stack of Cluster Serving/],
    ['a b', 2, /stack: expected/],
    ['jwt', 2, /auth jwt needs a token/],
  ];
  for (const [stack, code, message] of FAILURES) {
    test(`the stack ${stack}: ${message.source}`, async () => {
      for (const command of [['query', 'a'], ['status'], ['predict', IMAGE]]) {
        const ran = await run(...command, '--stack', stack);
        assert.equal(ran.code, code, ran.stderr);
        assert.match(ran.stderr, message);
      }
    });
  }

  test('a token or a key comes from a file, and not together', async () => {
    const [token, key] = [join(folder, 'token'), join(folder, 'key')];
    await writeFile(token, 'x'.repeat(1_000), { mode: 0o600 });
    await writeFile(key, 'k'.repeat(40), { mode: 0o600 });
    const asked = async (...args: string[]) => {
      const ran = await run('status', '--url', api.url, ...args);
      const { headers = {} } = api.seen.at(-1) ?? {};
      return { ...ran, headers };
    };
    assert.equal((await asked('--token-file', token)).headers.authorization, `Bearer ${'x'.repeat(1_000)}`);
    assert.equal((await asked('--api-key-file', key)).headers['x-api-key'], 'k'.repeat(40));
    const both = await asked('--token-file', token, '--api-key-file', key);
    assert.deepEqual([both.code, /exclude each other/.test(both.stderr)], [2, true], both.stderr);
    const signed = await asked('--auth', 'iam');
    assert.deepEqual([signed.code, signed.stderr], [0, '']);
  });

  test('what a stack says cannot be said twice', async () => {
    const ran = await run('query', 'a', '--stack', 'dev', '--url', api.url);
    assert.deepEqual([ran.code, /--stack says what --url does/.test(ran.stderr)], [2, true]);
    const tenant = await run('enqueue', `a=${IMAGE}`, '--url', api.url, '--tenant', 'me');
    assert.deepEqual([tenant.code, /--tenant goes with a queue/.test(tenant.stderr)], [2, true]);
    const other = await run('query', 'a', '--stack', 'dev', '--job', 'another');
    assert.deepEqual([other.code, /serves the job serving_stream/.test(other.stderr)], [2, true]);
  });
});
