/**
 * What onnxruntime 1.30 answers wrongly of ai.onnx.ml at every optimization level is rewritten at import. The right values are
 * written as formulas of the raw scores.
 */
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import type { Tensor } from '../../lib/contract/tensor.ts';
import { openSession } from '../../lib/inference/session.ts';
import { compareNodes } from '../../onnx-import/classical/compare.ts';
import { mayNeedRewrite, needsRewrite, rewriteOnnx } from '../../onnx-import/onnx/rewrite/rewrite.ts';
import { verifyModel } from '../../onnx-import/verify/verify.ts';
import { bytes, integer, message, text } from '../../onnx-import/wire/chunk.ts';
import { models } from '../support/models.ts';
import { type AttributeSpec, type NodeSpec, nodeProto, onnxModel, type ValueSpec } from '../support/onnx.ts';
import { temporaryFolder } from '../support/runner.ts';

const ML = 'ai.onnx.ml';
type Attributes = Readonly<Record<string, AttributeSpec>>;

const floats = (...values: number[]) => ({ floats: values });
const strings = (...values: string[]) => ({ strings: values });
const logistic = (x: number) => 1 / (1 + Math.exp(-x));
function softmax(x: readonly number[]): number[] {
  const most = Math.max(...x);
  const exp = x.map((value) => Math.exp(value - most));
  const sum = exp.reduce((total, value) => total + value, 0);
  return exp.map((value) => value / sum);
}

/** One tree of three leaves: up to 0, up to 1, and above. @param weights of each leaf, by class or target */
function tree(
  kind: 'class' | 'target',
  weights: readonly (readonly number[])[],
  ids: readonly number[],
): Attributes {
  const leaves = [1, 3, 4].flatMap((node) => ids.map(() => node));
  return {
    nodes_treeids: [0, 0, 0, 0, 0],
    nodes_nodeids: [0, 1, 2, 3, 4],
    nodes_featureids: [0, 0, 0, 0, 0],
    nodes_values: floats(0, 0, 1, 0, 0),
    nodes_modes: strings('BRANCH_LEQ', 'LEAF', 'BRANCH_LEQ', 'LEAF', 'LEAF'),
    nodes_truenodeids: [1, 0, 3, 0, 0],
    nodes_falsenodeids: [2, 0, 4, 0, 0],
    [`${kind}_treeids`]: leaves.map(() => 0),
    [`${kind}_nodeids`]: leaves,
    [`${kind}_ids`]: weights.flatMap(() => ids),
    [`${kind}_weights`]: { floats: weights.flat() },
  };
}

/** Rows of one feature, one for each leaf. */
const ROWS = [-1, 0.5, 2];
const X: ValueSpec = { name: 'X', dtype: 'float32', shape: ['N', 'C'] };
const SCORES: ValueSpec = { name: 'scores', dtype: 'float32', shape: ['N', 'S'] };

interface Answer {
  readonly labels: readonly (number | string)[];
  readonly scores: readonly (readonly number[])[];
}

interface Case {
  readonly op: string;
  readonly attributes: Attributes;
  readonly rows?: readonly (readonly number[])[];
  readonly answer: Answer | Answer['scores'];
}

const POSITIVE = [0.2, 0.4, 0.9];
const MIXED = [-0.2, 0.4, 0.9];
const TINY = [-69, -15, 40];
const INTS = { classlabels_int64s: [7, 9] };
const binary = (weights: readonly number[]) =>
  tree(
    'class',
    weights.map((weight) => [weight]),
    [0],
  );
/** Of two classes with one score. */
const pairs = (
  scores: readonly number[],
  transform: (pair: number[]) => number[],
  second = (s: number) => s > 0,
) => ({
  labels: scores.map((score) => (second(score) ? 9 : 7)),
  scores: scores.map((score) => transform([-score, score])),
});
const each = (f: (x: number) => number) => (values: readonly number[]) => values.map(f);
const column = (values: readonly number[]) => values.map((value) => [value]);
const LINEAR = { coefficients: floats(1), intercepts: floats(0), classlabels_ints: [7, 9] };
const SVR = {
  coefficients: floats(1),
  rho: floats(0),
  support_vectors: floats(1),
  n_supports: 1,
  kernel_type: 'LINEAR',
  kernel_params: floats(1, 0, 3),
};

