/** `cluster-serving tune` as it is called: on models of a few nodes, for a second. No time is asserted. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { text as textOf } from 'node:stream/consumers';
import { type TestContext, test } from 'node:test';
import { ROLE } from '../../../cli/tune/child.ts';
import type { SettingResult } from '../../../cli/tune/cost.ts';
import type { MeasuredPoint, ModelFacts, SkippedPoint, Times } from '../../../cli/tune/points.ts';
import { TuneProcess } from '../../../cli/tune/process.ts';
import type { Recommendation } from '../../../cli/tune/recommend.ts';
import type { OpenRequest } from '../../../cli/tune/run.ts';
import { parseConfig } from '../../support/config.ts';
import { ENDLESS, loopModel, QUICK } from '../../support/endless.ts';
import { childEnvironment } from '../../support/environment.ts';
import { onnxModel, type ValueSpec } from '../../support/onnx.ts';
import { temporaryFolder } from '../../support/runner.ts';
import { until } from '../../support/until.ts';
import { type CliAnswer, cli, IMAGES, MODEL, ROOT } from '../cli.ts';
import { warmCli, warmCliJson } from '../warm.ts';

interface Document {
  readonly model: ModelFacts & { readonly path: string; readonly bytes: number };
  readonly points: readonly MeasuredPoint[];
  readonly skipped: readonly SkippedPoint[];
  readonly settings: readonly SettingResult[];
  readonly excluded: readonly { readonly memoryMB: number; readonly reason: string }[];
  readonly recommendations: readonly Recommendation[];
  readonly notes: readonly string[];
  readonly written?: boolean;
}

const SHORT = ['--seconds', '1', '--max-batch', '4', '--memory', '1024,1769'] as const;

async function tuned(args: readonly string[], cwd: string): Promise<Document> {
  const { code, json, stderr } = (await warmCliJson(['tune', ...args], { cwd })) as CliAnswer<Document>;
  assert.equal(code, 0, stderr);
  return json;
}

/** y = x + x, of any shape. */
async function modelFolder(t: TestContext, shape: ValueSpec['shape'], outShape = shape): Promise<string> {
  const cwd = await temporaryFolder(t);
  await mkdir(join(cwd, 'net'));
  const bytes = onnxModel({
    inputs: [{ name: 'x', dtype: 'float32', shape }],
    outputs: [{ name: 'y', dtype: 'float32', shape: outShape }],
    nodes: [{ op: 'Add', inputs: ['x', 'x'], outputs: ['y'] }],
  });
  await writeFile(join(cwd, 'net', 'model.onnx'), bytes);
  return cwd;
}

function assertOrdered({ low, median, high, p99, calls }: Times): void {
  assert.ok(low > 0 && low <= median && median <= high, `${low} ${median} ${high}`);
  assert.ok(p99 >= low && Number.isFinite(p99) && calls >= 2);
}

test('the sample is measured at both endpoints, priced, and its settings are written into config.yaml', async (t) => {
  const cwd = await temporaryFolder(t);
  const config = '# mine\nmodelPath: model # here\nqueue:\n  batchSize: 3 # few\n';
  await writeFile(join(cwd, 'config.yaml'), config);
  const args = ['--model', MODEL, ...SHORT, '--write', 'config.yaml', '--yes'];
  const told = await tuned(args, cwd);
  assert.equal(told.model.shared, true);
  assert.deepEqual(told.model.shapes, [[1, 3, 8, 8]]);
  const endpoints = new Set(told.points.map(({ endpoint }) => endpoint));
  assert.deepEqual(endpoints, new Set(['predict', 'batch']));
  for (const { model, call, neededMB, peakBytes } of told.points) {
    assertOrdered(call);
    assert.ok(model.median <= call.median, 'the model is a part of the call');
    assert.ok(peakBytes > 0 && neededMB >= 128);
  }
  for (const { predict, batches } of told.settings) {
    for (const result of [...(predict ? [predict] : []), ...batches]) {
      const { x86_64, arm64 } = result.costs;
      assert.ok(x86_64.time > arm64.time && x86_64.requests === arm64.requests);
      assert.equal(x86_64.total, x86_64.time + x86_64.requests);
    }
  }
  assert.deepEqual(
    told.recommendations.map(({ aim }) => aim),
    ['cheapest', 'latency'],
  );
  assert.equal(told.written, true);
  const after = await readFile(join(cwd, 'config.yaml'), 'utf8');
  for (const line of ['# mine', 'modelPath: model # here']) assert.ok(after.includes(line));
  const job = parseConfig(after, 'config.yaml');
  const wanted = told.recommendations[0]?.config ?? {};
  assert.equal(job.function.memoryMB, wanted['function.memoryMB']);
  assert.equal(job.batchSize, wanted['batchSize']);
  assert.equal(job.queue.batchSize, wanted['queue.batchSize']);
  assert.deepEqual(await readdir(cwd), ['config.yaml']);
});

