/** What is no model of trees, or has what no rule knows, is refused by name; a hostile file is refused or read. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ServingError } from '../../../lib/contract/errors.ts';
import { readJson } from '../../../onnx-import/formats/trees/json.ts';
import { readLightgbm } from '../../../onnx-import/formats/trees/lightgbm.ts';
import { readUbjson } from '../../../onnx-import/formats/trees/ubjson.ts';
import { readXgboost } from '../../../onnx-import/formats/trees/xgboost.ts';
import { onnxBytes } from '../../../onnx-import/onnx/write.ts';
import type { Chunk } from '../../../onnx-import/wire/chunk.ts';

const TREE = {
  left_children: [1, -1, -1],
  right_children: [2, -1, -1],
  split_indices: [0, 0, 0],
  split_conditions: [0.5, 1, 2],
  default_left: [1, 0, 0],
  tree_param: { size_leaf_vector: '1' },
};

interface Parts {
  readonly objective?: string;
  readonly base?: string;
  readonly booster?: object;
  readonly tree?: object;
  readonly attributes?: object;
  readonly trees?: readonly object[];
}

function xgboost({ objective = 'reg:squarederror', base = '5E-1', ...parts }: Parts = {}) {
  const trees = parts.trees ?? [{ ...TREE, ...parts.tree }];
  const model = { gbtree_model_param: { num_parallel_tree: '1' }, trees, tree_info: trees.map(() => 0) };
  return {
    learner: {
      attributes: parts.attributes ?? {},
      feature_names: ['a'],
      gradient_booster: parts.booster ?? { name: 'gbtree', model },
      learner_model_param: { base_score: base, num_class: '0', num_feature: '1', num_target: '1' },
      objective: { name: objective },
    },
  };
}

test('the categories of a table of pandas are named, because records give their codes', () => {
  const document = xgboost();
  const text = 'bluered';
  const encodings = [
    { offsets: [], values: [] },
    { offsets: [0, 4, 7], values: [...Buffer.from(text)] },
    { type: 15, values: [10, 20] },
  ];
  const { model } = document.learner.gradient_booster as { model: Record<string, unknown> };
  model['cats'] = { enc: encodings };
  assert.match(
    readXgboost(document).notes.join(),
    /codes \(0, 1, \.\.\.\).*: \[\[\],\["blue","red"\],\[10,20\]\]$/,
  );
  model['cats'] = { enc: [] };
  // What every model says, and nothing else.
  assert.match(
    readXgboost(document).notes.join(),
    /^NaN and null stand for a missing value[^,]*, as by XGBClassifier\(missing=-999\): if so, pass --missing=-999$/,
  );
  model['cats'] = { enc: [{ offsets: [0, 4], values: 'blue' }] };
  assert.throws(() => readXgboost(document), /expected a list of numbers as "values"/);
  model['cats'] = { enc: [null] };
  assert.throws(() => readXgboost(document), ServingError);
});

const REFUSED: readonly (readonly [what: string, document: unknown, message: RegExp])[] = [
  ['another document', { format: 'layers-model' }, /expected an object as "learner"/],
  [
    'an unknown objective',
    xgboost({ objective: 'reg:mine' }),
    /objective "reg:mine" is not supported; supported: binary:logistic/,
  ],
  ['an unknown booster', xgboost({ booster: { name: 'other' } }), /booster "other" is not supported/],
  [
    'a base_score that is no probability',
    xgboost({ objective: 'binary:logistic', base: '2' }),
    /base_score 2 does not fit/,
  ],
  ['a base_score of words', xgboost({ base: 'half' }), /base_score is "half"/],
  ['vectors as leaves', xgboost({ tree: { tree_param: { size_leaf_vector: '3' } } }), /multi_output_tree/],
  [
    'a circle',
    xgboost({ tree: { left_children: [0, -1, -1] } }),
    /tree 0 is no tree: node 0 .* reached twice/,
  ],
  [
    'a node that is not there',
    xgboost({ tree: { right_children: [7, -1, -1] } }),
    /tree 0 is no tree: node 7/,
  ],
  [
    'a feature that is not there',
    xgboost({ tree: { split_indices: [3, 0, 0] } }),
    /asks for feature 3, the model has 1/,
  ],
  [
    'lists of other lengths',
    xgboost({ tree: { default_left: [1] } }),
    /tree 0: expected a list of 3 numbers as "default_left"/,
  ],
  [
    'a threshold that is no number',
    xgboost({ tree: { split_conditions: [null, 1, 2] } }),
    /tree 0 compares with NaN/,
  ],
  [
    // It would end the set early, and move all sets after it.
    'a category that is no number',
    xgboost({
      tree: {
        split_type: [1, 0, 0],
        categories_nodes: [0],
        categories_segments: [0],
        categories_sizes: [2],
        categories: [1, null],
      },
    }),
    /tree 0 compares with NaN/,
  ],
  ['no trees', xgboost({ trees: [] }), /has no trees/],
];
for (const [what, document, message] of REFUSED) {
  test(`XGBoost: ${what} is refused`, () => {
    assert.throws(() => readXgboost(document), { code: 'bad_model', message });
  });
}

test('a deep chain of nodes is refused, because onnxruntime follows it by recursion', () => {
  const nodes = 20_001;
  const inner = (nodes - 1) / 2;
  // Node 2i+1 is a leaf, node 2i+2 the next inner one.
  const list = (of: (i: number) => number) => Array.from({ length: nodes }, (_, i) => of(i));
  const isInner = (i: number) => i % 2 === 0 && i / 2 < inner;
  const tree = {
    ...TREE,
    left_children: list((i) => (isInner(i) ? i + 1 : -1)),
    right_children: list((i) => (isInner(i) ? i + 2 : -1)),
    split_indices: list(() => 0),
    split_conditions: list(() => 1),
    default_left: list(() => 0),
  };
  assert.throws(() => readXgboost(xgboost({ tree })), {
    code: 'bad_model',
    message: /tree 0 is deeper than 5000/,
  });
});

test('a tree of 262,143 nodes is written', () => {
  const nodes = 2 ** 18 - 1;
  const isInner = (i: number) => i < 2 ** 17 - 1;
  const list = (of: (i: number) => number) => Array.from({ length: nodes }, (_, i) => of(i));
  const tree = {
    ...TREE,
    left_children: list((i) => (isInner(i) ? 2 * i + 1 : -1)),
    right_children: list((i) => (isInner(i) ? 2 * i + 2 : -1)),
    split_indices: list(() => 0),
    split_conditions: list((i) => i),
    default_left: list(() => 0),
  };
  assert.ok(onnxBytes(readXgboost(xgboost({ tree })).graph).length > nodes * 8);
});

test('trees up to the best iteration are used where scikit-learn would, and all of them otherwise', () => {
  const trees = [TREE, TREE, TREE];
  const used = (attributes: object) => {
    const { graph, notes } = readXgboost(xgboost({ trees, attributes }));
    const { encoded } = graph.nodes[0]?.attributes['tree_roots'] as { encoded: Chunk };
    // A head, and one byte for each tree.
    return [encoded.parts[1]?.length, notes.length];
  };
  // One note is about missing values.
  assert.deepEqual(used({}), [3, 1]);
  assert.deepEqual(used({ best_iteration: '1' }), [3, 2]);
  assert.deepEqual(used({ best_iteration: '1', scikit_learn: '{}' }), [2, 2]);
});

const HEAD = [
  'tree',
  'version=v4',
  'num_class=1',
  'num_tree_per_iteration=1',
  'max_feature_idx=1',
  'feature_names=a b',
];
const LIGHT_TREE = [
  'num_leaves=2',
  'num_cat=0',
  'split_feature=0',
  'threshold=0.5',
  'decision_type=2',
  'left_child=-1',
  'right_child=-2',
  'leaf_value=1 2',
];

function lightgbm(head: readonly string[] = [], tree: readonly string[] = []): string {
  return [...HEAD, ...head, '', 'Tree=0', ...LIGHT_TREE, ...tree, '', 'end of trees', ''].join('\n');
}

const REFUSED_TEXTS: readonly (readonly [what: string, text: string, message: RegExp])[] = [
  ['another text', 'labels\ncat\ndog\n', /whose first line is "tree"/],
  ['linear trees', lightgbm([], ['is_linear=1']), /linear trees \(linear_tree=true\) are not supported/],
  ['an unknown objective', lightgbm(['objective=mine']), /objective "mine" is not supported/],
  ['a cut file', lightgbm().slice(0, -10), /it has no "end of trees"/],
  [
    'a list of another length',
    lightgbm([], ['threshold=0.5 1']),
    /tree 0: threshold has 2 numbers, expected 1/,
  ],
  ['a word for a number', lightgbm([], ['threshold=high']), /"high" is no number/],
  ['a child that is not there', lightgbm([], ['left_child=-9']), /node 9 is not there/],
  ['other names', lightgbm(['feature_names=a']), /1 feature names, and 2 features/],
  [
    'a category set that is not there',
    lightgbm([], ['num_cat=1', 'decision_type=1', 'threshold=4', 'cat_boundaries=0 1', 'cat_threshold=3']),
    /category set 4 is not in the tree/,
  ],
];
for (const [what, text, message] of REFUSED_TEXTS) {
  test(`LightGBM: ${what} is refused`, () => {
    assert.throws(() => readLightgbm(Buffer.from(text)), { code: 'bad_model', message });
  });
}

/** Writes what XGBoost writes: objects without counts, typed lists of float32. */
function ubjson(value: unknown): Buffer {
  const length = (count: number) => {
    const bytes = Buffer.alloc(9);
    bytes.write('L');
    bytes.writeBigInt64BE(BigInt(count), 1);
    return bytes;
  };
  const text = (of: string) => Buffer.concat([length(Buffer.byteLength(of)), Buffer.from(of)]);
  if (typeof value === 'string') return Buffer.concat([Buffer.from('S'), text(value)]);
  if (Array.isArray(value) && value.every((item) => typeof item === 'number')) {
    const items = Buffer.alloc(value.length * 4);
    for (const [i, item] of value.entries()) items.writeFloatBE(item, i * 4);
    return Buffer.concat([Buffer.from('[$d#'), length(value.length), items]);
  }
  if (Array.isArray(value))
    return Buffer.concat([Buffer.from('[#'), length(value.length), ...value.map(ubjson)]);
  const fields = Object.entries(value as object).flatMap(([name, item]) => [text(name), ubjson(item)]);
  return Buffer.concat([Buffer.from('{'), ...fields, Buffer.from('}')]);
}