const CASES: Readonly<Record<string, Case>> = {
  'a tree classifier with positive leaves': {
    op: 'TreeEnsembleClassifier',
    attributes: { ...binary(POSITIVE), ...INTS, post_transform: 'LOGISTIC' },
    answer: pairs(POSITIVE, each(logistic)),
  },
  'a tree classifier with positive leaves and a base value': {
    op: 'TreeEnsembleClassifier',
    attributes: { ...binary(POSITIVE), ...INTS, base_values: floats(-0.5), post_transform: 'LOGISTIC' },
    answer: pairs(POSITIVE.map((weight) => weight - 0.5), each(logistic)),
  },
  'small probabilities of a tree classifier': {
    op: 'TreeEnsembleClassifier',
    attributes: { ...binary(TINY), ...INTS, post_transform: 'LOGISTIC' },
    answer: pairs(TINY, each(logistic)),
  },
  'texts as classes': {
    op: 'TreeEnsembleClassifier',
    attributes: { ...binary(POSITIVE), classlabels_strings: strings('no', 'yes'), post_transform: 'LOGISTIC' },
    answer: { labels: ['yes', 'yes', 'yes'], scores: POSITIVE.map((s) => [-s, s].map(logistic)) },
  },
  'SOFTMAX of one score': {
    op: 'TreeEnsembleClassifier',
    attributes: { ...binary(MIXED), ...INTS, post_transform: 'SOFTMAX' },
    answer: pairs(MIXED, softmax),
  },
  'SOFTMAX_ZERO of one score': {
    op: 'TreeEnsembleClassifier',
    attributes: { ...binary([-0.2, 0, 0.9]), ...INTS, post_transform: 'SOFTMAX_ZERO' },
    answer: pairs([-0.2, 0, 0.9], softmax),
  },
  'scores of both classes that are called otherwise than 0 and 1': {
    op: 'TreeEnsembleClassifier',
    attributes: { ...tree('class', [[0.8, 0.2], [0.4, 0.6], [0.9, 0.1]], [0, 1]), ...INTS },
    answer: { labels: [7, 9, 7], scores: [[0.8, 0.2], [0.4, 0.6], [0.9, 0.1]] },
  },
  'SOFTMAX of three classes with small probabilities': {
    op: 'TreeEnsembleClassifier',
    attributes: {
      ...tree('class', [[-40, 0, -69], [1, 2, 3], [0, -20, 0.5]], [0, 1, 2]),
      classlabels_int64s: [3, 4, 5],
      post_transform: 'SOFTMAX',
    },
    answer: { labels: [4, 5, 5], scores: [[-40, 0, -69], [1, 2, 3], [0, -20, 0.5]].map(softmax) },
  },
  'LOGISTIC of a tree regressor with one target': {
    op: 'TreeEnsembleRegressor',
    attributes: { ...tree('target', column(TINY), [0]), n_targets: 1, post_transform: 'LOGISTIC' },
    answer: column(TINY.map(logistic)),
  },
  'SOFTMAX of a tree regressor with one target': {
    op: 'TreeEnsembleRegressor',
    attributes: { ...tree('target', column(MIXED), [0]), n_targets: 1, post_transform: 'SOFTMAX' },
    answer: [[1], [1], [1]],
  },
  'LOGISTIC of a linear regressor with one target': {
    op: 'LinearRegressor',
    attributes: { coefficients: floats(1), intercepts: floats(0), targets: 1, post_transform: 'LOGISTIC' },
    answer: column(ROWS.map(logistic)),
  },
  'SOFTMAX of a linear regressor with two targets': {
    op: 'LinearRegressor',
    attributes: { coefficients: floats(20, -20), intercepts: floats(0, 0), targets: 2, post_transform: 'SOFTMAX' },
    answer: ROWS.map((x) => softmax([20 * x, -20 * x])),
  },
  'LOGISTIC of a support vector regressor': {
    op: 'SVMRegressor',
    attributes: { ...SVR, post_transform: 'LOGISTIC' },
    answer: column(ROWS.map(logistic)),
  },
  'a linear classifier of one score': {
    op: 'LinearClassifier',
    attributes: LINEAR,
    answer: pairs(ROWS, (pair) => pair),
  },
  'SOFTMAX of a linear classifier of one score': {
    op: 'LinearClassifier',
    attributes: { ...LINEAR, post_transform: 'SOFTMAX' },
    answer: pairs(ROWS, softmax),
  },
  'LOGISTIC of a linear classifier with small probabilities': {
    op: 'LinearClassifier',
    attributes: { ...LINEAR, post_transform: 'LOGISTIC' },
    rows: column(TINY),
    answer: pairs(TINY, each(logistic)),
  },
  'SOFTMAX of a support vector classifier of one score': {
    op: 'SVMClassifier',
    attributes: {
      kernel_type: 'LINEAR',
      kernel_params: floats(1, 0, 3),
      rho: floats(0),
      coefficients: floats(1, 0),
      support_vectors: floats(1, 1),
      vectors_per_class: [1, 1],
      classlabels_ints: [7, 9],
      post_transform: 'SOFTMAX',
    },
    // The first class wins where the sum of a pair is positive, as of libsvm.
    answer: { labels: [9, 7, 7], scores: ROWS.map((s) => softmax([-s, s])) },
  },
  'Normalizer MAX': {
    op: 'Normalizer',
    attributes: { norm: 'MAX' },
    rows: [[-4, 1, 2], [0, 0, 0], [3, 6, -2], [-1e-30, 5e-31, 0], [-8, -2, -4]],
    answer: [[-1, 0.25, 0.5], [0, 0, 0], [0.5, 1, -1 / 3], [-1, 0.5, 0], [-1, -0.25, -0.5]],
  },
}; // biome-ignore format: tables

