/** POST /rerank through the whole local service, against onnxruntime called directly. */
import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { before, suite, type TestContext, test } from 'node:test';
import { readTokenizer, type Tokenizer } from '../../lib/text/tokenizer.ts';
import { onnxModel, type ValueSpec } from '../support/onnx.ts';
import { testStack } from '../support/stack.ts';
import { temporary, trainedTokenizer } from '../support/text-models.ts';

/** The parts in use of onnxruntime, which is a dependency of lib alone. */
interface Runtime {
  readonly InferenceSession: { create(file: string): Promise<RuntimeSession> };
  readonly Tensor: new (dtype: 'int64', data: BigInt64Array, shape: readonly number[]) => object;
}

interface RuntimeSession {
  run(feeds: object): Promise<Readonly<Record<string, { readonly data: unknown }>>>;
  release(): Promise<void>;
}

const { InferenceSession, Tensor } = createRequire(new URL('../../lib/package.json', import.meta.url))(
  'onnxruntime-node',
) as Runtime;
const TOKENIZER = JSON.stringify(trainedTokenizer('bert-uncased'));
let tokenizer: Tokenizer;
const QUERY = 'The quick brown fox';
const TEXTS = [
  'jumps over the lazy dog',
  '',
  'Café déjà vu',
  'a',
  `${'quick brown '.repeat(12)}fox`,
  '👩‍👩‍👧‍👦 family',
];

before(async () => {
  tokenizer = await readTokenizer(TOKENIZER);
});

/** Adds up what each token of a pair counts; those of the second text count more. [N, 1] */
function crossEncoder(t: TestContext, config: object = {}): string {
  const ids = (name: string): ValueSpec => ({ name, dtype: 'int64', shape: ['N', 'S'] });
  const to = { to: 1 };
  const { size } = tokenizer;
  const model = onnxModel({
    inputs: [ids('input_ids'), ids('attention_mask'), ids('token_type_ids')],
    outputs: [{ name: 'logits', dtype: 'float32', shape: ['N', 1] }],
    weights: [
      {
        name: 'table',
        dtype: 'float32',
        shape: [size],
        data: Float32Array.from({ length: size }, (_, i) => -6 * Math.sin(i)),
      },
      { name: 'half', dtype: 'float32', shape: [1], data: Float32Array.of(0.5) },
      { name: 'axis', dtype: 'int64', shape: [1], data: BigInt64Array.of(1n) },
    ],
    nodes: [
      { op: 'Gather', inputs: ['table', 'input_ids'], outputs: ['values'] },
      { op: 'Cast', inputs: ['attention_mask'], outputs: ['mask'], attributes: to },
      { op: 'Cast', inputs: ['token_type_ids'], outputs: ['types'], attributes: to },
      { op: 'Add', inputs: ['types', 'half'], outputs: ['weights'] },
      { op: 'Mul', inputs: ['values', 'mask'], outputs: ['shown'] },
      { op: 'Mul', inputs: ['shown', 'weights'], outputs: ['weighted'] },
      { op: 'ReduceSum', inputs: ['weighted', 'axis'], outputs: ['logits'] },
    ],
  });
  const folder = join(temporary(t), 'cross-encoder');
  mkdirSync(folder);
  writeFileSync(join(folder, 'model.onnx'), model);
  writeFileSync(join(folder, 'tokenizer.json'), TOKENIZER);
  const own = { architectures: ['BertForSequenceClassification'], id2label: { 0: 'LABEL_0' }, ...config };
  writeFileSync(join(folder, 'config.json'), JSON.stringify(own));
  return folder;
}

/** The logit of each text, from onnxruntime. */
async function logitsOf(folder: string): Promise<number[]> {
  const session = await InferenceSession.create(join(folder, 'model.onnx'));
  const logits: number[] = [];
  for (const text of TEXTS) {
    const { ids, types } = tokenizer.encode(QUERY, text, tokenizer.truncation.most ?? 512);
    const of = (values: readonly number[]) =>
      new Tensor('int64', BigInt64Array.from(values, BigInt), [1, values.length]);
    const feeds = { input_ids: of(ids), attention_mask: of(ids.map(() => 1)), token_type_ids: of(types) };
    logits.push(((await session.run(feeds))['logits']?.data as Float32Array)[0] as number);
  }
  await session.release();
  return logits;
}

