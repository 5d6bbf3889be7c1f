/** What exporters of classical models write and no function can serve is rewritten, with the same answers, or refused. */
import assert from 'node:assert/strict';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { openOnnx } from '../../lib/compose/onnx.ts';
import { mayNeedRewrite, rewriteOnnx } from '../../onnx-import/onnx/rewrite/rewrite.ts';
import { needsImport } from '../../onnx-import/source/detect.ts';
import { importModel } from '../../release/import.ts';
import { models } from '../support/models.ts';
import { type NodeSpec, onnxModel, type ValueSpec } from '../support/onnx.ts';
import { temporaryFolder } from '../support/runner.ts';
import { throughPredict } from '../support/three-paths.ts';

const ML = 'ai.onnx.ml';
const SETTINGS = { threads: 1, batchSize: 8, inputAlreadyBatched: false, image: {} };
const X: ValueSpec = { name: 'X', dtype: 'float32', shape: ['N', 2] };

function classifier(classes: readonly string[]): NodeSpec {
  return {
    op: 'LinearClassifier',
    domain: ML,
    inputs: ['X'],
    outputs: ['label', 'scores'],
    attributes: {
      coefficients: { floats: [1, 0, 0, 1, -1, -1] },
      intercepts: { floats: [0, 0, 0] },
      classlabels_strings: { strings: classes },
      post_transform: 'SOFTMAX',
    },
  };
}

const CLASSES = ['cat', 'dog', 'fish'];
const ZIP: NodeSpec = {
  op: 'ZipMap',
  domain: ML,
  inputs: ['scores'],
  outputs: ['zipped'],
  attributes: { classlabels_strings: { strings: CLASSES } },
};
const MAPS: ValueSpec = { name: 'probabilities', dtype: 'float32', shape: undefined, listOf: 'maps' };

/** A folder with the model. */
async function written(
  t: TestContext,
  nodes: readonly NodeSpec[],
  outputs: readonly ValueSpec[],
  inputs = [X],
) {
  const folder = join(await temporaryFolder(t), 'model');
  await mkdir(folder);
  const domains = { [ML]: 3, 'com.microsoft': 1 };
  await writeFile(join(folder, 'm.onnx'), onnxModel({ inputs, outputs, nodes, domains }));
  return folder;
}

async function imported(t: TestContext, folder: string) {
  const out = `${folder}-out`;
  const { importReport } = await importModel(folder, { out, version: '1', process: models, measure: false });
  const runner = await openOnnx(join(out, 'model.onnx'), 'v', SETTINGS);
  t.after(() => runner.close());
  return { out, runner, importReport };
}

test('ZipMap becomes a tensor, through nodes in between, and its classes become labels', async (t) => {
  const between = [
    { ...ZIP, outputs: ['inner'] },
    { op: 'Identity', inputs: ['inner'], outputs: ['probabilities'] },
  ];
  const folder = await written(t, [classifier(CLASSES), ...between], [MAPS]);
  assert.equal(await needsImport(folder), true);
  const { runner, importReport, out } = await imported(t, folder);
  assert.deepEqual(importReport.notes, [
    'output "probabilities" is a tensor of 3 probabilities instead of a map',
    'LinearClassifier "label": SOFTMAX by standard operators, because onnxruntime\'s own is wrong or inexact',
    'output "probabilities" has 3 labels (from the model file): cat, dog, fish',
  ]);
  assert.deepEqual(runner.outputs, [{ name: 'probabilities', dtype: 'float32', shape: ['N', 3] }]);
  const [[answer]] = (await throughPredict(runner, [{ X: [1, 0] }])) as [
    [{ shape: number[]; data: number[] }],
  ];
  const sum = Math.E + 1 + 1 / Math.E;
  assert.deepEqual(answer.shape, [3]);
  for (const [i, value] of [Math.E, 1, 1 / Math.E].entries()) {
    assert.ok(Math.abs((answer.data[i] as number) - value / sum) < 1e-6);
  }
  const names = JSON.parse(await readFile(join(out, 'names.json'), 'utf8'));
  assert.deepEqual(names, { columns: {}, labels: { probabilities: CLASSES } });
  assert.deepEqual(
    importReport.model.files.map(({ path }) => path),
    ['model.onnx', 'names.json'],
  );
});

test('classes that are their own index are no labels', async (t) => {
  const zip = { ...ZIP, outputs: ['probabilities'], attributes: { classlabels_int64s: [0, 1, 2] } };
  const folder = await written(t, [classifier(CLASSES), zip], [MAPS]);
  assert.deepEqual((await rewriteOnnx(join(folder, 'm.onnx'))).labels, {});
});

test('a list of tensors becomes one output each', async (t) => {
  const list: NodeSpec = { op: 'SequenceConstruct', inputs: ['X', 'double'], outputs: ['all'] };
  const nodes = [{ op: 'Add', inputs: ['X', 'X'], outputs: ['double'] }, list];
  const folder = await written(t, nodes, [
    { name: 'all', dtype: 'float32', shape: ['N', 2], listOf: 'tensors' },
  ]);
  const { runner } = await imported(t, folder);
  assert.deepEqual(
    runner.outputs.map(({ name }) => name),
    ['all_0', 'all_1'],
  );
  const [outputs] = await throughPredict(runner, [{ X: [1, 2] }]);
  assert.deepEqual(
    outputs?.map(({ data }) => data),
    [
      [1, 2],
      [2, 4],
    ],
  );
});

