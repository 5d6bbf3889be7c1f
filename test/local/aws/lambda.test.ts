import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { errorFields, invoke, lambdaContext } from '../../../local/aws/lambda.ts';

describe('the Lambda context', () => {
  it('names the function and counts down to its deadline, never below 0', () => {
    let nowMs = 1000;
    const context = lambdaContext({
      functionName: 'f',
      timeoutMs: 500,
      region: 'eu-west-1',
      clock: () => nowMs,
    });
    assert.equal(context.functionName, 'f');
    assert.equal(context.functionVersion, '$LATEST');
    assert.equal(context.invokedFunctionArn, 'arn:aws:lambda:eu-west-1:000000000000:function:f');
    assert.equal(context.memoryLimitInMB, '1769');
    assert.equal(context.getRemainingTimeInMillis(), 500);
    nowMs = 1400;
    assert.equal(context.getRemainingTimeInMillis(), 100);
    nowMs = 9000;
    assert.equal(context.getRemainingTimeInMillis(), 0);
  });

  it('gives every invocation its own request id', () => {
    const facts = { functionName: 'f', timeoutMs: 1 };
    assert.notEqual(lambdaContext(facts).awsRequestId, lambdaContext(facts).awsRequestId);
  });

  it('has no callbacks, like Node.js 24 on Lambda', () => {
    const context = lambdaContext({ functionName: 'f', timeoutMs: 1 });
    assert.throws(() => context.succeed('x'), /return a promise/);
  });
});

describe('invoking', () => {
  const facts = { functionName: 'f', timeoutMs: 10_000 };

  it('tells a result from an error, thrown early or late', async () => {
    const error = new Error('boom');
    assert.deepEqual(await invoke(async (event: number) => event + 1, 1, facts), {
      kind: 'returned',
      result: 2,
    });
    assert.deepEqual(await invoke(() => Promise.reject(error), 1, facts), { kind: 'failed', error });
    const early = () => {
      throw error;
    };
    assert.deepEqual(await invoke(early, 1, facts), { kind: 'failed', error });
  });

  it('ends at the shorter of its two limits', async () => {
    const never = () => new Promise<never>(() => undefined);
    assert.deepEqual(await invoke(never, 1, facts, 5), { kind: 'timed_out', afterMs: 5 });
    assert.deepEqual(await invoke(never, 1, { ...facts, timeoutMs: 6 }, 5000), {
      kind: 'timed_out',
      afterMs: 6,
    });
  });

  it('calls a result that came after the deadline timed out', async () => {
    let nowMs = 0;
    const late = async () => {
      nowMs += 10_001;
    };
    const invocation = await invoke(late, 1, { ...facts, clock: () => nowMs });
    assert.deepEqual(invocation, { kind: 'timed_out', afterMs: 10_000 });
  });

  it('does not end while its clock stands still', async () => {
    let nowMs = 0;
    const standing = async () => {
      await new Promise((resolve) => setTimeout(resolve, 60));
      nowMs += 5;
      return 'done';
    };
    const invocation = await invoke(standing, 1, { ...facts, timeoutMs: 10, clock: () => nowMs });
    assert.deepEqual(invocation, { kind: 'returned', result: 'done' });
  });

  it('does not mind a rejection that comes after the timeout', async () => {
    const { promise, reject } = Promise.withResolvers<never>();
    assert.equal((await invoke(() => promise, 1, facts, 1)).kind, 'timed_out');
    reject(new Error('late'));
    await new Promise((resolve) => setImmediate(resolve));
  });

  it('describes anything that is thrown', () => {
    assert.deepEqual(errorFields('text'), { error: 'text' });
    const error = Object.assign(new TypeError('bad'), { code: 'E1' });
    assert.deepEqual(errorFields(error), {
      error: 'bad',
      errorType: 'TypeError',
      code: 'E1',
      stack: error.stack,
    });
  });
});
