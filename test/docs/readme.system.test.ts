/** The README's own commands and code, run as they stand but for the ports. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { cp, mkdir, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { shownAs, textsOf } from '../support/documents.ts';
import { childEnvironment } from '../support/environment.ts';
import { temporaryFolder } from '../support/runner.ts';
import { type Addresses, ROOT, startReady } from '../support/start.ts';

const run = promisify(execFile);

function here(code: string, { http }: Pick<Addresses, 'http'>): string {
  return code.replaceAll('http://localhost:10020', http);
}

function sampleWith(samples: readonly string[], mark: string): RegExp {
  const sample = samples.find((one) => one.includes(mark));
  assert.ok(sample, mark);
  return shownAs(sample);
}

test('the curl commands and the SDK example of the README do what it says, and docs/reference/http.md shows the answers', async (t) => {
  const other = await temporaryFolder(t);
  const sample = await readFile(join(ROOT, 'examples/digits/config.yaml'), 'utf8');
  await writeFile(
    join(other, 'config.yaml'),
    `${sample.replace('modelPath: ', `modelPath: ${join(ROOT, 'examples/digits')}/`)}\njobName: other\n`,
  );
  const configs = [join(ROOT, 'examples/digits'), other].map((each) => [
    '--config',
    join(each, 'config.yaml'),
  ]);
  const { addresses } = await startReady(t, '--data-dir', await temporaryFolder(t), ...configs.flat());
  const shell = await textsOf('sh');
  const bash = async (block: string | undefined) => {
    assert.ok(block);
    const options = { cwd: ROOT, env: childEnvironment() };
    return (await run('bash', ['-euc', here(block, addresses)], options)).stdout;
  };
  const predicted = await bash(shell.find((block) => block.includes('/predict\n')));
  assert.match(predicted, sampleWith(await textsOf('json'), '"outputs"'));
  const own = await temporaryFolder(t);
  await cp(join(ROOT, 'examples/digits/model/model.onnx'), join(own, 'model.onnx'));
  const [mine = ''] = shell.filter((block) => block.includes('my-service'));
  const [made = '', start = ''] = mine.split('npm start -- ');
  await run('bash', ['-euc', made], { cwd: own });
  await startReady(
    t,
    '--data-dir',
    await temporaryFolder(t),
    ...start.trim().replace('my-service', join(own, 'my-service')).split(' '),
  );

  const queued = await bash(shell.find((block) => block.includes('/predictions/d7')));
  const [, accepted = '', identity] =
    /^(\{"uri":"d7","identity":"([\w-]+)"\})\{"uri":"d7",/.exec(queued) ?? assert.fail(queued);
  assert.equal((JSON.parse(queued.slice(accepted.length)) as { identity: string }).identity, identity);

  const samples = await textsOf('json', 'docs/reference/http.md');
  assert.match(queued.slice(accepted.length), sampleWith(samples, '"uri": "d7"'));
  const infer = (await textsOf('bash', 'docs/reference/http.md')).find((block) =>
    block.includes('"datatype": "FP32"'),
  );
  const inferred = await bash(infer?.replace('localhost:10020', addresses.http));
  assert.match(inferred, sampleWith(samples, '"model_name"'));

  const manual = 'docs/how-to/enqueue-many-records.md';
  const beside = await temporaryFolder(t);
  await symlink(join(ROOT, 'examples'), join(beside, 'examples'));
  const [many = ''] = await textsOf('sh', manual);
  const options = { cwd: beside, env: childEnvironment() };
  const answered = await run('bash', ['-euc', many.replace('localhost:10020', addresses.http)], options);
  assert.match(answered.stdout, sampleWith(await textsOf('json', manual), '"accepted"'));

  const [example] = await textsOf('ts');
  assert.ok(example);
  // Inside the package, so that it can import itself by name; nowhere in sight of git.
  const folder = join(ROOT, '.cluster-serving', `readme-${process.pid}`);
  t.after(() => rm(folder, { recursive: true, force: true }));
  await mkdir(folder, { recursive: true });
  for (const job of addresses.jobs) {
    await writeFile(join(folder, 'try.ts'), here(example, job));
    const { stdout } = await run(process.execPath, [join(folder, 'try.ts')], {
      cwd: ROOT,
      env: childEnvironment(),
    });
    assert.match(stdout, /^Float32Array\(10\) \[/);
  }

  // By way of SQS, without the lines that were to be pasted, and with no more than a region.
  const bySqs =
    "import { InputQueue } from 'cluster-serving';\nawait new InputQueue().enqueue('a', { image: { bytes: new Uint8Array(9) } });";
  await writeFile(join(folder, 'try.ts'), bySqs);
  const nowhere = { AWS_CONFIG_FILE: '/dev/null', AWS_SHARED_CREDENTIALS_FILE: '/dev/null' };
  for (const region of [{}, { AWS_REGION: 'us-east-1', AWS_EC2_METADATA_DISABLED: 'true' }]) {
    const env = childEnvironment({ ...nowhere, ...region });
    await assert.rejects(run(process.execPath, [join(folder, 'try.ts')], { cwd: ROOT, env }), {
      stderr:
        /no queue cluster-serving-serving_stream to be found: (Region is missing|Could not load credentials from any providers)\. The AWS SDK needs AWS_REGION .*AWS_ACCESS_KEY_ID.*paste the `export AWS_…` lines that `cluster-serving start` printed/,
    });
  }
});
