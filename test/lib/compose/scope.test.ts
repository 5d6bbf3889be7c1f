/** Each dependency of an environment is opened once; what could not be opened is tried again. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { composePredict } from '../../../lib/compose/predict.ts';
import { Scope } from '../../../lib/compose/scope.ts';
import { readEnvironment } from '../../../lib/config/environment.ts';

test('a part is opened once, at its first use, and may use others', () => {
  let opened = 0;
  const inner = () => ({ number: ++opened });
  const outer = (scope: Scope) => scope.get(inner);
  const scope = new Scope(readEnvironment({}));
  assert.equal(scope.get(outer), scope.get(inner));
  assert.equal(opened, 1);
  assert.notEqual(new Scope(readEnvironment({})).get(inner), scope.get(inner));
});

test('a part that threw or rejected is opened again by the next one who asks', async () => {
  const scope = new Scope(readEnvironment({}));
  let tries = 0;
  const rejecting = async () => {
    if (++tries === 1) throw new Error('away');
    return tries;
  };
  await assert.rejects(scope.get(rejecting), /away/);
  assert.equal(await scope.get(rejecting), 2);
  assert.equal(await scope.get(rejecting), 2);
  const throwing = () => {
    if (++tries === 3) throw new Error('away');
    return tries;
  };
  assert.throws(() => scope.get(throwing), /away/);
  assert.equal(scope.get(throwing), 4);
});

test('predict opens its model last: a bad address of Redis leaves none open', async () => {
  const scope = new Scope(
    readEnvironment({
      CLUSTER_SERVING_REDIS_URL: 'no url',
      CLUSTER_SERVING_CONFIG: JSON.stringify({ http: { tokenBucketEnabled: true, tokensPerSecond: 1 } }),
    }),
  );
  // Without CLUSTER_SERVING_BUCKET the model could not be opened: the address is seen before.
  await assert.rejects(composePredict(scope), { code: 'bad_config', message: /Redis url/ });
});
