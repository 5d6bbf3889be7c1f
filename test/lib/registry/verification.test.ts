import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { ServingError } from '../../../lib/contract/errors.ts';
import { ANALYSER_VERSION, type Verification } from '../../../lib/contract/verification.ts';
import { readPointer } from '../../../lib/registry/download.ts';
import { publishModel } from '../../../lib/registry/publish.ts';
import { listVersions, rollBack } from '../../../lib/registry/versions.ts';
import { openS3 } from '../../../lib/s3/client.ts';
import { getText, putText, type S3Client } from '../../../lib/s3/objects.ts';
import { startAws } from '../../../local/aws/aws.ts';
import { useAws } from '../../support/environment.ts';
import { identityModel } from '../../support/onnx.ts';
import { temporaryFolder } from '../../support/runner.ts';

const LOCATION = { bucket: 'models', prefix: 'models/job/' };
const quiet = { info: () => undefined, warn: () => undefined, error: () => undefined };

async function openedS3(t: TestContext): Promise<S3Client> {
  const aws = await startAws({ port: 0, log: quiet });
  t.after(() => aws.close());
  await aws.createBucket(LOCATION.bucket);
  useAws(aws.environment);
  const s3 = openS3({ endpoint: aws.url, region: aws.region });
  t.after(() => s3.destroy());
  return s3;
}

async function modelFolder(t: TestContext, name: string): Promise<string> {
  const folder = await temporaryFolder(t);
  await writeFile(join(folder, 'model.onnx'), identityModel([{ name, dtype: 'float32', shape: ['N', 1] }]));
  return folder;
}

test('a verification is stored with its version, read by functions, listed, and comes back with a rollback', async (t) => {
  const s3 = await openedS3(t);
  const verification: Verification = {
    batching: { verdict: 'proven', analyser: ANALYSER_VERSION },
    runtime: { onnxruntime: '1.30.0', architecture: 'x64', level: 'all', disabledOptimizers: [] },
    comparison: 'agrees',
  };
  const given: unknown[] = [];
  const verify = async (_: string, stored: Verification | undefined) => {
    given.push(stored);
    return stored ?? verification;
  };
  const folder = await modelFolder(t, 'a');
  const { version } = await publishModel(s3, LOCATION, folder);
  assert.equal((await readPointer(s3, LOCATION)).verification, undefined);
  // Versions of an earlier release get theirs with the next push.
  for (let push = 0; push < 2; push++) await publishModel(s3, LOCATION, folder, { verify });
  assert.deepEqual(given, [undefined, verification]);
  await publishModel(s3, LOCATION, await modelFolder(t, 'b'));
  assert.equal((await readPointer(s3, LOCATION)).verification, undefined);
  await rollBack(s3, LOCATION, version);
  assert.deepEqual((await readPointer(s3, LOCATION)).verification, verification);
  const listed = await listVersions(s3, LOCATION);
  assert.deepEqual(listed.find((one) => one.version === version)?.verification, verification);
});

test('a model that does not pass its verification is not uploaded', async (t) => {
  const s3 = await openedS3(t);
  const verify = () => Promise.reject(new ServingError('bad_model', 'it does not serve'));
  await assert.rejects(publishModel(s3, LOCATION, await modelFolder(t, 'a'), { verify }), {
    code: 'bad_model',
  });
  assert.deepEqual(await listVersions(s3, LOCATION), []);
});

test('a manifest without the source of its model, as an earlier release or a person writes it, is listed', async (t) => {
  const s3 = await openedS3(t);
  const { version } = await publishModel(s3, LOCATION, await modelFolder(t, 'a'));
  const address = { bucket: LOCATION.bucket, key: `${LOCATION.prefix}manifests/${version}.json` };
  const {
    source: _,
    uploadedAt: __,
    ...manifest
  } = JSON.parse((await getText(s3, address)) ?? '') as Record<string, unknown>;
  await putText(s3, address, JSON.stringify(manifest));
  const [listed] = await listVersions(s3, LOCATION);
  assert.deepEqual([listed?.version, listed?.format, listed?.serves], [version, undefined, true]);
  assert.match(listed?.uploadedAt ?? '', /^\d{4}-/);
});
