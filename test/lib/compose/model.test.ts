import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readyModel } from '../../../lib/compose/model.ts';
import { Scope } from '../../../lib/compose/scope.ts';
import { readEnvironment } from '../../../lib/config/environment.ts';
import { useAws } from '../../support/environment.ts';

test('a model that cannot be loaded does not keep a function from starting: its requests get the error', async (t) => {
  t.mock.method(process.stdout, 'write', () => true);
  useAws({ AWS_ACCESS_KEY_ID: 'x', AWS_SECRET_ACCESS_KEY: 'x', AWS_REGION: 'local' });
  // Nothing listens there.
  const variables = { AWS_ENDPOINT_URL: 'http://127.0.0.1:9', CLUSTER_SERVING_BUCKET: 'models' };
  const model = await new Scope(readEnvironment(variables)).get(readyModel);
  await assert.rejects(
    model.use(async () => undefined),
    { code: 'model_unavailable' },
  );
});
