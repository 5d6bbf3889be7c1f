/**
 * From the spawn of a process, AWS's own runtime client and a function in it, to its first answer; beside it a process that
 * only opens the model file and runs it. The first spawn of each reads the disk and the others its cache, so it is not
 * counted. S3 and SQS answer from this very process: on a busy machine, waiting for it is part of the number.
 */
import { mkdir, mkdtemp, writeFile } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { APIGatewayProxyStructuredResultV2, SQSBatchResponse } from 'aws-lambda';
import { buildFunctions, type FunctionName } from '../../infra/build/functions.ts';
import { encodeMessage } from '../../lib/codecs/message.ts';
import { DEFAULT_JOB_NAME, modelPrefix } from '../../lib/contract/names.ts';
import { publishModel } from '../../lib/registry/publish.ts';
import { startTlsProxy } from '../../test/support/tls.ts';
import type { Bench, Scenario } from '../bench.ts';
import { shuffled, spreadOf } from '../measure.ts';
import { inputsOf } from '../messages.ts';
import { randomNumbers } from '../models.ts';
import { type Cold, NO_CLIENT, runtimeClient, startFunction, startRaw } from '../processes/cold.ts';
import { assertSame } from '../raw.ts';
import type { Line } from '../report.ts';
import { JOB, nestedNumbers, predictEvent, predictionOf, queueEvent } from '../served.ts';
import { type Requests, requestsOf } from '../ways.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const SPAWNS = 11;

/** One way to start. */
interface Starter {
  readonly name: string;
  readonly start: () => Promise<Cold>;
  /** @throws when the answer is wrong */
  readonly check: (answer: unknown) => void;
}

export const cold: Scenario = {
  name: 'cold',
  about: "spawn of a process with Lambda's runtime client and a function to its first answer",
  async run(bench) {
    const asked = await requestsOf(bench, 'mlp-5mb', 1);
    const client = runtimeClient();
    const functions = client ? await functionStarters(bench, client, asked) : [];
    const starters = [await rawStarter(bench, asked), ...functions.filter(({ name }) => bench.wants(name))];
    const measured = await inTurns(starters, bench.quick ? 2 : SPAWNS);
    const rawMs = spreadOf(measured[0]?.ms ?? []).median;
    const lines = measured.map(({ starter: { name }, ms, cpuMs }): Line => {
      const value = spreadOf(ms);
      const note = cpuMs.length > 0 ? { note: `processor time ${spreadOf(cpuMs).median.toFixed(0)} ms` } : {};
      const row = { scenario: 'cold', name, metric: 'spawn to first answer', unit: 'ms' };
      return { ...row, raw: rawMs, ours: value.median, baseUnit: 'ms', value, ...note };
    });
    if (client) return lines;
    return [
      ...lines,
      { scenario: 'cold', name: "the functions under Lambda's runtime client", skipped: NO_CLIENT },
    ];
  },
};

/** In another order every time. */
async function inTurns(starters: readonly Starter[], spawns: number) {
  const random = randomNumbers(11);
  const measured = starters.map((starter) => ({ starter, ms: [] as number[], cpuMs: [] as number[] }));
  for (let turn = -1; turn < spawns; turn++) {
    for (const { starter, ...taken } of shuffled(measured, random)) {
      const { ms, cpuMs, answer } = await starter.start();
      starter.check(answer);
      if (turn < 0) continue;
      taken.ms.push(ms);
      if (cpuMs !== undefined) taken.cpuMs.push(cpuMs);
    }
  }
  return measured;
}

async function rawStarter(bench: Bench, { model, rows, answers }: Requests): Promise<Starter> {
  const rowFile = join(bench.folder, 'cold-row.json');
  await writeFile(rowFile, JSON.stringify(Array.from(rows[0] as Float32Array)));
  return {
    name: 'no function: a process opens the model of 5 MB and runs it',
    start: () => startRaw([model.path, model.input, rowFile]),
    check: (answer) => assertSame(answer as number[], answers[0] as Float32Array, 'cold start, raw'),
  };
}

