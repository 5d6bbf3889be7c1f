/** The help of the command line, and its refusals; nothing is started. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { cp, readFile, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { configText } from '../../cli/init/config.ts';
import { COMMANDS, run } from '../../cli/main.ts';
import { barLine, showProgress } from '../../cli/progress.ts';
import { recordsOf } from '../../cli/records.ts';
import { readConfigText } from '../../lib/config/file.ts';
import { DEFAULT_JOB } from '../../lib/config/job.ts';
import { SETTINGS } from '../../lib/config/schema.ts';
import { START_OPTIONS } from '../../local/service/start-options.ts';
import { parseConfig } from '../support/config.ts';
import { childEnvironment } from '../support/environment.ts';
import { temporaryFolder } from '../support/runner.ts';
import { type CliAnswer, cli, cliJson, ROOT } from './cli.ts';

const NAMES = [
  'init',
  'start',
  'stop',
  'restart',
  'shutdown',
  'status',
  'console',
  'predict',
  'enqueue',
  'bridge',
  'job',
  'query',
  'openapi',
  'model',
  'tune',
  'plan',
  'doctor',
  'deployer-policy',
  'dlq',
  'capture',
  'notify',
];

test('the commands are these, and help lists each', async () => {
  assert.deepEqual(Object.keys(COMMANDS), NAMES);
  const { stdout, code } = await cli(['help']);
  assert.equal(code, 0);
  for (const name of NAMES) assert.match(stdout, new RegExp(`^  ${name} +\\w`, 'm'));
  assert.equal((await cli(['--help'])).stdout, stdout);
});

test('help of a command is printed for --help after it, before it and for its old name, and starts nothing', async () => {
  const { help } = await (COMMANDS['stop'] as (typeof COMMANDS)[string]).load();
  const told = { code: 0, stdout: `${help}\n`, stderr: '' };
  assert.deepEqual(await cli(['stop', '--nonsense', '-h']), told);
  assert.deepEqual(await cli(['help', 'stop']), told);
  assert.deepEqual(await cli(['--help'], { script: 'cluster-serving-stop' }), told);
});

for (const name of NAMES) {
  test(`the help of ${name} names every option it takes, and no other`, async () => {
    const { help, options } = await (COMMANDS[name] as (typeof COMMANDS)[string]).load();
    const named = [...help.matchAll(/^ {2}(?: {4}|-\w, )--([\w-]+)/gm)].map((match) => match[1]);
    assert.deepEqual(new Set(named), new Set(Object.keys(options)));
    assert.equal(new Set(named).size, named.length);
  });
}

test('start takes the options of `npm start`, and restart the same without --once', async () => {
  const names = async (name: string) => Object.keys((await COMMANDS[name]?.load())?.options ?? {});
  const common = ['timeout', 'json', 'help'];
  const local = Object.keys(START_OPTIONS);
  assert.deepEqual(new Set(await names('start')), new Set([...local, ...common, 'foreground']));
  const kept = local.filter((name) => name !== 'once');
  assert.deepEqual(new Set(await names('restart')), new Set([...kept, ...common]));
});

test('options that say which service is meant are in one group of the help', async () => {
  const service = ['data-dir', 'url', 'stack', 'region', 'profile', 'auth', 'token-file', 'api-key-file'];
  for (const [name, more] of [
    ['predict', ['bucket', 'job']],
    ['enqueue', ['queue-url', 'bucket', 'redis-url', 'job']],
    ['query', ['redis-url', 'job']],
    ['status', []],
  ] as const) {
    const { help } = await (COMMANDS[name] as (typeof COMMANDS)[string]).load();
    const [, group = ''] = /\nConnection:\n((?: .*\n?)+)/.exec(help) ?? [];
    const named = [...group.matchAll(/^ +--([\w-]+)/gm)].map((match) => match[1]);
    assert.deepEqual(new Set(named), new Set([...service, ...more]), name);
    assert.match(help, /\nOptions:\n[^]*--json[^]*\nConnection:\n/);
  }
});

test('every line fits a terminal of 120 columns', async () => {
  for (const name of NAMES) {
    const { help } = await (COMMANDS[name] as (typeof COMMANDS)[string]).load();
    for (const line of help.split('\n')) assert.ok(line.length <= 120, line);
  }
});

test('--version is that of package.json', async () => {
  const { version } = JSON.parse(await readFile(join(ROOT, 'package.json'), 'utf8')) as { version: string };
  assert.deepEqual(await cli(['--version']), { code: 0, stdout: `${version}\n`, stderr: '' });
  const { json } = (await cliJson(['--version'])) as CliAnswer<{ version: string }>;
  assert.equal(json.version, version);
  for (const args of [['version'], ['-v'], ['version', '--json', '-h']])
    assert.equal((await cli(args)).code, 0, args.join(' '));
  assert.deepEqual(await cli(['version']), { code: 0, stdout: `${version}\n`, stderr: '' });
  const { stdout } = await cli(['version', '--json']);
  assert.deepEqual(JSON.parse(stdout), json);
});

const WRONG: readonly (readonly [string, readonly string[], RegExp])[] = [
  ['no command', [], /which command\?[\s\S]*Usage: cluster-serving/],
  ['a command that is misspelled', ['enque'], /no command "enque"; did you mean enqueue\?/],
  ['an unknown option', ['start', '--prot', '1'], /Unknown option '--prot'.*`cluster-serving start --help`/],
  ['an option that is misspelled', ['start', '--prot', '1'], /did you mean --port\?/],
  ['an action that is misspelled', ['model', 'pusch'], /got "pusch"; did you mean push\?/],
  ['an argument where none is taken', ['stop', 'now'], /unexpected "now"/],
  [
    'a number that is none',
    ['stop', '--timeout', 'soon'],
    /--timeout: expected a whole number from 0 to 3600, got "soon"/,
  ],
  [
    'a port that is none',
    ['start', '--port', '70000'],
    /--port: expected a port from 0 to 65535, got "70000"/,
  ],
  ['a config that is missing', ['start', '-c', 'nowhere.yaml'], /nowhere\.yaml cannot be read/],
  ['predict of nothing', ['predict'], /predict what\?/],
  ['query of nothing', ['query'], /query what\?/],
  ['two sources of records', ['enqueue', 'a=b', '--dir', 'c'], /enqueue takes one of/],
  [
    'a record without its file',
    ['enqueue', 'cat', '--url', 'http://localhost:1'],
    /"cat": expected <uri>=<image>/,
  ],
];
for (const [name, args, expected] of WRONG) {
  test(`${name} is exit code 2 and says what to do`, async () => {
    const said: string[] = [];
    const silent = () => assert.fail('said more than the error');
    const failure = ({ message }: Error) => void said.push(message);
    const code = await run(args, { json: false, answer: silent, piece: silent, note: silent, failure });
    assert.equal(code, 2);
    assert.match(said.join('\n'), expected);
  });
}

test('with --json a refusal is one JSON document, with its text on stderr', async () => {
  const { code, json, stderr } = (await cliJson(['stop', '--wat'])) as CliAnswer<{
    error: string;
    code: string;
  }>;
  assert.deepEqual([code, json.code], [2, 'bad_config']);
  assert.equal(stderr, `error: ${json.error}\n`);
});

test('a client command where nothing runs is exit code 3 and names the way out', async (t) => {
  const cwd = await temporaryFolder(t);
  for (const args of [
    ['predict', 'x.png'],
    ['enqueue', 'a=b.png'],
    ['query', 'x'],
  ]) {
    const { code, stderr } = await cli(args, { cwd });
    assert.equal(code, 3);
    assert.match(stderr, /no service runs on .*`cluster-serving start` starts one, --url.* names another/);
  }
});

test('on an older Node every script says which one is needed', async (t) => {
  // Out of reach of the Node that npm installs on Linux: older-node.system.test.ts has it run on that one.
  const folder = await temporaryFolder(t);
  await cp(join(ROOT, 'cli', 'bin'), join(folder, 'bin'), { recursive: true });
  const older = `data:text/javascript,Object.defineProperty(process, 'versions', { value: { node: '20.20.2' } })`;
  for (const script of ['cluster-serving', 'cluster-serving-start']) {
    const started = promisify(execFile)(
      process.execPath,
      ['--import', older, join(folder, `bin/${script}.mjs`)],
      { env: childEnvironment() },
    );
    await assert.rejects(started, {
      code: 1,
      stderr: /^error: cluster-serving needs Node 24 or newer, this is Node 20/,
    });
  }
});

test('init writes a config.yaml that sets nothing yet, and never replaces one unasked', async (t) => {
  const cwd = await temporaryFolder(t);
  const { code, json } = (await cliJson(['init'], { cwd })) as CliAnswer<{ config: string }>;
  assert.equal(code, 0);
  const path = join(cwd, 'config.yaml');
  assert.equal((await stat(json.config)).ino, (await stat(path)).ino);
  assert.deepEqual(readConfigText(await readFile(path, 'utf8'), path), { job: DEFAULT_JOB, notes: [] });
  await writeFile(path, 'jobName: mine\n');
  const again = await cli(['init'], { cwd });
  assert.equal(again.code, 2);
  assert.match(again.stderr, /config\.yaml is there already; --force replaces it/);
  assert.equal(await readFile(path, 'utf8'), 'jobName: mine\n');
  assert.equal((await cli(['init', '--force', '-c', 'config.yaml'], { cwd })).code, 0);
  assert.equal(await readFile(path, 'utf8'), configText());
  assert.equal((await cli(['init', '-c', 'no/such/folder.yaml'], { cwd })).code, 2);
});

test('init names every setting with its default, and each line can be uncommented by itself', () => {
  const lines = configText().split('\n');
  const missing = new Set(SETTINGS.keys());
  let section = '';
  for (const [i, line] of lines.entries()) {
    if (/^\w/.test(line)) section = line.replace(':', '.');
    else if (!line.startsWith('  ')) section = '';
    const path = `${section}${/^ {0,2}# (\w+): \S/.exec(line)?.[1]}`;
    if (!missing.has(path)) continue;
    missing.delete(path);
    // Width and height go together.
    const uncommented = lines.with(i, line.replace('# ', ''));
    if (path === 'image.width' || path === 'image.height') {
      const other = path === 'image.width' ? '  # height: ' : '  # width: ';
      const at = lines.findIndex((candidate) => candidate.startsWith(other));
      uncommented[at] = (lines[at] as string).replace('# ', '');
    }
    const job = parseConfig(uncommented.join('\n'), path);
    if (hasDefault(path)) assert.deepEqual(job, DEFAULT_JOB, path);
    else assert.notDeepEqual(job, DEFAULT_JOB, path);
  }
  assert.deepEqual([...missing], []);
});

/** Some follow from the model or from another setting; the file shows an example of those. */
function hasDefault(path: string): boolean {
  return !/^image\.|^import\.|^(in|out)puts(\.|$)|^notify$|^postProcessing$|^http\.timeoutMs$|^models\.(folder|memoryMB)$|^release\.maxFlips$|^worker\.(class|modelName|tmpFolder|logDir)$/.test(
    path,
  );
}

