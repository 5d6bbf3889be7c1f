import assert from 'node:assert/strict';
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, readdir, readFile, symlink, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { type AddressInfo, createServer as createTcpServer } from 'node:net';
import { dirname, join } from 'node:path';
import { text } from 'node:stream/consumers';
import { type TestContext, test } from 'node:test';
import { holdFolder } from '../../local/machine/lock.ts';
import { identify, isAlive, untilGone } from '../../local/machine/process.ts';
import { claimFolder, findRunning, type StackRecord } from '../../local/service/data-folder.ts';
import { childEnvironment } from '../support/environment.ts';
import { until } from '../support/until.ts';
import { type CliAnswer, cli, cliJson, MODEL, ROOT, serviceFolder } from './cli.ts';
import { warmCli, warmCliJson } from './warm.ts';

type Started = StackRecord & { readonly ready: string; readonly sample?: { right: number; of: number } };

const recordPath = (cwd: string) => join(cwd, '.cluster-serving', 'stack.json');
const readRecord = async (cwd: string) => JSON.parse(await readFile(recordPath(cwd), 'utf8')) as StackRecord;

/** A job on the digits model, without the sample's run: ready sooner. */
async function writeConfig(cwd: string, rest = ''): Promise<void> {
  await writeFile(join(cwd, 'config.yaml'), `modelPath: ${MODEL}\nimageResize: 8,8\n${rest}`);
}

test('start returns when the service answers, and it runs on until stop, which leaves nothing of it', async (t) => {
  const cwd = await serviceFolder(t);
  const {
    json: started,
    code,
    stderr,
  } = (await cliJson(['start', '--port', '0'], { cwd })) as CliAnswer<Started>;
  assert.equal(code, 0, stderr);
  assert.deepEqual(started.sample, { right: 10, of: 10 });
  assert.equal((await fetch(`${started.ready}/ready`)).status, 200);
  assert.deepEqual(
    await readRecord(cwd),
    JSON.parse(JSON.stringify({ ...started, ready: undefined, sample: undefined })),
  );
  assert.match(await readFile(started.log as string, 'utf8'), /10 of 10 right[\s\S]*ready http/);

  const second = await cli(['start', '--port', '0'], { cwd });
  assert.equal(second.code, 2);
  assert.match(
    second.stderr,
    new RegExp(`^error: a service already runs .*process ${started.pid}, ready at`),
  );

  const { json: status, code: statusCode } = (await cliJson(['status'], {
    cwd,
  })) as CliAnswer<Started & { metrics: object[] }>;
  assert.equal(statusCode, 0);
  assert.deepEqual([status.ready, status.pid, status.http], [true, started.pid, started.http]);
  assert.ok(status.metrics.length > 0);

  const { json: stopped, code: stopCode } = (await cliJson(['stop'], { cwd })) as CliAnswer<{ pid: number }>;
  assert.equal(stopCode, 0);
  assert.equal(stopped.pid, started.pid);
  assert.equal(await isAlive(started), false);
  assert.ok(!existsSync(recordPath(cwd)));
  assert.ok(!existsSync(join(dirname(recordPath(cwd)), 'lock.json')));
  const after = (await warmCliJson(['status'], { cwd })) as CliAnswer<{ running: boolean }>;
  assert.deepEqual([after.code, after.json.running], [3, false]);
  const again = (await warmCliJson(['stop'], { cwd })) as CliAnswer<{ stopped: boolean }>;
  assert.deepEqual([again.code, again.json.stopped], [0, false]);
});

test('a log on a full disk ends no service: it starts, serves, and stops', {
  skip: existsSync('/dev/full') ? false : 'needs /dev/full, which has no room for any byte',
}, async (t) => {
  const cwd = await serviceFolder(t);
  await writeConfig(cwd);
  await mkdir(join(cwd, '.cluster-serving'));
  await symlink('/dev/full', join(cwd, '.cluster-serving', 'start.log'));
  // Both of its outputs: --verbose lines are for stderr, an error inside a function is for stdout.
  const {
    json: started,
    code,
    stderr,
  } = (await warmCliJson(['start', '--port', '0', '--verbose'], {
    cwd,
  })) as CliAnswer<Started>;
  assert.equal(code, 0, stderr);
  const unknown = await fetch(`${started.http}/predict`, { method: 'POST', body: '{"instances":[{"x":' });
  assert.equal(unknown.status, 400);
  const image = join(ROOT, 'examples/digits/images/digit-7.png');
  assert.equal((await warmCli(['enqueue', `r=${image}`], { cwd })).code, 0);
  assert.equal((await warmCli(['query', 'r', '--wait', '20'], { cwd })).code, 0);
  const status = (await warmCliJson(['status'], { cwd })) as CliAnswer<{ pid: number }>;
  assert.deepEqual([status.code, status.json.pid], [0, started.pid]);
  assert.equal((await warmCli(['stop'], { cwd })).code, 0);
});

