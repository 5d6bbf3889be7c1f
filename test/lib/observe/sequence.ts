/**
 * One fixed sequence of requests, records and events, and all that observers say of it: the service of a single machine, and
 * the functions as deployed, which share its bucket, its queue and its Redis. It knows only what is outside: addresses, variables, stdout.
 */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { Context } from 'aws-lambda';
import { deadLetter as createDeadLetter } from '../../../functions/dead-letter.ts';
import { predict as createPredict } from '../../../functions/predict.ts';
import { status as createStatus } from '../../../functions/status.ts';
import { composeBatch } from '../../../lib/compose/batch.ts';
import { composeDeadLetter } from '../../../lib/compose/dead-letter.ts';
import { lambdaHandler } from '../../../lib/compose/handler.ts';
import { composePredict } from '../../../lib/compose/predict.ts';
import { composeStatus } from '../../../lib/compose/status.ts';
import { serveEvent } from '../../../lib/pipeline/event.ts';
import type { Stack } from '../../../local/service/stack.ts';
import { InputQueue, OutputQueue } from '../../../sdk/index.ts';
import { connect, inferMessage } from '../../local/grpc/client.ts';
import { type Receiver, startReceiver } from '../../support/otlp.ts';
import type { Hooks } from '../../support/runner.ts';
import { clientOptions, SAMPLE, testStack } from '../../support/stack.ts';
import { until } from '../../support/until.ts';
import { plainJson, plainLine, plainMetrics, plainPage, plainSpans, plainTimers } from './plain.ts';

type Said = Readonly<Record<string, unknown>>;
type Json = Readonly<Record<string, unknown>>;

/** Timers are delivered once a second. */
const DUE_MS = 1_100;
const JSON_TYPE = { 'content-type': 'application/json' };
const PIXELS = Array.from({ length: 3 * 8 * 8 }, (_, i) => (i % 17) / 16);

/** Collects lines of JSON written to stdout from now on; everything else passes through. */
function captureLines(t: Hooks): Json[] {
  const lines: Json[] = [];
  const write = process.stdout.write.bind(process.stdout);
  process.stdout.write = (text: string | Uint8Array, ...rest: never[]) => {
    if (typeof text !== 'string' || !text.startsWith('{"')) return write(text, ...rest);
    lines.push(JSON.parse(text) as Json);
    return true;
  };
  t.after(async () => void (process.stdout.write = write));
  return lines;
}

let traces = 0;
const traced = () => ({
  traceparent: `00-${(++traces).toString(16).padStart(32, 'a')}-b7ad6b7169203331-01`,
  tracestate: 'vendor=1',
});

const TRIES = 4;

/** Everything that observers of a single machine and of deployed functions say. */
export async function observe(t: Hooks): Promise<Said> {
  for (let tries = 1; ; tries++) {
    const said = await observeOnce(t);
    // A function gives its spans a quarter of a second, which a busy machine may need for something else.
    if (tries === TRIES || !JSON.stringify(said).includes('takes no spans')) return said;
  }
}

async function observeOnce(t: Hooks): Promise<Said> {
  const receiver = await startReceiver(t);
  process.env['OTEL_EXPORTER_OTLP_ENDPOINT'] = receiver.url;
  const lines = captureLines(t);
  const stack = await testStack(t, { hasGrpc: true, functionSeconds: 5 });
  const image = (await readFile(join(SAMPLE, 'images/digit-7.png'))).toString('base64');
  const service = await useService(t, stack, image);
  const logs = lines.splice(0).map(plainLine);
  const functions = await useFunctions(stack, image, lines);
  return {
    service: { ...service, spans: await spansOf(receiver, 'serving_stream'), logs },
    functions: { ...functions, spans: await spansOf(receiver, 'deployed') },
  };
}

const SPANS = { serving_stream: 24, deployed: 16 } as const;

