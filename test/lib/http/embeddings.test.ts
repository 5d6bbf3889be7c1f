/** POST /v1/embeddings in OpenAI's form: what it takes, what it answers, and how it refuses. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { predict } from '../../../functions/predict.ts';
import type { Inputs, Outcome, TensorSpec } from '../../../lib/contract/values.ts';
import { quietObservers } from '../../support/observers.ts';

const EMBEDS: readonly TensorSpec[] = [{ name: 'embedding', dtype: 'float32', shape: ['N', 2] }];
const TEXT: TensorSpec = { name: 'text', dtype: 'string', shape: ['N'], isText: true };

/** A model whose vectors are the length of a text and 0.1; a token counts as a character. */
function handler(outputs = EMBEDS, inputs = [TEXT]) {
  const run = async (records: readonly Inputs[]) =>
    records.map((record): Outcome => {
      const value = record.get('text');
      const length =
        value?.kind === 'tensor'
          ? value.tensor.data.length
          : String(value?.kind === 'json' && value.value).length;
      const data = Float32Array.of(length, 0.1);
      return {
        ok: true,
        outputs: [{ name: 'embedding', dtype: 'float32', shape: [2], data, tokens: [length] }],
      };
    });
  const runner = { version: 'v1', inputs, outputs, run, close: async () => undefined };
  return predict({
    model: { use: (work) => work(runner) },
    observers: quietObservers(),
    filter: undefined,
    jobName: 'texts',
  });
}

async function ask(body: unknown, on = handler()) {
  const path = '/v1/embeddings';
  const event = {
    rawPath: path,
    rawQueryString: '',
    headers: { 'content-type': 'application/json' },
    requestContext: { http: { method: 'POST', path } },
    body: typeof body === 'string' ? body : JSON.stringify(body),
    isBase64Encoded: false,
  };
  const { statusCode, body: answer } = await on(event as unknown as Parameters<typeof on>[0]);
  return { status: statusCode, answer: JSON.parse(String(answer)) as Record<string, never> };
}

suite('POST /v1/embeddings', () => {
  test('a text, several, the tokens of one and those of several become vectors in order', async () => {
    const vector = (index: number, first: number) => ({
      object: 'embedding',
      index,
      embedding: [first, 0.1],
    });
    const cases: readonly (readonly [unknown, readonly number[]])[] = [
      ['abc', [3]],
      [
        ['abc', '', 'a'],
        [3, 0, 1],
      ],
      [[5, 6, 7, 8], [4]],
      [
        [[5, 6], [7]],
        [2, 1],
      ],
      [
        ['abc', [1, 2]],
        [3, 2],
      ],
    ];
    for (const [input, lengths] of cases) {
      const total = lengths.reduce((sum, length) => sum + length, 0);
      assert.deepEqual(await ask({ input, model: 'texts', user: 'me' }), {
        status: 200,
        answer: {
          object: 'list',
          data: lengths.map((length, i) => vector(i, length)),
          model: 'texts',
          usage: { prompt_tokens: total, total_tokens: total },
        },
      });
    }
  });

  test('base64 is float32, little-endian', async () => {
    const { answer } = await ask({ input: ['ab'], model: 'texts', encoding_format: 'base64', dimensions: 2 });
    const [{ embedding }] = answer['data'] as unknown as [{ embedding: string }];
    const bytes = Buffer.from(embedding, 'base64');
    assert.deepEqual([bytes.readFloatLE(0), bytes.readFloatLE(4)], [2, Math.fround(0.1)]);
  });

  test('what it cannot take is refused in the form of its errors', async () => {
    const bad: readonly (readonly [unknown, number, string, RegExp])[] = [
      ['{', 400, 'bad_request', /JSON/],
      [[], 400, 'bad_request', /expected \{"input"/],
      [{ input: 'a' }, 400, 'bad_request', /"model": expected a name/],
      [{ input: 'a', model: 'other' }, 404, 'not_found', /no model "?other"?; the model of this job is/],
      [{ model: 'texts' }, 400, 'bad_request', /"input" 0: expected a text or a list of token ids/],
      [{ input: [], model: 'texts' }, 400, 'bad_request', /at least one text/],
      [{ input: [[]], model: 'texts' }, 400, 'bad_request', /"input" 0: expected a text/],
      [{ input: [1.5], model: 'texts' }, 400, 'bad_request', /"input" 0/],
      [{ input: ['a', -1], model: 'texts' }, 400, 'bad_request', /"input" 1/],
      [
        { input: 'a', model: 'texts', encoding_format: 'hex' },
        400,
        'bad_request',
        /"encoding_format": expected "float" or "base64"/,
      ],
      [
        { input: 'a', model: 'texts', dimensions: 3 },
        400,
        'bad_request',
        /"dimensions": 3; the model's vectors have 2/,
      ],
      [{ input: 'a', model: 'texts', dimensions: 0 }, 400, 'bad_request', /a whole number from 1/],
      [{ input: 'a', model: 'texts', prompt_name: 1 }, 400, 'bad_request', /"prompt_name": expected a name/],
      [{ input: 'a', model: 'texts', prompt_name: 'query' }, 400, 'bad_request', /the model has no prompts/],
      [
        { input: new Array(1_001).fill('a'), model: 'texts' },
        413,
        'too_large',
        /over the limit of 1000 \(instances\)/,
      ],
    ];
    for (const [body, status, code, message] of bad) {
      const { status: got, answer } = await ask(body);
      const { error } = answer as unknown as { error: { message: string } };
      assert.equal(got, status, JSON.stringify(answer));
      assert.match(error.message, message);
      assert.deepEqual(
        { ...error, message: '' },
        { message: '', type: 'invalid_request_error', param: null, code },
      );
    }
  });

  test('a model that gives no embeddings of texts is named', async () => {
    for (const on of [
      handler([{ name: 'y', dtype: 'float32', shape: ['N', 2] }]),
      handler(EMBEDS, [{ ...TEXT, isText: false }]),
    ]) {
      const { status, answer } = await ask({ input: 'a', model: 'texts' }, on);
      assert.equal(status, 404);
      assert.match(JSON.stringify(answer), /gives no embeddings of texts; POST \/predict asks it/);
    }
  });
});
