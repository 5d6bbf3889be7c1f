/**
 * In: the bundle of functions/predict.ts, built here from the sources. Out: ms from the spawn of a process to its first
 * answer, model from S3 included, beside a process that only opens the model file and runs it.
 * Trap: the first spawn reads the disk and the others its cache; one of each kind goes before and is not counted. It is
 * not Lambda's own runtime client that loads the bundle here, so the target's number is shown and not judged.
 */
import { fork } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { APIGatewayProxyStructuredResultV2 } from 'aws-lambda';
import type { buildFunctions as BuildFunctions } from '../../infra/build.ts';
import { modelPrefix } from '../../lib/contract/names.ts';
import { publishModel } from '../../lib/model/publish.ts';
import { type LocalAws, startAws } from '../../local/aws.ts';
import type { Bench, Scenario } from '../bench.ts';
import { pairwise, REPEATS, spreadOf } from '../measure.ts';
import { type BenchModel, randomRows } from '../models.ts';
import { answersOf, assertSame, openRaw } from '../raw.ts';
import type { Line, Skipped } from '../report.ts';
import { nestedNumbers, predictEvent, predictionOf } from '../served.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const BUCKET = 'bench';
const JOB = 'serving_stream';
const ANSWER_LIMIT_MS = 30_000;
const NAME = 'predict with a model of 5 MB, spawn to first answer';

export const cold: Scenario = {
  name: 'cold',
  about: 'spawn of a process with the bundle of predict to its first answer',
  async run(bench) {
    const built = await buildBundle(bench);
    if ('skipped' in built) return [built];
    const model = await bench.model('mlp-5mb');
    const log = { info: () => undefined, warn: console.error, error: console.error };
    const aws = await startAws({ port: 0, log });
    try {
      await aws.createBucket(BUCKET);
      await publishModel(aws.s3, { bucket: BUCKET, prefix: modelPrefix(JOB) }, model.folder);
      return await measure(bench, model, aws, built.bundle);
    } finally {
      await aws.close();
    }
  },
};

interface Builder {
  readonly buildFunctions: typeof BuildFunctions;
}

/** Built anew, so that no old dist/ is measured. */
async function buildBundle(bench: Bench): Promise<{ bundle: string } | Skipped> {
  const skip = (skipped: string): Skipped => ({ scenario: 'cold', name: NAME, skipped });
  const builder = new URL('../../infra/build.ts', import.meta.url);
  if (!existsSync(builder)) return skip('infra/build.ts is not there');
  const { buildFunctions } = (await import(builder.href)) as Builder;
  const outFolder = relative(ROOT, join(bench.folder, 'dist'));
  const processor = process.arch === 'arm64' ? 'arm64' : 'x64';
  const bundles = await buildFunctions({ root: ROOT, processor, outFolder });
  const folder = bundles.find(({ name }) => name === 'predict')?.folder;
  return folder ? { bundle: join(folder, 'index.mjs') } : skip('the build made no predict');
}

async function measure(bench: Bench, model: BenchModel, aws: LocalAws, bundle: string): Promise<Line[]> {
  const [row] = randomRows(51, model.rowShape, 1) as [Float32Array];
  const session = await openRaw(model);
  const [answer] = (await answersOf(session, [row])) as [Float32Array];
  await session.close();
  const folder = join(bench.folder, 'cold');
  await mkdir(folder);
  const eventFile = join(folder, 'event.json');
  const rowFile = join(folder, 'row.json');
  const body = JSON.stringify({ instances: [{ [model.input]: nestedNumbers(row, model.rowShape) }] });
  await writeFile(eventFile, JSON.stringify(predictEvent(body)));
  await writeFile(rowFile, JSON.stringify(Array.from(row)));
  const redisUrl = (await bench.redis()).url;

  const spawnFunction = async (compileCache?: string) => {
    // A Lambda environment starts with an empty /tmp.
    const temp = await mkdtemp(join(folder, 'tmp-'));
    const environment = {
      ...aws.environment,
      CLUSTER_SERVING_BUCKET: BUCKET,
      CLUSTER_SERVING_REDIS_URL: redisUrl,
      // Never called; its presence opens the model in INIT, as on Lambda.
      AWS_LAMBDA_RUNTIME_API: '127.0.0.1:9',
      AWS_LAMBDA_FUNCTION_MEMORY_SIZE: '1769',
      TMPDIR: temp,
      ...(compileCache ? { NODE_COMPILE_CACHE: compileCache } : {}),
    };
    const { answer: response, ms } = await spawnOnce('cold-function', [bundle, eventFile], environment);
    const { statusCode, body: text } = response as APIGatewayProxyStructuredResultV2;
    if (statusCode !== 200) throw new Error(`the function answered ${statusCode}: ${text}`);
    assertSame(predictionOf(text), answer, 'cold start');
    await rm(temp, { recursive: true, force: true });
    return ms;
  };
  const spawnRaw = async () => {
    const { answer: values, ms } = await spawnOnce('cold-raw', [model.path, model.input, rowFile], {});
    assertSame(values as number[], answer, 'cold start, raw');
    return ms;
  };
  const compileCache = join(folder, 'compile-cache');
  const times = { raw: [] as number[], ours: [] as number[], cached: [] as number[] };
  for (let repeat = -1; repeat < REPEATS; repeat++) {
    const raw = await spawnRaw();
    const ours = await spawnFunction();
    const cached = await spawnFunction(compileCache);
    if (repeat < 0) continue;
    times.raw.push(raw);
    times.ours.push(ours);
    times.cached.push(cached);
  }
  const rowOf = (name: string, ours: number[]): Line => ({
    scenario: 'cold',
    name,
    metric: 'times a raw process',
    unit: 'x',
    raw: spreadOf(times.raw).median,
    ours: spreadOf(ours).median,
    baseUnit: 'ms',
    value: pairwise(ours, times.raw, (a, b) => a / b),
  });
  return [
    rowOf(NAME, times.ours),
    rowOf(`${NAME}, NODE_COMPILE_CACHE warm`, times.cached),
    {
      scenario: 'cold',
      name: 'the same through the Lambda runtime client (target <= 180 ms)',
      skipped: 'the runtime client is not part of this bench',
    },
  ];
}

/** A process that answers once and ends. */
function spawnOnce(
  program: string,
  args: readonly string[],
  environment: Readonly<Record<string, string>>,
): Promise<{ answer: unknown; ms: number }> {
  return new Promise((resolve, reject) => {
    const { PATH = '' } = process.env;
    const begin = performance.now();
    const child = fork(fileURLToPath(new URL(`../processes/${program}.mjs`, import.meta.url)), args, {
      execArgv: [],
      env: { PATH, ...environment },
      timeout: ANSWER_LIMIT_MS,
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    });
    let answered: { answer: unknown; ms: number } | undefined;
    child.once('message', (answer) => {
      answered = { answer, ms: performance.now() - begin };
    });
    child.once('error', reject);
    child.once('exit', (code, signal) =>
      answered
        ? resolve(answered)
        : reject(new Error(`${program} ended (${signal ?? code}) without an answer`)),
    );
  });
}
