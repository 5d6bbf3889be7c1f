/**
 * Every command of examples/README.md, against one started service; none of them touches a result of somebody else. Also in a
 * browser, as a notebook, stopped in the middle, and with a deployment that expects signed requests.
 */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { appendFile, copyFile, mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { type TestContext, test } from 'node:test';
import { bundleHttp } from '../../infra/packages/sdk.ts';
import { NO_BROWSER } from '../support/browser.ts';
import { copyPage, usePage } from '../support/example-page.ts';
import { PYTHON, WITH_PYTHON } from '../support/python.ts';
import { temporaryFolder } from '../support/runner.ts';
import { SIGNED_REGION, startSignedApi } from '../support/signed-api.ts';
import { startStandIn } from '../support/stand-in-stack.ts';
import { type Addresses, ROOT } from '../support/start.ts';
import { startStatic } from '../support/static-server.ts';
import {
  EXAMPLES,
  environmentOf,
  IMAGES,
  run,
  startExamples,
  testCommands,
  type Variables,
} from './commands.ts';

const ROWS = join(EXAMPLES, 'digits/rows.csv');
/** Those that are given the address of a deployment; the others find it by the name of its stack. */
const BY_ADDRESS = ['binary.mts', 'http.sh', 'rows.py'];

test('every example prints what its README says, leaves the results of others alone, and does so where it is stopped, in a browser and with signed requests', async (t) => {
  const folder = await temporaryFolder(t);
  const origin = await startStatic(t, folder);
  const { addresses, testOf } = await startExamples(t, folder, origin);
  const here = { CLUSTER_SERVING_URL: addresses.http };

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
    // Data that was written but not synced may be there in part.
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