test('restart, from any folder, keeps the options and what is stored; a broken config stops nothing', async (t) => {
  const cwd = await serviceFolder(t);
  await writeConfig(cwd, 'jobName: cats\n');
  const first = (
    (await warmCliJson(['start', '--port=0', '--embedded-redis'], { cwd })) as CliAnswer<Started>
  ).json;
  const image = join(ROOT, 'examples/digits/images/digit-7.png');
  assert.equal((await warmCli(['enqueue', `kept=${image}`], { cwd })).code, 0);
  assert.equal((await warmCli(['query', 'kept', '--wait', '20'], { cwd })).code, 0);

  await writeConfig(cwd, 'jobName: cats\nbatchSize: none\n');
  const refused = await warmCli(['restart'], { cwd });
  assert.equal(refused.code, 2);
  assert.match(refused.stderr, /batchSize/);
  assert.equal(((await warmCliJson(['status'], { cwd })) as CliAnswer<{ pid: number }>).json.pid, first.pid);

  await writeConfig(cwd, 'jobName: cats\nbatchSize: 2\n');
  const dataDir = join(cwd, '.cluster-serving');
  const {
    json: second,
    code,
    stderr,
  } = (await warmCliJson(['restart', '--data-dir', dataDir], { cwd: ROOT })) as CliAnswer<Started>;
  assert.equal(code, 0, stderr);
  assert.notEqual(second.pid, first.pid);
  assert.equal(await isAlive(first), false);
  assert.equal(second.job, 'cats');
  assert.deepEqual(second.startedWith, first.startedWith);
  const query = (await warmCliJson(['query', 'kept'], { cwd })) as CliAnswer<{
    results: { status: string }[];
  }>;
  assert.deepEqual(
    query.json.results.map((result) => result.status),
    ['succeeded'],
  );
});

test('two configs start two jobs; each command finds the one it names, and restart brings both back', async (t) => {
  const cwd = await serviceFolder(t);
  for (const name of ['cats', 'dogs'])
    await writeFile(join(cwd, `${name}.yaml`), `modelPath: ${MODEL}\nimageResize: 8,8\njobName: ${name}\n`);
  const args = ['start', '-c', 'cats.yaml', '-c', 'dogs.yaml', '--port', '0'];
  const { json: started, code, stderr } = (await warmCliJson(args, { cwd })) as CliAnswer<Started>;
  assert.equal(code, 0, stderr);
  assert.deepEqual(
    started.jobs.map(({ job }) => job),
    ['cats', 'dogs'],
  );
  const image = join(ROOT, 'examples/digits/images/digit-7.png');
  assert.equal((await warmCli(['enqueue', '--job', 'dogs', `rex=${image}`], { cwd })).code, 0);
  assert.equal((await warmCli(['query', '--job', 'dogs', 'rex', '--wait', '20'], { cwd })).code, 0);
  assert.equal((await warmCli(['query', '--job', 'cats', 'rex'], { cwd })).code, 4);
  assert.equal((await warmCli(['predict', '--job', 'dogs', image], { cwd })).code, 0);
  const unknownJob = await warmCli(['query', '--job', 'cows', 'rex'], { cwd });
  assert.equal(unknownJob.code, 2);
  assert.match(unknownJob.stderr, /serves cats, dogs, not the job cows/);

  const { json: again } = (await warmCliJson(['restart'], { cwd })) as CliAnswer<Started>;
  assert.deepEqual(
    again.jobs.map(({ job }) => job),
    ['cats', 'dogs'],
  );
  const { json: status } = (await warmCliJson(['status'], { cwd })) as CliAnswer<{
    jobs: { ready: boolean }[];
  }>;
  assert.deepEqual(
    status.jobs.map(({ ready }) => ready),
    [true, true],
  );
});