test('UBJSON reads as the JSON of the same document', () => {
  assert.deepEqual(
    onnxBytes(readXgboost(readJson(Buffer.from(JSON.stringify(xgboost())))).graph),
    onnxBytes(readXgboost(xgboost()).graph),
  );
  assert.deepEqual(
    onnxBytes(readXgboost(readUbjson(ubjson(xgboost()))).graph),
    onnxBytes(readXgboost(xgboost()).graph),
  );
});

test('JSON is read as JSON.parse reads it, lists of numbers and objects in lists when they are asked for', () => {
  const value = (of: unknown): unknown => {
    if (typeof of === 'function') return value(of());
    if (Array.isArray(of)) return of.map(value);
    if (typeof of !== 'object' || of === null) return of;
    return Object.fromEntries(Object.entries(of).map(([key, item]) => [key, value(item)]));
  };
  for (const text of [
    ' { "a" : [ ] , "b":{}, "c": [1, -2.5e3 ,0], "d":[{"e":[[1],["]"]]},{"f":null}], "\\"g\\\\":"\u00e9\\n\\"]" } ',
    '[true,false,null,"a",1]',
    '-1.5',
    '"]"',
  ])
    assert.deepEqual(value(readJson(Buffer.from(text))), JSON.parse(text), text);
  const list = readJson(Buffer.from('{"x":[NaN,1,-Infinity]}')) as { x: () => unknown };
  assert.deepEqual(list.x(), [null, 1, -Infinity]);
  for (const bad of [
    '',
    '{',
    '[1',
    '["a"',
    '{"a" 1}',
    '{1:2}',
    '[true false]',
    '1 2',
    '{"a":',
    'x',
    '['.repeat(1_000),
  ])
    assert.throws(() => value(readJson(Buffer.from(bad))), { code: 'bad_model' }, bad.slice(0, 20));
});

