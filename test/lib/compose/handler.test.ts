/** A function's handler as Lambda calls it: when it opens, what it refuses, and what an answer waits for. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Context } from 'aws-lambda';
import { lambdaHandler } from '../../../lib/compose/handler.ts';
import { leave } from '../../../lib/contract/under-way.ts';

const EVENT = { Records: [] };
const CONTEXT = { awsRequestId: 'r', getRemainingTimeInMillis: () => 60_000 } as unknown as Context;

async function open(inLambda: boolean, failures = 0) {
  const name = 'AWS_LAMBDA_RUNTIME_API';
  const before = process.env[name];
  if (inLambda) process.env[name] = 'localhost:1';
  const seen: string[] = [];
  let left = failures;
  const opening = lambdaHandler(
    'sqs',
    (answer: string) => async () => {
      leave(new Promise((resolve) => setTimeout(resolve, 20)).then(() => seen.push('left')));
      return answer;
    },
    async () => {
      seen.push('opened');
      if (left-- > 0) throw new Error('cannot be opened');
      return 'answer';
    },
  );
  if (before === undefined) delete process.env[name];
  else process.env[name] = before;
  return { handler: await opening, seen };
}

test('in Lambda a function opens in INIT, and its answer waits for what it left', async () => {
  const { handler, seen } = await open(true);
  assert.deepEqual(seen, ['opened']);
  assert.equal(await handler(EVENT, CONTEXT), 'answer');
  assert.deepEqual(seen, ['opened', 'left']);
  assert.equal(await handler(EVENT, CONTEXT), 'answer');
  assert.deepEqual(seen, ['opened', 'left', 'left'], 'it opens once');
});

test('elsewhere it opens with the first event, and its answer waits for nothing', async () => {
  const { handler, seen } = await open(false);
  assert.deepEqual(seen, []);
  assert.equal(await handler(EVENT, CONTEXT), 'answer');
  assert.deepEqual(seen, ['opened']);
});

test('an opening that failed is repeated by each event until it succeeds', async () => {
  for (const inLambda of [true, false]) {
    const { handler, seen } = await open(inLambda, inLambda ? 2 : 1);
    await assert.rejects(handler(EVENT, CONTEXT), /cannot be opened/);
    assert.equal(await handler(EVENT, CONTEXT), 'answer');
    assert.deepEqual(seen.filter((what) => what === 'opened').length, inLambda ? 3 : 2);
  }
});

test('an event of another kind is refused before anything opens', async () => {
  const { handler, seen } = await open(false);
  await assert.rejects(
    handler({ Records: 1 }, CONTEXT),
    /expected an event of its SQS queue, got one with "Records"/,
  );
  assert.deepEqual(seen, []);
});
