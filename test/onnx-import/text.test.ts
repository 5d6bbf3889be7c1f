/** Models of Hugging Face: texts in, labelled classes or vectors out, as a plain numpy transformer answers them. */
import assert from 'node:assert/strict';
import { existsSync, rmSync } from 'node:fs';
import { mkdir, readFile, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { suite, type TestContext, test } from 'node:test';
import { decodeInstances } from '../../lib/codecs/instances.ts';
import { modelSettings } from '../../lib/compose/model.ts';
import { type OnnxRunner, openOnnx } from '../../lib/compose/onnx.ts';
import { DEFAULT_JOB } from '../../lib/config/job.ts';
import type { NamedTensor } from '../../lib/contract/values.ts';
import { verificationNotes } from '../../lib/contract/verification-text.ts';
import { readTextModel } from '../../lib/text/files.ts';
import type { TextSettings } from '../../lib/text/settings.ts';
import type { Imported } from '../../onnx-import/import/import.ts';
import { modelOnTheWay } from '../../release/cache.ts';
import { importModel } from '../../release/import.ts';
import { models, UNMEASURED } from '../support/models.ts';
import { type ModelSpec, onnxModel, type ValueSpec } from '../support/onnx.ts';
import {
  type Expected,
  expectedAnswers,
  temporary,
  textModelFolder,
  trainedTokenizer,
} from '../support/text-models.ts';

const imported = (directory: string): Promise<Imported> =>
  importModel(directory, { out: `${directory}-imported`, version: '1', process: models, ...UNMEASURED });

async function opened(t: TestContext, { directory, importReport }: Imported): Promise<OnnxRunner> {
  const { verification } = importReport;
  const runner = await openOnnx(join(directory, 'model.onnx'), '1', {
    ...modelSettings(DEFAULT_JOB, 1),
    verification,
  });
  t.after(() => runner.close());
  return runner;
}

async function ask(
  runner: OnnxRunner,
  texts: readonly Pick<Expected, 'text' | 'pair'>[],
): Promise<NamedTensor[]> {
  const instances = texts.map(({ text, pair }) =>
    typeof pair === 'string' ? { text, text_pair: pair } : { text },
  );
  const outcomes = await runner.run(decodeInstances(JSON.stringify({ instances })));
  return outcomes.map((outcome) => {
    assert.ok(outcome.ok, outcome.ok ? '' : outcome.error.message);
    return outcome.outputs[0] as NamedTensor;
  });
}

function assertAnswers(answers: readonly NamedTensor[], expected: readonly Expected[]): void {
  for (const [i, { text, tokens, embedding, probabilities }] of expected.entries()) {
    const answer = answers[i] as NamedTensor;
    assert.deepEqual(answer.tokens, [tokens], text);
    for (const [at, wanted] of (embedding ?? probabilities ?? []).entries()) {
      const got = (answer.data as Float32Array)[at] as number;
      assert.ok(Math.abs(got - wanted) < 1e-4, `${text}: element ${at}: expected ${wanted}, got ${got}`);
    }
  }
}

async function change(directory: string, name: string, values: object): Promise<void> {
  const path = join(directory, name);
  const old = existsSync(path) ? (JSON.parse(await readFile(path, 'utf8')) as object) : {};
  await writeFile(path, JSON.stringify({ ...old, ...values }));
}

const settingsOf = async ({ directory }: Imported): Promise<TextSettings> =>
  JSON.parse(await readFile(join(directory, 'text.json'), 'utf8')) as TextSettings;

suite('a model of Hugging Face answers texts', () => {
  for (const name of ['encoder', 'classifier'] as const) {
    test(`the ${name} answers as the reference does, texts together and alone, in their order`, async (t) => {
      const runner = await opened(t, await imported(textModelFolder(t, name)));
      const expected = expectedAnswers(name);
      assert.equal(runner.separable, true);
      assertAnswers(await ask(runner, expected), expected);
      assertAnswers(await ask(runner, expected.toReversed()), expected.toReversed());
      for (const one of expected) assertAnswers(await ask(runner, [one]), [one]);
    });
  }

  test('a classifier has the labels of id2label, and takes a second text where there is one', async (t) => {
    const made = await imported(textModelFolder(t, 'classifier'));
    const runner = await opened(t, made);
    assert.deepEqual(runner.names.labels, { probabilities: ['negative', 'neutral', 'positive'] });
    assert.deepEqual(
      runner.inputs.map(({ name, optional = false }) => [name, optional]),
      [
        ['text', false],
        ['text_pair', true],
      ],
    );
    // Any name will do for the only input that a record needs.
    const [alone, other] = await runner.run(
      decodeInstances('{"instances": [{"text": "a"}, {"sentence": "a"}]}'),
    );
    assert.deepEqual(alone?.ok && alone.outputs, other?.ok && other.outputs);
    assert.ok(alone?.ok);
    assert.match(made.importReport.notes.join('\n'), /a record sends "text", and may send "text_pair"/);
  });

  test('what an import read and wrote is listed with its checksum, and served from the cache next time', async (t) => {
    const directory = textModelFolder(t, 'encoder');
    const options = {
      job: DEFAULT_JOB,
      cacheDir: join(temporary(t), 'cache'),
      version: '1',
      process: models,
      ...UNMEASURED,
    };
    const first = await modelOnTheWay(directory, options);
    const paths = first.importReport?.model.files.map(({ path }) => path);
    assert.deepEqual(paths, ['model.onnx', 'tokenizer.json', 'text.json']);
    const again = await modelOnTheWay(directory, options);
    assert.equal(again.fromCache, true);
    // The import itself is a model that serves unchanged.
    assert.equal((await modelOnTheWay(first.directory, options)).directory, first.directory);
    await change(directory, '1_Pooling/config.json', { pooling_mode_cls_token: true });
    assert.equal((await modelOnTheWay(directory, options)).fromCache, false);
  });

  test('scores become what the config says: probabilities of each label, of all, or nothing', async (t) => {
    const cases: readonly (readonly [object, TextSettings['activation']])[] = [
      [{ problem_type: 'multi_label_classification' }, 'sigmoid'],
      [{ problem_type: 'regression' }, 'none'],
      [{ sentence_transformers: { activation_fn: 'torch.nn.modules.linear.Identity' } }, 'none'],
    ];
    for (const [config, activation] of cases) {
      const directory = textModelFolder(t, 'classifier');
      await change(directory, 'config.json', config);
      const made = await imported(directory);
      assert.equal((await settingsOf(made)).activation, activation);
      const [answer] = await ask(await opened(t, made), [{ text: 'a' }]);
      assert.equal(answer?.name, activation === 'none' ? 'scores' : 'probabilities');
    }
  });

  test('texts are cut off where sentence-transformers, the tokenizer or the model says', async (t) => {
    const directory = textModelFolder(t, 'encoder');
    await change(directory, 'sentence_bert_config.json', { max_seq_length: 20, do_lower_case: true });
    assert.deepEqual(
      await settingsOf(await imported(directory)).then(({ maxTokens, lowercase }) => [maxTokens, lowercase]),
      [20, true],
    );
    const other = textModelFolder(t, 'classifier');
    await writeFile(
      join(other, 'tokenizer.json'),
      JSON.stringify({ ...trainedTokenizer('roberta'), truncation: null }),
    );
    // RoBERTa's positions begin behind that of the padding.
    assert.equal((await settingsOf(await imported(other))).maxTokens, 64);
    await change(other, 'tokenizer_config.json', { model_max_length: 50 });
    assert.equal((await settingsOf(await imported(other))).maxTokens, 50);
  });

  test('poolings are those that the folder names, and a mean that nothing names is a note', async (t) => {
    const directory = textModelFolder(t, 'encoder');
    await change(directory, '1_Pooling/config.json', {
      pooling_mode_cls_token: true,
      pooling_mode_max_tokens: true,
    });
    assert.deepEqual((await settingsOf(await imported(directory))).pooling, ['cls', 'max', 'mean']);
    rmSync(join(directory, '1_Pooling'), { recursive: true });
    rmSync(join(directory, 'modules.json'));
    const made = await imported(directory);
    assert.deepEqual((await settingsOf(made)).pooling, ['mean']);
    assert.match(
      made.importReport.notes.join('\n'),
      /assumed: a text becomes the mean of its tokens' vectors/,
    );
  });
});

const ids = (name: string, length: number | string = 'S'): ValueSpec => ({
  name,
  dtype: 'int64',
  shape: ['N', length],
});

/** Adds up the vectors of a text's tokens, padding included: [N, 4]. */
function sumsOfTokens(more: Partial<ModelSpec> = {}): Uint8Array {
  const data = Float32Array.from({ length: 600 * 4 }, (_, i) => Math.sin(i));
  return onnxModel({
    inputs: [ids('input_ids')],
    outputs: [{ name: 'sentence_embedding', dtype: 'float32', shape: ['N', 4] }],
    weights: [
      { name: 'table', dtype: 'float32', shape: [600, 4], data },
      { name: 'axis', dtype: 'int64', shape: [1], data: BigInt64Array.of(1n) },
    ],
    nodes: [
      { op: 'Gather', inputs: ['table', 'input_ids'], outputs: ['vectors'] },
      {
        op: 'ReduceSum',
        inputs: ['vectors', 'axis'],
        outputs: ['sentence_embedding'],
        attributes: { keepdims: 0 },
      },
    ],
    ...more,
  });
}

async function folderWith(
  t: TestContext,
  model: Uint8Array,
  tokenizer = trainedTokenizer('gpt2'),
  config: object = {},
) {
  const directory = join(temporary(t), 'model');
  await mkdir(directory);
  await writeFile(join(directory, 'model.onnx'), model);
  await writeFile(join(directory, 'tokenizer.json'), JSON.stringify(tokenizer));
  await writeFile(join(directory, 'config.json'), JSON.stringify(config));
  return directory;
}

suite('padding', () => {
  test('a model that padding changes runs texts of equal length only, and answers as it does alone', async (t) => {
    const padding = {
      strategy: 'BatchLongest',
      direction: 'Right',
      pad_to_multiple_of: null,
      pad_id: 3,
      pad_type_id: 0,
      pad_token: 'a',
    };
    const made = await imported(
      await folderWith(t, sumsOfTokens(), { ...trainedTokenizer('gpt2'), padding }),
    );
    const { verification } = made.importReport;
    assert.equal(verification?.batching.verdict, 'proven');
    assert.equal(verification?.batching.padding, 'differs');
    assert.match(
      verificationNotes(verification).join('\n'),
      /only texts of equal length share a run: a padded made-up text/,
    );
    const runner = await opened(t, made);
    const texts = ['a', 'ab c', 'the quick brown fox', 'a b', 'b', 'x'].map((text) => ({ text }));
    const together = await ask(runner, texts);
    for (const [i, one] of texts.entries()) assert.deepEqual([together[i]], await ask(runner, [one]));
  });

  test('a model whose mask works shares runs between texts of several lengths', async (t) => {
    const { importReport } = await imported(textModelFolder(t, 'encoder'));
    assert.equal(importReport.verification?.batching.padding, 'agrees');
  });

  test('token ids of the tokenizer answer as their text does, and those of another tokenizer are refused', async (t) => {
    const made = await imported(textModelFolder(t, 'encoder'));
    const runner = await opened(t, made);
    const { tokenizer } = await readTextModel(made.directory);
    const sent = async (...tokens: number[]) => {
      const data = Int32Array.from(tokens);
      const tensor = { dtype: 'int32', shape: [data.length], data } as const;
      const [outcome] = await runner.run([new Map([['text', { kind: 'tensor', tensor }]])]);
      return outcome?.ok
        ? { outputs: outcome.outputs, refusal: '' }
        : { outputs: [], refusal: outcome?.error.message ?? '' };
    };
    const { ids: own } = tokenizer.encode('the quick fox', undefined, undefined);
    const [byText] = await ask(runner, [{ text: 'the quick fox' }]);
    assert.deepEqual((await sent(...own)).outputs, [byText]);
    const foreign = /that the tokenizer of this model did not make: it makes \[\d+, …, \d+\]/;
    for (const other of [own.slice(1), own.slice(0, -1), own.slice(1, -1), [own[0] ?? 0]])
      assert.match((await sent(...other)).refusal, foreign);
    for (const id of [-1, tokenizer.size, 2 ** 31 - 1])
      assert.match((await sent(...own.with(1, id))).refusal, new RegExp(`token id ${id}: the tokenizer has`));
    const plain = await opened(t, await imported(await folderWith(t, sumsOfTokens())));
    const [outcome] = await plain.run([
      new Map([
        ['text', { kind: 'tensor', tensor: { dtype: 'int32', shape: [2], data: Int32Array.of(1, 2) } }],
      ]),
    ]);
    assert.match(outcome?.ok === false ? outcome.error.message : '', /cannot be told from those of another/);
  });

  test('a text without a token, which the tokenizer adds none to, is refused alone', async (t) => {
    const runner = await opened(t, await imported(await folderWith(t, sumsOfTokens())));
    const [bad, good] = await runner.run(decodeInstances('{"instances": [{"text": ""}, {"text": "a"}]}'));
    assert.ok(bad?.ok === false && good?.ok === true);
    assert.match(bad.error.message, /a text without any token/);
  });
});

suite('what is not served is refused by name', () => {
  const vectors = { name: 'last_hidden_state', dtype: 'float32', shape: ['N', 'S', 4] } as const;
  const named = (name: string, shape: readonly (number | string)[]): Partial<ModelSpec> => ({
    outputs: [{ name, dtype: 'float32', shape }],
    nodes: [{ op: 'Gather', inputs: ['table', 'input_ids'], outputs: [name] }],
  });

  async function refuses(t: TestContext, more: Partial<ModelSpec>, expected: RegExp, config: object = {}) {
    const directory = await folderWith(t, sumsOfTokens(more), trainedTokenizer('gpt2'), config);
    await assert.rejects(imported(directory), expected);
  }

  test('token classification, question answering and generation', async (t) => {
    await refuses(
      t,
      named('logits', ['N', 'S', 4]),
      /BertForTokenClassification: its outputs logits \[N,S,4\] are neither.*remove tokenizer\.json/,
      {
        architectures: ['BertForTokenClassification'],
      },
    );
    await refuses(
      t,
      named('start_logits', ['N', 'S', 4]),
      /question answering and generation are not served from texts/,
    );
    const past = {
      ...named('last_hidden_state', ['N', 'S', 4]),
      inputs: [ids('input_ids'), ids('past_key_values.0.key')],
    };
    await refuses(t, past, /generates text \(input "past_key_values\.0\.key"\)/);
  });

  test('an input that no text fills', async (t) => {
    const bbox = { ...named('last_hidden_state', ['N', 'S', 4]), inputs: [ids('input_ids'), ids('bbox')] };
    await refuses(t, bbox, /a text does not say what the input "bbox" is to be/);
    await refuses(
      t,
      {
        ...named('last_hidden_state', ['N', 'S', 4]),
        inputs: [ids('tokens')],
        nodes: [{ op: 'Gather', inputs: ['table', 'tokens'], outputs: [vectors.name] }],
      },
      /the input "tokens"/,
    );
  });

  test('modules behind the transformer, unknown poolings and activations', async (t) => {
    const directory = textModelFolder(t, 'encoder');
    const modules = JSON.parse(await readFile(join(directory, 'modules.json'), 'utf8')) as unknown[];
    const weights = { type: 'sentence_transformers.models.WordWeights', path: '3_WordWeights' };
    await writeFile(join(directory, 'modules.json'), JSON.stringify([...modules, weights]));
    await assert.rejects(
      imported(directory),
      /module "WordWeights" is not served here; export the whole model/,
    );
    await writeFile(join(directory, 'modules.json'), JSON.stringify(modules));
    await change(directory, '1_Pooling/config.json', { pooling_mode_mean_tokens: false });
    await assert.rejects(
      imported(directory),
      /1_Pooling\/config\.json: expected poolings among .*, found "none"/,
    );
    const classifier = textModelFolder(t, 'classifier');
    await change(classifier, 'config.json', { problem_type: 'ranking' });
    await assert.rejects(imported(classifier), /problem_type "ranking" is not known/);
    await change(classifier, 'config.json', { problem_type: undefined, id2label: { 0: 'a', 1: 'b' } });
    await assert.rejects(imported(classifier), /id2label has 2 labels, and the output "logits" 3/);
  });

  test('two ONNX files, and two files that say different things of the tokenizer', async (t) => {
    const directory = textModelFolder(t, 'encoder');
    await change(directory, 'tokenizer_config.json', { do_lower_case: false });
    await assert.rejects(
      imported(directory),
      /tokenizer_config\.json says do_lower_case: false, and tokenizer\.json does it/,
    );
    await change(directory, 'tokenizer_config.json', { do_lower_case: true });
    await rename(join(directory, 'onnx/model.onnx'), join(directory, 'onnx/a.onnx'));
    await writeFile(join(directory, 'onnx/b.onnx'), sumsOfTokens());
    await assert.rejects(
      imported(directory),
      /expected one model, found 2: onnx\/a\.onnx, onnx\/b\.onnx; choose one: --file onnx\/a\.onnx/,
    );
  });
});