async function functionStarters(bench: Bench, client: string, asked: Requests): Promise<Starter[]> {
  const folder = await mkdtemp(join(bench.folder, 'cold-'));
  const empty = join(folder, 'empty');
  await mkdir(empty);
  await writeFile(join(empty, 'index.mjs'), 'export const handler = async () => ({ statusCode: 200 });\n');
  const { bundleOf, variables, queueUrl } = await services(bench, asked);
  const { url } = await bench.redis();
  const tls = await startTlsProxy(Number(new URL(url).port), folder);
  if (tls) bench.onClose(() => tls.close());
  const redis = { CLUSTER_SERVING_REDIS_URL: url };
  const overTls = tls && {
    CLUSTER_SERVING_REDIS_URL: `rediss://localhost:${tls.port}`,
    NODE_EXTRA_CA_CERTS: tls.certificate,
  };
  const starter = (
    name: string,
    bundle: string,
    [event, check]: readonly [event: () => unknown, check: Starter['check']],
    own: Readonly<Record<string, string>> = redis,
  ): Starter => {
    const environment = { ...variables, ...own };
    return {
      name,
      check,
      start: () => startFunction({ client, bundle, folder, event: event(), environment }),
    };
  };
  const { get, predict, message, submit } = questions(asked);
  const batch = bundleOf('batch');
  const predictions = bundleOf('predictions');
  return [
    starter('runtime client with a handler that does nothing', empty, get('/', 200), {}),
    starter('predict, model of 5 MB from S3', bundleOf('predict'), predict),
    starter('batch, model from S3, result into Redis', batch, message),
    ...(overTls ? [starter('batch, the same, Redis over TLS', batch, message, overTls)] : []),
    starter('GET /predictions/{uri}, asks Redis', predictions, get('/predictions/none', 404)),
    starter('POST /predictions, record into SQS', predictions, submit, {
      CLUSTER_SERVING_QUEUE_URL: queueUrl,
    }),
    starter('GET /ready, asks S3 and Redis', bundleOf('status'), get('/ready', 200)),
  ];
}

/** The bundles, built anew so that no old dist/ is measured, and what they need. */
async function services(bench: Bench, { model }: Requests) {
  const outFolder = relative(ROOT, join(bench.folder, 'dist'));
  const processor = process.arch === 'arm64' ? 'arm64' : 'x64';
  const bundles = await buildFunctions({ root: ROOT, processor, outFolder });
  const aws = await bench.aws();
  await publishModel(aws.s3, { bucket: JOB, prefix: modelPrefix(DEFAULT_JOB_NAME) }, model.folder);
  const { url: queueUrl } = await aws.createQueue({ name: 'bench' });
  return {
    bundleOf: (name: FunctionName) => bundles.find((bundle) => bundle.name === name)?.folder as string,
    variables: { ...aws.environment, CLUSTER_SERVING_BUCKET: JOB },
    queueUrl,
  };
}

/** Events, each with the check of its answer. */
function questions({ model, rows, answers }: Requests) {
  const row = rows[0] as Float32Array;
  const body = JSON.stringify({ instances: [{ [model.input]: nestedNumbers(row, model.rowShape) }] });
  let count = 0;
  const routed = (method: string, path: string) => ({
    rawPath: path,
    requestContext: { http: { method, path } },
    pathParameters: { uri: path.split('/').at(-1) },
  });
  const hasStatus = (status: number) => (answer: unknown) => {
    const { statusCode } = answer as APIGatewayProxyStructuredResultV2;
    if (statusCode !== status) throw new Error(`expected ${status}, got ${JSON.stringify(answer)}`);
  };
  const isPrediction = (answer: unknown) => {
    hasStatus(200)(answer);
    const values = predictionOf((answer as APIGatewayProxyStructuredResultV2).body);
    assertSame(values, answers[0] as Float32Array, 'cold start of predict');
  };
  const isStored = (answer: unknown) => {
    const { batchItemFailures } = answer as SQSBatchResponse;
    if (batchItemFailures.length > 0) throw new Error(`cold start of batch: ${JSON.stringify(answer)}`);
  };
  const newMessage = () => queueEvent([encodeMessage(`cold-${++count}`, inputsOf(model, row))]);
  const posted = () => ({ ...predictEvent(body), ...routed('POST', '/predictions') });
  return {
    get: (path: string, status: number) =>
      [() => ({ ...predictEvent(''), ...routed('GET', path) }), hasStatus(status)] as const,
    predict: [() => predictEvent(body), isPrediction] as const,
    message: [newMessage, isStored] as const,
    submit: [posted, hasStatus(202)] as const,
  };
}
