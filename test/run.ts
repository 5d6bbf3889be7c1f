/**
 * Runs the test files that its globs name, as `npm test` does. Most of a small file's time is loading what it tests, so the
 * files of a folder share a process, one after another (together.ts); those that take long (`.system`, `.deploy` in their
 * names) have one each. What takes longest starts first, so that nothing long is left at the end.
 */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, globSync, mkdirSync, mkdtempSync, rmSync, statfsSync, writeFileSync } from 'node:fs';
import { join, sep } from 'node:path';
import { run } from 'node:test';
import { spec } from 'node:test/reporters';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { FOUND, FOUND_PYTHON } from './support/python.ts';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
/** Ignored by git. */
const MADE = join(ROOT, 'node_modules', '.cache', 'tests');
/** More than processors: most of them wait for a process, a server or the clock some of the time. */
const CONCURRENCY = 5;
const CONCURRENCY_OF_LONG = 5;
/** A process that ends by no means is ended, and has failed. */
const PROCESS_MS = 1_200_000;

/**
 * Folders and files below test/ that share a process, in the order of their starts: those with the most time first, and at
 * the end many short ones, which keep all processors busy until the last has ended. The longest name that fits counts;
 * others share that of their top folder.
 */
const TOGETHER: readonly (readonly string[])[] = [
  ['lib/workers', 'local/worker'],
  ['e2e'],
  ['lib'],
  ['local'],
  ['onnx-import/bigdl', 'onnx-import/caffe', 'onnx-import/openvino', 'onnx-import/tensorflow'],
  ['cli'],
  ['local/decentral', 'local/worker/http', 'sdk/worker', 'python/worker-client.test.ts'],
  ['functions'],
  ['lib/redis', 'lib/results'],
  ['python'],
  ['architecture'],
  ['onnx-import'],
  ['onnx-import/import'],
  ['lib/compose', 'lib/http', 'lib/inference', 'lib/metrics', 'lib/openapi'],
  ['onnx-import/batching', 'onnx-import/pytorch', 'onnx-import/trees'],
  ['sdk'],
  ['embedded-redis'],
  ['simulation'],
  ['lib/codecs'],
  ['infra'],
  ['docs'],
  ['examples'],
];

/** Those that take long have a process each, in this order, and others follow. A folder stands for its files that are not named, which share one. */
const LONG = /\.(system|deploy)\.test\.ts$/;
const LONGEST: readonly string[] = [
  'functions/lambda/frozen.fault.system.test.ts',
  'infra/packages/install.deploy.test.ts',
  'docs/tutorial.deploy.test.ts',
  'infra/packages/onnx-import.deploy.test.ts',
  'infra/commands.deploy.test.ts',
  'infra/every-stack/variants.deploy.test.ts',
  'e2e/endpoints/endpoints.system.test.ts',
  'console/console.system.test.ts',
  'infra/package.system.test.ts',
  'infra/worker/container-image.system.test.ts',
  'infra/doctor/doctor.deploy.test.ts',
  'local/overload/overload.fault.system.test.ts',
  'onnx-import/corpus/openvino.system.test.ts',
  'local/bridge/bridge.fault.system.test.ts',
  'functions/notices.fault.system.test.ts',
  'infra/worker/deployed-worker.system.test.ts',
  'functions/outage.fault.system.test.ts',
  'cli/dlq/replay.system.test.ts',
  'cli/golden.system.test.ts',
  'cli/model/model.system.test.ts',
  'examples/examples.system.test.ts',
  'lib/redis/faults.fault.system.test.ts',
  'lib/redis/cluster.system.test.ts',
  'e2e',
  'functions',
  'lib',
  'infra/idle-price.system.test.ts',
  'infra/packages/packages.deploy.test.ts',
  'simulation/planted/planted.system.test.ts',
  'cli/tune/tune.system.test.ts',
  'docs/tasks.system.test.ts',
  'infra/bundles.system.test.ts',
  'infra/worker/container-deploy.system.test.ts',
  'infra/stages.system.test.ts',
  'cli/model/replay.system.test.ts',
  'cli/lifecycle.system.test.ts',
  'cli/model/trial.system.test.ts',
  'lib/inference/hostile/models.security.system.test.ts',
  'e2e/large-results.system.test.ts',
  'functions/outcomes-through-kills.fault.system.test.ts',
  'infra/file-jobs.system.test.ts',
  'infra/package-options.system.test.ts',
  'e2e/both-paths.system.test.ts',
  'infra/trials.system.test.ts',
  'architecture/planted.system.test.ts',
  'lib/compose/replaced.system.test.ts',
  'infra/table.system.test.ts',
  'onnx-import/corpus/imports.system.test.ts',
  'lib/table/uri-life.fault.system.test.ts',
  'functions/crash.fault.system.test.ts',
  'infra/packages/lint.deploy.test.ts',
  'e2e/named/many.system.test.ts',
  'onnx-import/corpus/served.system.test.ts',
  'functions/dead-letter.fault.system.test.ts',
  'lib/redis/suites.system.test.ts',
  'lib/inference/isolated-run.system.test.ts',
  'lib/jobs/through-kills.fault.system.test.ts',
  'lib/queue/sqs-send.fault.system.test.ts',
  'cli/model/push.system.test.ts',
  'cli/model/named.system.test.ts',
  'cli/model/diff.system.test.ts',
  'cli/worker-commands.system.test.ts',
  'functions/lambda/redelivered.fault.system.test.ts',
  'docs',
  'console',
  'cli',
  'onnx-import',
];

