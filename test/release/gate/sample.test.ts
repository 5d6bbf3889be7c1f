/** A request that a person can paste is one that every endpoint answered. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { OnnxRunner } from '../../../lib/compose/onnx.ts';
import { ServingError } from '../../../lib/contract/errors.ts';
import { sampleRequest } from '../../../release/gate/sample.ts';
import { identityModel } from '../../support/onnx.ts';
import { openModelBytes } from '../../support/runner.ts';

test('a request that the queue fails is none, whatever POST /predict answers', async (t) => {
  const model = identityModel([{ name: 'x', dtype: 'float32', shape: ['N', 2] }]);
  const opened = await openModelBytes(t, model);
  const feeds = [{ dtype: 'float32', shape: [1, 2], data: Float32Array.of(1, 2) }] as const;
  const options = { pictures: [], inputAlreadyBatched: false, image: {}, filter: undefined };
  assert.equal((await sampleRequest(opened, feeds, options))?.sample.body, '{"instances":[{"x":[1,2]}]}');
  let asked = 0;
  const everySecondFails: OnnxRunner = {
    ...opened,
    async run(...request) {
      if (++asked % 2 === 0) throw new ServingError('model_failed', 'the second request of two');
      return opened.run(...request);
    },
  };
  assert.equal(await sampleRequest(everySecondFails, feeds, options), undefined);
  assert.ok(asked >= 2);
});