test('errors of a file of records say what is wrong with it, and where', () => {
  const read = (text: string) => () => recordsOf(Buffer.from(text), 'f');
  assert.throws(read(''), { code: 'bad_request', message: 'f is empty' });
  assert.throws(read('{"uri": "a"}'), { message: /^f: record 0: expected .*, got \{"uri":"a"\}/ });
  assert.throws(read('{"uri": "a", "inputs": {"x": 1}}\n{"uri"'), { message: /line 2: / });
  assert.throws(read('{\n"uri": oops\n}'), { message: /^f is not JSON, nor one JSON text a line: .*oops/s });
  assert.throws(read('[1]'), { message: /record 0: expected .*, got 1/ });
});

function display(terminal: { isTTY?: boolean }, isQuiet = false) {
  const written: string[] = [];
  const clock = { now: 0 };
  const write = (text: string) => written.push(text.replace(ERASE, ''));
  const progress = showProgress(isQuiet, { ...terminal, columns: 100, write }, () => clock.now);
  return { written, clock, progress };
}

const ERASE = '\r\u001b[K';

test('progress is drawn on a terminal at most every 100 ms, and is gone at the end', () => {
  const { written, clock, progress } = display({ isTTY: true });
  for (let done = 1; done <= 1000; done++) {
    clock.now += 1;
    progress.update({ done, total: 1000 });
  }
  progress.end();
  progress.end();
  assert.ok(written.length > 5 && written.length < 20, `${written.length}`);
  assert.match(written.at(-2) ?? '', /^\[#{38,40}\] 1,000 of 1,000 {2}100 % {2}1,000\/s {2}0 s left$/);
  assert.equal(written.at(-1), '');
});

test('without a terminal progress is one line every ten seconds, and nothing with --json', () => {
  for (const [isQuiet, expected] of [
    [false, ['100 of 300  33 %  10/s  20 s left\n', '200 of 300  66 %  10/s  10 s left\n']],
    [true, []],
  ] as const) {
    const { written, clock, progress } = display({}, isQuiet);
    for (let done = 1; done <= 290; done++) {
      clock.now += 100;
      progress.update({ done, total: 300 });
    }
    progress.end();
    assert.deepEqual(written, expected);
  }
});

test('a stage is drawn when it begins, and the rate of its megabytes is its own', () => {
  const { written, clock, progress } = display({ isTTY: true });
  progress.update({ label: '2 of 4  converting', unit: 'MB' });
  clock.now = 10_000;
  progress.update({ label: '3 of 4  writing', done: 0, total: 200, unit: 'MB' });
  clock.now = 11_000;
  progress.update({ label: '3 of 4  writing', done: 50.2, total: 200, unit: 'MB' });
  progress.update({ label: '3 of 4  writing', done: 60, total: 200, unit: 'MB' });
  progress.end();
  assert.equal(written[0], '2 of 4  converting');
  assert.match(written[2] ?? '', /\] 50 of 200 MB {2}25 % {2}50 MB\/s {2}3 s left {2}3 of 4 {2}writing$/);
  assert.equal(written.length, 4);
});

test('the progress line fits its terminal', () => {
  const step = { done: 250, total: 1000 };
  assert.equal(barLine(step, 5000, 60), '[#####----------------] 250 of 1,000  25 %  50/s  15 s left');
  for (const columns of [5, 20, 40, 200])
    assert.ok(barLine({ done: 999, total: 100_000, label: 'x' }, 12_345, columns).length < columns);
  assert.doesNotMatch(barLine({ done: 0, total: 0 }, 0, 80), /NaN|Infinity/);
  assert.match(
    barLine({ done: 30, total: 60, unit: 's', label: 'batch of 8' }, 30_000, 80),
    /30 of 60 s {2}50 % {2}30 s left {2}batch of 8$/,
  );
});