test('docs/how-to/tune.md names every key of the JSON document, and no other', async (t) => {
  const cwd = await modelFolder(t, ['N', 4]);
  await writeFile(join(cwd, 'config.yaml'), 'modelPath: net\n');
  const told = await tuned(['--write', '--yes', ...SHORT], cwd);
  const docs = await readFile(join(ROOT, 'docs/how-to/tune.md'), 'utf8');
  const section = docs.slice(docs.indexOf('\n## JSON\n'));
  const named = [...section.matchAll(/^\| ((?:`\w+`(?:, )?)+) \|/gm)].flatMap(([, cell = '']) =>
    [...cell.matchAll(/`(\w+)`/g)].map(([, key]) => key),
  );
  assert.deepEqual(new Set(named), new Set(Object.keys(told)));
});

test('without --json it prints one table, both recommendations and lines for config.yaml', async (t) => {
  const cwd = await modelFolder(t, ['N', 4]);
  await writeFile(join(cwd, 'config.yaml'), 'modelPath: net\nfunction: {timeoutSeconds: 10}\n');
  // The model is that of the config.
  const { code, stdout, stderr } = await cli(['tune', ...SHORT, '--latency', '60000'], { cwd });
  assert.equal(code, 0, stderr);
  assert.match(stdout, /^model .*net, .*; records share a run$/m);
  assert.match(stdout, /^predict, 1 thread +[\d.]+ +[\d.]+ /m);
  assert.match(stdout, /^measured +.* memory +\$ 1024 MB\* +\$ 1769 MB$/m);
  assert.match(stdout, /^\$: a million predictions, x86_64, /m);
  assert.match(stdout, /^Cheapest: \d+ MB, 1 thread$/m);
  assert.match(stdout, /^Lowest latency: 1769 MB, 1 thread$/m);
  assert.match(stdout, /p99 of at most 60000 ms/);
  assert.match(stdout, /^ {4}function:\n {6}memoryMB: \d+$/m);
});

test('a latency that nothing keeps leaves one recommendation, says so, and writes nothing', async (t) => {
  const cwd = await modelFolder(t, ['N', 4]);
  await writeFile(join(cwd, 'config.yaml'), 'modelPath: net\n');
  const args = ['tune', ...SHORT, '--for', 'predict', '--latency', '0.001', '--write', '--yes'];
  const { code, json, stderr } = (await warmCliJson(args, { cwd })) as CliAnswer<{ error: string }>;
  assert.deepEqual(
    [code, json.error],
    [2, 'nothing was written: no setting that was measured stays below 0.001 ms'],
  );
  assert.match(stderr, /^error: nothing was written/m);
  assert.equal(await readFile(join(cwd, 'config.yaml'), 'utf8'), 'modelPath: net\n');
});

test('a file that fixes a run to 4 rows is measured in fours, and batchSize is left alone', async (t) => {
  const cwd = await modelFolder(t, [4, 3]);
  const told = await tuned(['--model', 'net/model.onnx', ...SHORT, '--seconds', '3'], cwd);
  assert.equal(told.model.fixedRows, 4);
  const sizes = told.points.filter(({ endpoint }) => endpoint === 'batch').map(({ records }) => records);
  assert.deepEqual([...new Set(sizes)], [4]);
  assert.equal(told.recommendations[0]?.config['batchSize'], undefined);
  assert.ok(told.notes.some((note) => note.startsWith('the file fixes a run to 4 rows')));
});

test('where POST /predict refuses the request for its size, the reason is reported and the queue is measured', async (t) => {
  const cwd = await modelFolder(t, ['N', 800_000]);
  const told = await tuned(['--model', 'net', ...SHORT, '--max-batch', '2', '--seconds', '5'], cwd);
  const refused = told.skipped.find(({ endpoint }) => endpoint === 'predict');
  assert.match(refused?.reason ?? '', /^POST \/predict answers 413: /);
  assert.ok(told.points.length > 0 && told.points.every(({ endpoint }) => endpoint === 'batch'));
  assert.ok(told.model.messageBytes > 1024 ** 2 && told.model.eventBytes < 10_000);
  assert.equal(told.recommendations[0]?.predict, undefined);
  assert.ok(told.recommendations[0]?.config['queue.batchSize'] !== undefined);
  const notes = told.notes.join('\n');
  assert.match(notes, /predict could not be measured, so the settings are for batch alone/);
  assert.match(notes, /too large for a message and is sent through S3/);
});

