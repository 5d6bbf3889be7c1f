/**
 * How far it is from a handler, as Lambda calls it, to the command that writes to Redis: the files of functions/ and lib/
 * on the call stack at that moment, awaits included.
 */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import type { APIGatewayProxyEventV2, Context, SQSEvent } from 'aws-lambda';
import { Redis } from 'ioredis';
import type * as batchFile from '../../functions/batch.ts';
import type * as predictFile from '../../functions/predict.ts';
import { encodeMessage } from '../../lib/codecs/message.ts';
import { readConfig } from '../../lib/config/file.ts';
import { temporaryFolder } from '../support/runner.ts';
import { SAMPLE, testStack } from '../support/stack.ts';

const MOST_FILES = 8;
const CONTEXT = { awsRequestId: 'request', getRemainingTimeInMillis: () => 30_000 } as Context;

const PICTURE = Array.from({ length: 3 }, () => Array.from({ length: 8 }, () => new Array(8).fill(0)));

/** Where the files of functions/ and lib/ stand on a stack, each named once. */
function filesOf(stack: string): string[] {
  return [
    ...new Set(
      [...stack.matchAll(/\/((?:functions|lib)\/[\w/-]+\.ts)(?:\?\w+)?:\d+/g)].map(
        ([, file]) => file as string,
      ),
    ),
  ];
}

/** The handler, made anew: the local stack imported it where no variable said that Lambda runs it. */
async function deployed<M extends { handler: unknown }>(name: string): Promise<M['handler']> {
  const module = (await import(`../../functions/${name}.ts?deployed`)) as M;
  return module.handler;
}

test('at the write to Redis at most eight files of functions/ and lib/ are on the call stack', async (t) => {
  const stack = await testStack(t);
  const { job } = readConfig(join(SAMPLE, 'config.yaml'));
  Object.assign(process.env, stack.aws.environment, {
    CLUSTER_SERVING_CONFIG: JSON.stringify(job),
    CLUSTER_SERVING_BUCKET: stack.bucket,
    CLUSTER_SERVING_REDIS_URL: stack.redisUrl,
    // Any address: it makes the handlers open everything in INIT and measure, as on Lambda.
    AWS_LAMBDA_RUNTIME_API: '127.0.0.1:9',
    AWS_LAMBDA_FUNCTION_NAME: 'function',
    TMPDIR: await temporaryFolder(t, 'cs-call-stack-'),
  });
  const [batch, predict] = await Promise.all([
    deployed<typeof batchFile>('batch'),
    deployed<typeof predictFile>('predict'),
  ]);
  const { stackTraceLimit } = Error;
  Error.stackTraceLimit = Number.POSITIVE_INFINITY;
  t.after(() => {
    Error.stackTraceLimit = stackTraceLimit;
  });
  const { mock } = t.mock.method(Redis.prototype, 'sendCommand');
  const lastWrite = () =>
    mock.calls.findLast(({ arguments: [command] }) => /evalsha|eval/i.test(command.name))?.stack.stack ?? '';

  const image = {
    kind: 'tensor',
    tensor: { dtype: 'float32', shape: [3, 8, 8], data: new Float32Array(192) },
  } as const;
  const event = {
    Records: [
      {
        messageId: 'message',
        body: encodeMessage('record', new Map([['image', image]])),
        attributes: { SentTimestamp: String(Date.now()), ApproximateReceiveCount: '1' },
      },
    ],
  } as unknown as SQSEvent;
  assert.deepEqual(await batch(event, CONTEXT), { batchItemFailures: [] });
  const fromQueue = filesOf(lastWrite());

  mock.resetCalls();
  const request = {
    rawPath: '/predict',
    requestContext: { http: { method: 'POST' } },
    headers: {},
    body: JSON.stringify({ instances: [{ image: PICTURE }] }),
  } as unknown as APIGatewayProxyEventV2;
  const now = process.uptime();
  // The timers are due a second after the last time.
  t.mock.method(process, 'uptime', () => now + 10);
  const answer = await predict(request, CONTEXT);
  assert.equal((answer as { statusCode: number }).statusCode, 200, JSON.stringify(answer));
  const fromRequest = filesOf(lastWrite());

  assert.ok(
    fromQueue.includes('lib/pipeline/event.ts') && fromQueue.includes('lib/pipeline/serve.ts'),
    fromQueue.join(),
  );
  // Timers are delivered on the way out, when predict.ts has its answer.
  assert.ok(fromRequest.includes('lib/compose/observe-handler.ts'), fromRequest.join());
  for (const files of [fromQueue, fromRequest]) {
    assert.ok(files.length <= MOST_FILES, `${files.length} files: ${files.join(', ')}`);
  }
});
