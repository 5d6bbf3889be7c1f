/** Every example, run against one started service as its README says. None of them touches a result of somebody else. */
import assert from 'node:assert/strict';
import { type ExecFileOptions, execFile, spawn } from 'node:child_process';
import { appendFile, copyFile, mkdir, readdir, readFile, symlink, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { createInterface } from 'node:readline';
import { type TestContext, test } from 'node:test';
import { bundleHttp } from '../../infra/packages/sdk.ts';
import { InputQueue, OutputQueue } from '../../sdk/index.ts';
import { NO_BROWSER } from '../support/browser.ts';
import { childEnvironment } from '../support/environment.ts';
import { copyPage, usePage } from '../support/example-page.ts';
import { PYTHON, PYTHON_PACKAGE, WITH_PYTHON } from '../support/python.ts';
import { temporaryFolder } from '../support/runner.ts';
import { SIGNED_REGION, startSignedApi } from '../support/signed-api.ts';
import { startStandIn } from '../support/stand-in-stack.ts';
import { type Addresses, ROOT, startReady } from '../support/start.ts';
import { startStatic } from '../support/static-server.ts';

const EXAMPLES = join(ROOT, 'examples');
const IMAGES = join(EXAMPLES, 'digits/images');
const ROWS = join(EXAMPLES, 'digits/rows.csv');

/** What the command of each in examples/README.md must print. */
const PRINTS: Readonly<Record<string, RegExp>> = {
  'classify.mts':
    /digit-3\.png prediction layer shape: \(10\)\nthe class index of prediction of digit-3\.png image result: 3\n/,
  'pictures.mts': /^uri,label,probability,error\n("images-[0-9a-f]{8}\/digit-(\d)\.png","\2",[\d.]+,\n){10}$/,
  'rows.py': /^100 rows in classes\.csv, 0 failed\n$/,
  'binary.mts': /^probabilities: 32 rows of 10\n24576 bytes, \d+ as JSON; the same answer: true\n$/,
  'errors.mts':
    /^a shape that does not fit: bad_input \(400\) .*expected float32.*\nthe same through the queue: bad_input \(400\) .*\ntoo late to cancel: false\nno result yet: undefined\na wait that ends: timeout \(504\) .*\ncancelled before anybody sent it: cancelled\n$/,
  'http.sh':
    /"predictions":\["\{value=[\s\S]*"status":"succeeded"[\s\S]*"status":"succeeded"[\s\S]*"code":"conflict"[\s\S]*"code":"bad_input"[\s\S]*"name":"zoo\.serving/,
};
/** Those that are given the address of a deployment; the others find it by the name of its stack. */
const BY_ADDRESS = ['binary.mts', 'http.sh', 'rows.py'];

type Variables = Readonly<Record<string, string>>;

function environmentOf(variables: Variables) {
  return childEnvironment({ PYTHONPATH: PYTHON_PACKAGE, PYTHONDONTWRITEBYTECODE: '1', ...variables });
}

interface Ran {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

function run(command: string, words: readonly string[], options: ExecFileOptions): Promise<Ran> {
  return new Promise((resolve) => {
    const child = execFile(command, words, { ...options, encoding: 'utf8' }, (_, stdout, stderr) =>
      resolve({ code: child.exitCode, stdout, stderr }),
    );
  });
}

/** Runs the command that examples/README.md gives for an example, in an empty folder that has what the command names. */
async function runCommand(name: string, folder: string, variables: Variables): Promise<Ran> {
  const readme = await readFile(join(EXAMPLES, 'README.md'), 'utf8');
  const row = readme.split('\n').find((line) => line.startsWith(`| [${name}](${name}) | \``));
  const [, command = assert.fail(name)] = row?.split('`') ?? [];
  for (const each of ['examples', 'python']) await symlink(join(ROOT, each), join(folder, each));
  const here = command.replace('npx node', `"${process.execPath}"`).replace('python3', `"${PYTHON}"`);
  // Without --norc bash takes the pipe of Node for that of a remote shell, and reads the settings of the user.
  return run('bash', ['--norc', '-c', here], { cwd: folder, env: environmentOf(variables) });
}

test('every example does what its README says, and leaves the results of others alone', async (t) => {
  const files = (await readdir(EXAMPLES)).filter((name) => /\.(mts|sh|py)$/.test(name));
  assert.deepEqual(files.toSorted(), Object.keys(PRINTS).toSorted());
  const folder = await temporaryFolder(t);
  const origin = await startStatic(t, folder);
  const config = `modelPath: ${EXAMPLES}/digits/model\nimageResize: 8,8\nhttp: { corsOrigins: ["${origin}"] }\n`;
  // The first has another name than a client that gives none means.
  const configs = ['digits', 'serving_stream'].map((job) => join(folder, `${job}.yaml`));
  for (const path of configs) await writeFile(path, `${config}jobName: ${basename(path, '.yaml')}\n`);
  const data = ['--data-dir', join(folder, 'data'), ...configs.flatMap((path) => ['--config', path])];
  const { addresses } = await startReady(t, ...data);
  const here = { CLUSTER_SERVING_URL: addresses.http };

  const input = new InputQueue({ frontendUrl: addresses.http });
  const output = new OutputQueue({ url: addresses.http });
  t.after(() => Promise.all([input.close(), output.close()]));
  const foreign = await input.enqueue('digit-0', { image: { path: join(IMAGES, 'digit-0.png') } });
  await output.wait(foreign.uri, { identity: foreign.identity });
  /** A test of an example, after which the foreign result is still there. */
  const testOf: TestOf = (title, skip, work) =>
    t.test(title, { skip }, async (one) => {
      await work(await temporaryFolder(one), one);
      assert.ok(await output.query(foreign.uri, { identity: foreign.identity }));
    });

  await testCommands('', () => here, testOf);
  await testOf('pictures.mts: a picture that fails is a line', false, (one) => failingPicture(one, here));
  await testOf('rows.py: no row is lost or doubled where it is stopped', WITH_PYTHON.skip, (one) =>
    stoppedRows(one, here),
  );
  await testOf('notebook.ipynb prints what is stored in it', WITH_PYTHON.skip, (one) => notebook(one, here));
  await testOf('web: a page of another origin shows the classes of a picture', NO_BROWSER, async (_, one) => {
    await bundleHttp(ROOT, join(folder, 'node_modules/cluster-serving/esm'), 'esm');
    await copyPage(folder, addresses.http);
    await usePage(one, origin);
  });

  const { api, placeOf } = await signedDeployment(t, { ...addresses, ...addresses.jobs[1] });
  await testCommands(' with a deployment that expects signed requests', placeOf, testOf, () => {
    assert.deepEqual(api.refused, []);
    assert.ok(api.seen.splice(0).length > 0);
  });
});

type TestOf = (
  title: string,
  skip: string | boolean,
  work: (folder: string, t: TestContext) => Promise<void>,
) => Promise<void>;

async function testCommands(
  title: string,
  placeOf: (name: string) => Variables,
  testOf: TestOf,
  check = () => {},
): Promise<void> {
  for (const [name, prints] of Object.entries(PRINTS)) {
    const skip = name.endsWith('.py') && WITH_PYTHON.skip;
    await testOf(`${name}${title}`, skip, async (folder) => {
      const { code, stdout, stderr } = await runCommand(name, folder, placeOf(name));
      assert.match(stdout, prints, stderr);
      assert.equal(code, 0);
      check();
    });
  }
}

/** The started service as a deployment. `placeOf` has the variables that lead an example to it. */
async function signedDeployment(t: TestContext, { environment, http, queueUrl }: Addresses) {
  const { AWS_ACCESS_KEY_ID = '', AWS_SECRET_ACCESS_KEY = '', AWS_ENDPOINT_URL = '' } = environment;
  const sessionToken = 'made/up+token==';
  const keys = { accessKeyId: AWS_ACCESS_KEY_ID, secretAccessKey: AWS_SECRET_ACCESS_KEY, sessionToken };
  const api = await startSignedApi(t, { behind: http, keys });
  const outputs = {
    HttpApiUrl: api.url,
    QueueUrl: queueUrl,
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
  const byAddress = { CLUSTER_SERVING_URL: api.url, CLUSTER_SERVING_AUTH: 'iam' };
  const placeOf = (name: string): Variables => ({
    ...account,
    ...(BY_ADDRESS.includes(name) ? byAddress : { CLUSTER_SERVING_STACK: 'dev' }),
  });
  return { api, placeOf };
}

async function failingPicture(folder: string, here: Variables): Promise<void> {
  await writeFile(join(folder, 'broken.jpg'), 'no picture');
  await mkdir(join(folder, 'more'));
  await copyFile(join(IMAGES, 'digit-5.png'), join(folder, 'more', 'a "5",.PNG'));
  await writeFile(join(folder, 'more', 'read.me'), 'no picture');
  const words = [join(EXAMPLES, 'pictures.mts'), folder];
  const { code, stdout } = await run(process.execPath, words, { env: environmentOf(here) });
  assert.equal(code, 1);
  const lines = stdout
    .replaceAll(/"[^"/]*-[0-9a-f]{8}\//g, '"')
    .trimEnd()
    .split('\n')
    .toSorted();
  assert.match(lines[0] ?? '', /^"broken\.jpg",,,"bad_input: .*expected a JPEG, .* image/);
  assert.match(lines[1] ?? '', /^"more\/a ""5"",\.PNG","5",0\.9\d+,$/);
  assert.deepEqual(lines.slice(2), ['uri,label,probability,error']);
}

/** Stops rows.py twice in the middle, by kill -9 and by Ctrl-C, and then lets it end. */
async function stoppedRows(folder: string, here: Variables): Promise<void> {
  const [header, ...hundred] = (await readFile(ROWS, 'utf8')).trimEnd().split('\n');
  const rows = Array.from({ length: 5 }, () => hundred).flat();
  const wrong = [rows[7]?.replace(/\d+$/, 'x'), '5,1,2'];
  const [given, made] = [join(folder, 'rows.csv'), join(folder, 'classes.csv')];
  await writeFile(given, `${[header, ...rows, ...wrong].join('\n')}\n`);
  const program = join(EXAMPLES, 'rows.py');
  const words = [program, given, made, '--chunk', '50'];
  const options = { env: environmentOf(here) };

  let safe = 0;
  for (const signal of ['SIGKILL', 'SIGINT'] as const) {
    const child = spawn(PYTHON, words, { ...options, stdio: ['ignore', 'ignore', 'pipe'] });
    const exited = new Promise((resolve) => {
      child.once('close', resolve);
    });
    let first: string | undefined;
    createInterface({ input: child.stderr }).on('line', (line) => {
      if (first === undefined) child.kill(signal);
      first ??= line;
    });
    await exited;
    // It went on where the one before was stopped. On a slow machine that may be at the end.
    if (safe < 502) assert.equal(first?.split(' ')[0], String(Math.min(safe + 50, 502)));
    safe = (JSON.parse(await readFile(`${made}.checkpoint`, 'utf8')) as { rows: number }).rows;
    // What was written and not synced may be there in part.
    await appendFile(made, '49');
  }
  // The second time there is nothing left to do.
  for (const _ of [1, 2]) {
    const { code, stdout } = await run(PYTHON, words, options);
    assert.deepEqual([code, stdout], [1, `502 rows in ${made}, 2 failed\n`]);
  }

  const [head, ...found] = (await readFile(made, 'utf8')).trimEnd().split('\n');
  assert.equal(head, 'row,class,probability,error');
  assert.deepEqual(
    found.slice(0, -2).map((line) => line.replace(/,[01]\.\d+,$/, '')),
    rows.map((row, i) => `${i},${row[0]}`),
  );
  assert.match(found.slice(-2).join('\n'), /^500,,,bad_input: could not convert.*\n501,,,bad_input: .*cells/);

  await appendFile(given, rows[0] ?? '');
  assert.match((await run(PYTHON, words, options)).stderr, /is of another input/);
  await writeFile(join(folder, 'mine.csv'), 'mine');
  const onMine = await run(PYTHON, [program, ROWS, join(folder, 'mine.csv')], options);
  assert.match(onMine.stderr, /has no checkpoint/);
  assert.equal(await readFile(join(folder, 'mine.csv'), 'utf8'), 'mine');
}

interface Cell {
  readonly cell_type: string;
  readonly source: readonly string[];
  readonly outputs: readonly { readonly text: readonly string[] }[];
}

/** Runs the cells of code in order in plain Python. Lines that begin with % are for Jupyter alone. */
async function notebook(folder: string, here: Variables): Promise<void> {
  const text = await readFile(join(EXAMPLES, 'notebook.ipynb'), 'utf8');
  const { cells } = JSON.parse(text) as { cells: readonly Cell[] };
  const code = cells.filter((cell) => cell.cell_type === 'code');
  const script = join(folder, 'notebook.py');
  const sources = code.map(({ source }) => source.join('').replaceAll(/^%/gm, '# %'));
  await writeFile(script, sources.join("\nprint('\\f', end='')\n"));
  const { stdout, stderr } = await run(PYTHON, [script], { cwd: EXAMPLES, env: environmentOf(here) });
  const stored = code.map(({ outputs }) => outputs.flatMap((one) => one.text).join(''));
  assert.deepEqual(stdout.split('\f'), stored, stderr);
}
