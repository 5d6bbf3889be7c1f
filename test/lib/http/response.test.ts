import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ServingError } from '../../../lib/contract/errors.ts';
import { json, respond, respondWithin } from '../../../lib/http/response.ts';

test('a ServingError is answered with its code and status, anything else only as an internal error', async () => {
  const logged: ServingError[] = [];
  const fail = (error: Error) =>
    respond(
      async () => {
        throw error;
      },
      (told) => logged.push(told),
    );
  const ours = await fail(new ServingError('bad_input', 'input "x": no'));
  assert.deepEqual(
    [ours.statusCode, JSON.parse(ours.body as string)],
    [400, { error: 'input "x": no', code: 'bad_input' }],
  );
  assert.equal(logged.length, 0);
  const defect = await fail(new TypeError('secret of the house'));
  assert.deepEqual(
    [defect.statusCode, JSON.parse(defect.body as string)],
    [500, { error: 'Internal error', code: 'internal' }],
  );
  assert.equal(logged[0]?.message, 'secret of the house');
});

test('a passing error says when to come back', async () => {
  const answer = (error: ServingError) =>
    respond(
      async () => {
        throw error;
      },
      () => undefined,
    );
  assert.equal((await answer(new ServingError('model_unavailable', 'x'))).headers?.['retry-after'], '1');
  const limited = new ServingError('rate_limited', 'x', { retryAfterSeconds: 7 });
  assert.equal((await answer(limited)).headers?.['retry-after'], '7');
  assert.equal((await answer(new ServingError('bad_input', 'x'))).headers?.['retry-after'], undefined);
});

test('work that does not end in time is answered with 504, and work that does is not delayed', async () => {
  const logged: ServingError[] = [];
  const log = (error: ServingError) => void logged.push(error);
  const never = new Promise<never>(() => undefined);
  const stuck = await respondWithin(510, () => never, log);
  assert.deepEqual(
    [stuck.statusCode, JSON.parse(stuck.body as string)],
    [504, { error: 'no answer within 10 ms', code: 'timeout' }],
  );
  assert.equal(logged[0]?.code, 'timeout');
  assert.equal((await respondWithin(60_000, async () => json(200, {}), log)).statusCode, 200);
  assert.equal((await respondWithin(undefined, async () => json(200, {}), log)).statusCode, 200);
});
