/**
 * In: the bundles of the functions, built here from the sources. Out: ms from the spawn of a process, AWS's own runtime
 * client in it, to its first answer; beside it a process that only opens the model file and runs it.
 * Trap: the first spawn reads the disk and the others its cache, so one of each goes before and is not counted. S3, SQS
 * and the Runtime API answer from this very process, so on a busy machine waiting for it is in the number.
 */
import { fork } from 'node:child_process';
import { mkdir, mkdtemp, writeFile } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { APIGatewayProxyStructuredResultV2, SQSBatchResponse } from 'aws-lambda';
import { buildFunctions, type FunctionName } from '../../infra/build/functions.ts';
import { encodeMessage } from '../../lib/codecs/message.ts';
import { modelPrefix } from '../../lib/contract/names.ts';
import { variables as ownVariables } from '../../lib/contract/variables.ts';
import { publishModel } from '../../lib/registry/publish.ts';
import { startAws } from '../../local/aws/aws.ts';
import { startTlsProxy } from '../../test/support/tls.ts';
import type { Bench, Scenario } from '../bench.ts';
import { shuffled, spreadOf } from '../measure.ts';
import { inputsOf } from '../messages.ts';
import { type BenchModel, randomNumbers, randomRows } from '../models.ts';
import { type Cold, NO_CLIENT, processorMs, runtimeClient, startCold } from '../processes/cold-function.ts';
import { QUIET } from '../quiet.ts';
import { answersFor, assertSame } from '../raw.ts';
import type { Line, Target } from '../report.ts';
import { nestedNumbers, predictEvent, predictionOf, queueEvent } from '../served.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const BUCKET = 'bench';
const JOB = 'serving_stream';
const RAW_LIMIT_MS = 30_000;
const SPAWNS = 11;
const ORDER_SEED = 11;

/** One way to start, from the spawn of its process to its first answer. */
interface Starter {
  readonly name: string;
  readonly target?: Target;
  /** @throws when the answer is wrong */
  start(): Promise<Cold>;
}

/** What is asked, and what raw onnxruntime answers. */
interface Question {
  readonly model: BenchModel;
  readonly row: Float32Array;
  readonly answer: Float32Array;
}

export const cold: Scenario = {
  name: 'cold',
  about: "spawn of a process with Lambda's runtime client and a function to its first answer",
  async run(bench) {
    const asked = await question(bench);
    const raw = await rawStarter(bench, asked);
    const client = runtimeClient();
    const functions = client ? await functionStarters(bench, client, asked) : [];
    const measured = await interleaved([raw, ...functions.filter(({ name }) => bench.wants(name))]);
    const rawMs = spreadOf(measured[0]?.ms ?? []).median;
    const lines = measured.map(({ starter: { name, target }, ms, cpuMs }): Line => {
      const note = cpuMs.length > 0 ? `processor time ${spreadOf(cpuMs).median.toFixed(0)} ms` : undefined;
      return {
        scenario: 'cold',
        name,
        metric: 'spawn to first answer',
        unit: 'ms',
        raw: rawMs,
        ours: spreadOf(ms).median,
        baseUnit: 'ms',
        value: spreadOf(ms),
        ...(target ? { target } : {}),
        ...(note ? { note } : {}),
      };
    });
    if (client) return lines;
    return [
      ...lines,
      { scenario: 'cold', name: "the functions under Lambda's runtime client", skipped: NO_CLIENT },
    ];
  },
};

/** In turns, in another order every time. */
async function interleaved(starters: readonly Starter[]) {
  const random = randomNumbers(ORDER_SEED);
  const measured = starters.map((starter) => ({ starter, ms: [] as number[], cpuMs: [] as number[] }));
  for (let turn = -1; turn < SPAWNS; turn++) {
    for (const { starter, ...taken } of shuffled(measured, random)) {
      const { ms, cpuMs } = await starter.start();
      if (turn < 0) continue;
      taken.ms.push(ms);
      if (cpuMs !== undefined) taken.cpuMs.push(cpuMs);
    }
  }
  return measured;
}

async function question(bench: Bench): Promise<Question> {
  const model = await bench.model('mlp-5mb');
  const [row] = randomRows(51, model.rowShape, 1) as [Float32Array];
  const [answer] = (await answersFor(model, [row])) as [Float32Array];
  return { model, row, answer };
}

async function rawStarter(bench: Bench, { model, row, answer }: Question): Promise<Starter> {
  const rowFile = join(await mkdtemp(join(bench.folder, 'cold-')), 'row.json');
  await writeFile(rowFile, JSON.stringify(Array.from(row)));
  return {
    name: 'no function: a process opens the model of 5 MB and runs it',
    async start() {
      const { values, ...took } = await spawnRaw([model.path, model.input, rowFile]);
      assertSame(values, answer, 'cold start, raw');
      return took;
    },
  };
}