test('free sizes are asked for by name, and --dim or --shape gives them', async (t) => {
  const cwd = await modelFolder(t, ['N', 'width', 2]);
  const args = ['tune', '--model', 'net', ...SHORT, '--for', 'batch', '--max-batch', '1'];
  const asked = await warmCli(args, { cwd });
  assert.equal(asked.code, 2);
  assert.match(
    asked.stderr,
    /sizes that the model leaves free: "x" \[N,width,2\]; say them, e\.g\. --dim width=8$/m,
  );
  for (const given of [
    ['--dim', 'width=5'],
    ['--shape', 'x=1,5,2'],
  ]) {
    const { model } = await tuned([...args.slice(1), ...given], cwd);
    assert.deepEqual(model.shapes, [[1, 5, 2]]);
  }
});

test('memory that does not hold the model is left out with the reason, and nothing is recommended then', async (t) => {
  const cwd = await modelFolder(t, ['N', 4]);
  const told = await tuned(['--model', 'net', '--seconds', '2', '--max-batch', '1', '--memory', '128'], cwd);
  assert.match(told.excluded[0]?.reason ?? '', /^too little: the model needs \d+ MB$/);
  assert.deepEqual(told.recommendations, []);
});

for (const [name, data, bytes] of [
  ['a picture', join(IMAGES, 'digit-4.png'), undefined],
  ['a request', 'request.json', JSON.stringify({ instances: [{ image: { b64: '' } }] })],
] as const) {
  test(`--data takes ${name}, and refuses what the model cannot run`, async (t) => {
    const cwd = await temporaryFolder(t);
    if (bytes === undefined) {
      const told = await tuned(['--model', MODEL, '--data', data, ...SHORT, '--for', 'predict'], cwd);
      assert.equal(told.model.data, 'given');
      return;
    }
    await writeFile(join(cwd, data), bytes);
    const { code, stderr } = await warmCli(['tune', '--model', MODEL, '--data', data, ...SHORT], { cwd });
    assert.equal(code, 1);
    assert.match(stderr, /^error: the model does not run with --data: input "image": /);
  });
}

test('a model that onnxruntime refuses is one line and exit code 1', async (t) => {
  const cwd = await temporaryFolder(t);
  await writeFile(join(cwd, 'broken.onnx'), (await readFile(join(MODEL, 'model.onnx'))).subarray(0, 2_000));
  const { code, stderr } = await warmCli(['tune', '--model', 'broken.onnx', ...SHORT], { cwd });
  assert.equal(code, 1);
  assert.match(stderr, /^error: .*\n$/);
});

const REFUSED: readonly (readonly [string, readonly string[], RegExp])[] = [
  ['no model and no config', [], /which model\? Give --model <dir or file\.onnx>, or a config with -c/],
  [
    'a model that is not there',
    ['--model', 'nowhere'],
    /model .*nowhere: there is no such file or directory/,
  ],
  ['an argument without --write', ['net'], /unexpected "net"; the model is --model <path>/],
  [
    'a memory beyond Lambda',
    ['--memory', '1769,20000'],
    /--memory: expected up to 20 numbers from 128 to 10240/,
  ],
  ['a size that is none', ['--dim', 'height'], /--dim: expected name=size, e\.g\. height=224, got "height"/],
  ['a size twice', ['--dim', 'h=1', '--dim', 'h=2'], /--dim: "h" is given twice/],
  ['a shape with a word', ['--shape', 'x=1,N'], /--shape: expected input=sizes/],
  ['a file of another kind', ['--data', 'x.csv'], /--data: expected a file, or input=file, ending in \.json/],
  ['made-up sizes beside data', ['--data', 'x.npy', '--dim', 'h=2'], /--data brings its own sizes/],
  ['no time', ['--seconds', '0'], /--seconds: expected a whole number from 1 to 3600, got "0"/],
  ['an unknown aim', ['--aim', 'best'], /--aim: expected cheapest, latency, got "best"/],
  [
    '--write without a file',
    ['--write', '--yes'],
    /There is no config\.yaml here; `cluster-serving init` writes one/,
  ],
  ['--write without a terminal', ['--write', 'c.yaml'], /there is no terminal to ask at; pass --yes/],
];
test('what cannot be measured is exit code 2 and one line that says what to do', async (t) => {
  const cwd = await temporaryFolder(t);
  await writeFile(join(cwd, 'c.yaml'), 'modelPath: net\n');
  for (const [name, args, expected] of REFUSED) {
    const { code, stdout, stderr } = await warmCli(['tune', ...args], { cwd });
    assert.deepEqual([code, stdout], [2, ''], name);
    assert.match(stderr, expected, name);
    assert.match(stderr, /^error: [^\n]*\n$/, name);
  }
});

