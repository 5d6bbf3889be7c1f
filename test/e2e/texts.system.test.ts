/** Models of texts through the whole local service: every endpoint answers a text alike. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { InputQueue, OutputQueue } from '../../sdk/index.ts';
import { clientOptions, testStack } from '../support/stack.ts';
import { type Expected, expectedAnswers, textModelFolder } from '../support/text-models.ts';

interface Tensor {
  readonly data: readonly number[];
  readonly shape: readonly number[];
}

function assertNear(got: Iterable<number>, wanted: readonly number[], text: string): void {
  const values = [...got];
  assert.equal(values.length, wanted.length, text);
  for (const [i, value] of wanted.entries()) {
    assert.ok(Math.abs(value - (values[i] as number)) < 1e-4, `${text}: element ${i}`);
  }
}

async function post(url: string, body: unknown): Promise<Record<string, never>> {
  const headers = { 'content-type': 'application/json' };
  const response = await fetch(url, { method: 'POST', headers, body: JSON.stringify(body) });
  const text = await response.text();
  assert.equal(response.status, 200, text);
  return JSON.parse(text) as Record<string, never>;
}

const tensorOf = (prediction: string) => JSON.parse(prediction.slice('{value='.length, -1)) as Tensor;

test('an encoder gives the same vectors on /predict, /v2, the queue and /v1/embeddings', async (t) => {
  const stack = await testStack(t, {
    modelDirectory: textModelFolder(t, 'encoder'),
    config: 'jobName: vectors',
  });
  const expected = expectedAnswers('encoder');
  const texts = expected.map(({ text }) => text);
  const vectorOf = ({ embedding = [] }: Expected) => embedding;

  const predicted = await post(`${stack.url}/predict`, { instances: texts.map((text) => ({ text })) });
  for (const [i, prediction] of (predicted['predictions'] as unknown as string[]).entries()) {
    assertNear(tensorOf(prediction).data, vectorOf(expected[i] as Expected), texts[i] as string);
  }

  const inputs = [{ name: 'text', datatype: 'BYTES', shape: [texts.length], data: texts }];
  const inferred = await post(`${stack.url}/v2/models/vectors/infer`, { inputs });
  const [output] = inferred['outputs'] as unknown as [Tensor];
  assert.deepEqual(output.shape, [texts.length, 16]);
  assertNear(output.data, expected.flatMap(vectorOf), '/v2');

  const embedded = await post(`${stack.url}/v1/embeddings`, {
    input: texts,
    model: 'vectors',
    encoding_format: 'base64',
  });
  const vectors = embedded['data'] as unknown as { embedding: string; index: number }[];
  for (const [i, { embedding, index }] of vectors.entries()) {
    assert.equal(index, i);
    const bytes = Buffer.from(embedding, 'base64');
    const floats = Array.from({ length: 16 }, (_, at) => bytes.readFloatLE(4 * at));
    assertNear(floats, vectorOf(expected[i] as Expected), texts[i] as string);
  }
  const tokens = expected.reduce((sum, one) => sum + one.tokens, 0);
  assert.deepEqual(embedded['usage'], { prompt_tokens: tokens, total_tokens: tokens });
  // Token ids are read unchanged: [CLS] and [SEP] alone are the empty text.
  const empty = await post(`${stack.url}/v1/embeddings`, { input: [[2, 3], ''], model: 'vectors' });
  const [ids, text] = empty['data'] as unknown as [{ embedding: number[] }, { embedding: number[] }];
  assertNear(ids.embedding, text.embedding, 'token ids');

  const options = clientOptions(stack);
  const input = new InputQueue({ name: 'vectors', ...options.input });
  const results = new OutputQueue({ name: 'vectors', ...options.output });
  t.after(() => Promise.all([input.close(), results.close()]));
  for (const [i, value] of texts.entries()) await input.enqueue(`text-${i}`, { text: [value] });
  for (const [i, one] of expected.entries()) {
    const { outputs } = await results.wait(`text-${i}`, { timeoutMs: 30_000 });
    assertNear(outputs[0]?.data as Float32Array, vectorOf(one), one.text);
  }
});

test('the queue takes every character of a text and of a uri, over HTTPS and through SQS', async (t) => {
  const stack = await testStack(t, { modelDirectory: textModelFolder(t, 'encoder') });
  const { input, output } = clientOptions(stack);
  const text = 'a\ufffe \uffff\u0001\u007f😀';
  const [uri, second, third] = ['one\ufffe', 'two\uffff', 'three'];
  await sent(stack.url, JSON.stringify({ uri, instances: [{ text }] }), 'application/json');
  await sent(stack.url, JSON.stringify({ uri: second, instances: [{ text }] }), 'application/x-ndjson');
  const queue = new InputQueue({ queueUrl: input.queueUrl, endpoint: input.endpoint, region: input.region });
  const results = new OutputQueue(output);
  t.after(() => Promise.all([queue.close(), results.close()]));
  await queue.enqueue(`${third}${uri}`, { text: [text] });
  const answer = await post(`${stack.url}/predict`, { instances: [{ text }] });
  const { data } = tensorOf((answer['predictions'] as unknown as string[])[0] as string);
  for (const one of [uri, second, `${third}${uri}`]) {
    const { outputs } = await results.wait(one, { timeoutMs: 30_000 });
    assertNear(outputs[0]?.data as Float32Array, data, one);
  }
});

async function sent(url: string, body: string, type: string): Promise<void> {
  const response = await fetch(`${url}/predictions`, {
    method: 'POST',
    headers: { 'content-type': type },
    body,
  });
  assert.equal(response.status, 202, await response.text());
}

test('a classifier gives its labels, also for two texts, and has no embeddings', async (t) => {
  const config = 'postProcessing: "topN(1, labels)"';
  const stack = await testStack(t, { modelDirectory: textModelFolder(t, 'classifier'), config });
  const labels = ['negative', 'neutral', 'positive'];
  const expected = expectedAnswers('classifier');
  const instances = expected.map(({ text, pair }) => ({
    text,
    ...(pair == null ? {} : { text_pair: pair }),
  }));
  const { predictions } = (await post(`${stack.url}/predict`, { instances })) as unknown as {
    predictions: string[];
  };
  for (const [i, { probabilities = [], text }] of expected.entries()) {
    const best = probabilities.indexOf(Math.max(...probabilities));
    const [[place, , label]] = JSON.parse((predictions[i] as string).slice('{value='.length, -1)) as [
      [number, number, string],
    ];
    assert.deepEqual([place, label], [best, labels[best]], text);
  }
  const data = expected.slice(0, 2).map(({ text }) => text);
  const inputs = [{ name: 'text', datatype: 'BYTES', shape: [2], data }];
  const inferred = await post(`${stack.url}/v2/models/serving_stream/infer`, { inputs });
  const [output] = inferred['outputs'] as unknown as [Tensor];
  const wanted = expected.slice(0, 2).flatMap(({ probabilities = [] }) => probabilities);
  assertNear(output.data, wanted, '/v2 without the second text');
  const refused = await fetch(`${stack.url}/v1/embeddings`, {
    method: 'POST',
    body: JSON.stringify({ input: 'a', model: 'serving_stream' }),
  });
  assert.equal(refused.status, 404);
  const { error } = (await refused.json()) as { error: { code: string } };
  assert.equal(error.code, 'not_found');
});
