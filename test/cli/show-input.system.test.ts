/** `predict --show-input`: the tensors that a model gets of a request are those that give its answer. */
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { temporaryFolder } from '../support/runner.ts';
import { SAMPLE, testStack } from '../support/stack.ts';
import type { CliAnswer } from './cli.ts';
import { warmCli, warmCliJson } from './warm.ts';

interface Shown {
  readonly version: string;
  readonly records: readonly (readonly {
    readonly name: string;
    readonly dtype: string;
    readonly shape: readonly number[];
    readonly data: readonly number[];
  }[])[];
}

test('the tensor that is shown of a picture gives the answer of the picture', async (t) => {
  const folder = await temporaryFolder(t);
  const config = join(folder, 'config.yaml');
  await writeFile(config, 'imageResize: 8,8\nimage: {scale: 0.5}\n');
  const stack = await testStack(t, { config: 'imageResize: 8,8\nimage: {scale: 0.5}' });
  const picture = join(SAMPLE, 'images/digit-3.png');
  const where = ['--url', stack.url, '--bucket', stack.bucket, '--config', config];
  const options = { env: stack.aws.environment };
  const ask = async <T>(...args: string[]) =>
    (await warmCliJson(['predict', ...args, ...where], options)) as CliAnswer<T>;
  const { json, code } = await ask<Shown>(picture, '--show-input');
  assert.equal(code, 0);
  const [[tensor] = []] = json.records;
  assert.ok(tensor);
  assert.deepEqual([tensor.dtype, tensor.shape], ['float32', [1, 3, 8, 8]]);
  assert.equal(Math.max(...tensor.data), 127.5);
  const body = JSON.stringify({ inputs: [{ ...tensor, datatype: 'FP32' }] });
  const answer = await fetch(`${stack.url}/v2/models/${stack.job}/infer`, { method: 'POST', body });
  const { outputs }: { outputs: { data: number[] }[] } = Object(await answer.json());
  const [predicted = ''] = (await ask<{ predictions: string[] }>(picture)).json.predictions;
  const { data }: { data: number[] } = JSON.parse(predicted.slice('{value='.length, -1));
  assert.deepEqual(outputs[0]?.data, data);

  const text = await warmCli(['predict', picture, '--show-input', ...where], options);
  assert.match(text.stdout, /^0 {2}\w+ {2}float32 \[1, 3, 8, 8\] {2}0 to 127\.5, mean [\d.]+: {2}0 0 71\.5/);
  const wrong = await warmCli(['predict', '--text', 'hello', '--show-input', ...where], options);
  assert.equal(wrong.code, 1);
  assert.match(wrong.stderr, /expected a base64 image/);
});
