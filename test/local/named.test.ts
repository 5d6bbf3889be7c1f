/** Further models of a service that is about to be restarted are asked all that a start asks of them, also those that it serves. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { publishNamed } from '../../local/service/named.ts';
import { parseConfig } from '../support/config.ts';
import { temporaryFolder } from '../support/runner.ts';
import { testStack } from '../support/stack.ts';
import { addModel, modelsFolder } from './swap/models.ts';

test('a stored model is opened before a restart, and not by a start', async (t) => {
  const models = await modelsFolder(t, { alpha: addModel(2) });
  const { aws, bucket } = await testStack(t, { modelsDirectory: models });
  const options = { job: parseConfig('', 'config.yaml'), dataDir: await temporaryFolder(t), readyMs: 1 };
  const publish = (activate: boolean) => publishNamed(models, options, { s3: aws.s3, bucket }, activate);
  assert.deepEqual(await publish(true), []);
  await assert.rejects(publish(false), {
    code: 'bad_model',
    message: /^model alpha: .*: the model was not ready after 0\.001 s/,
  });
});