async function functionStarters(bench: Bench, client: string, asked: Question): Promise<Starter[]> {
  const folder = await mkdtemp(join(bench.folder, 'cold-'));
  const { bundleOf, variables, queueUrl } = await services(bench, asked.model);
  const redis = { CLUSTER_SERVING_REDIS_URL: (await bench.redis()).url };
  const tls = await startTlsProxy(Number(new URL(redis.CLUSTER_SERVING_REDIS_URL).port), folder);
  if (tls) bench.onClose(() => tls.close());
  const { predicted, predict, message, submit } = requests(asked);
  const starter = (
    name: string,
    bundle: string,
    event: () => unknown,
    check: (answer: unknown) => void,
    own: Readonly<Record<string, string>>,
    target?: Target,
  ): Starter => ({
    name,
    ...(target ? { target } : {}),
    start: () =>
      startCold({ client, bundle, folder, event: event(), environment: { ...variables, ...own }, check }),
  });
  const target = { atMost: 180 };
  const empty = join(folder, 'empty');
  await mkdir(empty);
  await writeFile(join(empty, 'index.mjs'), 'export const handler = async () => ({ statusCode: 200 });\n');
  const overTls = tls && {
    CLUSTER_SERVING_REDIS_URL: `rediss://localhost:${tls.port}`,
    NODE_EXTRA_CA_CERTS: tls.certificate,
  };
  const queue = { CLUSTER_SERVING_QUEUE_URL: queueUrl };
  const batch = bundleOf('batch');
  const predictions = bundleOf('predictions');
  const nobody = () => get('/predictions/nobody', { uri: 'nobody' });
  return [
    starter('runtime client with a handler that does nothing', empty, () => get('/'), answers(200), {}),
    starter('predict, model of 5 MB from S3', bundleOf('predict'), predict, predicted, redis, target),
    starter('batch, model from S3, result into Redis', batch, message, isStored, redis, target),
    ...(overTls ? [starter('batch, the same, Redis over TLS', batch, message, isStored, overTls)] : []),
    starter('GET /predictions/{uri}, asks Redis', predictions, nobody, answers(404), redis),
    starter('POST /predictions, record into SQS', predictions, submit, answers(202), queue),
    starter('GET /ready, asks S3 and Redis', bundleOf('status'), () => get('/ready'), answers(200), redis),
  ];
}

/** The bundles, built anew so that no old dist/ is measured, and what they need. */
async function services(bench: Bench, model: BenchModel) {
  const outFolder = relative(ROOT, join(bench.folder, 'dist'));
  const processor = process.arch === 'arm64' ? 'arm64' : 'x64';
  const bundles = await buildFunctions({ root: ROOT, processor, outFolder });
  const aws = await startAws({ port: 0, log: QUIET });
  bench.onClose(() => aws.close());
  await aws.createBucket(BUCKET);
  await publishModel(aws.s3, { bucket: BUCKET, prefix: modelPrefix(JOB) }, model.folder);
  const { url: queueUrl } = await aws.createQueue({ name: 'bench' });
  return {
    bundleOf: (name: FunctionName) => bundles.find((bundle) => bundle.name === name)?.folder as string,
    variables: { ...aws.environment, CLUSTER_SERVING_BUCKET: BUCKET },
    queueUrl,
  };
}

function requests({ model, row, answer }: Question) {
  const body = JSON.stringify({ instances: [{ [model.input]: nestedNumbers(row, model.rowShape) }] });
  const inputs = inputsOf(model, row);
  let count = 0;
  return {
    predict: () => predictEvent(body),
    predicted: (value: unknown) => {
      answers(200)(value);
      assertSame(predictionOf((value as APIGatewayProxyStructuredResultV2).body), answer, 'cold start');
    },
    message: () => queueEvent([encodeMessage(`cold-${++count}`, inputs)]),
    submit: () => ({ ...predictEvent(body), ...routed('POST', '/predictions') }),
  };
}

const routed = (method: string, path: string) => ({
  rawPath: path,
  requestContext: { http: { method, path } },
});
const get = (path: string, pathParameters: Readonly<Record<string, string>> = {}) => ({
  ...predictEvent(''),
  ...routed('GET', path),
  pathParameters,
});

function answers(status: number): (value: unknown) => void {
  return (value) => {
    const { statusCode } = value as APIGatewayProxyStructuredResultV2;
    if (statusCode !== status) throw new Error(`expected ${status}, got ${JSON.stringify(value)}`);
  };
}

function isStored(value: unknown): void {
  const { batchItemFailures } = value as SQSBatchResponse;
  if (batchItemFailures.length > 0) throw new Error(`cold start of batch: ${JSON.stringify(value)}`);
}

/** A process that answers once. */
function spawnRaw(args: readonly string[]): Promise<Cold & { values: number[] }> {
  return new Promise((resolve, reject) => {
    const { PATH = '' } = ownVariables;
    const begin = performance.now();
    const child = fork(fileURLToPath(new URL('../processes/cold-raw.mjs', import.meta.url)), args, {
      execArgv: [],
      env: { PATH },
      timeout: RAW_LIMIT_MS,
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    });
    let answered: (Cold & { values: number[] }) | undefined;
    child.once('message', (values) => {
      const ms = performance.now() - begin;
      answered = { values: values as number[], ms, cpuMs: processorMs(child.pid ?? 0) };
      child.kill();
    });
    child.once('error', reject);
    child.once('exit', (code, signal) =>
      answered
        ? resolve(answered)
        : reject(new Error(`cold-raw ended (${signal ?? code}) without an answer`)),
    );
  });
}