/** A service sends its spans once a second. */
async function spansOf({ spans }: Receiver, service: keyof typeof SPANS) {
  const count = () => plainSpans(spans, service).length;
  await until(() => count() >= SPANS[service], 10_000).catch(() => undefined);
  return plainSpans(spans, service);
}

const inferBody = (shape: readonly number[] = [1, 3, 8, 8]) => ({
  inputs: [{ name: 'image', datatype: 'FP32', shape, data: PIXELS }],
});

async function useService(t: Hooks, stack: Stack, image: string): Promise<Said> {
  const ask = async (path: string, body?: unknown, headers: Readonly<Record<string, string>> = {}) => {
    const method = body === undefined ? 'GET' : 'POST';
    const init = { method, headers: { ...JSON_TYPE, ...traced(), ...headers } };
    const text = body === undefined || typeof body === 'string' ? body : JSON.stringify(body);
    const response = await fetch(stack.url + path, text === undefined ? init : { ...init, body: text });
    return { status: response.status, text: await response.text() };
  };
  const options = clientOptions(stack);
  const [input, output] = [new InputQueue(options.input), new OutputQueue(options.output)];
  t.after(async () => void (await Promise.all([input.close(), output.close()])));
  const good = { instances: [{ image }] };
  const answers = [
    await ask('/predict', { instances: [{ image }, { image }] }),
    await ask('/predict', { instances: [] }),
    await ask('/predict', { instances: [{ image: 'bm8gaW1hZ2U=' }, { image }] }),
    await ask('/v2/models/serving_stream/infer', inferBody()),
    await ask('/v2/models/serving_stream/infer', inferBody([1, 3, 4, 16])),
    await ask('/v2/models/other/infer', inferBody()),
    await ask('/v1/models/serving_stream:predict', { instances: [{ image: { b64: image } }] }),
    await ask('/v1/embeddings', { input: 'a', model: 'serving_stream' }),
    await ask('/encode_json', { image }),
    await ask('/nowhere'),
    await ask('/predictions', { uri: 'good', ...good }),
    await ask('/predictions/good', undefined, { prefer: 'wait=20' }),
    await ask('/predictions', { uri: 'bad', instances: [{ image: 'bm8gaW1hZ2U=' }] }),
    await ask('/predictions/bad', undefined, { prefer: 'wait=20' }),
  ].map(({ status }) => status);
  await input.enqueue('sent', { image: { b64: image } }, traced());
  await output.wait('sent', { timeoutMs: 60_000 });
  const call = connect(t, stack.grpcPort as number);
  const raw = new Uint8Array(new Float32Array(PIXELS).buffer);
  const tensor = { name: 'image', datatype: 'FP32', shape: [1, 3, 8, 8], raw };
  await call('ModelInfer', inferMessage('serving_stream', [tensor]), { metadata: traced() });
  await delay(DUE_MS);
  await ask('/predict', good);
  const get = async (path: string, accept = '*/*') => (await ask(path, undefined, { accept })).text;
  const json = async (path: string) => plainJson(JSON.parse(await get(path)));
  return {
    answers,
    timers: plainTimers(await get('/metrics')),
    metrics: plainMetrics(await get('/metrics', 'text/plain; version=0.0.4')),
    openMetrics: plainMetrics(await get('/metrics', 'application/openmetrics-text')).slice(-2),
    triton: await json('/v2/models/serving_stream/stats'),
    server: await json('/status/server'),
    client: await json('/status/client'),
    page: plainPage(await get('/stat')),
    live: await json('/console/api/live'),
    records: await json('/console/api/records'),
  };
}

