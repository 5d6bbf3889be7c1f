/**
 * Every task of docs/tasks, done by commands of the documentation and judged by its script. A solution names the page and a part of
 * the block that a reader finds there, and what the reader changes in it: paths, names, and where the output goes.
 */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { cp, readdir, readFile, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { promisify } from 'node:util';
import { serviceFolder } from '../cli/cli.ts';
import { blocksOf } from '../support/documents.ts';
import { childEnvironment } from '../support/environment.ts';
import { PYTHON, PYTHON_PACKAGE, WITH_PYTHON } from '../support/python.ts';
import { ROOT } from '../support/start.ts';

const run = promisify(execFile);

/** A block of a page. */
interface Found {
  /** Below docs, or README.md. */
  readonly page: string;
  /** In the block; the first that has it counts. */
  readonly has: string;
  /** By what the reader replaces texts of the block. */
  readonly change?: Readonly<Record<string, string>>;
  /** The file into which the reader saves the block, instead of running it. */
  readonly save?: string;
}

type Step = (Found | { readonly sh: string }) & {
  /** The file into which the output goes. */
  readonly into?: string;
};

const ENVIRONMENT = childEnvironment({ PYTHONPATH: PYTHON_PACKAGE, PYTHONDONTWRITEBYTECODE: '1' });
const HERE = { 'examples/digits/': '' };
const program = (page: string, has: string, change = {}) => ({ page, has, save: 'program.py', change });
const RUN_PROGRAM = {
  page: 'how-to/from-a-keras-script.md',
  has: 'python3 ask.py',
  change: { 'ask.py': 'program.py' },
};

const SOLUTIONS: Readonly<Record<string, readonly Step[]>> = {
  'serve-a-model': [
    { page: 'how-to/from-a-keras-script.md', has: 'modelPath: model', save: 'config.yaml' },
    { page: 'how-to/from-a-keras-script.md', has: 'npx cluster-serving start' },
  ],
  'ask-with-a-picture': [{ page: 'README.md', has: '/predict\n', change: HERE, into: 'answer.json' }],
  'answer-later': [
    {
      page: 'tutorial/first-model.md',
      has: 'query --wait',
      change: { ' digit-3.png': '' },
      into: 'seven.txt',
    },
  ],
  'ask-from-python': [
    program('how-to/python.md', 'client.predict', { 'digit-3.png': 'images/digit-3.png' }),
    { ...RUN_PROGRAM, into: 'class.txt' },
  ],
  'many-records': [
    { page: 'how-to/enqueue-many-records.md', has: 'for n in 3 7', change: HERE, into: 'accepted.json' },
  ],
  'a-folder-of-files': [
    {
      page: 'how-to/jobs-over-files.md',
      has: 'job run customers.csv',
      change: {
        'customers.csv --dry-run': 'images --dry-run',
        'customers.csv\n': 'images > job.txt\n',
        '20261129-033000-3f9a1c': '$(grep -o "[0-9]*-[0-9]*-[0-9a-f]*" job.txt | head -1)',
      },
    },
  ],
  'take-a-result': [
    { page: 'how-to/everyday.md', has: 'uri=once' },
    { page: 'how-to/everyday.md', has: '-X DELETE', into: 'once.json' },
  ],
  'describe-the-api': [
    {
      page: 'how-to/generate-a-client.md',
      has: 'openapi --out',
      change: { 'npx cluster-serving openapi --stack': '# ', 'openapi-python-client': '# ' },
    },
  ],
  'see-the-figures': [
    { page: 'how-to/monitor-with-prometheus.md', has: 'accept: text/plain', into: 'metrics.txt' },
  ],
  'convert-a-model': [
    { page: 'how-to/import-a-model.md', has: 'model import ultraface', change: { ultraface: 'keras-model' } },
  ],
  'keep-an-old-program': [
    program('how-to/migrate.md', 'the class of digit', { '"digit-3.png"': '"images/digit-3.png"' }),
    { ...RUN_PROGRAM, into: 'old.txt' },
  ],
  'ask-as-tensorflow-serving': [
    {
      page: 'how-to/tensorflow-serving.md',
      has: ':predict -d',
      change: {
        half_plus_two: 'serving_stream',
        '[1.0, 2.0, 5.0]': JSON.stringify([
          Array.from({ length: 3 }, () => Array.from({ length: 8 }, () => new Array(8).fill(0))),
        ]),
      },
      into: 'tfs.json',
    },
  ],
  'let-colleagues-call': [
    {
      page: 'how-to/open-a-local-service.md',
      has: '--make-token',
      change: { '--make-token': '--make-token --data-dir .cluster-serving-open --port 0' },
    },
    { sh: 'cat .cluster-serving-open/token', into: 'token.txt' },
    {
      sh: 'npx cluster-serving status --data-dir .cluster-serving-open | grep -o "http://.*" | head -1 | grep -o "[0-9]*$"',
      into: 'port.txt',
    },
  ],
  'the-two-best': [{ page: 'how-to/everyday.md', has: 'postProcessing: topN(2)' }],
  'a-second-model': [
    { page: 'how-to/everyday.md', has: 'largest.yaml', into: 'started.txt' },
    { sh: 'sed -n "s/^ready //p" started.txt', into: 'largest.txt' },
  ],
  'keep-an-answer': [
    { page: 'tutorial/first-model.md', has: '> request.json' },
    {
      page: 'how-to/golden-requests.md',
      has: 'golden add model --request',
      change: { 'digits.json': 'request.json' },
    },
  ],
  'go-back': [
    { page: 'how-to/everyday.md', has: 'model rollback' },
    { sh: 'npx cluster-serving model list', into: 'versions.txt' },
  ],
  'say-what-it-will-cost': [
    { page: 'explanation/a-billion-a-day.md', has: 'plan --rate 5e6/day', into: 'plan.json' },
    // With the times of the service that has done the tasks before.
    { sh: 'npx cluster-serving plan --rate 5e6/day --url http://localhost:10020' },
  ],
  'check-before-deploying': [{ page: 'how-to/doctor.md', has: 'doctor --json', into: 'doctor.json' }],
  'clean-up': [
    { page: 'how-to/everyday.md', has: 'shutdown --yes' },
    { sh: 'npx cluster-serving shutdown --yes --data-dir .cluster-serving-largest' },
    { sh: 'npx cluster-serving shutdown --yes --data-dir .cluster-serving-open' },
  ],
};

test(
  'every task of docs/tasks is done by commands of the documentation, and its script says so',
  WITH_PYTHON,
  async (t) => {
    const names = (await readdir(join(ROOT, 'docs/tasks')))
      .filter((name) => /^\d\d-.*\.md$/.test(name))
      .toSorted();
    assert.deepEqual(
      names.map((name) => name.slice(3, -3)),
      Object.keys(SOLUTIONS),
    );
    const folder = await reader(t);
    let url = 'http://localhost:10020';
    for (const name of names) {
      const task = name.slice(3, -3);
      for (const step of SOLUTIONS[task] ?? []) await take(step, folder, url);
      // A restart takes other free ports.
      url = (await addressOf(folder)) ?? url;
      const judge = join(ROOT, 'docs/tasks', name.replace(/md$/, 'mjs'));
      await run(process.execPath, [judge, url], { cwd: folder, env: ENVIRONMENT }).catch(
        (error: Error & Output) => assert.fail(`${task}: ${error.stdout}\n${error.stderr}`),
      );
    }
  },
);

test('no script says of a folder in which nothing was done that its task was done', async (t) => {
  const folder = await reader(t);
  const judges = (await readdir(join(ROOT, 'docs/tasks'))).filter((name) => /^\d\d-.*\.mjs$/.test(name));
  assert.equal(judges.length, Object.keys(SOLUTIONS).length);
  for (const judge of judges.filter((name) => !name.endsWith('clean-up.mjs'))) {
    const ran = run(process.execPath, [join(ROOT, 'docs/tasks', judge), 'http://127.0.0.1:1'], {
      cwd: folder,
    });
    await assert.rejects(ran, ({ code, stdout }: Output) => code === 1 && /^NO /m.test(stdout), judge);
  }
});

interface Output {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** The folder of a reader who has installed the commands. */
async function reader(t: TestContext): Promise<string> {
  const folder = await serviceFolder(t);
  await symlink(join(ROOT, 'node_modules'), join(folder, 'node_modules'));
  for (const name of ['model', 'images'])
    await cp(join(ROOT, 'examples/digits', name), join(folder, name), { recursive: true });
  await cp(join(ROOT, 'test/fixtures/keras-script/model'), join(folder, 'keras-model'), { recursive: true });
  return folder;
}

/** Does a step as the reader would. @throws AssertionError where the page no longer has the block */
async function take(step: Step, folder: string, url: string): Promise<void> {
  const text = 'sh' in step ? step.sh : await blockOf(step);
  const here = text
    .replaceAll(/(http:\/\/)?localhost:10020/g, url)
    .replaceAll(/^(npx )?cluster-serving /gm, 'npx cluster-serving ');
  if ('save' in step && step.save !== undefined) return writeFile(join(folder, step.save), here);
  const ported = here
    .replace(/cluster-serving start$/m, 'cluster-serving start --port 0')
    .replaceAll('python3 ', `${PYTHON} `);
  const { stdout } = await run('bash', ['-euo', 'pipefail', '-c', ported], {
    cwd: folder,
    env: ENVIRONMENT,
  }).catch((error: Error & Output) => assert.fail(`${ported}\n${error.stdout}\n${error.stderr}`));
  if (step.into !== undefined) await writeFile(join(folder, step.into), stdout);
}

async function blockOf({ page, has, change = {} }: Found): Promise<string> {
  const blocks = await blocksOf(page === 'README.md' ? page : `docs/${page}`);
  const block = blocks.find(({ text }) => text.includes(has));
  assert.ok(block, `docs/${page} has no block with ${JSON.stringify(has)}`);
  return Object.entries(change).reduce((text, [from, to]) => {
    assert.ok(text.includes(from), `docs/${page}: no ${JSON.stringify(from)} in\n${text}`);
    return text.replaceAll(from, to);
  }, block.text);
}

async function addressOf(folder: string): Promise<string | undefined> {
  const text = await readFile(join(folder, '.cluster-serving/stack.json'), 'utf8').catch(() => '{}');
  return (JSON.parse(text) as { readonly http?: string }).http;
}
