import assert from 'node:assert/strict';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, afterEach, before, beforeEach, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import type { S3ClientConfig } from '@aws-sdk/client-s3';
import { publishJob } from '../../infra/publish.ts';
import { readPointer } from '../../lib/model/source.ts';
import { type LocalAws, startAws } from '../../local/aws.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const SAMPLE = join(ROOT, 'examples', 'digits');
const BUCKET = 'stack-bucket-1abc';

interface Plugin {
  readonly hooks: Readonly<Record<string, () => Promise<void>>>;
}

type PluginClass = new (
  serverless: unknown,
  options: Readonly<Record<string, unknown>>,
  writers: { readonly log: unknown; readonly progress: unknown },
) => Plugin;

describe('publishing the model of a job', () => {
  let aws: LocalAws;
  let client: S3ClientConfig;
  let folder: string;

  before(async () => {
    const quiet = { info: () => undefined, warn: () => undefined, error: () => undefined };
    aws = await startAws({ port: 0, log: quiet });
    await aws.createBucket(BUCKET);
    const { url: endpoint, region, credentials } = aws;
    client = { endpoint, region, credentials, forcePathStyle: true };
  });
  after(() => aws?.close());
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'cluster-serving-publish-'));
  });
  afterEach(() => rm(folder, { recursive: true, force: true }));

  const pointerOf = (job: string) => readPointer(aws.s3, { bucket: BUCKET, prefix: `models/${job}/` });

  test('the directory is looked for beside the config file, and its model serves', async () => {
    const config = join(SAMPLE, 'config.yaml');
    const { directory, version } = await publishJob({ root: ROOT, config, bucket: BUCKET, client });
    assert.equal(directory, join(SAMPLE, 'model'));
    assert.ok(version);
    assert.equal((await pointerOf('serving_stream')).version, version);
  });

  test('without a model directory nothing is uploaded', async () => {
    await writeFile(join(folder, 'config.yaml'), 'jobName: empty\n');
    const { directory, version } = await publishJob({
      root: folder,
      config: undefined,
      bucket: BUCKET,
      client,
    });
    assert.deepEqual([directory, version], [join(folder, 'model'), undefined]);
    await assert.rejects(pointerOf('empty'), { code: 'model_unavailable' });
  });

  test('a model directory without a model is an error that names it', async () => {
    await mkdir(join(folder, 'model'));
    const request = { root: folder, config: undefined, bucket: BUCKET, client };
    await assert.rejects(publishJob(request), {
      code: 'model_unavailable',
      message: /model: expected one \*\.onnx/,
    });
  });

  test('after a deployment the plugin publishes into the bucket that CloudFormation made', async () => {
    const { default: BundlePlugin } = (await import(join(ROOT, 'infra', 'plugin.mjs'))) as {
      default: PluginClass;
    };
    const config = join(folder, 'config.yaml');
    await writeFile(config, `jobName: hooked\nmodelPath: ${JSON.stringify(join(SAMPLE, 'model'))}\n`);
    const asked: unknown[] = [];
    const notices: string[] = [];
    const provider = {
      naming: { getStackName: () => 'cluster-serving-dev' },
      getAwsSdkV3Config: async () => client,
      getCloudFormationClient: async () => ({
        send: async ({ input }: { input: unknown }) => {
          asked.push(input);
          return { StackResourceDetail: { PhysicalResourceId: BUCKET } };
        },
      }),
    };
    const plugin = new BundlePlugin(
      { getProvider: () => provider },
      { param: [`config=${config}`] },
      {
        log: { notice: (text: string) => notices.push(text) },
        progress: { create: () => ({ remove: () => undefined }) },
      },
    );
    await plugin.hooks['after:deploy:deploy']?.();
    assert.deepEqual(asked, [{ StackName: 'cluster-serving-dev', LogicalResourceId: 'Bucket' }]);
    const { version } = await pointerOf('hooked');
    assert.equal(notices.length, 1);
    assert.match(notices[0] as string, new RegExp(`^model ${version} from .* serves`));
  });
});