test('a second start with another job takes a folder and ports of its own, and status lists both', async (t) => {
  const cwd = await serviceFolder(t);
  await writeConfig(cwd, 'jobName: cats\n');
  const { json: cats } = (await warmCliJson(['start', '--port', '0'], { cwd })) as CliAnswer<Started>;
  await writeConfig(cwd, 'jobName: dogs\n');
  const { stdout, stderr, code } = await warmCli(['start'], { cwd });
  assert.equal(code, 0, stderr);
  assert.match(stderr, new RegExp(`note: the job cats runs at ${cats.http}`));
  const [, http] = /^ready (http:\S+)$/m.exec(stdout) ?? [];
  assert.notEqual(http, cats.http);
  assert.deepEqual(await readRecord(cwd), JSON.parse(JSON.stringify({ ...cats, ready: undefined })));

  const { json: status, ...ran } = (await warmCliJson(['status'], { cwd })) as CliAnswer<
    Started & { dataDir: string; others: { dataDir: string; jobs: { job: string; http: string }[] }[] }
  >;
  assert.deepEqual([ran.code, status.job, status.http], [0, 'cats', cats.http]);
  const dataDir = join(cwd, '.cluster-serving-dogs');
  assert.deepEqual(
    status.others.filter((other) => other.dataDir === dataDir).map(({ jobs }) => jobs),
    [[{ job: 'dogs', http }]],
  );
  const shown = (await warmCli(['status'], { cwd })).stdout;
  assert.match(shown, /^job cats, /m);
  assert.ok(shown.includes(`job dogs runs at ${http} (--data-dir ${dataDir})`), shown);
  const elsewhere = await warmCli(['status', '--data-dir', dataDir], { cwd });
  assert.ok(elsewhere.stdout.includes(`job cats runs at ${cats.http} (--data-dir ${status.dataDir})`));

  const image = join(ROOT, 'examples/digits/images/digit-7.png');
  assert.equal((await warmCli(['predict', '--job', 'dogs', image], { cwd })).code, 0);
  const third = await warmCli(['start'], { cwd });
  assert.equal(third.code, 2);
  assert.match(third.stderr, /a service already runs on .*-dogs /);
  const stopped = await warmCli(['stop'], { cwd });
  assert.equal(stopped.code, 0);
  assert.ok(stopped.stderr.includes(`job dogs runs at ${http} (--data-dir ${dataDir})`), stopped.stderr);
  assert.equal((await warmCli(['stop', '--data-dir', dataDir], { cwd })).code, 0);
});

test('restart after a stop, and after a start that failed, still knows the options; a model that cannot be imported stops nothing', async (t) => {
  const cwd = await serviceFolder(t);
  await writeFile(join(cwd, 'mine.yaml'), `modelPath: ${MODEL}\nimageResize: 8,8\njobName: mine\n`);
  const { json: first } = (await warmCliJson(['start', '-c', 'mine.yaml', '--port', '0'], {
    cwd,
  })) as CliAnswer<Started>;
  const broken = join(cwd, 'broken');
  await mkdir(broken);
  await writeFile(join(broken, 'deploy.prototxt'), 'layer { name: "x" type: "Nonsense" }');
  await writeFile(join(cwd, 'mine.yaml'), `modelPath: broken\nimageResize: 8,8\njobName: mine\n`);
  const refused = await warmCli(['restart'], { cwd });
  assert.notEqual(refused.code, 0);
  assert.match(refused.stderr, /deploy\.prototxt/);
  assert.equal(((await warmCliJson(['status'], { cwd })) as CliAnswer<{ pid: number }>).json.pid, first.pid);

  assert.equal((await warmCli(['stop'], { cwd })).code, 0);
  assert.notEqual((await warmCli(['restart'], { cwd })).code, 0);
  await writeFile(join(cwd, 'mine.yaml'), `modelPath: ${MODEL}\nimageResize: 8,8\njobName: mine\n`);
  const { json: again } = (await warmCliJson(['restart'], { cwd })) as CliAnswer<Started>;
  assert.deepEqual([again.job, again.startedWith], ['mine', first.startedWith]);
});

