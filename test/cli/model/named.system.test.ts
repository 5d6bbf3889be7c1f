/** The commands over captures, of a service with further models: which of them are meant, and that no replay mixes two models. */
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { getText, putText } from '../../../lib/s3/objects.ts';
import { addModel, modelFolder, modelsFolder } from '../../local/swap/models.ts';
import { temporaryFolder } from '../../support/runner.ts';
import { testStack } from '../../support/stack.ts';
import { startLambda } from '../../support/stand-in-lambda.ts';
import { startStandIn } from '../../support/stand-in-stack.ts';
import { until } from '../../support/until.ts';
import type { CliAnswer } from '../cli.ts';
import { warmCli, warmCliJson } from '../warm.ts';

const JOB = 'serving_stream';
const REQUESTS = { [JOB]: 3, fraud: 4, twin: 5 };

interface Listed {
  readonly captures: readonly { readonly model?: string; readonly objects: number }[];
}

interface Replayed {
  readonly lines: number;
  readonly compared: number;
  readonly bits: { readonly records: number; readonly differ: number };
  readonly tolerance: { readonly records: number; readonly differ: number };
}

test('captures of each model are listed, replayed, gate its push, and are exported and purged, without those of others', async (t) => {
  const folder = await temporaryFolder(t);
  const config = 'capture: {share: 1}\nrelease: {maxFlips: 5%}\nmodelRefreshSeconds: 1';
  const file = join(folder, 'config.yaml');
  await writeFile(file, config);
  const modelDirectory = await modelFolder(t, addModel(1));
  const modelsDirectory = await modelsFolder(t, { fraud: addModel(2), twin: addModel(2) });
  const stack = await testStack(t, { config, modelDirectory, modelsDirectory });
  const options = { env: stack.aws.environment, cwd: folder };
  const where = ['--bucket', stack.bucket, '--job', JOB];
  const json = async <T>(...args: string[]) =>
    (await warmCliJson([...args, ...where], options)) as CliAnswer<T>;
  const exported = async (...args: string[]) => {
    const { stdout } = await warmCli(['capture', 'export', ...args, ...where], options);
    return stdout.split('\n').flatMap((line) => (line === '' ? [] : (JSON.parse(line) as object)));
  };

  for (const [model, requests] of Object.entries(REQUESTS))
    for (let i = 0; i < requests; i++) {
      const body = JSON.stringify({ instances: [{ x: [i] }] });
      assert.equal(
        (await fetch(`${stack.url}/predict?model=${model}`, { method: 'POST', body })).status,
        200,
      );
    }
  await until(async () => (await exported()).length === 12);
  for (const [model, requests] of Object.entries(REQUESTS)) {
    const lines = await exported('--model', model);
    assert.equal(lines.length, requests);
    for (const line of lines) assert.equal('model' in line ? line.model : JOB, model);
  }
  const listed = await json<Listed>('capture', 'list');
  assert.deepEqual(
    new Set(listed.json.captures.map(({ model = JOB }) => model)),
    new Set([JOB, 'fraud', 'twin']),
  );
  const alone = await json<Listed>('capture', 'list', '--model', 'twin');
  assert.deepEqual(new Set(alone.json.captures.map(({ model }) => model)), new Set(['twin']));
  const bad = await json<Listed>('capture', 'list', '--model', '../twin');
  assert.match(bad.stderr, /model name "\.\.\/twin": expected/);

  for (const [model, requests] of Object.entries(REQUESTS)) {
    const name = model === JOB ? [] : ['--model', model];
    const { json: replayed } = await json<Replayed>('model', 'replay', ...name);
    assert.partialDeepStrictEqual(
      replayed,
      { lines: requests, bits: { records: requests, differ: 0 } },
      model,
    );
  }
  const nothing = await warmCli(['model', 'replay', '--model', 'other', ...where], options);
  assert.notEqual(nothing.code, 0);

  const next = await modelFolder(t, addModel(3));
  const pushed = await json<{ replay: Replayed }>('model', 'push', next, '--model', 'twin', '--config', file);
  assert.equal(pushed.code, 0, pushed.stderr);
  assert.partialDeepStrictEqual(pushed.json.replay, { lines: 5, tolerance: { records: 5, differ: 5 } });

  assert.equal((await json('capture', 'purge', '--model', 'twin', '--yes')).code, 0);
  assert.equal((await exported()).length, 7);
  assert.equal((await json('capture', 'purge', '--yes')).code, 0);
  assert.deepEqual(await exported(), []);
});

