/** POST /rerank: how it sorts, and how it refuses. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { predict } from '../../../functions/predict.ts';
import type { Inputs, Outcome, TensorSpec } from '../../../lib/contract/values.ts';
import { quietObservers } from '../../support/observers.ts';

const SCORE: readonly TensorSpec[] = [{ name: 'scores', dtype: 'float32', shape: ['N', 1] }];
const TEXT: TensorSpec = { name: 'text', dtype: 'string', shape: ['N'], isText: true };
const PAIR: TensorSpec = { ...TEXT, name: 'text_pair', optional: true };

/** A model whose score is what the second text says. */
function handler(outputs = SCORE, inputs = [TEXT, PAIR]) {
  const run = async (records: readonly Inputs[]) =>
    records.map((record): Outcome => {
      const value = record.get('text_pair');
      const data = Float32Array.of(Number(value?.kind === 'json' && value.value));
      return { ok: true, outputs: [{ name: 'scores', dtype: 'float32', shape: [1], data }] };
    });
  const runner = { version: 'v1', inputs, outputs, run, close: async () => undefined };
  return predict({
    model: { use: (work) => work(runner) },
    observers: quietObservers(),
    filter: undefined,
    jobName: 'ranks',
  });
}

async function ask(body: unknown, on = handler()) {
  const path = '/rerank';
  const event = {
    rawPath: path,
    rawQueryString: '',
    headers: { 'content-type': 'application/json' },
    requestContext: { http: { method: 'POST', path } },
    body: typeof body === 'string' ? body : JSON.stringify(body),
    isBase64Encoded: false,
  };
  const { statusCode, body: answer } = await on(event as unknown as Parameters<typeof on>[0]);
  return { status: statusCode, answer: JSON.parse(String(answer)) as unknown };
}

suite('POST /rerank', () => {
  test('equal scores keep the order of the request, and a score that is not a number is last', async () => {
    const texts = ['none', '1', '3', '1', '-2'];
    const { answer } = await ask({ query: 'q', texts, raw_scores: true });
    assert.deepEqual(answer, [
      { index: 2, score: 3 },
      { index: 1, score: 1 },
      { index: 3, score: 1 },
      { index: 4, score: -2 },
      { index: 0, score: null },
    ]);
  });

  test('a score is a sigmoid unless it is to be raw', async () => {
    const { answer } = await ask({ query: 'q', documents: ['-1000', '0'], top_n: 5 });
    assert.deepEqual(answer, {
      results: [
        { index: 1, relevance_score: 0.5 },
        { index: 0, relevance_score: 0 },
      ],
    });
  });

  test('what it cannot take is refused', async () => {
    const texts = ['1'];
    const bad: readonly (readonly [unknown, number, string, RegExp])[] = [
      ['{', 400, 'bad_request', /JSON/],
      [[], 400, 'bad_request', /expected \{"query"/],
      [{ texts }, 400, 'bad_request', /"query": expected a text/],
      [{ query: 'q' }, 400, 'bad_request', /either "texts" or "documents"/],
      [{ query: 'q', texts, documents: texts }, 400, 'bad_request', /either "texts" or "documents"/],
      [{ query: 'q', texts: [] }, 400, 'bad_request', /"texts": expected a list of at least one text/],
      [{ query: 'q', texts: 'a' }, 400, 'bad_request', /"texts": expected a list/],
      [{ query: 'q', texts: ['a', { text: 'b' }] }, 400, 'bad_request', /"texts" 1: expected a text/],
      [{ query: 'q', documents: [{ title: 'b' }] }, 400, 'bad_request', /"documents" 0: expected a text/],
      [{ query: 'q', documents: texts, top_n: 0 }, 400, 'bad_request', /"top_n": expected a whole number/],
      [{ query: 'q', documents: texts, model: 1 }, 400, 'bad_request', /"model": expected a name/],
      [{ query: 'q', documents: texts, model: 'other' }, 404, 'not_found', /the model of this job is/],
      [{ query: 'q', texts, raw_scores: 1 }, 400, 'bad_request', /"raw_scores": expected true or false/],
      [{ query: 'q', texts, return_text: 'x' }, 400, 'bad_request', /"return_text": expected true or false/],
      [{ query: 'q', texts, truncate: 0 }, 400, 'bad_request', /"truncate": expected true or false/],
      [{ query: 'q', texts, truncation_direction: 'Left' }, 400, 'bad_request', /expected "right"/],
      [{ query: 'q', texts: new Array(1_001).fill('1') }, 413, 'too_large', /limit of 1000 \(instances\)/],
      [
        { query: 'q'.repeat(6_292), texts: new Array(1_000).fill('1') },
        413,
        'too_large',
        /the query, once for each text, has 6292000 characters.*httpBodyBytes/,
      ],
    ];
    for (const [body, status, code, message] of bad) {
      const { status: got, answer } = await ask(body);
      const { error, ...more } = answer as { error: string };
      assert.equal(got, status, JSON.stringify(answer));
      assert.match(error, message);
      assert.deepEqual(more, { code });
    }
  });

  test('a model that is not a cross-encoder is named', async () => {
    for (const on of [
      handler([{ name: 'probabilities', dtype: 'float32', shape: ['N', 2] }]),
      handler(SCORE, [TEXT]),
      handler(SCORE, [{ ...TEXT, isText: false }, PAIR]),
    ]) {
      const { status, answer } = await ask({ query: 'q', texts: ['1'] }, on);
      assert.equal(status, 404);
      assert.match(JSON.stringify(answer), /is not a cross-encoder.*POST \/predict asks it/);
    }
  });
});