test('UBJSON of all types', () => {
  const bytes = Buffer.from('[ZTFNCAi\xffU\xffI\x01\x00SU\x02hi]', 'latin1');
  assert.deepEqual(readUbjson(bytes), [null, true, false, 'A', -1, 255, 256, 'hi']);
  for (const bad of [
    '',
    '[',
    '{U',
    '[$d#l\x7f\xff\xff\xff',
    '[$[#U\x01',
    'SL\x7f\xff\xff\xff\xff\xff\xff\xff',
    'x',
    '['.repeat(1000),
  ]) {
    assert.throws(() => readUbjson(Buffer.from(bad, 'latin1')), { code: 'bad_model' }, bad.slice(0, 20));
  }
});

/** Mutations of each format, from a seed; more with `FUZZ=<count>`. */
const COUNT = Number(process.env['FUZZ'] ?? 1_000);

function mutations(seed: number, content: Buffer, each: (mutant: Buffer) => void): void {
  let state = seed;
  const random = (below: number) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
  for (let i = 0; i < COUNT; i++) {
    const mutant = Buffer.from(content);
    const at = random(mutant.length);
    const kind = random(4);
    if (kind === 0) each(mutant.subarray(0, at));
    else if (kind === 1)
      each(Buffer.concat([mutant.subarray(0, at), mutant.subarray(random(mutant.length))]));
    else if (kind === 2)
      each(Buffer.concat([mutant.subarray(0, at), Buffer.from('99999999999'), mutant.subarray(at)]));
    else {
      for (let k = random(3); k >= 0; k--) mutant[random(mutant.length)] = random(256);
      each(mutant);
    }
  }
}

