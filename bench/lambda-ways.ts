/** The functions that the scenario `cold` starts, each with its question and the check of its answer. */

import { mkdir, mkdtemp, writeFile } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { APIGatewayProxyStructuredResultV2, SQSBatchResponse } from 'aws-lambda';
import { buildFunctions, type FunctionName } from '../infra/build/functions.ts';
import { encodeMessage } from '../lib/codecs/message.ts';
import { DEFAULT_JOB_NAME, modelPrefix } from '../lib/contract/names.ts';
import { elementAt, present } from '../lib/contract/present.ts';
import { publishModel } from '../lib/registry/publish.ts';
import { uploadFile } from '../lib/s3/upload.ts';
import { startTlsProxy } from '../test/support/tls.ts';
import type { Bench } from './bench.ts';
import { inputsOf } from './messages.ts';
import type { BenchModel } from './models.ts';
import { type InstalledPeer, installedPeer, NOT_INSTALLED, onnxruntimeLibrary } from './peers/installed.ts';
import { type Cold, runtimeClient, type Start, startFunction, startRaw } from './processes/cold.ts';
import { assertSame } from './raw.ts';
import type { Skipped } from './report.ts';
import { JOB, nestedNumbers, plainValues, predictEvent, predictionOf, queueEvent } from './served.ts';
import type { Requests } from './ways.ts';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
/** Events after the first, where warm calls are measured. */
export const CALLS = 400;

export interface LambdaWay {
  readonly name: string;
  readonly calls: number;
  /** No function. */
  readonly isRaw?: boolean;
  readonly start: () => Promise<Partial<Cold>>;
  /**
   * Checks the last event's answer.
   * @throws when the answer is wrong
   */
  readonly check: (answer: unknown) => void;
}

/** The handler that one would write without this project: reads the same object from S3 and answers the same event. */
export const PEER_FUNCTIONS = [
  { name: 'Python + boto3', peer: 'lambda-python', command: python('plain.handler') },
  { name: 'FastAPI + Mangum', peer: 'lambda-python', command: python('web.handler') },
  {
    name: 'Rust',
    peer: 'lambda-rust',
    command: ({ folder }: InstalledPeer) => [join(folder, 'target', 'release', 'lambda-rust')],
  },
] as const;

function python(handler: string) {
  return ({ folder }: InstalledPeer) => [
    join(folder, 'venv', 'bin', 'python'),
    '-m',
    'awslambdaric',
    handler,
  ];
}

/** @param calls events after the first; without any only predict is started, and what is compared with it */
export async function lambdaWays(bench: Bench, asked: Requests, scenario: string, calls = CALLS) {
  const folder = await mkdtemp(join(bench.folder, 'cold-'));
  const built = await services(bench, asked);
  const ways = [await rawWay(bench, asked)];
  const skipped: Skipped[] = [];
  const client = runtimeClient();
  if (client) {
    const { url } = await bench.redis();
    const own = { bench, client, folder, redisUrl: url, ...built };
    ways.push(...(calls === 0 ? [predictWay(own, asked, 0)] : await ownWays(own, asked)));
  } else
    skipped.push({
      scenario,
      name: "the functions under Lambda's runtime client",
      skipped: NOT_INSTALLED,
    });
  const { predictAnswer, predictQuestion } = questions(asked);
  for (const { name, peer, command } of PEER_FUNCTIONS) {
    const installed = installedPeer(peer);
    if (!installed) {
      const skip = peer === 'lambda-rust' ? `${NOT_INSTALLED}; it needs cargo` : NOT_INSTALLED;
      skipped.push({ scenario, name: `predict against ${name}`, skipped: skip });
      continue;
    }
    bench.addPeer(installed);
    const environment = {
      ...built.variables,
      ORT_DISABLE_TELEMETRY: '1',
      PYTHONDONTWRITEBYTECODE: '1',
      BENCH_BUCKET: JOB,
      BENCH_KEY: built.key,
      BENCH_INPUT: asked.model.input,
      BENCH_ONNXRUNTIME: onnxruntimeLibrary(),
    };
    const start = {
      client: command(installed),
      folder: installed.source,
      environment,
      event: predictQuestion,
    };
    ways.push({
      name,
      calls,
      check: predictAnswer(plainValues),
      start: () => startFunction({ ...start, calls }, folder),
    });
  }
  return { ways, skipped };
}

/** A process that opens the model's file and runs it. */
export async function rawWay(bench: Bench, { model, rows, answers }: Requests): Promise<LambdaWay> {
  const rowFile = join(bench.folder, 'cold-row.json');
  await writeFile(rowFile, JSON.stringify(Array.from(elementAt(rows, 0, 'rows'))));
  return {
    name: `no function: a process opens the model of ${megabytes(model)} and runs it`,
    calls: 0,
    isRaw: true,
    start: () => startRaw([model.path, model.input, rowFile]),
    check: (answer) => assertSame(answer as number[], elementAt(answers, 0, 'answers'), 'cold start, raw'),
  };
}

const megabytes = ({ bytes }: BenchModel) => `${Math.round(bytes / 1e6)} MB`;