test('what a killed service leaves behind is not taken for one, and does not hold up the next start', async (t) => {
  const cwd = await serviceFolder(t);
  await writeConfig(cwd);
  const { json: first } = (await warmCliJson(['start', '--port', '0'], { cwd })) as CliAnswer<Started>;
  process.kill(first.pid, 'SIGKILL');
  assert.ok(await untilGone(first, 5_000));
  assert.ok(existsSync(recordPath(cwd)));
  assert.equal((await warmCli(['status'], { cwd })).code, 3);
  const query = (await warmCliJson(['query', 'x'], { cwd })) as CliAnswer<{ code: string }>;
  assert.deepEqual([query.code, query.json.code], [3, 'not_running']);
  const { code, json: second } = (await warmCliJson(['start', '--port', '0'], { cwd })) as CliAnswer<Started>;
  assert.equal(code, 0);
  assert.notEqual(second.pid, first.pid);
  process.kill(second.pid, 'SIGKILL');
  assert.ok(await untilGone(second, 5_000));
  const { json: third } = (await warmCliJson(['restart'], { cwd })) as CliAnswer<Started>;
  assert.deepEqual(third.startedWith, first.startedWith);
});

test('a process that only has the number of the old one is neither reported nor stopped', async (t) => {
  const cwd = await serviceFolder(t);
  const other = sleeper(t);
  const { pid } = other as { pid: number };
  await writeRecordOf(cwd, { pid, startedAt: '1' });
  assert.equal((await warmCli(['status'], { cwd })).code, 3);
  assert.equal((await warmCli(['stop'], { cwd })).code, 0);
  assert.equal(other.exitCode, null);
  assert.ok(await isAlive(await identify(pid)));
});

test('a service that ignores SIGTERM is killed after the time limit, with a warning', async (t) => {
  const cwd = await serviceFolder(t);
  const deaf = sleeper(t, "process.on('SIGTERM', () => {}); console.log('deaf');");
  await new Promise((resolve) => deaf.stdout?.once('data', resolve));
  await writeRecordOf(cwd, await identify(deaf.pid as number));
  const { code, stderr, json } = (await warmCliJson(['stop', '--timeout', '0'], { cwd })) as CliAnswer<{
    killed: boolean;
  }>;
  assert.equal(code, 0);
  assert.equal(json.killed, true);
  assert.match(stderr, new RegExp(`warning: process ${deaf.pid} did not end in 0 s and is killed`));
  await until(() => deaf.signalCode === 'SIGKILL');
  assert.ok(!existsSync(recordPath(cwd)));
});

