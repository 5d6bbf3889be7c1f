/**
 * Trees of ai.onnx.ml by the specification, and rows that meet both sides of their splits. onnx.reference differs in three
 * places, where it contradicts itself or the exporters: the only score of two classes when it is of the second class (it
 * takes the first, empty one), one score without a transform ([1 - s, s] even for margins; onnxruntime says [-s, s] when a
 * leaf is negative), and MIN and MAX of a target without leaves.
 */
import type { Tensor } from '../../lib/contract/tensor.ts';
import type { RawNode } from '../onnx/rewrite/graph.ts';
import {
  type Answers,
  type Evaluate,
  intAt,
  type Label,
  labelsAt,
  numbersAt,
  ROUNDING,
  rowsOf,
} from '../onnx/rewrite/ml-node.ts';
import { labelOf, type Scores, transformed, transformOf } from './transform.ts';

/** A split, or a leaf with what it adds to which output. */
export interface Split {
  readonly mode: string;
  readonly feature: number;
  readonly value: number;
  readonly members: ReadonlySet<number> | undefined;
  readonly isMissingTrue: boolean;
  /** Places in the list of splits. */
  yes: number;
  no: number;
  readonly leaves: (readonly [target: number, weight: number])[];
}

export interface Forest {
  readonly splits: readonly Split[];
  readonly roots: readonly number[];
}

const leaf = (): Split => ({
  mode: 'LEAF', feature: 0, value: 0, members: undefined, isMissingTrue: false, yes: -1, no: -1, leaves: [],
}); // biome-ignore format: short

/** The forest of any of the three operators. @throws where the lists do not fit together */
export function forestOf(node: RawNode): Forest {
  const forest = forests.get(node) ?? (node.operator === 'TreeEnsemble' ? newForest(node) : oldForest(node));
  forests.set(node, forest);
  return forest;
}

/** Both the rows and their answers need it. */
const forests = new WeakMap<RawNode, Forest>();

function oldForest(node: RawNode): Forest {
  const kind = node.operator === 'TreeEnsembleClassifier' ? 'class' : 'target';
  const [trees, ids] = [numbersAt(node, 'nodes_treeids'), numbersAt(node, 'nodes_nodeids')];
  const [features, values] = [numbersAt(node, 'nodes_featureids'), numbersAt(node, 'nodes_values')];
  const [yes, no] = [numbersAt(node, 'nodes_truenodeids'), numbersAt(node, 'nodes_falsenodeids')];
  const missing = numbersAt(node, 'nodes_missing_value_tracks_true');
  const modes = node.texts('nodes_modes');
  const places = new Map<string, number>();
  const roots: number[] = [];
  const splits = modes.map((mode, i): Split => {
    places.set(`${trees[i]} ${ids[i]}`, i);
    if (i === 0 || trees[i] !== trees[i - 1]) roots.push(i);
    const [feature, value] = [features[i] as number, values[i] as number];
    return { ...leaf(), mode, feature, value, isMissingTrue: missing[i] === 1 };
  });
  for (const [i, split] of splits.entries()) {
    if (split.mode === 'LEAF') continue;
    split.yes = places.get(`${trees[i]} ${yes[i]}`) ?? -1;
    split.no = places.get(`${trees[i]} ${no[i]}`) ?? -1;
  }
  const [ownTrees, own] = [numbersAt(node, `${kind}_treeids`), numbersAt(node, `${kind}_nodeids`)];
  const [targets, weights] = [numbersAt(node, `${kind}_ids`), numbersAt(node, `${kind}_weights`)];
  for (let i = 0; i < own.length; i++) {
    const place = places.get(`${ownTrees[i]} ${own[i]}`);
    splits[place ?? -1]?.leaves.push([targets[i] as number, weights[i] as number]);
  }
  return { splits, roots };
}

const MODES = [
  'BRANCH_LEQ',
  'BRANCH_LT',
  'BRANCH_GTE',
  'BRANCH_GT',
  'BRANCH_EQ',
  'BRANCH_NEQ',
  'BRANCH_MEMBER',
];

/** Leaves follow the splits. */
function newForest(node: RawNode): Forest {
  const [modes, values] = [numbersAt(node, 'nodes_modes'), numbersAt(node, 'nodes_splits')];
  const features = numbersAt(node, 'nodes_featureids');
  const missing = numbersAt(node, 'nodes_missing_value_tracks_true');
  const sides = [
    [numbersAt(node, 'nodes_truenodeids'), numbersAt(node, 'nodes_trueleafs')],
    [numbersAt(node, 'nodes_falsenodeids'), numbersAt(node, 'nodes_falseleafs')],
  ] as const;
  const sets = memberSets(numbersAt(node, 'membership_values'));
  const place = (side: 0 | 1, i: number) =>
    (sides[side][0][i] as number) + (sides[side][1][i] === 1 ? modes.length : 0);
  const splits = Array.from(modes, (code, i): Split => {
    const mode = MODES[code] ?? '';
    const members = mode === 'BRANCH_MEMBER' ? sets.shift() : undefined;
    const [feature, value] = [features[i] as number, values[i] as number];
    const isMissingTrue = missing[i] === 1;
    return { ...leaf(), mode, feature, value, members, isMissingTrue, yes: place(0, i), no: place(1, i) };
  });
  const [targets, weights] = [numbersAt(node, 'leaf_targetids'), numbersAt(node, 'leaf_weights')];
  const leaves = Array.from(weights, (weight, i) => ({
    ...leaf(),
    leaves: [[targets[i] as number, weight] as const],
  }));
  return { splits: [...splits, ...leaves], roots: Array.from(numbersAt(node, 'tree_roots')) };
}

