/**
 * The packages as npm itself installs them into an empty folder: with this machine's npm and, where there is one, a Node
 * before 24. It asks the registry for what they depend on, and is skipped where that cannot be reached.
 */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { cp, readdir, readFile, symlink, writeFile } from 'node:fs/promises';
import { delimiter, dirname, join, resolve } from 'node:path';
import { after, before, describe, type TestContext, test } from 'node:test';
import { promisify } from 'node:util';
import { cleaningUp, IMAGES, serviceFolder } from '../../cli/cli.ts';
import { NO_BROWSER } from '../../support/browser.ts';
import { childEnvironment } from '../../support/environment.ts';
import { copyPage, usePage } from '../../support/example-page.ts';
import { type Archives, npmInstall, olderNode, packPackages } from '../../support/installed.ts';
import { MADE_ONCE, packagedIn } from '../../support/packaging.ts';
import { testStack } from '../../support/stack.ts';
import { startStatic } from '../../support/static-server.ts';
import { look, startAccount } from '../account.ts';

const execute = promisify(execFile);
const MAX_BUFFER = 16 * 1024 * 1024;

/** A user's code after an import: it asks a service directly and through the queue, in Node and in a page. */
const tenLines = (url: string, image: string) => `
const image = { ${image} };
const input = new InputQueue({ frontendUrl: '${url}' });
const output = new OutputQueue({ url: '${url}' });
const classOf = ({ outputs: [{ data }] }) => data.indexOf(Math.max(...data));
const predicted = await input.predict({ image });
const { uri, identity } = await input.enqueue('ten lines', { image });
const queued = await output.wait(uri, { identity });
const classes = [predicted, queued].map(classOf).join();
`;