interface Placed {
  readonly nodes: readonly NodeSpec[];
  readonly outputs: readonly ValueSpec[];
}

function model(
  { op, attributes }: Case,
  hasLabels: boolean,
  isText: boolean,
): Placed & { inputs: ValueSpec[] } {
  const label: ValueSpec = { name: 'label', dtype: isText ? 'string' : 'int64', shape: ['N'] };
  const outputs = hasLabels ? [label, SCORES] : [SCORES];
  const node = { op, domain: ML, inputs: ['X'], outputs: outputs.map(({ name }) => name), attributes };
  return { inputs: [X], outputs, nodes: [node] };
}

async function answersOf(t: TestContext, file: Uint8Array, rows: readonly (readonly number[])[]) {
  const path = join(await temporaryFolder(t), 'model.onnx');
  await writeFile(path, file);
  assert.equal(mayNeedRewrite(path), true);
  const { model: mended, notes } = await rewriteOnnx(path);
  assert.ok(mended, 'nothing was rewritten');
  assert.match(notes.join(), /by standard operators, because onnxruntime's own is wrong/);
  await writeFile(path, Buffer.concat(mended.parts));
  const session = await openSession(path, { threads: 1 });
  t.after(() => session.close());
  const data = Float32Array.from(rows.flat());
  return session.run([{ dtype: 'float32', shape: [rows.length, (rows[0] ?? []).length], data }]);
}

/** To 1e-6 of each value. */
function assertScores(found: Tensor | undefined, scores: Answer['scores']): void {
  assert.deepEqual(found?.shape, [scores.length, (scores[0] ?? []).length]);
  for (const [i, expected] of scores.flat().entries()) {
    const value = Number(found?.data[i]);
    assert.ok(
      Math.abs(value - expected) <= 1e-6 * Math.abs(expected),
      `element ${i}: ${value}, expected ${expected}`,
    );
  }
}

for (const [what, one] of Object.entries(CASES)) {
  test(`${what} answers as specified`, async (t) => {
    const { rows = column(ROWS), answer } = one;
    const labels = 'labels' in answer ? answer.labels : undefined;
    const scores = 'labels' in answer ? answer.scores : answer;
    const isText = typeof labels?.[0] === 'string';
    const file = onnxModel({ ...model(one, labels !== undefined, isText), domains: { [ML]: 3 } });
    const outputs = await answersOf(t, file, rows);
    assertScores(outputs.at(-1), scores);
    if (!labels) return;
    assert.deepEqual(outputs[0]?.shape, [rows.length]);
    assert.deepEqual(
      Array.from(outputs[0]?.data as unknown[], (label) => (isText ? label : Number(label))),
      labels,
    );
  });
}

const POSITIVE_TREE: NodeSpec = {
  op: 'TreeEnsembleClassifier',
  domain: ML,
  inputs: ['X'],
  outputs: ['label', 'scores'],
  attributes: { ...binary(POSITIVE), ...INTS, post_transform: 'LOGISTIC' },
};
const LABEL: ValueSpec = { name: 'label', dtype: 'int64', shape: ['N'] };
const OWN = 'local';

/** The function `trees` of the domain OWN. @param opsets that it imports */
function functionOf(opsets: Readonly<Record<string, number>>): Uint8Array {
  const body = message([
    text(1, 'trees'),
    text(4, 'X'),
    text(5, 'label'),
    text(5, 'scores'),
    bytes(7, nodeProto(POSITIVE_TREE)),
    ...Object.entries(opsets).map(([domain, version]) =>
      bytes(9, message([text(1, domain), integer(2, version)])),
    ),
    text(10, OWN),
  ]);
  return Buffer.concat(bytes(25, body).parts);
}

const CALL: NodeSpec = { op: 'trees', domain: OWN, inputs: ['X'], outputs: ['label', 'scores'] };
const branch = (node: NodeSpec): AttributeSpec => ({ nodes: [node], outputs: [LABEL, SCORES] });
const WHERE: Readonly<Record<string, readonly [nodes: readonly NodeSpec[], extra?: Uint8Array]>> = {
  'the body of an If': [
    [
      { op: 'ReduceMax', inputs: ['X'], outputs: ['most'], attributes: { keepdims: 0 } },
      { op: 'Cast', inputs: ['most'], outputs: ['some'], attributes: { to: 9 } },
      {
        op: 'If',
        inputs: ['some'],
        outputs: ['label', 'scores'],
        attributes: { then_branch: branch(POSITIVE_TREE), else_branch: branch(POSITIVE_TREE) },
      },
    ],
  ],
  'a function': [[CALL], functionOf({ '': 17, [ML]: 3 })],
  'a function without standard operators': [[CALL], functionOf({ [ML]: 3 })],
};

for (const [place, [nodes, extra = new Uint8Array(0)]] of Object.entries(WHERE)) {
  test(`a node in ${place} is rewritten, too`, async (t) => {
    const outputs = [LABEL, SCORES];
    const file = onnxModel({ inputs: [X], outputs, nodes, domains: { [ML]: 3, [OWN]: 1 } });
    const [label, scores] = await answersOf(t, Buffer.concat([file, extra]), column(ROWS));
    assert.deepEqual(Array.from(label?.data as BigInt64Array, Number), [9, 9, 9]);
    assertScores(
      scores,
      POSITIVE.map((s) => [-s, s].map(logistic)),
    );
  });
}

const REFUSED: Readonly<Record<string, readonly [Attributes, RegExp]>> = {
  'two base values for one score': [
    { ...binary(MIXED), ...INTS, base_values: floats(1, 2), post_transform: 'LOGISTIC' },
    /TreeEnsembleClassifier "label": LOGISTIC of a single score with these base_values .*export the model/,
  ],
  'PROBIT of one score': [
    { ...binary(MIXED), ...INTS, post_transform: 'PROBIT' },
    /PROBIT of a single score/,
  ],
  'LOGISTIC of one class': [
    { ...binary(MIXED), classlabels_int64s: [7], post_transform: 'LOGISTIC' },
    /LOGISTIC of a single class has no meaning/,
  ],
};

for (const [what, [attributes, why]] of Object.entries(REFUSED)) {
  test(`a tree classifier with ${what} is refused`, async (t) => {
    const path = join(await temporaryFolder(t), 'model.onnx');
    const one = { op: 'TreeEnsembleClassifier', attributes, answer: [] };
    await writeFile(path, onnxModel({ ...model(one, true, false), domains: { [ML]: 3 } }));
    await assert.rejects(rewriteOnnx(path), { code: 'bad_model', message: why });
  });
}

test('nodes that onnxruntime answers rightly stay as they are', async (t) => {
  const path = join(await temporaryFolder(t), 'model.onnx');
  const one = {
    op: 'LinearRegressor',
    attributes: { coefficients: floats(1), intercepts: floats(0) },
    answer: [],
  };
  await writeFile(path, onnxModel({ ...model(one, false, false), domains: { [ML]: 3 } }));
  assert.equal((await rewriteOnnx(path)).model, undefined);
  assert.equal(await needsRewrite(path), false);
});

for (const [what, one] of Object.entries(CASES)) {
  test(`${what} is rewritten once, and its nodes pass the comparison`, async (t) => {
    const path = join(await temporaryFolder(t), 'model.onnx');
    const labels = 'labels' in one.answer ? one.answer.labels : undefined;
    const isText = typeof labels?.[0] === 'string';
    await writeFile(path, onnxModel({ ...model(one, labels !== undefined, isText), domains: { [ML]: 3 } }));
    assert.equal(await needsRewrite(path), true);
    assert.deepEqual(await compareNodes({ file: path, isMended: true }), []);
    const mended = (await rewriteOnnx(path)).model;
    await writeFile(path, Buffer.concat(mended?.parts ?? []));
    assert.equal(await needsRewrite(path), false);
    assert.deepEqual(await compareNodes({ file: path, isMended: false }), []);
  });
}

test('a node that onnxruntime answers wrongly is refused with what it answers', async (t) => {
  for (const [name, found, specified] of [
    ['a tree classifier with positive leaves', '7', '9'],
    ['LOGISTIC of a tree regressor with one target', '40', '1'],
    ['Normalizer MAX', '1', '0.18'],
  ] as const) {
    const path = join(await temporaryFolder(t), 'model.onnx');
    const one = CASES[name] as Case;
    await writeFile(path, onnxModel({ ...model(one, 'labels' in one.answer, false), domains: { [ML]: 3 } }));
    await assert.rejects(compareNodes({ file: path, isMended: false }), {
      code: 'bad_model',
      message: new RegExp(
        `${one.op} ".+": onnxruntime answers ${found}\\S* where the specification says ${specified}`,
      ),
    });
    await assert.rejects(verifyModel(path, { process: models }), { code: 'bad_model' });
  }
});