/** Sets that end with NaN. */
function memberSets(values: ArrayLike<number>): Set<number>[] {
  const sets: Set<number>[] = [];
  let set = new Set<number>();
  for (const value of Array.from(values)) {
    if (Number.isNaN(value)) {
      sets.push(set);
      set = new Set();
    } else set.add(value);
  }
  return sets;
}

export function goesTrue({ mode, value, members, isMissingTrue }: Split, x: number): boolean {
  if (Number.isNaN(x)) return isMissingTrue;
  switch (mode) {
    case 'BRANCH_LEQ':
      return x <= value;
    case 'BRANCH_LT':
      return x < value;
    case 'BRANCH_GTE':
      return x >= value;
    case 'BRANCH_GT':
      return x > value;
    case 'BRANCH_EQ':
      return x === value;
    case 'BRANCH_NEQ':
      return x !== value;
    default:
      return members?.has(x) ?? false;
  }
}

function leafOf({ splits }: Forest, root: number, row: readonly number[]): Split {
  let at = splits[root];
  for (let i = 0; at && at.mode !== 'LEAF'; i++) {
    if (i > splits.length) break;
    at = splits[goesTrue(at, row[at.feature] as number) ? at.yes : at.no];
  }
  if (at?.mode === 'LEAF') return at;
  throw new Error('its lists are no trees');
}

interface Aggregation {
  readonly targets: number;
  readonly kind: string;
  readonly base: ArrayLike<number>;
}

function aggregated(forest: Forest, row: readonly number[], { targets, kind, base }: Aggregation): Scores {
  const lists = Array.from({ length: targets }, (): number[] => []);
  for (const root of forest.roots) {
    for (const [target, weight] of leafOf(forest, root, row).leaves) lists[target]?.push(weight);
  }
  const values = lists.map((list, target) => {
    const start = base.length === 1 ? (base[0] as number) : (base[target] ?? 0);
    if (kind === 'MIN' || kind === 'MAX') {
      return start + (list.length === 0 ? Number.NaN : Math[kind === 'MIN' ? 'min' : 'max'](...list));
    }
    const sum = list.reduce((total, weight) => total + weight, 0);
    return start + (kind === 'AVERAGE' ? sum / forest.roots.length : sum);
  });
  const errors = lists.map((list, target) => {
    if (Number.isNaN(values[target])) return Infinity;
    const size =
      list.reduce((total, weight) => total + Math.abs(weight), 0) + Math.abs(values[target] as number);
    return ROUNDING * (list.length + 4) * size;
  });
  return { values, errors };
}

const AGGREGATES = ['AVERAGE', 'SUM', 'MIN', 'MAX'];

export const treeRegressor: Evaluate = (node, [x]) => {
  const targets = intAt(node, 'n_targets', 1);
  const text = node.text('aggregate_function');
  const kind = text || (AGGREGATES[intAt(node, 'aggregate_function', 1)] as string);
  const base = numbersAt(node, 'base_values');
  const forest = forestOf(node);
  const rows = rowsOf(x as Tensor).map((row) =>
    transformed(aggregated(forest, row, { targets, kind, base }), transformOf(node)),
  );
  return [{ values: rows.flatMap(({ values }) => values), allowed: rows.flatMap(({ errors }) => errors) }];
};

export const treeClassifier: Evaluate = (node, [x]) => {
  const labels = labelsAt(node, ['classlabels_strings', 'classlabels_int64s']);
  if (labels.length < 2) return 'a single class has no scores in the specification';
  const base = numbersAt(node, 'base_values');
  const forest = forestOf(node);
  const ids = new Set(Array.from(numbersAt(node, 'class_ids')));
  const isSingle = labels.length === 2 && ids.size === 1 && ids.has(0);
  const isPositive = Array.from(numbersAt(node, 'class_weights')).every((weight) => weight >= 0);
  const transform = transformOf(node);
  const rows = rowsOf(x as Tensor).map((row) => {
    const sums = aggregated(forest, row, { targets: labels.length, kind: 'SUM', base });
    if (!isSingle) return sums;
    const [value, error] = [sums.values[0] as number, sums.errors[0] as number];
    const other = transform === 'NONE' && isPositive ? 1 - value : -value;
    return { values: [other, value], errors: [error + ROUNDING, error] };
  });
  return classified(labels, rows, transform);
};

/** Labels by the scores before the transform, which keeps their order. */
export function classified(labels: readonly Label[], rows: readonly Scores[], transform: string): Answers {
  const scores = rows.map((row) => transformed(row, transform));
  const best = rows.map((row) => labelOf(labels, row));
  return [
    {
      values: best.map((label) => label ?? ''),
      allowed: best.map((label) => (label === undefined ? Infinity : 0)),
    },
    { values: scores.flatMap(({ values }) => values), allowed: scores.flatMap(({ errors }) => errors) },
  ];
}
