/** A worker in TypeScript, packaged as for Lambda, in environments like those of Lambda. */
import assert from 'node:assert/strict';
import { cp, readFile, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, type TestContext, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { build, stop } from 'esbuild';
import { parse } from 'yaml';
import { RUNTIME } from '../../../infra/build/function-folder.ts';
import { addWorker } from '../../../infra/build/worker.ts';
import { type Parameters, readSettings } from '../../../infra/template/config.ts';
import { publishModel } from '../../../lib/registry/publish.ts';
import { LOCATION, openScene } from '../../functions/lambda/support/scene.ts';
import { addModel, modelFolder, STEP } from '../../local/swap/models.ts';
import { packagedFunctions } from '../../support/faults/worker.ts';
import { temporaryFolder } from '../../support/runner.ts';
import { until } from '../../support/until.ts';
import { deployedWorkerTests, encode, type PackagedWorker } from './deployed-worker.ts';

const ROOT = fileURLToPath(new URL('../../..', import.meta.url));

const LOAD_RUNTIME = `import(${JSON.stringify(RUNTIME)})`;

/** The answer to x: twice x, the size of its batch, and the process. With a model, what that makes of x. */
const WORKER = `
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { WKRHardWorker } from 'cluster-serving/worker';

export class Worker extends WKRHardWorker {
  async getModel(_envs, modelDir) {
    const [file] = await readdir(modelDir);
    if (file === undefined) return undefined;
    const { InferenceSession, Tensor } = await ${LOAD_RUNTIME};
    const session = await InferenceSession.create(join(modelDir, file));
    return async (x) => (await session.run({ x: new Tensor('float32', [x], [1, 1]) })).y.data[0];
  }
  async predict(model, items) {
    const numbers = items.map((item) => (typeof item === 'number' ? item : item.data[0]));
    if (numbers.includes(-3)) for (;;);
    if (numbers.includes(-2)) process.kill(process.pid, 'SIGKILL');
    if (numbers.includes(-1)) throw new RangeError('poison');
    const answers = numbers.map((x) => (model ? model(x) : 2 * x));
    return (await Promise.all(answers)).map((answer) => Float64Array.of(answer, items.length, process.pid))
      .map((data) => ({ dtype: 'float64', shape: [data.length], data }));
  }
}
`;

const CONFIG = `
jobName: lambda
batchSize: 3
modelPath: /somewhere/private
modelRefreshSeconds: 1
worker: { class: server.Worker, numWorker: 4, logDir: /somewhere/private }
`;

async function packageWorker(t: TestContext): Promise<PackagedWorker> {
  const [directory, functions] = [await temporaryFolder(t), await packagedFunctions()];
  const dist = await temporaryFolder(t, 'cs-worker-dist-');
  await writeFile(join(directory, 'config.yaml'), CONFIG);
  await writeFile(join(directory, 'server.mts'), WORKER);
  await symlink(join(ROOT, 'node_modules'), join(directory, 'node_modules'));
  const folders = (['predict', 'batch'] as const).map((name) => ({ name, folder: join(dist, name) }));
  for (const { name, folder } of folders) await cp(functions.folder(name), folder, { recursive: true });
  await addWorker(folders, {
    worker: 'server.Worker',
    directory,
    build,
    from: join(ROOT, 'lib'),
    processor: 'x64',
  });
  // Its service is a process that holds our stderr open.
  await stop();
  const serverless = await readFile(join(ROOT, 'serverless.yml'), 'utf8');
  const { params } = parse(serverless, { logLevel: 'silent' }) as { params: { default: Parameters } };
  const { job } = readSettings(directory, { stage: 'dev', config: undefined, parameters: params.default });
  assert.doesNotMatch(job, /somewhere/);
  return {
    bundles: { folder: (name) => join(dist, name) },
    settings: JSON.parse(job) as PackagedWorker['settings'],
  };
}

describe('a packaged worker in TypeScript', () => {
  deployedWorkerTests(packageWorker);

  test('it gets the model folder of the bucket, and each new version of it', async (t) => {
    const { bundles, settings } = await packageWorker(t);
    const { start, bucket } = await openScene(t, bundles, settings);
    const publish = async (number: number) =>
      publishModel(bucket, LOCATION, await modelFolder(t, addModel(number)), { anyFiles: true });
    await publish(1);
    const environment = start('predict');
    assert.equal((await encode(environment, 5))[0], STEP + 5);
    await publish(2);
    await until(async () => (await encode(environment, 5))[0] === 2 * STEP + 5);
  });
});