/** The functions as Lambda runs them, one after the other. */
async function useFunctions(stack: Stack, image: string, lines: Json[]): Promise<Said> {
  const variables = {
    AWS_LAMBDA_RUNTIME_API: '127.0.0.1:9',
    AWS_LAMBDA_FUNCTION_NAME: 'observed',
    AWS_ENDPOINT_URL: stack.aws.url,
    CLUSTER_SERVING_BUCKET: stack.bucket,
    CLUSTER_SERVING_REDIS_URL: stack.redisUrl,
    CLUSTER_SERVING_QUEUE_URL: stack.queueUrl,
    CLUSTER_SERVING_CONFIG: JSON.stringify({ image: { height: 8, width: 8 } }),
    OTEL_SERVICE_NAME: 'deployed',
    _X_AMZN_TRACE_ID: 'Root=1-5759e988-bd862e3fe1be46a994272793;Sampled=1',
  };
  Object.assign(process.env, variables);
  const context = { awsRequestId: 'one', getRemainingTimeInMillis: () => 29_000 } as Context;
  const said: Record<string, unknown> = {};
  type Run = (event: never, context: Context) => Promise<unknown>;
  const run = async (name: string, handler: Promise<Run>, event: object) => {
    const answer = (await (await handler)(event as never, context)) as { statusCode?: number } & Json;
    const told = lines.splice(0).map(plainLine);
    said[name] = { answer: answer.statusCode ?? plainLine(answer), told };
    return answer as { body?: string };
  };
  // Each is opened in its turn, so that its first line has the time of its own opening.
  const predict = lambdaHandler('http', createPredict, (scope) => composePredict(scope));
  await run('first', predict, request('POST', '/predict', { instances: [{ image }, { image }] }));
  await run('refused', predict, request('POST', '/predict', { instances: [] }));
  await run('inferred', predict, request('POST', '/v2/models/serving_stream/infer', inferBody()));
  const path = '/v2/models/serving_stream/stats';
  const { body = '' } = await run('triton', predict, request('GET', path));
  said['statistics'] = plainJson(JSON.parse(body));
  const openBatch = () => lambdaHandler('sqs', serveEvent, (scope) => composeBatch(scope));
  const batch = openBatch();
  const [good, bad] = [message('f-good', image), message('f-bad', 'bm8gaW1hZ2U=')];
  const garbage = { ...good, messageId: 'garbage', body: '{"uri":' };
  await run('event', batch, { Records: [good, bad, garbage] });
  const attributes = { ...good.attributes, ApproximateReceiveCount: '3000' };
  await run('dead', batch, { Records: [{ ...garbage, attributes }] });
  const deadLetter = lambdaHandler('sqs', createDeadLetter, composeDeadLetter);
  await run('dead letter', deadLetter, { Records: [{ ...message('f-dead', image), attributes }] });
  const status = lambdaHandler('http', createStatus, composeStatus);
  await delay(DUE_MS);
  await run('second', predict, request('POST', '/predict', { instances: [{ image }] }));
  const metrics = await run('metrics', status, request('GET', '/metrics'));
  said['timers'] = plainTimers(metrics.body ?? '');
  // A model that is not there.
  process.env['CLUSTER_SERVING_BUCKET'] = 'missing';
  await run('model away', openBatch(), { Records: [good] });
  for (const name of Object.keys(variables)) delete process.env[name];
  return said;
}

function request(method: string, path: string, body?: unknown): object {
  return {
    rawPath: path,
    rawQueryString: '',
    routeKey: `${method} ${path}`,
    headers: { ...JSON_TYPE, ...traced() },
    requestContext: { http: { method, path } },
    isBase64Encoded: false,
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  };
}

function message(uri: string, image: string) {
  const { traceparent } = traced();
  return {
    messageId: uri,
    eventSource: 'aws:sqs',
    eventSourceARN: 'arn:aws:sqs:local:000000000000:jobs',
    body: JSON.stringify({ uri, data: JSON.stringify({ instances: [{ image }] }), serde: 'stream' }),
    attributes: { SentTimestamp: String(Date.now() - 50), ApproximateReceiveCount: '1' },
    messageAttributes: { traceparent: { stringValue: traceparent, dataType: 'String' } },
  };
}
