/** A large ensemble becomes several nodes, and answers what its trees add up to. All numbers are exact in float32. */
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { openSession } from '../../../lib/inference/session.ts';
import { treeGraph } from '../../../onnx-import/formats/trees/convert.ts';
import type { Ensemble, Tree } from '../../../onnx-import/formats/trees/ensemble.ts';
import { onnxBytes } from '../../../onnx-import/onnx/write.ts';
import { temporaryFolder } from '../../support/runner.ts';

const FEATURES = 4;
const TARGETS = 3;
const BASE = [1, 0, -1];
/** Of the last feature, a category: within a word of bits and beyond it, and none at all. */
const SETS = [[2], [0, 3, 30], [1, 31, 200], []];
const ROWS = [
  [0.5, -0.25, 0, 2],
  [Number.NaN, 0.5, -1, 3],
  [0.25, Number.NaN, 3, 200],
  [-0.5, 0.125, 0.375, Number.NaN],
  [1e9, -1e9, 0.3, 31],
];

const stump = {
  left: Int32Array.of(1, -1, -1),
  right: Int32Array.of(2, -1, -1),
  categories: new Map<number, readonly number[]>(),
};
const leafOf = (tree: number) => (node: number) => ((tree * 7 + node * 5) % 64) / 64 - 0.5;

/** Of one split by a number or a category; each tenth is a leaf alone. */
function treeOf(i: number): Tree {
  const isSet = i % 3 === 0;
  return {
    ...stump,
    ...(i % 10 === 0 ? { left: Int32Array.of(-1), right: Int32Array.of(-1) } : {}),
    feature: Int32Array.of(isSet ? FEATURES - 1 : i % (FEATURES - 1), 0, 0),
    threshold: Float64Array.of((i % 17) / 8 - 1, 0, 0),
    missingLeft: Uint8Array.of(i % 2, 0, 0),
    categories: isSet ? new Map([[0, SETS[i % SETS.length] as readonly number[]]]) : stump.categories,
    setGoes: i % 4 < 2 ? 'left' : 'right',
    target: i % TARGETS,
    leaf: leafOf(i),
  };
}

function answerOf(tree: Tree, row: readonly number[], mode: Ensemble['mode']): number {
  if ((tree.left[0] as number) < 0) return tree.leaf(0);
  const value = row[tree.feature[0] as number] as number;
  const threshold = tree.threshold[0] as number;
  const set = tree.categories.get(0);
  let isLeft = mode === 'BRANCH_LT' ? value < threshold : value <= threshold;
  if (set) isLeft = set.includes(value) === (tree.setGoes === 'left');
  if (Number.isNaN(value)) isLeft = tree.missingLeft[0] === 1;
  return tree.leaf(isLeft ? 1 : 2);
}

function graphOf(trees: readonly Tree[], mode: Ensemble['mode'], dtype: Ensemble['dtype']) {
  const ensemble = { trees, features: FEATURES, targets: TARGETS, mode, dtype, base: BASE };
  const columns = {
    categories: new Set<number>(),
    rounding: 'floor',
    zeroIsMissing: new Set<number>(),
  } as const;
  return treeGraph(ensemble, () => columns, { kind: 'identity' });
}

const partsOf = ({ nodes }: ReturnType<typeof graphOf>) =>
  nodes.filter(({ op }) => op === 'ai.onnx.ml:TreeEnsemble').length;

for (const [dtype, mode, sizes] of [
  // In order, which takes a node for each 64 trees. The counts are no multiples of the outputs.
  [
    'float32',
    'BRANCH_LT',
    [
      [64, 2],
      [2_500, 40],
    ],
  ],
  [
    'float64',
    'BRANCH_LEQ',
    [
      [999, 1],
      [2_500, 3],
    ],
  ],
] as const) {
  // biome-ignore format: short
  for (const [count, parts] of sizes) {
    test(`${count} trees of ${dtype} become ${parts} nodes, and add up`, async (t) => {
      const trees = Array.from({ length: count }, (_, i) => treeOf(i));
      const graph = graphOf(trees, mode, dtype);
      assert.equal(partsOf(graph), parts);
      const path = join(await temporaryFolder(t), 'model.onnx');
      await writeFile(path, onnxBytes(graph));
      const session = await openSession(path, { threads: 1 });
      try {
        const data = dtype === 'float32' ? Float32Array.from(ROWS.flat()) : Float64Array.from(ROWS.flat());
        const [output] = await session.run([{ dtype, shape: [ROWS.length, FEATURES], data }]);
        const expected = ROWS.flatMap((row) =>
          BASE.map((base, target) =>
            trees.reduce(
              (sum, tree) => (tree.target === target ? sum + answerOf(tree, row, mode) : sum),
              base,
            ),
          ),
        );
        assert.deepEqual(Array.from(output?.data as Float32Array), expected);
      } finally {
        await session.close();
      }
    });
  }
}

test('trees of many splits become a node each', () => {
  const nodes = 2 ** 16 - 1;
  const child = (by: number) =>
    Int32Array.from({ length: nodes }, (_, i) => (i < 2 ** 15 - 1 ? 2 * i + by : -1));
  const lists = {
    feature: new Int32Array(nodes),
    threshold: new Float64Array(nodes),
    missingLeft: new Uint8Array(nodes),
  };
  const tree = { ...treeOf(1), ...lists, left: child(1), right: child(2) };
  // The third has the leaves of the outputs that have no trees.
  assert.equal(partsOf(graphOf([tree, tree], 'BRANCH_LT', 'float32')), 3);
  assert.equal(partsOf(graphOf([tree, tree], 'BRANCH_LEQ', 'float64')), 3);
});
