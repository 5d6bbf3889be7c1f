/**
 * `serverless deploy` of a worker in Python, with stand-ins for CloudFormation and ECR, and for docker, which writes down
 * how it is called. Nothing is built; what is built is in container-image.system.test.ts.
 */
import assert from 'node:assert/strict';
import { chmod, lstat, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { temporaryFolder } from '../../support/runner.ts';
import { propertiesOf, type Template } from '../../support/template.ts';
import { startAccount } from '../account.ts';

const STACK = 'cluster-serving-py-dev';
const DIGEST = `sha256:${'a'.repeat(64)}`;
const REPOSITORY = '123456789012.dkr.ecr.us-east-1.amazonaws.com/serverless-cluster-serving-py-dev';

/** @param info the exit code of `docker info`, which is 1 without its daemon */
async function open(t: TestContext, info: number) {
  const bin = await temporaryFolder(t);
  const log = join(bin, 'calls.txt');
  const script = `#!/bin/sh
echo "$@" >> ${log}
case $1 in
  info) exit ${info} ;;
  push) echo "worker: digest: ${DIGEST} size: 1" ;;
esac
`;
  await writeFile(join(bin, 'docker'), script);
  await chmod(join(bin, 'docker'), 0o755);
  const account = await startAccount(undefined, { PATH: `${bin}:${process.env['PATH']}` });
  t.after(() => account.close());
  await writeFile(join(account.folder, 'config.yaml'), 'jobName: py\nworker: { class: server.Worker }\n');
  await writeFile(join(account.folder, 'server.py'), 'class Worker: pass\n');
  return { ...account, docker: async () => (await readFile(log, 'utf8')).trim().split('\n') };
}

test('a deployment has docker build the image, for the processor and without a provenance, and removal takes it away', async (t) => {
  const { serverless, docker, cloudFormation, folder } = await open(t, 0);
  const run = await serverless('deploy', '--param', 'arch=arm64');
  assert.equal(run.exitCode, 0, run.output);
  const template = cloudFormation.stack(STACK)?.template as Template;
  for (const name of ['Predict', 'Batch'])
    assert.deepEqual(propertiesOf(template, `${name}LambdaFunction`)['Code'], {
      ImageUri: `${REPOSITORY}@${DIGEST}`,
    });
  assert.equal(template.Parameters, undefined);
  const calls = (await docker()).map((line) => line.replaceAll(`${folder}/`, ''));
  const build = calls.filter((line) => line.startsWith('build '));
  assert.equal(build.length, 1, calls.join('\n'));
  assert.match(build[0] as string, /-f \.serverless\/worker-image\/Dockerfile \.serverless\/worker-image /);
  assert.match(build[0] as string, /--platform=linux\/arm64 --provenance=false$/);
  assert.ok(calls.includes(`push ${REPOSITORY}:worker`), calls.join('\n'));
  for (const action of ['CreateRepository', 'PutLifecyclePolicy'])
    assert.ok(
      run.calls.some((call) => call.endsWith(`.${action}`)),
      action,
    );
  const removed = await serverless('remove');
  assert.ok(
    removed.calls.some((call) => call.endsWith('.DeleteRepository')),
    removed.output,
  );
});

test('without docker a deployment stops before it creates anything, and says what to do', async (t) => {
  const { serverless, cloudFormation, folder } = await open(t, 1);
  const run = await serverless('deploy');
  assert.equal(run.exitCode, 1);
  assert.match(run.output, /docker does not answer: install or start it.*--param workerImage=<uri>/s);
  assert.equal(cloudFormation.stack(STACK)?.template, undefined);
  assert.ok(!run.calls.some((call) => call.endsWith('.CreateRepository')), run.calls.join());
  assert.ok((await lstat(join(folder, '.serverless', 'worker-image', 'Dockerfile'))).isFile());
  const image = await serverless('deploy', '--param', `workerImage=${REPOSITORY}@${DIGEST}`);
  assert.equal(image.exitCode, 0, image.output);
});
