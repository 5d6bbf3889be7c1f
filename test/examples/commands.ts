/** Runs the commands that examples/README.md gives for the examples, against one started service. */
import assert from 'node:assert/strict';
import { type ExecFileOptions, execFile } from 'node:child_process';
import { readdir, readFile, symlink, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import type { TestContext } from 'node:test';
import { InputQueue, OutputQueue } from '../../sdk/index.ts';
import { childEnvironment } from '../support/environment.ts';
import { PYTHON, PYTHON_PACKAGE, WITH_PYTHON } from '../support/python.ts';
import { temporaryFolder } from '../support/runner.ts';
import { type Addresses, ROOT, startReady } from '../support/start.ts';

export const EXAMPLES = join(ROOT, 'examples');
export const IMAGES = join(EXAMPLES, 'digits/images');

/** The expected output of each command in examples/README.md. */
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

export type Variables = Readonly<Record<string, string>>;

export function environmentOf(variables: Variables) {
  return childEnvironment({ PYTHONPATH: PYTHON_PACKAGE, PYTHONDONTWRITEBYTECODE: '1', ...variables });
}

interface Ran {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

export function run(command: string, words: readonly string[], options: ExecFileOptions): Promise<Ran> {
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

export type TestOf = (
  title: string,
  skip: string | boolean,
  work: (folder: string, t: TestContext) => Promise<void>,
) => Promise<void>;

export interface ExampleScene {
  readonly addresses: Addresses;
  readonly testOf: TestOf;
}

/**
 * The service for the examples. `testOf` makes a test of an example, after which the result of somebody else is still there.
 * @param origin that of a page which may ask the service
 */
export async function startExamples(t: TestContext, folder: string, origin?: string): Promise<ExampleScene> {
  const files = (await readdir(EXAMPLES)).filter((name) => /\.(mts|sh|py)$/.test(name));
  assert.deepEqual(files.toSorted(), Object.keys(PRINTS).toSorted());
  const http = origin === undefined ? '' : `http: { corsOrigins: ["${origin}"] }\n`;
  const config = `modelPath: ${EXAMPLES}/digits/model\nimageResize: 8,8\n${http}`;
  // The first has another name than a client that gives none means.
  const configs = ['digits', 'serving_stream'].map((job) => join(folder, `${job}.yaml`));
  for (const path of configs) await writeFile(path, `${config}jobName: ${basename(path, '.yaml')}\n`);
  const data = ['--data-dir', join(folder, 'data'), ...configs.flatMap((path) => ['--config', path])];
  const { addresses } = await startReady(t, ...data);

  const input = new InputQueue({ frontendUrl: addresses.http });
  const output = new OutputQueue({ url: addresses.http });
  t.after(() => Promise.all([input.close(), output.close()]));
  const foreign = await input.enqueue('digit-0', { image: { path: join(IMAGES, 'digit-0.png') } });
  await output.wait(foreign.uri, { identity: foreign.identity });
  const testOf: TestOf = (title, skip, work) =>
    t.test(title, { skip }, async (one) => {
      await work(await temporaryFolder(one), one);
      assert.ok(await output.query(foreign.uri, { identity: foreign.identity }));
    });
  return { addresses, testOf };
}

export async function testCommands(
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