test('a list that another node makes is refused with the way out', async (t) => {
  const split: NodeSpec = { op: 'SplitToSequence', inputs: ['X'], outputs: ['all'] };
  const folder = await written(
    t,
    [split],
    [{ name: 'all', dtype: 'float32', shape: ['N', 2], listOf: 'tensors' }],
  );
  await assert.rejects(rewriteOnnx(join(folder, 'm.onnx')), {
    code: 'bad_model',
    message: /output "all" of SplitToSequence is a sequence or a map, which is not served; export .*zipmap/,
  });
});

test('a model without such nodes is copied byte by byte', async (t) => {
  const folder = await written(t, [{ op: 'Add', inputs: ['X', 'X'], outputs: ['y'] }], [{ ...X, name: 'y' }]);
  assert.equal(await needsImport(folder), false);
  const { out } = await imported(t, folder);
  assert.deepEqual(await readFile(join(out, 'model.onnx')), await readFile(join(folder, 'm.onnx')));
});

const TEXT: ValueSpec = { name: 'text', dtype: 'string', shape: ['N'] };

function normalizer(attributes: NodeSpec['attributes'] = {}): NodeSpec {
  return {
    op: 'StringNormalizer',
    name: 'lower',
    inputs: ['text'],
    outputs: ['lowered'],
    attributes: { case_change_action: 'LOWER', locale: 'en_US', ...attributes },
  };
}

function encoder(words: readonly string[], input = 'lowered'): NodeSpec {
  const numbers = words.map((_, i) => i + 1);
  const attributes = { keys_strings: { strings: words }, values_int64s: numbers, default_int64: 0 };
  return { op: 'LabelEncoder', domain: ML, inputs: [input], outputs: ['id'], attributes };
}

const ID: ValueSpec = { name: 'id', dtype: 'int64', shape: ['N'] };

test('lower-casing needs no locale where the words are ASCII', async (t) => {
  const folder = await written(t, [normalizer(), encoder(['good', 'bad'])], [ID], [TEXT]);
  const { runner, importReport } = await imported(t, folder);
  assert.match(importReport.notes.join(), /"lower" changes the case of ASCII letters only/);
  const texts = ['GOOD', 'bad', 'École', 'BAD'].map((text) => ({ text }));
  const answers = await throughPredict(runner, texts);
  assert.deepEqual(
    answers.map(([answer]) => answer?.data),
    [[1], [2], [0], [2]],
  );
});

const REFUSED: readonly (readonly [
  what: string,
  nodes: readonly NodeSpec[],
  output: ValueSpec,
  why: RegExp,
])[] = [
  ['words beyond ASCII', [normalizer(), encoder(['école'])], ID, /LabelEncoder compares them with "école"/],
  [
    'stop words beyond ASCII',
    [normalizer({ stopwords: { strings: ['à'] } }), encoder(['a'])],
    ID,
    /compares them with "à"/,
  ],
  ['texts as output', [normalizer()], { ...TEXT, name: 'lowered' }, /its texts are the output "lowered"/],
  [
    'an operator that is not known',
    [normalizer(), { op: 'Equal', inputs: ['lowered', 'lowered'], outputs: ['id'] }],
    { ...ID, dtype: 'bool' },
    /its texts go to Equal/,
  ],
  [
    'a pattern with letters beyond ASCII',
    [
      normalizer(),
      {
        op: 'Tokenizer',
        domain: 'com.microsoft',
        inputs: ['lowered'],
        outputs: ['words'],
        attributes: { tokenexp: '[a-zà-ÿ]+' },
      },
      encoder(['a'], 'words'),
    ],
    ID,
    /Tokenizer cuts them with "\[a-zà-ÿ\]\+"/,
  ],
];
for (const [what, nodes, output, why] of REFUSED) {
  test(`lower-casing with ${what} is refused with the way out`, async (t) => {
    const folder = await written(t, nodes, [output], [TEXT]);
    await assert.rejects(rewriteOnnx(join(folder, 'm.onnx')), (error: Error & { code: string }) => {
      assert.equal(error.code, 'bad_model');
      assert.match(error.message, why);
      assert.match(error.message, /needs the locale en_US, .*lowercase=False/);
      return true;
    });
  });
}

test('a node that changes no case stays as it is', async (t) => {
  const nodes = [normalizer({ case_change_action: 'NONE' }), encoder(['école'])];
  const folder = await written(t, nodes, [ID], [TEXT]);
  assert.equal((await rewriteOnnx(join(folder, 'm.onnx'))).model, undefined);
});

test('a cut file is refused, or read, at every length', async (t) => {
  const folder = await written(t, [classifier(CLASSES), { ...ZIP, outputs: ['probabilities'] }], [MAPS]);
  const file = join(folder, 'm.onnx');
  const whole = await readFile(file);
  for (let length = 0; length < whole.length; length += 3) {
    await writeFile(file, whole.subarray(0, length));
    mayNeedRewrite(file);
    await rewriteOnnx(file).catch((error: NodeJS.ErrnoException) =>
      assert.equal(error.code, 'bad_model', error.stack),
    );
  }
});