function isRefused(read: () => unknown): boolean {
  try {
    read();
    return false;
  } catch (error) {
    assert.ok(error instanceof ServingError && error.code === 'bad_model', (error as Error).stack);
    assert.ok(error.message.length < 2_000);
    return true;
  }
}

const document = xgboost({
  tree: {
    split_type: [1, 0, 0],
    categories_nodes: [0],
    categories_segments: [0],
    categories_sizes: [2],
    categories: [1, 5],
  },
});
const FUZZED: readonly (readonly [what: string, content: Buffer, read: (bytes: Buffer) => unknown])[] = [
  ['UBJSON', ubjson(document), (bytes) => readXgboost(readUbjson(bytes))],
  ['JSON', Buffer.from(JSON.stringify(document)), (bytes) => readXgboost(readJson(bytes))],
  ['LightGBM', Buffer.from(lightgbm(['objective=binary sigmoid:1'])), readLightgbm],
];
for (const [what, content, read] of FUZZED) {
  test(`${what}: every mutation is refused as a bad model, or read`, () => {
    assert.equal(
      isRefused(() => read(content)),
      false,
    );
    let refused = 0;
    mutations(7, content, (mutant) => {
      if (isRefused(() => read(mutant))) refused++;
    });
    assert.ok(refused > COUNT / 4, `${refused}`);
  });
}