test('a function of an earlier release, which replays the job’s own model, is not taken for the one that was asked for', async (t) => {
  const stack = 'cluster-serving-shop-dev';
  const outputs = {
    HttpApiUrl: 'https://x',
    QueueUrl: 'https://q',
    BucketName: 'b',
    JobName: 'shop',
    Auth: 'iam',
  };
  const stacks = await startStandIn(t, { [stack]: { outputs } });
  const lambda = await startLambda(t, { [`${stack}-trials`]: async () => ({ version: 'v1' }) });
  const keys = { AWS_ACCESS_KEY_ID: 'a', AWS_SECRET_ACCESS_KEY: 'b', AWS_REGION: 'eu-west-1' };
  const env = { ...keys, AWS_ENDPOINT_URL_CLOUDFORMATION: stacks.url, AWS_ENDPOINT_URL_LAMBDA: lambda.url };
  const cwd = await temporaryFolder(t);
  const asked = ['model', 'replay', '--in-aws', '--stack', stack];
  const { code, stderr } = await warmCli([...asked, '--model', 'fraud'], { env, cwd });
  assert.equal(code, 1);
  assert.match(stderr, /-trials is of an earlier release, which replays the job's own model alone: deploy/);
  assert.match((await warmCli(asked, { env, cwd })).stderr, /nothing was captured of the job shop/);
});

interface Trial {
  readonly serving: string;
  readonly canary?: { readonly version: string };
  readonly further: readonly { readonly model: string }[];
}

test('a version of a further model is a canary, is shown, and is promoted; without room, or where nobody looks at such models, it is refused', async (t) => {
  const cwd = await temporaryFolder(t);
  const stack = await testStack(t, {
    config: 'modelRefreshSeconds: 1\ncapture: {share: 1}',
    modelDirectory: await modelFolder(t, addModel(1)),
    modelsDirectory: await modelsFolder(t, { fraud: addModel(2) }),
  });
  const options = { env: stack.aws.environment, cwd };
  const where = ['--bucket', stack.bucket, '--job', JOB];
  const ofFraud = [...where, '--model', 'fraud'];
  const next = await modelFolder(t, addModel(3));
  const push = ['model', 'push', next, ...ofFraud];
  const trial = async () => (await warmCliJson(['model', 'trial', ...ofFraud], options)) as CliAnswer<Trial>;
  const report = { bucket: stack.bucket, key: `models/${JOB}/trial.json` };
  const { s3 } = stack.aws;
  await until(async () => (await getText(s3, report)) !== undefined);

  const looked = (await getText(s3, report)) ?? '';
  await putText(s3, report, JSON.stringify({ ...JSON.parse(looked), hasFurther: undefined }));
  const earlier = await warmCli([...push, '--canary', '10%'], options);
  assert.match(
    earlier.stderr,
    /an earlier release looks at versions on trial, and not at those of further models/,
  );
  await putText(s3, report, looked);
  const config = join(cwd, 'config.yaml');
  await writeFile(config, 'models: {memoryMB: 5}\n');
  const tooLarge = await warmCli([...push, '--canary', '10%', '--config', config], options);
  assert.equal(tooLarge.code, 2);
  assert.match(
    tooLarge.stderr,
    /model fraud, with the canary beside the version that serves, needs \d+ MB of memory, and models\.memoryMB gives 5 MB/,
  );
  assert.equal((await trial()).json.canary, undefined);

  const pushed = (await warmCliJson([...push, '--canary', '10%'], options)) as CliAnswer<{ version: string }>;
  assert.equal(pushed.code, 0, pushed.stderr);
  assert.equal((await trial()).json.canary?.version, pushed.json.version);
  const own = (await warmCliJson(['model', 'trial', ...where], options)) as CliAnswer<Trial>;
  assert.deepEqual([own.json.canary, own.json.further.map(({ model }) => model)], [undefined, ['fraud']]);
  assert.match(
    (await warmCli(['model', 'trial', ...where], options)).stdout,
    /on trial {2}fraud \(canary \w{12}\)/,
  );
  assert.equal((await warmCli(['model', 'promote', ...ofFraud], options)).code, 0);
  assert.equal((await trial()).json.serving, pushed.json.version);

  const last = await modelFolder(t, addModel(4));
  const shadow = await warmCli(['model', 'push', last, ...ofFraud, '--shadow'], options);
  assert.equal(shadow.code, 0, shadow.stderr);
  assert.match((await warmCli(['model', 'trial', ...ofFraud], options)).stdout, /shadow {4}\w{12} since/);
});
