/** Prompts and short vectors of sentence-transformers, as a folder asks for them and as a record does. */
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { cp, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { predict } from '../../functions/predict.ts';
import { decodeInstances } from '../../lib/codecs/instances.ts';
import { modelSettings } from '../../lib/compose/model.ts';
import { type OnnxRunner, openOnnx } from '../../lib/compose/onnx.ts';
import { DEFAULT_JOB } from '../../lib/config/job.ts';
import { importModel } from '../../onnx-import/import.ts';
import { models, UNMEASURED } from '../support/models.ts';
import { quietObservers } from '../support/observers.ts';
import { textModelFolder } from '../support/text-models.ts';

const CONFIG = 'config_sentence_transformers.json';
const PROMPTS = { query: 'query: ', document: 'passage: ', none: '' };

async function opened(t: TestContext, directory: string, config: object | undefined) {
  if (config) await writeFile(join(directory, CONFIG), JSON.stringify(config));
  const out = `${directory}-imported`;
  const made = await importModel(directory, { out, version: '1', process: models, ...UNMEASURED });
  const { verification, notes } = made.importReport;
  const settings = { ...modelSettings(DEFAULT_JOB, 1), verification };
  const runner = await openOnnx(join(made.directory, 'model.onnx'), '1', settings);
  t.after(() => runner.close());
  return { runner, notes };
}

/** The vectors, or the message of the first error. */
async function ask(runner: OnnxRunner, ...instances: readonly object[]) {
  const outcomes = await runner.run(decodeInstances(JSON.stringify({ instances })));
  return outcomes.map((outcome) =>
    outcome.ok ? Array.from(outcome.outputs[0]?.data as Float32Array) : outcome.error.message,
  );
}

async function embeddings(runner: OnnxRunner, more: object) {
  const observers = quietObservers();
  const on = predict({
    model: { use: (work) => work(runner) },
    observers,
    filter: undefined,
    jobName: 'texts',
  });
  const event = {
    rawPath: '/v1/embeddings',
    rawQueryString: '',
    headers: { 'content-type': 'application/json' },
    requestContext: { http: { method: 'POST', path: '/v1/embeddings' } },
    body: JSON.stringify({ model: 'texts', input: 'a cat', ...more }),
    isBase64Encoded: false,
  };
  const { statusCode, body } = await on(event as unknown as Parameters<typeof on>[0]);
  const { data, error } = JSON.parse(String(body)) as {
    data?: readonly { embedding: readonly number[] }[];
    error?: { message: string };
  };
  return { status: statusCode, vector: data?.[0]?.embedding, message: error?.message ?? '' };
}

test('the default prompt goes in front of each text, and a record may name another', async (t) => {
  const directory = textModelFolder(t, 'encoder');
  const { runner, notes } = await opened(t, directory, { prompts: PROMPTS, default_prompt_name: 'query' });
  assert.match(
    notes.join('\n'),
    /"query: " goes in front of each text \(default_prompt_name query\); "prompt_name" of a record chooses another of query, document, none/,
  );
  const [usual, query, plain, passage] = await ask(
    runner,
    { text: 'a cat' },
    { text: 'a cat', prompt_name: 'query' },
    { text: 'query: a cat', prompt_name: 'none' },
    { text: 'a cat', prompt_name: 'document' },
  );
  assert.deepEqual(usual, query);
  assert.deepEqual(usual, plain);
  assert.notDeepEqual(usual, passage);
  const [wrong] = await ask(runner, { text: 'a cat', prompt_name: 'other' });
  assert.match(String(wrong), /prompt_name "other": the model's prompts are query, document, none/);
  const near = (vector: readonly number[] | undefined, other: unknown) =>
    vector?.every((value, i) => Math.abs(value - (other as number[])[i]!) < 1e-6);
  assert.ok(near((await embeddings(runner, {})).vector, usual));
  assert.ok(near((await embeddings(runner, { prompt_name: 'document' })).vector, passage));
  const refused = await embeddings(runner, { prompt_name: 'other' });
  assert.equal(refused.status, 400);
  assert.match(refused.message, /the model's prompts are query/);
  assert.equal((await embeddings(runner, { prompt_name: 'query', input: [[2, 3]] })).status, 400);
});

test('truncate_dim keeps the first numbers, and dimensions asks for fewer', async (t) => {
  const whole = await opened(t, textModelFolder(t, 'encoder'), undefined);
  const cut = await opened(t, textModelFolder(t, 'encoder'), { truncate_dim: 5 });
  const [[vector], [short]] = await Promise.all([
    ask(whole.runner, { text: 'x' }),
    ask(cut.runner, { text: 'x' }),
  ]);
  assert.deepEqual(short, (vector as number[]).slice(0, 5));
  assert.equal(cut.runner.outputs[0]?.shape.at(-1), 5);
  const { vector: asked } = await embeddings(cut.runner, { dimensions: 3 });
  assert.equal(asked?.length, 3);
  assert.match(
    (await embeddings(cut.runner, { dimensions: 6 })).message,
    /"dimensions": 6; the model's vectors have 5/,
  );
});

test('what the file says wrongly, and what is not served, is refused by the field', async (t) => {
  const refused = async (config: object, pooling = {}) => {
    const directory = textModelFolder(t, 'encoder');
    const path = join(directory, '1_Pooling/config.json');
    if (Object.keys(pooling).length > 0) {
      const own = JSON.parse(await readFile(path, 'utf8')) as object;
      await writeFile(path, JSON.stringify({ ...own, ...pooling }));
    }
    return opened(t, directory, config).then(
      () => 'not refused',
      (error: Error) => error.message,
    );
  };
  assert.match(
    await refused({ prompts: PROMPTS, default_prompt_name: 'q' }),
    /default_prompt_name "q": prompts has no text of this name/,
  );
  assert.match(await refused({ prompts: { a: 1 } }), /prompts: expected texts by name/);
  assert.match(await refused({ truncate_dim: 0 }), /truncate_dim: expected a whole number from 1, found 0/);
  assert.match(
    await refused({ prompts: PROMPTS }, { include_prompt: false }),
    /include_prompt false .*import: \{ignore/,
  );
});

const REPORTED = fileURLToPath(
  new URL('../../../shared/corpus/reported/folders/st_default_prompt', import.meta.url),
);
const skip = existsSync(REPORTED) ? false : 'needs ../shared/corpus/reported';
test('the reported folder answers as sentence-transformers does', { skip }, async (t) => {
  const directory = join(textModelFolder(t, 'encoder'), '..', 'reported');
  await cp(REPORTED, directory, { recursive: true });
  const { runner } = await opened(t, directory, undefined);
  const { texts, embeddings: expected } = JSON.parse(
    await readFile(join(REPORTED, 'expected.json'), 'utf8'),
  ) as {
    texts: readonly string[];
    embeddings: readonly (readonly number[])[];
  };
  const got = await ask(runner, ...texts.map((text) => ({ text })));
  for (const [i, vector] of expected.entries()) {
    for (const [at, value] of vector.entries())
      assert.ok(Math.abs(value - ((got[i] as number[])[at] as number)) < 1e-5, `${texts[i]}: ${at}`);
  }
});