test('status is 4 while the service starts and while it cannot predict, with the reason', async (t) => {
  const cwd = await serviceFolder(t);
  await mkdir(join(cwd, '.cluster-serving'));
  const release = await holdFolder(join(cwd, '.cluster-serving'));
  t.after(release);
  const starting = await warmCli(['status'], { cwd });
  assert.equal(starting.code, 4);
  assert.match(starting.stdout, /still starting/);
  assert.match((await warmCli(['start'], { cwd })).stderr, /already runs .* not ready yet/);
  const restart = await warmCli(['restart'], { cwd });
  assert.deepEqual([restart.code, restart.stderr.includes('still starting')], [4, true]);

  const server = createServer((_, response) => {
    response.writeHead(503).end('{"error":"Redis is away","code":"results_unavailable"}');
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => server.close());
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  await writeRecordOf(cwd, {
    ...(await identify(process.pid)),
    jobs: [{ job: 'serving_stream', model: 'v', modelNotes: [], http: url, queueUrl: '', deadLetterUrl: '' }],
  });
  for (const where of [[], ['--url', url]]) {
    const { code, json } = (await warmCliJson(['status', ...where], { cwd })) as CliAnswer<{
      ready: boolean;
      reason: string;
    }>;
    assert.deepEqual([code, json.ready, json.reason], [4, false, 'Redis is away']);
  }
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
  assert.equal((await warmCli(['status', '--url', url], { cwd })).code, 3);
});

test('a start that fails says why with the right exit code, and leaves no process behind', async (t) => {
  const cwd = await serviceFolder(t);
  await writeFile(join(cwd, 'config.yaml'), 'modelPath: nowhere\n');
  const args = ['start', '--port', '0', '--verbose'];
  const noModel = (await warmCliJson(args, { cwd })) as CliAnswer<{ error: string; code: string }>;
  assert.equal(noModel.code, 1);
  assert.equal(noModel.json.code, 'model_unavailable');
  // The end of the log first, then what it came to.
  assert.match(
    noModel.stderr,
    /^ {2}\| SQS and S3 are up[\s\S]*\nerror: model directory .*nowhere.*\nthe whole log: /,
  );
  await assertNothingRuns(cwd);

  await writeConfig(cwd);
  const blocker = createTcpServer();
  await new Promise<void>((resolve) => blocker.listen(0, '127.0.0.1', resolve));
  t.after(() => blocker.close());
  const { port } = blocker.address() as AddressInfo;
  const taken = await warmCli(['start', '--port=0', `--aws-port=${port}`], { cwd });
  assert.equal(taken.code, 2);
  assert.match(taken.stderr, new RegExp(`port ${port} is in use by process ${process.pid} .*--aws-port`));
  await assertNothingRuns(cwd);

  const late = await warmCli(['start', '--port', '0', '--timeout', '0'], { cwd });
  assert.equal(late.code, 1);
  assert.match(late.stderr, /not ready after 0 s; --timeout allows more/);
  await assertNothingRuns(cwd);
});

test('Ctrl-C during a start calls it off and takes the process with it', async (t) => {
  const cwd = await serviceFolder(t);
  const script = join(ROOT, 'cli/bin/cluster-serving.mjs');
  const child = spawn(process.execPath, [script, 'start', '--port', '0'], {
    cwd,
    env: childEnvironment(),
  });
  const said = text(child.stderr);
  const exited = new Promise((resolve) => child.once('exit', resolve));
  // The process in the background has its folder, and a second of work before it is ready.
  await until(
    async () => child.exitCode !== null || (await findRunning(join(cwd, '.cluster-serving'))) !== undefined,
  );
  child.kill('SIGINT');
  assert.equal(await exited, 1);
  assert.match(await said, /^error: interrupted; the start was called off$/m);
  await assertNothingRuns(cwd);
});

test('a config with problems is refused before a folder is made', async (t) => {
  const cwd = await serviceFolder(t);
  await writeFile(join(cwd, 'config.yaml'), 'batchSise: 3\n');
  const { code, stderr } = await warmCli(['start', '--port', '0'], { cwd });
  assert.equal(code, 2);
  assert.match(stderr, /did you mean batchSize/);
  assert.deepEqual(await readdir(cwd), ['config.yaml']);
});

test('shutdown wants a yes, then stops the service and deletes what it made, and nothing else', async (t) => {
  const cwd = await serviceFolder(t);
  const dataDir = join(cwd, '.cluster-serving');
  await writeConfig(cwd);
  const { json: started } = (await warmCliJson(['start', '--port', '0'], { cwd })) as CliAnswer<Started>;
  const unasked = await warmCli(['shutdown'], { cwd });
  assert.equal(unasked.code, 2);
  assert.match(unasked.stderr, /no terminal to ask at; pass --yes/);
  if (hasScript())
    assert.match(atTerminal('shutdown', 'no', cwd), /Type yes to do it: [\s\S]*nothing was stopped/);
  assert.ok(await isAlive(started));

  await writeFile(join(dataDir, 'notes.txt'), 'mine');
  const { code, json } = (await warmCliJson(['shutdown', '--yes'], { cwd })) as CliAnswer<{ left: string[] }>;
  assert.equal(code, 0);
  assert.deepEqual(json.left, ['notes.txt']);
  assert.equal(await isAlive(started), false);
  assert.deepEqual(await readdir(dataDir), ['notes.txt']);
});

test('shutdown refuses a folder that was there before the service, and deletes one that a start made', async (t) => {
  const cwd = await serviceFolder(t);
  await mkdir(join(cwd, 'models'));
  await writeFile(join(cwd, 'models', 'precious.onnx'), 'x');
  const refused = await warmCli(['shutdown', '--yes', '--data-dir', '.'], { cwd });
  assert.equal(refused.code, 2);
  assert.match(refused.stderr, /was not made by cluster-serving and is not deleted; its files there: models/);
  assert.equal(await readFile(join(cwd, 'models', 'precious.onnx'), 'utf8'), 'x');

  await claimFolder(join(cwd, '.cluster-serving'));
  await writeFile(join(cwd, '.cluster-serving', 'start.log'), 'x');
  if (hasScript()) assert.match(atTerminal('shutdown', 'yes', cwd), /deleted .+\.cluster-serving/);
  else assert.equal((await warmCli(['shutdown', '-y'], { cwd })).code, 0);
  assert.ok(!existsSync(join(cwd, '.cluster-serving')));
  assert.equal((await warmCli(['shutdown', '--yes'], { cwd })).code, 0);
});

test('the old commands do what they did: init, start -c, restart, stop, shutdown', async (t) => {
  const cwd = await serviceFolder(t);
  const old = (name: string, ...args: string[]) => cli(args, { cwd, script: `cluster-serving-${name}` });
  assert.equal((await old('init')).code, 0);
  await writeConfig(cwd);
  const started = await old('start', '-c', 'config.yaml', '--port', '0');
  assert.equal(started.code, 0, started.stderr);
  assert.match(started.stdout, /\nready http:\/\/localhost:\d+\n$/);
  const { pid } = await readRecord(cwd);
  assert.equal((await old('restart')).code, 0);
  const { pid: next } = await readRecord(cwd);
  assert.notEqual(next, pid);
  assert.match((await old('stop')).stdout, new RegExp(`stopped process ${next}`));
  assert.equal((await old('shutdown', '--yes')).code, 0);
  assert.deepEqual(await readdir(cwd), ['config.yaml']);
});

test('start --foreground stays until it is stopped, and can be found meanwhile', async (t) => {
  const cwd = await serviceFolder(t);
  await writeConfig(cwd);
  const script = join(ROOT, 'cli/bin/cluster-serving.mjs');
  const child = spawn(process.execPath, [script, 'start', '--foreground', '--port', '0', '--json'], {
    cwd,
    env: childEnvironment(),
  });
  t.after(() => child.kill('SIGKILL'));
  let stdout = '';
  child.stdout.on('data', (piece: Buffer) => {
    stdout += piece.toString();
  });
  const exited = new Promise((resolve) => child.once('exit', resolve));
  await until(() => child.exitCode !== null || stdout.includes('"ready"'));
  const { json } = (await warmCliJson(['status'], { cwd })) as CliAnswer<{
    pid: number;
    ready: boolean;
    log?: string;
  }>;
  assert.deepEqual([json.pid, json.ready, json.log], [child.pid, true, undefined]);
  for (const line of stdout.trim().split('\n')) JSON.parse(line);
  assert.equal((await warmCli(['stop'], { cwd })).code, 0);
  assert.equal(await exited, 0);
});

/** A process that does nothing, until the end of the test. */
function sleeper(t: TestContext, code = ''): ChildProcess {
  const child = spawn(process.execPath, ['-e', `${code} setInterval(() => {}, 1e6)`], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  t.after(() => child.kill('SIGKILL'));
  return child;
}

async function writeRecordOf(cwd: string, record: Partial<StackRecord>): Promise<void> {
  await mkdir(join(cwd, '.cluster-serving'), { recursive: true });
  await writeFile(
    recordPath(cwd),
    JSON.stringify({ since: new Date().toISOString(), environment: {}, ...record }),
  );
}

async function assertNothingRuns(cwd: string): Promise<void> {
  assert.equal((await warmCli(['status'], { cwd })).code, 3);
  for (const pid of await readdir('/proc').catch(() => [])) {
    const line = /^\d+$/.test(pid) ? await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '') : '';
    assert.ok(!line.includes(join(cwd, '.cluster-serving')), `left behind: ${line.replaceAll('\0', ' ')}`);
  }
}

function hasScript(): boolean {
  return spawnSync('script', ['--version'], { encoding: 'utf8' }).stdout?.includes('util-linux') ?? false;
}

/** Runs a command at a terminal, types one line and gives all that was seen. */
function atTerminal(command: string, typed: string, cwd: string): string {
  const line = `'${process.execPath}' '${join(ROOT, 'cli/bin/cluster-serving.mjs')}' ${command}`;
  const { stdout } = spawnSync('script', ['-qec', line, '/dev/null'], {
    cwd,
    env: childEnvironment(),
    input: `${typed}\n`,
    encoding: 'utf8',
    timeout: 120_000,
  });
  return stdout;
}
