/**
 * Further models on one machine: requests in random order, eight at a time, and records of the queue. Each answer is that of the model that was
 * named, also while models are closed for others.
 */
import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import { modelPrefix } from '../../../lib/contract/names.ts';
import { publishModel } from '../../../lib/registry/publish.ts';
import { InputQueue, OutputQueue } from '../../../sdk/index.ts';
import { addModel, modelFolder, numberOf } from '../../local/swap/models.ts';
import { seeded, whole } from '../../support/faults/seeds.ts';
import { clientOptions, testStack } from '../../support/stack.ts';

const AT_ONCE = 8;

interface Amounts {
  readonly models: number;
  readonly requests: number;
  readonly records: number;
}

export async function askManyModels(t: TestContext, { models, requests, records }: Amounts): Promise<void> {
  const stack = await testStack(t, {
    config: 'models:\n  memoryMB: 64\nqueue:\n  batchSize: 10\n',
    modelDirectory: await modelFolder(t, addModel(0)),
  });
  for (let number = 1; number <= models; number++) {
    const location = { bucket: stack.bucket, prefix: modelPrefix('serving_stream', `m-${number}`) };
    await publishModel(stack.aws.s3, location, await modelFolder(t, addModel(number)));
  }
  const random = seeded(7);
  const next = () => whole(random, 0, models);
  const asked = Array.from({ length: requests }, (_, i) => ({ number: next(), x: i % 1_000 }));
  const left = asked.values();
  const ask = async () => {
    for (const { number, x } of left) {
      const path = `/predict?form=plain&model=${number === 0 ? 'serving_stream' : `m-${number}`}`;
      const body = JSON.stringify({ instances: [{ x: [x] }] });
      const headers = { 'content-type': 'application/json' };
      const answer = await fetch(stack.url + path, { method: 'POST', headers, body });
      const text = await answer.text();
      assert.equal(answer.status, 200, text);
      assert.equal(numberOf(x, Number(/"y":\[\[([\d.]+)/.exec(text)?.[1])), number, text);
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, ask));
  const { input: places, output: place } = clientOptions(stack);
  const [input, output] = [new InputQueue(places), new OutputQueue(place)];
  t.after(() => input.close());
  t.after(() => output.close());
  const sent = Array.from({ length: records }, (_, i) => ({ uri: `r-${i}`, number: next() }));
  await input.enqueueMany(
    sent.map(({ uri, number }) => ({
      uri,
      inputs: { x: [1] },
      ...(number > 0 && { model: `m-${number}` }),
    })),
  );
  for (const { uri, number } of sent) {
    const { outputs } = await output.wait(uri, { timeoutMs: 120_000 });
    assert.equal(numberOf(1, Number(outputs[0]?.data[0])), number, uri);
  }
}
