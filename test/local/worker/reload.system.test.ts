/** Changes of a worker's files while it serves: new processes take over, on real processes behind the whole service. */
import assert from 'node:assert/strict';
import { mkdirSync, utimesSync, writeFileSync } from 'node:fs';
import { mkdir, readFile, rename, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { Scope } from '../../../lib/compose/scope.ts';
import type { Environment } from '../../../lib/config/environment.ts';
import { ReloadingWorker } from '../../../local/worker/reload.ts';
import { FileWatch, type WatchedFolders } from '../../../local/worker/watch.ts';
import { SDK } from '../../lib/workers/child.ts';
import { parseConfig } from '../../support/config.ts';
import { PYTHON, WITH_PYTHON } from '../../support/python.ts';
import { type Hooks, temporaryFolder } from '../../support/runner.ts';
import { testStack } from '../../support/stack.ts';
import { until } from '../../support/until.ts';

/** Answers with what `code` says; the item "wait" only once there is a file `go`. */
const typescript = (code: string) =>
  `
import { existsSync, readFileSync } from 'node:fs';
import { WKRHardWorker } from './SDK';
import { word } from './word.ts';
export class Worker extends WKRHardWorker {
  getModel(_envs, modelDir) {
    const path = modelDir + '/model.txt';
    return existsSync(path) ? readFileSync(path, 'utf8') : 'none';
  }
  async predict(model, items) {
    while (items.includes('wait') && !existsSync('go')) await new Promise((resolve) => setTimeout(resolve, 10));
    return items.map(() => ${code});
  }
}
`.replace('./SDK', SDK);

/** Hooks that run the last one first: a folder goes when nothing runs in it. */
function reversed(t: Hooks): Hooks {
  const hooks: (() => Promise<void>)[] = [];
  t.after(async () => {
    for (const hook of hooks) await hook();
  });
  return { after: (hook) => hooks.unshift(hook) };
}

/** In one step, as editors do: a slow machine may take long between the two of an overwriting. */
async function save(path: string, text: string): Promise<void> {
  const hidden = join(dirname(path), '.saving');
  await mkdir(dirname(path), { recursive: true });
  await writeFile(hidden, text);
  await rename(hidden, path);
}

async function openScene(after: Hooks, files: Readonly<Record<string, string>>, config = '') {
  const t = reversed(after);
  const folder = await temporaryFolder(t, 'cs-reload-');
  const directory = join(folder, 'code');
  const modelDirectory = join(folder, 'model');
  const write = (name: string, text: string) => save(join(folder, name), text);
  await mkdir(modelDirectory);
  for (const [name, text] of Object.entries(files)) await write(name, text);
  const warnings: string[] = [];
  const worker = `worker:\n  class: server.Worker\n  python: ${PYTHON}\n  logDir: logs\n`;
  const stack = await testStack(t, {
    config: `${worker}${config}`,
    directory,
    modelDirectory,
    watch: true,
    warn: (message) => warnings.push(message),
  });
  const ask = async (...items: readonly unknown[]) => {
    const body = JSON.stringify({ instances: items.map((x) => ({ x })) });
    const response = await fetch(`${stack.url}/predict`, { method: 'POST', body });
    const { predictions = [] } = (await response.json()) as { predictions?: string[] };
    const answers = predictions.map((text): unknown => JSON.parse(text.slice('{value='.length, -1)));
    return { status: response.status, version: response.headers.get('model-version'), answers };
  };
  const answers = (wanted: unknown) =>
    until(async () => {
      const { status, answers: got } = await ask('a');
      assert.equal(status, 200);
      return got[0] === wanted;
    });
  return { stack, folder, write, warnings, ask, answers };
}

test('saved code takes over in new processes, and a request in flight ends on the old', async (t) => {
  const word = 'export const word: string = ';
  const files = { 'code/server.ts': typescript('word'), 'code/word.ts': `${word}'old'` };
  const { stack, write, ask, answers, warnings } = await openScene(t, files);
  const first = await ask('a');
  assert.deepEqual(first.answers, ['old']);
  assert.match(first.version ?? '', /^server\.Worker-[0-9a-f]{8}$/);
  const waiting = ask('wait');
  // One process has the request; what waits behind it is of the old version too.
  await until(async () => /"total_job_in_queue":1/.test(await textOf(`${stack.url}/status/server`)));
  await write('code/word.ts', `${word}'new'`);
  await until(() => warnings.some((line) => line.endsWith(' serves')));
  await answers('new');
  const second = await ask('a');
  assert.notEqual(second.version, first.version);
  const status = JSON.parse(await textOf(`${stack.url}/status/server`)) as { model_version: string };
  assert.equal(status.model_version, second.version);
  // No third version starts beside the two; this one follows when the old has ended.
  await write('code/word.ts', `${word}'newest'`);
  await until(() => warnings.filter((line) => line.endsWith('new processes start')).length === 2);
  await write('code/go', '');
  assert.deepEqual(await waiting, { ...first, answers: ['old'] });
  await answers('newest');
});

async function textOf(url: string): Promise<string> {
  return (await fetch(url)).text();
}

test(
  'code that does not start is reported once, with one traceback, and the old serves on',
  WITH_PYTHON,
  async (t) => {
    // All of the same length: with bytecode of the same second, Python would not see a change.
    const python = (answer: string) => `from wkr_serving.server import WKRHardWorker
class Worker(WKRHardWorker):
    def get_model(self, envs, model_dir, model_name, tmp_dir):
        return None
    def predict(self, model, items):
        return [${answer} for item in items]
`;
    const config = '  numWorker: 2\n';
    const { write, answers, ask, warnings, folder } = await openScene(
      t,
      { 'code/server.py': 'from own import Worker', 'code/own.py': python('1') },
      config,
    );
    await answers(1);
    await write('code/own.py', python(')'));
    await until(() => warnings.some((line) => line.endsWith('still serves')));
    assert.match(
      warnings.join('\n'),
      /did not start: load: SyntaxError: .*; version server\.Worker-\w+ still serves$/m,
    );
    assert.deepEqual((await ask('a')).answers, [1]);
    const [day] = new Date().toISOString().split('T');
    const errors = await readFile(join(folder, 'code', 'logs', `WKRServer_${day}.err`), 'utf8');
    assert.equal(errors.match(/SyntaxError/g)?.length, 1, errors);
    for (const answer of [3, 4]) {
      await write('code/own.py', python(String(answer)));
      await answers(answer);
    }
    assert.equal(warnings.filter((line) => line.endsWith('still serves')).length, 1);
  },
);

test('a model that is replaced under load fails no request, and no request mixes two', async (t) => {
  const files = {
    'code/server.ts': typescript('model'),
    'code/word.ts': 'export const word = 1',
    'model/model.txt': 'm0',
  };
  const { folder, ask, answers } = await openScene(t, files, 'batchSize: 2\n');
  const over = new AbortController();
  const seen = new Set<unknown>();
  const clients = Array.from({ length: 4 }, async () => {
    while (!over.signal.aborted) {
      const { status, answers: got, version } = await ask(1, 2, 3, 4, 5);
      assert.equal(status, 200);
      assert.equal(got.length, 5);
      assert.equal(new Set(got).size, 1, `${version}: ${got.join()}`);
      seen.add(got[0]);
    }
  });
  try {
    for (const model of ['m1', 'm2']) {
      // As a whole folder, in one step.
      const next = join(folder, `next-${model}`);
      await mkdir(next);
      await writeFile(join(next, 'model.txt'), model);
      await rename(join(folder, 'model'), join(folder, `before-${model}`));
      await rename(next, join(folder, 'model'));
      await answers(model);
    }
  } finally {
    over.abort();
    await Promise.all(clients);
  }
  assert.ok(seen.has('m1'));
});

test('where there is no room for both, the old processes end first, and requests wait for the new', async (t) => {
  const hooks = reversed(t);
  const directory = await temporaryFolder(hooks, 'cs-reload-');
  const worker = (name: string) =>
    `
import { appendFileSync } from 'node:fs';
import { WKRHardWorker } from './SDK';
export class Worker extends WKRHardWorker {
  getModel() { appendFileSync('events', 'open ${name}\\n'); }
  predict(_model, items) { return items.map(() => '${name}'); }
  offModel() { appendFileSync('events', 'off ${name}\\n'); }
}`.replace('./SDK', SDK);
  const write = (code: string) => save(join(directory, 'server.ts'), code);
  await write(worker('a'));
  const job = parseConfig('worker:\n  class: server.Worker\n', 'test config');
  const workerFolders = { directory, modelDir: directory };
  // A worker does not ask for the rest of an environment.
  const scope = new Scope({ job, workerFolders } as unknown as Environment);
  const lines: string[] = [];
  const opened = await ReloadingWorker.open(scope, {
    tell: (line) => lines.push(line),
    dataDir: join(directory, 'data'),
    oldEndFirst: true,
  });
  hooks.after(() => opened.close());
  const ask = () =>
    opened.use(async (runner) => {
      const [outcome] = await runner.run([new Map([['x', { kind: 'json', value: 1 } as const]])]);
      return outcome?.ok ? outcome.value : outcome?.error.message;
    });
  assert.equal(await ask(), 'a');
  await write(worker('b'));
  await until(async () => (await ask()) === 'b');
  await write('this is not code');
  await until(() => lines.some((line) => line.endsWith('no version serves')));
  await assert.rejects(ask(), /the worker did not start/);
  await write(worker('c'));
  await until(() => lines.filter((line) => / version \S+ serves$/.test(line)).length === 2);
  assert.equal(await ask(), 'c');
  assert.equal(await readFile(join(directory, 'events'), 'utf8'), 'open a\noff a\nopen b\noff b\nopen c\n');
});

async function watchedFolder(t: Hooks) {
  const root = await temporaryFolder(t, 'cs-watch-');
  const put = (name: string, text = 'x') => {
    mkdirSync(dirname(join(root, name)), { recursive: true });
    writeFileSync(join(root, name), text);
  };
  put('code/server.py');
  const at = (name: string) => join(root, name);
  const folders: WatchedFolders = {
    directory: at('code'),
    modelDir: at('model'),
    modelName: '',
    ignored: [at('code/logs')],
  };
  const look = async (own: Partial<WatchedFolders> = {}) => {
    const watch = await FileWatch.open(
      { ...folders, ...own },
      { changed: () => undefined, failed: assert.fail },
    );
    watch.close();
    return watch.fingerprint;
  };
  return { put, at, folders, look };
}

test('logs, hidden folders, packages, environments and files that are not code do not count', async (t) => {
  const { put, look } = await watchedFolder(t);
  const before = await look();
  put('code/logs/a.py');
  put('code/.git/a.py');
  put('code/.env.py');
  put('code/node_modules/a/index.js');
  put('code/__pycache__/server.py');
  put('code/venv/pyvenv.cfg');
  put('code/venv/lib/a.py');
  put('code/server.log');
  put('code/server.pid');
  assert.equal(await look(), before);
  for (const name of [
    'code/a.py',
    'code/pkg/b.mts',
    'code/pkg/deep/c.cjs',
    'model/weights.bin',
    'model/a/b.txt',
  ]) {
    const last = await look();
    put(name);
    assert.notEqual(await look(), last, name);
  }
});

test('a model folder that holds the code counts only by the name of the model', async (t) => {
  const { put, at, look } = await watchedFolder(t);
  const own = { modelDir: at('code'), modelName: 'm.bin' };
  const before = await look(own);
  put('code/other.bin');
  assert.equal(await look(own), before);
  put('code/m.bin');
  assert.notEqual(await look(own), before);
  const unnamed = await look({ modelDir: at('code') });
  put('code/m.bin', 'longer');
  assert.equal(await look({ modelDir: at('code') }), unnamed);
});

test('a burst of saves is one change, also in a folder that did not exist before', async (t) => {
  const { put, at, folders } = await watchedFolder(t);
  const changes: string[] = [];
  const watch = await FileWatch.open(folders, {
    changed: (fingerprint) => changes.push(fingerprint),
    failed: assert.fail,
  });
  const first = watch.fingerprint;
  t.after(() => watch.close());
  for (let i = 0; i < 20; i++) put(`code/new/deep/file-${i}.py`);
  await until(() => changes.length === 1);
  put('code/new/deep/file-3.py', 'longer');
  await until(() => changes.length === 2);
  put('model/late.bin');
  await until(() => changes.length === 3);
  // The same size at another time.
  utimesSync(at('model/late.bin'), 1, 1);
  await until(() => changes.length === 4);
  assert.equal(new Set([first, ...changes]).size, 5);
});

test('more files than can be watched are refused', async (t) => {
  const { put, look } = await watchedFolder(t);
  for (let i = 0; i <= 10_000; i++) put(`model/${i}`, '');
  await assert.rejects(look(), /over 10000 files/);
});
