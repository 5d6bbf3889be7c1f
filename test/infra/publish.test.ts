import assert from 'node:assert/strict';
import { mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, afterEach, before, beforeEach, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { ListObjectsV2Command, PutObjectCommand, type S3ClientConfig } from '@aws-sdk/client-s3';
import { prepareModel, publishJob } from '../../infra/publish.ts';
import type { ServingError } from '../../lib/contract/errors.ts';
import { readPointer } from '../../lib/registry/download.ts';
import { type LocalAws, startAws } from '../../local/aws/aws.ts';
import { startHub } from '../support/hub.ts';
import { identityModel } from '../support/onnx.ts';

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

  test('a model in S3 is copied with the account of the deployment, checked before packaging, and serves', async () => {
    const theirs = 'their-models';
    await aws.createBucket(theirs);
    const put = (Key: string, Body: Uint8Array) =>
      aws.s3.send(new PutObjectCommand({ Bucket: theirs, Key, Body }));
    const shapes = { name: 'x', dtype: 'float32', shape: ['N', 2] } as const;
    await put('a/net/model.onnx', identityModel([shapes]));
    await writeFile(join(folder, 'config.yaml'), `jobName: remote\nmodelPath: s3://${theirs}/a/net\n`);
    const request = { root: folder, config: undefined, bucket: BUCKET, client };
    const prepared = await prepareModel({ ...request, client: async () => client });
    assert.deepEqual(prepared, { directory: `s3://${theirs}/a/net`, isThere: true, notes: [] });
    const { directory, version } = await publishJob(request);
    assert.equal(directory, `s3://${theirs}/a/net`);
    assert.equal((await pointerOf('remote')).version, version);
    // The files that are there now count, and one copy is kept.
    await put('a/net/model.onnx', identityModel([{ ...shapes, shape: ['N', 3] }]));
    assert.notEqual((await publishJob(request)).version, version);
    const copies = join(folder, 'node_modules', '.cache', 'cluster-serving', 'copied', 'remote');
    assert.equal((await readdir(copies)).length, 1);
    await writeFile(join(folder, 'config.yaml'), 'modelPath: s3://nobody-has-it/net\n');
    await assert.rejects(prepareModel({ ...request, client: async () => client }), {
      code: 'bad_config',
      message: /^s3:\/\/nobody-has-it\/net: there is no bucket nobody-has-it/,
    });
  });

  test('a model of the hub is copied before packaging, and a note names its commit', async (t) => {
    const model = identityModel([{ name: 'x', dtype: 'float32', shape: ['N', 2] }]);
    const hub = await startHub(t, { files: { 'onnx/model.onnx': model } });
    const earlier = process.env['HF_ENDPOINT'];
    process.env['HF_ENDPOINT'] = hub.endpoint;
    t.after(() => {
      if (earlier === undefined) delete process.env['HF_ENDPOINT'];
      else process.env['HF_ENDPOINT'] = earlier;
    });
    await writeFile(join(folder, 'config.yaml'), 'jobName: hub\nmodelPath: hf://org/name\n');
    const request = { root: folder, config: undefined, bucket: BUCKET, client };
    const prepared = await prepareModel({ ...request, client: async () => client });
    const notes = [`hf://org/name is commit ${hub.commit}`];
    assert.deepEqual(prepared, { directory: 'hf://org/name', isThere: true, notes });
    const { version } = await publishJob(request);
    assert.equal((await pointerOf('hub')).version, version);
  });

  test('further models of a folder are published under their names, unchanged ones not again, and one that cannot serve is named before packaging', async () => {
    const config = 'jobName: shop\nmodelPath: model\nmodels:\n  folder: models\n';
    await writeFile(join(folder, 'config.yaml'), config);
    const put = async (path: string, size: number) => {
      await mkdir(join(folder, path), { recursive: true });
      const bytes = identityModel([{ name: 'x', dtype: 'float32', shape: ['N', size] }]);
      await writeFile(join(folder, path, 'model.onnx'), bytes);
    };
    const request = { root: folder, config: undefined, bucket: BUCKET, client };
    const prepare = () => prepareModel({ ...request, client: () => assert.fail() });
    await assert.rejects(prepare(), {
      code: 'bad_config',
      message: /^models\.folder: .*models cannot be read/,
    });
    for (const [i, path] of ['model', 'models/fraud', 'models/search'].entries()) await put(path, i + 1);
    await prepare();
    const first = await publishJob(request);
    assert.deepEqual(first.further, ['fraud', 'search']);
    const served = async (name: string) => (await pointerOf(`shop/named/${name}`)).version;
    const versions = [await served('fraud'), await served('search')];
    assert.equal(new Set([first.version, ...versions]).size, 3);

    const sent = aws.s3.send.bind(aws.s3);
    const written = async () => {
      const { Contents = [] } = await sent(
        new ListObjectsV2Command({ Bucket: BUCKET, Prefix: 'models/shop/named/' }),
      );
      return new Map(Contents.map(({ Key = '', LastModified }) => [Key, LastModified?.getTime()]));
    };
    const earlier = await written();
    await put('models/search', 9);
    await publishJob(request);
    const again = [...(await written())].filter(([key, at]) => earlier.get(key) !== at).map(([key]) => key);
    assert.deepEqual([await served('fraud'), (await served('search')) !== versions[1]], [versions[0], true]);
    assert.ok(!again.some((key) => key.includes('fraud') && key.includes('/versions/')), again.join());

    await writeFile(join(folder, 'models', 'fraud', 'model.onnx'), 'no model');
    for (const refused of [prepare, () => publishJob(request)])
      await assert.rejects(refused(), { message: /^model fraud: / });
    await rm(join(folder, 'model'), { recursive: true });
    await put('models/fraud', 2);
    const alone = await publishJob(request);
    assert.deepEqual([alone.version, alone.further], [undefined, ['fraud', 'search']]);
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

  test('before packaging a model that could not serve is an error, and no directory is none', async () => {
    const prepare = () => prepareModel({ root: folder, config: undefined, client: () => assert.fail() });
    assert.equal((await prepare()).isThere, false);
    const model = join(folder, 'model');
    await mkdir(model);
    await assert.rejects(prepare(), { code: 'model_unavailable', message: /model: expected one \*\.onnx/ });
    const spec = { name: 'x', dtype: 'float32', shape: ['N', 2] } as const;
    const bytes = identityModel([spec]);
    await writeFile(join(model, 'model.onnx'), bytes.subarray(0, bytes.length - 20));
    await assert.rejects(prepare(), (error: ServingError) => {
      assert.equal(error.code, 'bad_model');
      assert.ok(error.message.startsWith(`${join(model, 'model.onnx')}: the file is damaged or cut off`));
      return true;
    });
    await writeFile(join(model, 'model.onnx'), bytes);
    assert.deepEqual(await prepare(), { directory: model, isThere: true, notes: [] });
    await rm(join(model, 'model.onnx'));
    const layer = 'layer { name: "odd" type: "Mystery" bottom: "data" top: "odd" }';
    await writeFile(join(model, 'net.prototxt'), `input: "data"\ninput_shape { dim: 1 dim: 2 }\n${layer}`);
    await assert.rejects(prepare(), { code: 'bad_model', message: /Mystery \(node "odd"\)/ });
  });

  test('the plugin looks at the model before it bundles anything', async () => {
    const { default: BundlePlugin } = (await import(join(ROOT, 'infra', 'plugin.mjs'))) as {
      default: PluginClass;
    };
    await mkdir(join(folder, 'model'));
    const config = join(folder, 'config.yaml');
    await writeFile(config, 'modelPath: model\n');
    const begun: string[] = [];
    const create = ({ message }: { message: string }) => {
      begun.push(message);
      return { remove: () => undefined };
    };
    const plugin = new BundlePlugin({}, { param: [`config=${config}`] }, { log: {}, progress: { create } });
    await assert.rejects(plugin.hooks['before:package:createDeploymentArtifacts']?.() as Promise<void>, {
      code: 'model_unavailable',
    });
    assert.deepEqual(begun, ['Looking at the model']);
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
    assert.equal(notices.length, 2);
    assert.match(
      notices[0] as string,
      /^records share runs: the graph shows that none changes the answer of another$/,
    );
    assert.match(notices[1] as string, new RegExp(`^model ${version} from .* serves`));
  });
});
