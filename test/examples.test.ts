/** Every example, run against a started service as its README says. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { childEnvironment } from './support/environment.ts';
import { temporaryFolder } from './support/runner.ts';
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
  const env = childEnvironment({
    ...addresses.environment,
    CLUSTER_SERVING_URL: addresses.http,
    CLUSTER_SERVING_REDIS: addresses.redisUrl,
  });
  for (const [name, expected] of Object.entries(EXPECTED)) {
    await t.test(name, async () => {
      const path = join(ROOT, 'examples', name);
      const command = name.endsWith('.sh') ? 'bash' : process.execPath;
      const { stdout } = await run(command, [path], { env, cwd: ROOT });
      assert.match(stdout, expected);
    });
  }
});