interface Own extends Awaited<ReturnType<typeof services>> {
  readonly bench: Bench;
  readonly client: string;
  readonly folder: string;
  readonly redisUrl: string;
}

function predictWay(
  { client, folder, bundleOf, variables, redisUrl }: Own,
  asked: Requests,
  calls: number,
): LambdaWay {
  const { predictQuestion, predictAnswer } = questions(asked);
  const environment = { ...variables, CLUSTER_SERVING_REDIS_URL: redisUrl };
  const start = { client, folder: bundleOf('predict'), event: predictQuestion, calls, environment };
  return {
    name: `predict, model of ${megabytes(asked.model)} from S3`,
    calls,
    check: predictAnswer(predictionOf),
    start: () => startFunction(start, folder),
  };
}

async function ownWays(own: Own, asked: Requests): Promise<LambdaWay[]> {
  const { bench, client, folder, bundleOf, variables, queueUrl, redisUrl } = own;
  const empty = join(folder, 'empty');
  await mkdir(empty);
  await writeFile(join(empty, 'index.mjs'), 'export const handler = async () => ({ statusCode: 202 });\n');
  const tls = await startTlsProxy(Number(new URL(redisUrl).port), folder);
  if (tls) bench.onClose(() => tls.close());
  const redis = { CLUSTER_SERVING_REDIS_URL: redisUrl };
  const overTls = tls && {
    CLUSTER_SERVING_REDIS_URL: `rediss://localhost:${tls.port}`,
    NODE_EXTRA_CA_CERTS: tls.certificate,
  };
  const { message, isStored, submit, isAccepted } = questions(asked);
  const way = (
    name: string,
    bundle: string,
    [event, check, calls]: readonly [Start['event'], LambdaWay['check'], number],
    more: Readonly<Record<string, string>> = redis,
  ): LambdaWay => {
    const start = { client, folder: bundle, event, calls, environment: { ...variables, ...more } };
    return { name, calls, check, start: () => startFunction(start, folder) };
  };
  const batch = bundleOf('batch');
  return [
    way('runtime client with a handler that does nothing', empty, [submit, isAccepted, CALLS], {}),
    predictWay(own, asked, CALLS),
    way('batch, model from S3, result into Redis', batch, [message, isStored, CALLS]),
    ...(overTls ? [way('batch, the same, Redis over TLS', batch, [message, isStored, 0], overTls)] : []),
    way('POST /predictions, record into SQS', bundleOf('predictions'), [submit, isAccepted, 0], {
      ...redis,
      CLUSTER_SERVING_QUEUE_URL: queueUrl,
    }),
  ];
}

/** The bundles, rebuilt so that no old dist/ is measured, and what they need. */
async function services(bench: Bench, { model }: Requests) {
  const outFolder = relative(ROOT, join(bench.folder, 'dist'));
  const processor = process.arch === 'arm64' ? 'arm64' : 'x64';
  const bundles = await buildFunctions({ root: ROOT, processor, outFolder });
  const aws = await bench.aws();
  const place = { bucket: JOB, prefix: modelPrefix(DEFAULT_JOB_NAME) };
  await publishModel(aws.s3, place, model.folder);
  // A peer opens the one file that its user has.
  const key = `peers/${model.name}.onnx`;
  const { path, bytes, sha256 } = model;
  await uploadFile(aws.s3, { bucket: JOB, key }, { path, bytes, sha256 });
  const { url: queueUrl } = await aws.createQueue({ name: 'bench' });
  return {
    bundleOf: (name: FunctionName) =>
      present(
        bundles.find((bundle) => bundle.name === name),
        `bundle of ${name}`,
      ).folder,
    variables: { ...aws.environment, CLUSTER_SERVING_BUCKET: JOB },
    key,
    queueUrl,
  };
}

/** Events, and checks of their answers. */
function questions({ model, rows, answers }: Requests) {
  const row = elementAt(rows, 0, 'rows');
  const body = JSON.stringify({ instances: [{ [model.input]: nestedNumbers(row, model.rowShape) }] });
  let count = 0;
  const path = '/predictions';
  const routed = { rawPath: path, requestContext: { http: { method: 'POST', path } } };
  const hasStatus = (status: number) => (answer: unknown) => {
    const { statusCode } = answer as APIGatewayProxyStructuredResultV2;
    if (statusCode !== status) throw new Error(`expected ${status}, got ${JSON.stringify(answer)}`);
  };
  return {
    predictQuestion: () => predictEvent(body),
    predictAnswer: (valuesOf: (body?: string) => readonly number[]) => (answer: unknown) => {
      hasStatus(200)(answer);
      const values = valuesOf((answer as APIGatewayProxyStructuredResultV2).body);
      assertSame(values, elementAt(answers, 0, 'answers'), 'cold start of predict');
    },
    message: () => queueEvent([encodeMessage(`cold-${++count}`, inputsOf(model, row))]),
    isStored: (answer: unknown) => {
      const { batchItemFailures } = answer as SQSBatchResponse;
      if (batchItemFailures.length > 0) throw new Error(`cold start of batch: ${JSON.stringify(answer)}`);
    },
    submit: () => ({ ...predictEvent(body), ...routed }),
    isAccepted: hasStatus(202),
  };
}
