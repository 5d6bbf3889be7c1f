/** A client describes its service's model without knowing the name of the job. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { InputQueue } from '../../sdk/index.ts';
import { SAMPLE, testStack } from '../support/stack.ts';

for (const job of ['serving_stream', 'digits']) {
  test(`a job called ${job} has the names and dtypes of its outputs without being named`, async (t) => {
    const { url } = await testStack(t, { config: `jobName: ${job}\nimageResize: 8,8` });
    const input = new InputQueue({ frontendUrl: url });
    t.after(() => input.close());
    const { output } = await input.predict({ image: `${SAMPLE}images/digit-3.png` });
    assert.deepEqual([output.name, output.dtype, output.shape], ['probabilities', 'float32', [10]]);
    const wrong = new InputQueue({ frontendUrl: url, name: 'other' });
    await assert.rejects(wrong.predict({ image: `${SAMPLE}images/digit-3.png` }), {
      code: 'bad_config',
      message: `name: no model "other"; the model of this job is "${job}"`,
    });
  });

  test(`a job called ${job} says its filter`, async (t) => {
    const { url } = await testStack(t, {
      config: `jobName: ${job}\npostProcessing: topN(2)\nimageResize: 8,8`,
    });
    const input = new InputQueue({ frontendUrl: url });
    t.after(() => input.close());
    const found = await input.predict({ image: `${SAMPLE}images/digit-3.png` });
    assert.equal((found.value as number[][])[0]?.[0], 3);
    assert.throws(() => found.output, { message: 'the job answers with its filter topN(2): read .value' });
  });
}