describe('both packages, installed by npm', () => {
  const cleanups: (() => Promise<void>)[] = [];
  const newFolder = () => serviceFolder({ after: (cleanup) => cleanups.push(cleanup) });
  let archives: Archives;
  /** The Node of the user's shell. */
  let node: string;
  let folder: string;
  /** Made by init, with the node_modules of `folder`. */
  let project: string;
  let unreachable = false;

  before(
    cleaningUp(cleanups, async () => {
      archives = await packPackages(await newFolder());
      node = (await olderNode()) ?? process.execPath;
      folder = await installation();
      project = join(folder, 'my-service');
    }),
  );

  after(async () => {
    for (const cleanup of cleanups) await cleanup();
  });

  /** A shell of the user, in which nothing of this checkout is on the PATH. */
  function shell(): Record<string, string> {
    const path = (process.env['PATH'] ?? '')
      .split(delimiter)
      .filter((place) => !place.includes('node_modules'));
    return {
      ...MADE_ONCE,
      PATH: [dirname(node), ...path].join(delimiter),
      npm_config_loglevel: 'error',
    };
  }

  function run(cwd: string, command: string, words: readonly string[]) {
    return execute(command, words, { cwd, env: childEnvironment(shell()), maxBuffer: MAX_BUFFER });
  }

  async function installation(...options: string[]): Promise<string> {
    const place = await newFolder();
    if (!(await npmInstall(place, [archives.sdk, archives.cli, ...options], shell()))) unreachable = true;
    return place;
  }

  /** In place of `npm install`, which would install the same packages again. */
  const linked = (place: string) => symlink(join(folder, 'node_modules'), join(place, 'node_modules'));

  /** Checks the Python that starts a worker. */
  const hasNumpy = () =>
    run(folder, 'python3', ['-c', 'import numpy']).then(
      () => true,
      () => false,
    );

  function skipped(t: TestContext): boolean {
    if (unreachable) t.skip('the registry cannot be reached');
    return unreachable;
  }

  const zipsOf = async (place: string) => {
    const names = (await readdir(join(place, '.serverless'))).filter((name) => name.endsWith('.zip'));
    const found = names.map(async (name) => {
      const bytes = await readFile(join(place, '.serverless', name));
      return [name, createHash('sha256').update(bytes).digest('hex')] as const;
    });
    return new Map(await Promise.all(found));
  };

  test('no package has an install script that downloads, and all of them take less than 480 MB', async (t) => {
    if (skipped(t)) return;
    const lock = await readFile(join(folder, 'node_modules', '.package-lock.json'), 'utf8');
    const { packages } = JSON.parse(lock) as { packages: Record<string, { hasInstallScript?: boolean }> };
    const withScript = Object.keys(packages).filter((name) => packages[name]?.hasInstallScript);
    // They print, look for their version, and ask the registry for a binary that npm left out.
    const known = ['es5-ext', 'esbuild', 'protobufjs'].map((name) => `node_modules/${name}`);
    assert.deepEqual(
      withScript.filter((name) => !known.includes(name)),
      [],
    );
    const { stdout } = await run(folder, 'du', ['-sm', 'node_modules']);
    assert.ok(Number.parseInt(stdout, 10) < 480, stdout);
  });

  test('the commands run on Node 24 under any Node of the shell, and the sample is right', async (t) => {
    if (skipped(t)) return;
    const { stdout } = await run(folder, 'npx', ['cluster-serving', '--version', '--json']);
    assert.match(stdout, /"node":"2[4-9]\./);
    const sample = await run(folder, 'npx', ['cluster-serving', 'start', '--once', '--port', '0']);
    assert.match(sample.stdout, /10 of 10 right, both ways the same/);
  });

  test('the SDK is imported and required', async (t) => {
    if (skipped(t)) return;
    await writeFile(join(folder, 'a.mjs'), "import { InputQueue } from 'cluster-serving'; new InputQueue();");
    await writeFile(join(folder, 'b.cjs'), "new (require('cluster-serving').InputQueue)();");
    for (const file of ['a.mjs', 'b.cjs']) await run(folder, node, [file]);
  });

  test('ten lines get a prediction and a queued result on the Node of the shell', async (t) => {
    if (skipped(t)) return;
    const { url } = await testStack(t);
    const program = tenLines(url, `path: '${join(IMAGES, 'digit-4.png')}'`);
    await writeFile(
      join(folder, 'ten.mjs'),
      `import { InputQueue, OutputQueue } from 'cluster-serving';${program}console.log(classes);`,
    );
    assert.equal((await run(folder, node, ['ten.mjs'])).stdout, '4,4\n');
  });

  test('and in a page, which has the module from the package, without a bundler', {
    skip: NO_BROWSER,
  }, async (t) => {
    if (skipped(t)) return;
    const origin = await startStatic(t, folder);
    const config = `imageResize: 8,8\nhttp: { corsOrigins: ["${origin}"] }`;
    const { url } = await testStack(t, { config });
    await copyPage(folder, url);
    const page = await usePage(t, origin);
    const bytes = [...(await readFile(join(IMAGES, 'digit-4.png')))];
    const program = tenLines(url, `bytes: Uint8Array.of(${bytes.join()})`);
    assert.equal(
      await page.evaluate(
        `(async () => { const { InputQueue, OutputQueue } = await import('cluster-serving/http'); ${program} return classes; })()`,
      ),
      '4,4',
    );
  });

  test('a project of init has the packages as they were installed, and its test passes', async (t) => {
    if (skipped(t)) return;
    const made = await run(folder, 'npx', ['cluster-serving', 'init', 'my-service', '--json']);
    const { dependencies, next } = JSON.parse(made.stdout) as { dependencies: object; next: string[] };
    const places = Object.values(dependencies).map((spec: string) =>
      resolve(project, spec.slice('file:'.length)),
    );
    assert.deepEqual(places, [archives.cli, archives.sdk]);
    assert.deepEqual(next, ['cd my-service', 'npm install', 'npm test', 'npm start']);
    await linked(project);
    assert.match((await run(project, 'npm', ['test'])).stdout, /^ℹ pass 2$/m);
  });

  test('so do those of workers', async (t) => {
    if (skipped(t)) return;
    const languages = (await hasNumpy()) ? ['python', 'typescript'] : ['typescript'];
    for (const language of languages) {
      await run(folder, 'npx', ['cluster-serving', 'init', language, '--worker', language]);
      await linked(join(folder, language));
    }
    const tested = languages.map((language) => run(join(folder, language), 'npm', ['test']));
    for (const { stdout } of await Promise.all(tested)) assert.match(stdout, /^ℹ pass 2$/m);
  });

  test('serverless package makes the same archives on Node 24 and on the Node of the shell', async (t) => {
    if (skipped(t)) return;
    await run(project, 'npm', ['run', 'package']);
    const zips = await zipsOf(project);
    assert.equal(zips.size, 6);
    await run(project, node, [join('node_modules', 'serverless', 'bin', 'serverless.js'), 'package']);
    assert.deepEqual(await zipsOf(project), zips);
  });

  test('serverless deploy creates the stack from it, with the parameters of its file, and publishes the model', async (t) => {
    if (skipped(t)) return;
    const file = join(project, 'serverless.yml');
    const text = await readFile(file, 'utf8');
    await writeFile(file, text.replace('default: {}', 'default: { requestsPerSecond: 7 }'));
    const account = await startAccount(project);
    t.after(() => account.close());
    const stack = 'cluster-serving-my-service-dev';
    const seen = await look(account, stack, await account.serverless('deploy'));
    assert.equal(seen.exitCode, 0, seen.output);
    assert.equal(seen.status, 'UPDATE_COMPLETE', seen.output);
    assert.ok(Object.keys(seen.bucket ?? {}).includes('models/my-service/current.json'), seen.output);
    const template = JSON.stringify(await packagedIn(project).template());
    assert.match(template, /"ThrottlingRateLimit":7,/);
  });

  test('without optional dependencies and install scripts an older Node gets an error that says what it needs, and can still package', async (t) => {
    if (skipped(t)) return;
    if (node === process.execPath) return t.skip('no Node before 24 here');
    const bare = await installation('--omit=optional', '--ignore-scripts');
    await assert.rejects(run(bare, 'npx', ['cluster-serving', '--version']), {
      code: 1,
      stderr: /^error: cluster-serving needs Node 24 or newer, this is Node 2/,
    });
    for (const name of ['serverless.yml', 'config.yaml', 'model'])
      await cp(join(project, name), join(bare, name), { recursive: true });
    await run(bare, 'npx', ['serverless', 'package']);
    assert.deepEqual(await zipsOf(bare), await zipsOf(project));
  });
});