/** A process each: a module of theirs has a top-level await, so that it does not load at once, or the first call counts. */
const ALONE: readonly string[] = [
  'architecture/architecture.test.ts',
  'bench/packages.test.ts',
  'bench/report.test.ts',
  'onnx-import/model-process.test.ts',
  'docs/reference.test.ts',
  'lib/compose/log-fields.test.ts',
  'lib/inference/quantized.test.ts',
  'lib/observe/golden.test.ts',
  'lib/workers/golden.test.ts',
  'local/event-source/receive.test.ts',
  'sdk/proxy.test.ts',
];

/**
 * V8 would visit the whole heap again for each 64 MB of buffers, which hardly frees any: a quarter of the processor time of the
 * largest process. The processes that a test forks have these too.
 */
const GARBAGE = ['--external-memory-accounted-in-global-limit', '--initial-old-space-size=256'];

/** A file system in memory. Most temporary files of tests are small and live for a moment, and a disk works for each. */
const IN_MEMORY = '/dev/shm';
const LEAST_ROOM = 4 * 1024 ** 3;

function hasRoom(folder: string): boolean {
  if (!existsSync(folder)) return false;
  const { bavail, bsize } = statfsSync(folder);
  return bavail * bsize >= LEAST_ROOM;
}

function testFiles(globs: readonly string[]): string[] {
  const found = new Set(globs.flatMap((glob) => globSync(glob, { cwd: ROOT })));
  if (found.size === 0) throw new Error(`no test files: ${globs.join(' ') || 'expected globs as arguments'}`);
  return [...found].map((file) => file.split(sep).join('/')).sort();
}

/** The name of the process that runs a file, which begins with its place in the order of their starts. */
function processOf(file: string): string {
  const path = file.slice('test/'.length);
  if (LONG.test(path)) {
    const folder = path.replace(/\/.*/, '');
    const named = LONGEST.includes(folder) && !LONGEST.includes(path) ? folder : path;
    const place = LONGEST.indexOf(named);
    return `${String(place < 0 ? LONGEST.length : place).padStart(2, '0')}-${named.replaceAll('/', '-')}`;
  }
  const fitting = TOGETHER.flatMap((parts, place) =>
    parts.filter((part) => `${path}/`.startsWith(`${part}/`)).map((part) => ({ part, place })),
  );
  const { place = TOGETHER.length } = fitting.toSorted((a, b) => b.part.length - a.part.length)[0] ?? {};
  const name = ALONE.includes(path) ? path : (TOGETHER[place]?.[0] ?? path.replace(/\/.*/, ''));
  return `${String(place).padStart(2, '0')}-${name.replaceAll('/', '-')}`;
}

/** As source code. */
const urlOf = (path: string) => JSON.stringify(pathToFileURL(join(ROOT, path)).href);

/** Returns what each process runs, in the order of their starts. */
function scripts(all: readonly string[]): string[] {
  mkdirSync(MADE, { recursive: true });
  const groups = Map.groupBy(all, processOf);
  const [untracked, together] = ['test/untracked.ts', 'test/together.ts'].map(urlOf);
  return [...groups.keys()].sort().map((name) => {
    const files = groups.get(name) ?? [];
    const script = join(MADE, `${name}.mjs`);
    const alone = `await import(${urlOf(files[0] as string)});`;
    const others = [
      `const { runTogether } = await import(${together});`,
      `runTogether(${JSON.stringify(files)});`,
    ];
    const lines = [`import ${untracked};`, ...(files.length === 1 ? [alone] : others)];
    writeFileSync(script, `${lines.join('\n')}\n`);
    return script;
  });
}

/**
 * What tests start often and end by a signal, with questions for it. Such a process keeps nothing of what it has compiled,
 * and compiles it again each time, which takes most of its processor time. A question without what it needs fails when its code
 * is loaded.
 */
const ENDED_BY_SIGNAL = [
  {
    script: 'release/process.ts',
    questions: ['prepare', 'check', 'nodes', 'padding', 'golden', 'diff', 'growth', 'replay'],
  },
  { script: 'onnx-import/verify/process.ts', questions: ['prepare'] },
  { script: 'lib/compose/isolated-process.ts', questions: ['facts'] },
];
const FILL_MS = 60_000;

/** Lets one of each end by itself, which keeps its part of the cache. */
async function fillCompileCache(): Promise<void> {
  const ended = ENDED_BY_SIGNAL.map(async ({ script, questions }) => {
    const child = fork(join(ROOT, script), {
      stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
      timeout: FILL_MS,
    });
    const exit = once(child, 'exit');
    for (const name of questions) {
      child.send({ name, request: {} });
      await Promise.race([once(child, 'message'), exit]);
    }
    if (child.connected) child.disconnect();
    await exit;
  });
  await Promise.all(ended);
}

if (process.env['NODE_COMPILE_CACHE'] !== undefined) await fillCompileCache();
process.env[FOUND_PYTHON] = FOUND;
const all = testFiles(process.argv.slice(2));
const isLong = all.some((file) => LONG.test(file));
if (!isLong && process.env['TMPDIR'] === undefined && hasRoom(IN_MEMORY)) {
  const folder = mkdtempSync(join(IN_MEMORY, 'tests-'));
  process.env['TMPDIR'] = folder;
  process.once('exit', () => rmSync(folder, { recursive: true, force: true, maxRetries: 3 }));
  // A signal by itself would leave the folder in memory.
  for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => process.exit(1));
}
const concurrency = isLong ? CONCURRENCY_OF_LONG : CONCURRENCY;
run({
  files: scripts(all),
  concurrency,
  // A system test may measure the memory of what it forks.
  execArgv: isLong ? [] : [...GARBAGE],
  timeout: PROCESS_MS,
  cwd: ROOT,
})
  .on('test:fail', () => {
    process.exitCode = 1;
  })
  .compose(new spec())
  .pipe(process.stdout);
