/** Every example, run against a started service as its README says. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { childEnvironment } from './support/environment.ts';
import { temporaryFolder } from './support/runner.ts';
import { SIGNED_REGION, startSignedApi } from './support/signed-api.ts';
import { startStandIn } from './support/stand-in-stack.ts';
import { ROOT, startReady } from './support/start.ts';

const run = promisify(execFile);

/** What each must print. */
const EXPECTED: Readonly<Record<string, RegExp>> = {
  'classify.ts':
    /digit-3\.png prediction layer shape: \(10\)\nthe class index of prediction of digit-3\.png image result: 3\n/,
  'binary.ts': /^probabilities: 32 rows of 10\n24576 bytes, \d+ as JSON; the same answer: true\n$/,
  'batch.ts': /^200 results\n( {2}class \d: \d+\n)+$/,
  'errors.ts':
    /^a shape that does not fit: bad_input \(400\) .*expected float32.*\nthe same through the queue: bad_input \(400\) .*\ntoo late to cancel: false\nno result yet: undefined\na wait that ends: timeout \(504\) .*\ncancelled before anybody sent it: cancelled\n$/,
  'http.sh':
    /"predictions":\["\{value=[\s\S]*"status":"succeeded"[\s\S]*"status":"succeeded"[\s\S]*"code":"conflict"[\s\S]*"code":"bad_input"[\s\S]*"name":"zoo\.serving/,
};

test('every example does what its README says', async (t) => {
  const files = (await readdir(join(ROOT, 'examples'))).filter((name) => /\.(ts|sh)$/.test(name));
  assert.deepEqual(files.toSorted(), Object.keys(EXPECTED).toSorted());
  const { addresses } = await startReady(t, '--data-dir', await temporaryFolder(t));
  const runOf = async (name: string, variables: Readonly<Record<string, string>>) => {
    const path = join(ROOT, 'examples', name);
    const command = name.endsWith('.sh') ? 'bash' : process.execPath;
    const { stdout } = await run(command, [path], { env: childEnvironment(variables), cwd: ROOT });
    return stdout;
  };
  for (const [name, expected] of Object.entries(EXPECTED)) {
    await t.test(name, async () => {
      const places = { CLUSTER_SERVING_URL: addresses.http, CLUSTER_SERVING_REDIS: addresses.redisUrl };
      assert.match(await runOf(name, { ...addresses.environment, ...places }), expected);
    });
  }

  const { AWS_ACCESS_KEY_ID = '', AWS_SECRET_ACCESS_KEY = '', AWS_ENDPOINT_URL = '' } = addresses.environment;
  const sessionToken = 'made/up+token==';
  const keys = { accessKeyId: AWS_ACCESS_KEY_ID, secretAccessKey: AWS_SECRET_ACCESS_KEY, sessionToken };
  const api = await startSignedApi(t, { behind: addresses.http, keys });
  const outputs = {
    HttpApiUrl: api.url,
    QueueUrl: addresses.queueUrl,
    BucketName: 'any',
    JobName: 'serving_stream',
    Auth: 'iam',
  };
  const cloudFormation = await startStandIn(t, { dev: { outputs } });
  const account = {
    AWS_ACCESS_KEY_ID,
    AWS_SECRET_ACCESS_KEY,
    AWS_SESSION_TOKEN: sessionToken,
    AWS_REGION: SIGNED_REGION,
    AWS_ENDPOINT_URL_SQS: AWS_ENDPOINT_URL,
    AWS_ENDPOINT_URL_CLOUDFORMATION: cloudFormation.url,
  };
  const OVER_HTTPS = ['binary.ts', 'http.sh'];
  for (const [name, expected] of Object.entries(EXPECTED)) {
    await t.test(`${name} with a deployment that expects signed requests`, async () => {
      const place = OVER_HTTPS.includes(name)
        ? { CLUSTER_SERVING_URL: api.url, CLUSTER_SERVING_AUTH: 'iam' }
        : { CLUSTER_SERVING_STACK: 'dev' };
      const before = api.seen.length;
      assert.match(await runOf(name, { ...account, ...place }), expected);
      assert.deepEqual(api.refused, []);
      assert.ok(api.seen.length > before);
    });
  }
});
