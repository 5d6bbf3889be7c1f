/** Questions to the function that watches trials, and the version of which it answers. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { answerReplay, questionIn } from '../../../release/trial/asked.ts';

const VERSION = '0123456789ab';

test('a question names a model, versions, times and an input, and is nothing else', () => {
  assert.equal(questionIn({ source: 'aws.events' }), undefined);
  assert.equal(questionIn(undefined), undefined);
  const filter = { since: undefined, until: undefined, version: undefined };
  const none = { model: undefined, version: undefined, filter, by: undefined };
  for (const replay of [{}, null, 'all']) assert.deepEqual(questionIn({ replay }), none);
  const whole = {
    model: 'fraud',
    version: VERSION,
    filter: { since: 1, until: 2, version: VERSION },
    by: 'x'.repeat(1_000),
  };
  assert.deepEqual(questionIn({ replay: { ...whole, other: 1 } }), whole);
  for (const bad of [
    { model: 'a/b' },
    { model: 3 },
    { version: '../' },
    { by: 3 },
    { by: 'x'.repeat(1_001) },
    { filter: { since: '1' } },
    { filter: { until: 1.5 } },
    { filter: { version: '../v1' } },
  ])
    assert.throws(
      () => questionIn({ replay: { ...whole, ...bad } }),
      { code: 'bad_request', message: /^replay: expected \{"model"/ },
      JSON.stringify(bad),
    );
});

test('the answer is of the version that is asked, with the filter and the input', async () => {
  const asked: unknown[] = [];
  const parts = {
    replay: async (...question: unknown[]) => {
      asked.push(question);
      return 'a replay';
    },
  };
  const filter = { since: 1, until: 2, version: undefined };
  const question = { model: 'fraud', version: VERSION, filter, by: 'x' };
  assert.deepEqual(await answerReplay(question, parts as never), {
    model: 'fraud',
    version: VERSION,
    replay: 'a replay',
  });
  assert.deepEqual(asked, [[VERSION, filter, 'x']]);
});