async function post(url: string, body: unknown, status = 200): Promise<unknown> {
  const response = await fetch(`${url}/rerank`, { method: 'POST', body: JSON.stringify(body) });
  const text = await response.text();
  assert.equal(response.status, status, text);
  return JSON.parse(text);
}

interface Ranked {
  readonly index: number;
  readonly score: number;
  readonly text?: string;
}

const sigmoid = (value: number) => 1 / (1 + Math.exp(-value));

function assertRanked(got: readonly Ranked[], wanted: readonly number[]): void {
  const order = [...wanted.keys()].sort((a, b) => (wanted[b] as number) - (wanted[a] as number));
  assert.deepEqual(
    got.map(({ index }) => index),
    order,
  );
  for (const { index, score } of got) {
    const expected = wanted[index] as number;
    assert.ok(
      Math.abs(score - expected) < 1e-5 * Math.max(1, Math.abs(expected)),
      `${index}: ${score}, expected ${expected}`,
    );
  }
}

suite('POST /rerank', () => {
  for (const [name, config] of [
    ['a sigmoid', {}],
    ['Identity', { sentence_transformers: { activation_fn: 'torch.nn.modules.linear.Identity' } }],
  ] as const) {
    test(`a cross-encoder whose activation is ${name} ranks by the numbers of onnxruntime`, async (t) => {
      const folder = crossEncoder(t, config);
      const logits = await logitsOf(folder);
      // A float32 has no probabilities between that of this one and 1.
      assert.ok(Math.max(...logits) > 20, logits.join());
      const { url } = await testStack(t, { modelDirectory: folder, config: 'jobName: ranks' });
      const raw = (await post(url, { query: QUERY, texts: TEXTS, raw_scores: true })) as Ranked[];
      assertRanked(raw, logits);
      const scored = (await post(url, {
        query: QUERY,
        texts: TEXTS,
        return_text: true,
        truncate: true,
      })) as Ranked[];
      assertRanked(scored, logits.map(sigmoid));
      for (const { index, text } of scored) assert.equal(text, TEXTS[index]);

      const documents = TEXTS.map((text, i) => (i % 2 === 0 ? text : { text }));
      const body = { query: QUERY, documents, top_n: 2, return_documents: true, model: 'ranks' };
      const { results } = (await post(url, body)) as {
        results: { index: number; relevance_score: number; document: { text: string } }[];
      };
      assert.deepEqual(
        results.map(({ index, relevance_score: score, document: { text } }) => ({ index, score, text })),
        scored.slice(0, 2),
      );
      const plain = (await post(url, { query: QUERY, documents })) as { results: object[] };
      assert.deepEqual(
        plain.results.map((one) => Object.keys(one)),
        TEXTS.map(() => ['index', 'relevance_score']),
      );
    });
  }

  test('a text over the limit is cut off, or refused where "truncate" is false', async (t) => {
    const { url } = await testStack(t, { modelDirectory: crossEncoder(t), config: 'jobName: ranks' });
    // The tokenizer keeps 40 tokens.
    const whole = tokenizer.encode(QUERY, TEXTS[4]).ids.length;
    assert.ok(
      whole > 40 && TEXTS.every((text, i) => i === 4 || tokenizer.encode(QUERY, text).ids.length <= 40),
    );
    const short = TEXTS.toSpliced(4, 1);
    const sent = await post(url, { query: QUERY, texts: short, truncate: false });
    assert.deepEqual(sent, await post(url, { query: QUERY, texts: short, truncate: true }));
    const body = { query: QUERY, texts: TEXTS };
    const cut = await post(url, { ...body, truncate: true });
    for (const truncate of [undefined, null]) assert.deepEqual(await post(url, { ...body, truncate }), cut);
    const message = `text 4 and the query: \`inputs\` must have less than 40 tokens. Given: ${whole}; shorten them, or send "truncate": true`;
    const refused = await post(url, { ...body, truncate: false }, 413);
    assert.deepEqual(refused, { error: message, code: 'too_large' });
  });
});