test('a model that never ends is given up, and its process with it', async (t) => {
  const file = join(await temporaryFolder(t), 'loop.onnx');
  await writeFile(file, loopModel());
  const data = join(await temporaryFolder(t), 'rounds.json');
  const open = openLoop(file, data);
  for (const [rounds, limitMs, expected] of [
    [QUICK, 60_000, 'facts'],
    [ENDLESS, 2_000, 'failed'],
  ] as const) {
    await writeFile(data, JSON.stringify({ instances: [{ rounds }] }));
    const child = new TuneProcess();
    t.after(() => child.end());
    const answer = await child.ask({ open }, limitMs);
    assert.deepEqual(Object.keys(answer), [expected]);
    if ('failed' in answer) {
      assert.deepEqual(answer.failed, { code: 'model_failed', message: 'it did not finish within 2 s' });
      const after = await child.ask({ measureMs: 1 }, 60_000);
      assert.match('failed' in after ? after.failed.message : '', /process has ended/);
    }
  }
});

test('a process that is killed is an answer, with the signal', async (t) => {
  if (!existsSync('/proc/self/stat')) return t.skip('needs /proc, to find the process');
  const file = join(await temporaryFolder(t), 'loop.onnx');
  await writeFile(file, loopModel());
  const data = join(await temporaryFolder(t), 'rounds.json');
  await writeFile(data, JSON.stringify({ instances: [{ rounds: ENDLESS }] }));
  const before = await childrenOf(process.pid);
  const child = new TuneProcess();
  t.after(() => child.end());
  const asked = child.ask({ open: openLoop(file, data) }, 60_000);
  await until(async () => (await childrenOf(process.pid)).length > before.length);
  const started = (await childrenOf(process.pid)).find((pid) => !before.includes(pid)) as number;
  process.kill(started, 'SIGKILL');
  const answer = await asked;
  assert.deepEqual('failed' in answer && answer.failed, {
    code: 'model_failed',
    message: 'it ended its process (SIGKILL)',
  });
});

async function childrenOf(parent: number): Promise<number[]> {
  const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name));
  const stats = await Promise.all(pids.map((pid) => readFile(`/proc/${pid}/stat`, 'utf8').catch(() => '')));
  // Behind the name in brackets: state, parent.
  const isChild = (stat: string) => Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]) === parent;
  return pids.filter((_, i) => isChild(stats[i] as string)).map(Number);
}

function openLoop(file: string, data: string): OpenRequest {
  return {
    file,
    shapeless: [],
    point: { endpoint: 'batch', threads: 1, records: 1 },
    sizes: { dims: {}, shapes: {} },
    data: [{ input: undefined, path: data }],
    job: {
      inputAlreadyBatched: false,
      image: {},
      postProcessing: '',
      batching: 'proven',
      inputs: {},
      outputs: {},
    },
  };
}

test('Ctrl-C is one line, exit code 130, and leaves no process and no folder behind', async (t) => {
  if (!existsSync('/proc/self/environ')) return t.skip('needs /proc, to see the processes of a command');
  const cwd = await temporaryFolder(t);
  await writeFile(join(cwd, 'loop.onnx'), loopModel());
  await writeFile(join(cwd, 'rounds.json'), JSON.stringify({ instances: [{ rounds: ENDLESS }] }));
  const folder = join(cwd, 'temporary');
  await mkdir(folder);
  const bin = join(ROOT, 'cli', 'bin', 'cluster-serving.mjs');
  const child = spawn(process.execPath, [bin, 'tune', '--model', 'loop.onnx', '--data', 'rounds.json'], {
    cwd,
    // What Node keeps of its own is none of the command's.
    env: childEnvironment({ TMPDIR: folder, NODE_COMPILE_CACHE: join(cwd, 'compiled') }),
  });
  t.after(() => child.kill('SIGKILL'));
  const ended = Promise.all([once(child, 'close'), textOf(child.stderr), textOf(child.stdout)]);
  await until(async () => (await pointProcesses(folder)).length > 0);
  child.kill('SIGINT');
  const [[code], stderr, stdout] = await ended;
  assert.deepEqual([code, stdout, stderr], [130, '', 'error: interrupted; the measurement was called off\n']);
  await until(async () => (await pointProcesses(folder)).length === 0);
  assert.deepEqual(await readdir(folder), []);
});

/** Of the command whose temporary folder this is. */
async function pointProcesses(folder: string): Promise<string[]> {
  const found: string[] = [];
  for (const pid of (await readdir('/proc')).filter((name) => /^\d+$/.test(name))) {
    const [line, environment] = await Promise.all([
      readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => ''),
      readFile(`/proc/${pid}/environ`, 'utf8').catch(() => ''),
    ]);
    if (line.includes(ROLE) && environment.includes(`TMPDIR=${folder}\0`)) found.push(pid);
  }
  return found;
}
