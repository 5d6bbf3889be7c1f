/** A bucket and a Redis with faults in front of both, and environments of the packaged functions that use them. */
import type { TestContext } from 'node:test';
import type { SQSBatchResponse } from 'aws-lambda';
import { Redis } from 'ioredis';
import type { FunctionName } from '../../../../infra/build/functions.ts';
import { encodeMessage } from '../../../../lib/codecs/message.ts';
import type { ServingError } from '../../../../lib/contract/errors.ts';
import { modelPrefix, runCountKey } from '../../../../lib/contract/names.ts';
import type { Inputs } from '../../../../lib/contract/values.ts';
import { RedisConnection } from '../../../../lib/redis/connection.ts';
import { ResultStore } from '../../../../lib/redis/results.ts';
import { startAws } from '../../../../local/aws/aws.ts';
import { QUIET } from '../../../local/swap/models.ts';
import { startHttpProxy } from '../../../support/faults/http-proxy.ts';
import { startRedisProxy } from '../../../support/faults/redis/proxy.ts';
import type { Bundles } from '../../../support/faults/worker.ts';
import { redisUrl } from '../../../support/redis.ts';
import { temporaryFolder } from '../../../support/runner.ts';
import { type EnvironmentOptions, type LambdaEnvironment, startEnvironment } from './environment.ts';

export const JOB = 'lambda';
const BUCKET = 'lambda-bucket';
export const LOCATION = { bucket: BUCKET, prefix: modelPrefix(JOB) };

export async function openScene(t: TestContext, bundles: Bundles, settings: Record<string, unknown> = {}) {
  const aws = await startAws({ port: 0, log: QUIET });
  t.after(() => aws.close());
  await aws.createBucket(BUCKET);
  const s3 = await startHttpProxy(t, aws.url);
  const redisDirect = await redisUrl(t);
  const redis = await startRedisProxy(t, redisDirect);
  const temp = await temporaryFolder(t, 'cs-lambda-');
  const results = new ResultStore(new RedisConnection(redisDirect), {
    job: JOB,
    ttlSeconds: 60,
    now: Date.now,
  });
  t.after(() => results.close());
  const client = new Redis(redisDirect);
  t.after(() => client.disconnect());
  const variables = {
    ...aws.environment,
    AWS_ENDPOINT_URL: s3.url,
    CLUSTER_SERVING_BUCKET: BUCKET,
    CLUSTER_SERVING_REDIS_URL: redis.url,
    CLUSTER_SERVING_CONFIG: JSON.stringify({ jobName: JOB, ...settings }),
  };
  return {
    s3,
    redis,
    temp,
    bucket: aws.s3,
    aws,
    start: (name: FunctionName, options: Partial<EnvironmentOptions> = {}): LambdaEnvironment => {
      const given = { folder: bundles.folder(name), temp, ...options };
      return startEnvironment(t, { ...given, variables: { ...variables, ...options.variables } });
    },
    /** The counted runs of all records, as they are stored. */
    runs: async (): Promise<(string | null)[]> => {
      const keys = await client.keys(runCountKey(JOB, '*', '*'));
      return keys.length === 0 ? [] : client.mget(keys);
    },
    /** The number in the result, the code of the failure, or undefined when there is none. */
    outcomeOf: (uri: string): Promise<unknown> =>
      results.get(uri).then(
        (result) => result?.outputs[0]?.data[0],
        (error: ServingError) => error.code,
      ),
  };
}

/** An event of messages, whose ids are their uris. */
export function batchEvent(bodies: Readonly<Record<string, string>>, attempts = 1) {
  return {
    Records: Object.entries(bodies).map(([messageId, body]) => ({
      messageId,
      body,
      attributes: { SentTimestamp: String(Date.now()), ApproximateReceiveCount: String(attempts) },
    })),
  };
}

export function scalarMessage(uri: string, name: string, value: number): string {
  const tensor = { dtype: 'float64' as const, shape: [], data: Float64Array.of(value) };
  const inputs: Inputs = new Map([[name, { kind: 'tensor', tensor }]]);
  return encodeMessage(uri, inputs);
}

export function xMessage(uri: string, x: number): string {
  const tensor = { dtype: 'float32' as const, shape: [1], data: Float32Array.of(x) };
  return encodeMessage(uri, new Map([['x', { kind: 'tensor', tensor }]]));
}

/** The messages that come again. */
export async function deliver(
  environment: LambdaEnvironment,
  event: ReturnType<typeof batchEvent>,
  timeoutMs?: number,
  killMs?: number,
): Promise<string[]> {
  const { batchItemFailures } = await environment.invoke<SQSBatchResponse>(event, timeoutMs, killMs);
  return batchItemFailures.map(({ itemIdentifier }) => itemIdentifier);
}

export interface HttpAnswer {
  readonly statusCode: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** @param path with its query */
export function httpEvent(
  method: string,
  path: string,
  headers: Record<string, string> = {},
  body?: unknown,
) {
  const [rawPath = '', rawQueryString = ''] = path.split('?');
  return {
    version: '2.0',
    routeKey: `${method} ${rawPath}`,
    rawPath,
    rawQueryString,
    queryStringParameters: Object.fromEntries(new URLSearchParams(rawQueryString)),
    headers: { 'content-type': 'application/json', ...headers },
    requestContext: { http: { method, path: rawPath } },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    isBase64Encoded: false,
  };
}

export function predictX(environment: LambdaEnvironment, x: number, timeoutMs?: number): Promise<HttpAnswer> {
  return environment.invoke(httpEvent('POST', '/predict', {}, { instances: [{ x: [x] }] }), timeoutMs);
}
