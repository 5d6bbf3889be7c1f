/**
 * The real handlers of POST /predict, POST /predictions and the queue for a model, called in this process. The batch
 * handler's response does not contain a record's outcome, so that is read from Redis.
 */
import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import type { APIGatewayProxyEventV2, SQSEvent } from 'aws-lambda';
import { type PredictDeps, predict } from '../../../functions/predict.ts';
import { resultKey } from '../../../lib/contract/names.ts';
import type { Runner } from '../../../lib/contract/values.ts';
import type { HttpResponse } from '../../../lib/http/response.ts';
import { serveEvent } from '../../../lib/pipeline/event.ts';
import { RedisConnection } from '../../../lib/redis/connection.ts';
import { RecordStates } from '../../../lib/redis/record-states.ts';
import { ResultStore } from '../../../lib/redis/results.ts';
import { resultSink } from '../../../lib/results/sink.ts';
import type { PayloadStore } from '../../../lib/s3/payloads.ts';
import { quietObservers } from '../../support/observers.ts';
import { predictionsWith } from '../../support/predictions.ts';
import { PATIENT, redisUrl } from '../../support/redis.ts';
import type { Refusal } from './cases.ts';

export interface Envelope {
  readonly method?: string;
  readonly path?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly query?: Readonly<Record<string, string>>;
  readonly pathParameters?: Readonly<Record<string, string>>;
}

export interface Answer extends Refusal {
  readonly status: number;
  readonly headers: Readonly<Record<string, unknown>>;
  /** The body as JSON. */
  readonly body: Readonly<Record<string, unknown>>;
}

export type Endpoint = (body: string | Uint8Array, envelope?: Envelope) => Promise<Answer>;

/** Bytes come base64-encoded, texts as they are: both ways API Gateway has. */
function eventOf(body: string | Uint8Array, envelope: Envelope): APIGatewayProxyEventV2 {
  const { method = 'POST', path = '/predict', headers = {}, query, pathParameters } = envelope;
  const isBase64Encoded = typeof body !== 'string';
  return {
    version: '2.0',
    routeKey: `${method} ${path}`,
    rawPath: path,
    rawQueryString: '',
    headers: { ...headers },
    ...(query ? { queryStringParameters: { ...query } } : {}),
    ...(pathParameters ? { pathParameters: { ...pathParameters } } : {}),
    requestContext: { http: { method, path } } as APIGatewayProxyEventV2['requestContext'],
    body: isBase64Encoded ? Buffer.from(body).toString('base64') : body,
    isBase64Encoded,
  };
}

function answerOf(response: HttpResponse): Answer {
  const body = JSON.parse(response.body ?? '{}') as Record<string, unknown>;
  const { statusCode: status = 200, headers = {} } = response;
  return { status, headers, body, code: body['code'], error: body['error'] };
}

export function predictHandler(runner: Runner, deps: Partial<PredictDeps> = {}) {
  return predict({
    model: { use: (work) => work(runner) },
    filter: undefined,
    observers: quietObservers(),
    ...deps,
  });
}

export function predictEndpoint(runner: Runner, deps?: Partial<PredictDeps>): Endpoint {
  const handle = predictHandler(runner, deps);
  return async (body, envelope = {}) => answerOf(await handle(eventOf(body, envelope)));
}

export interface Store {
  readonly results: ResultStore;
  readonly connection: RedisConnection;
  readonly job: string;
}

/** A Redis of its own for one test. */
export async function openStore(t: TestContext): Promise<Store> {
  const connection = new RedisConnection(await redisUrl(t), PATIENT);
  const job = 'bad-input';
  const results = new ResultStore(connection, { job, ttlSeconds: 600, now: Date.now });
  t.after(() => results.close());
  return { results, connection, job };
}

export interface PredictionsEndpoint {
  readonly endpoint: Endpoint;
  readonly handle: ReturnType<typeof predictionsWith>;
  /** Messages that went into the queue. */
  readonly sent: string[];
}

export function predictionsEndpoint(store?: Store): PredictionsEndpoint {
  const sent: string[] = [];
  const none = () => {
    throw new Error('there is no Redis behind this endpoint');
  };
  const states = store && new RecordStates(store.connection, { job: store.job, now: Date.now });
  const handle = predictionsWith({
    queue: () => ({ send: async (message) => void sent.push(message) }),
    payloads: async () => ({
      put: async (message) => {
        sent.push(message);
        return 'payloads/bad-input/0';
      },
    }),
    results: () => store?.results ?? none(),
    states: () => states ?? none(),
  });
  const endpoint: Endpoint = async (body, envelope = {}) =>
    answerOf(await handle(eventOf(body, { path: '/predictions', ...envelope })));
  return { endpoint, handle, sent };
}

export interface Message {
  readonly id: string;
  readonly body: string;
}

/** Bodies as they came: records travel within their messages. */
const NO_POINTERS: Pick<PayloadStore, 'resolve'> = { resolve: async (bodies) => [...bodies] };

/** One invocation of the batch handler. @returns the ids it gives back */
export async function deliver(
  { results }: Pick<Store, 'results'>,
  runner: Runner,
  messages: readonly Message[],
  payloads = NO_POINTERS,
): Promise<string[]> {
  const handle = serveEvent({
    now: Date.now,
    model: { use: (work) => work(runner) },
    sink: resultSink(results),
    running: { begin: () => async () => undefined },
    payloads,
    observers: quietObservers(),
  });
  const records = messages.map(({ id, body }) => ({
    messageId: id,
    body,
    attributes: { SentTimestamp: '0' },
  }));
  const { batchItemFailures } = await handle({ Records: records } as unknown as SQSEvent);
  return batchItemFailures.map(({ itemIdentifier }) => itemIdentifier);
}

/** What Redis holds under a uri: the failure, or undefined for a success. */
export async function storedFailure({ connection, job }: Store, uri: string): Promise<Refusal | undefined> {
  const hash = await connection.redis.hgetall(resultKey(job, uri));
  assert.ok(hash['status'] === 'failed' || hash['status'] === 'succeeded', `${uri} has no result`);
  if (hash['status'] === 'succeeded') return undefined;
  assert.equal(hash['value'], 'NaN', 'what an old client reads of a failure');
  const { code, message } = JSON.parse(hash['error'] as string) as { code: unknown; message: unknown };
  return { code, error: message };
}

/** Uris that have a result, of all that were ever delivered. */
export async function storedUris({ connection, job }: Store): Promise<string[]> {
  const keys = await connection.redis.keys(resultKey(job, '*'));
  return keys.map((key) => key.slice(resultKey(job, '').length)).sort();
}
