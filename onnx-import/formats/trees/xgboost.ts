/**
 * Reads a model of XGBoost (`save_model` as JSON or UBJSON): gbtree, dart and gblinear. What `Booster.predict` answers is
 * what the graph answers; of a model of XGBClassifier or XGBRegressor that stopped early, what theirs answers.
 */
import { badModel } from '../../../lib/contract/errors.ts';
import { formatShape } from '../../../lib/contract/tensor.ts';
import type { Body } from '../../graph/value.ts';
import { assertSizes, linearGraph, treeGraph } from './convert.ts';
import type { Tree } from './ensemble.ts';
import {
  categoryNotes,
  countAt,
  listAt,
  numbersAt,
  objectAt,
  optionalObject,
  type Plain,
  textAt,
  textsAt,
} from './fields.ts';
import type { Link } from './links.ts';

export interface ReadModel {
  readonly graph: Body;
  /** The names of the columns. */
  readonly columns: readonly string[];
  readonly notes: readonly string[];
}

const IDENTITY: Link = { kind: 'identity' };
const SIGMOID: Link = { kind: 'sigmoid', scale: 1 };
const EXP: Link = { kind: 'exp' };

/** What base_score is before it is added to the trees: the inverse of the link where it is a prediction. */
type Base = 'as it is' | 'logit' | 'log';

const logit = { link: SIGMOID, base: 'logit' } as const;
const log = { link: EXP, base: 'log' } as const;
const plain = { link: IDENTITY, base: 'as it is' } as const;

export const OBJECTIVES: Readonly<Record<string, { readonly link: Link; readonly base: Base }>> = {
  'binary:logistic': logit,
  'reg:logistic': logit,
  'binary:logitraw': plain,
  'binary:hinge': { link: { kind: 'step' }, base: 'as it is' },
  'multi:softprob': { link: { kind: 'softmax' }, base: 'as it is' },
  'multi:softmax': { link: { kind: 'argmax' }, base: 'as it is' },
  'count:poisson': log,
  'reg:gamma': log,
  'reg:tweedie': log,
  'survival:cox': log,
  'survival:aft': log,
  'reg:squarederror': plain,
  'reg:linear': plain,
  'reg:squaredlogerror': plain,
  'reg:pseudohubererror': plain,
  'reg:absoluteerror': plain,
  'reg:quantileerror': plain,
  'rank:pairwise': plain,
  'rank:ndcg': plain,
  'rank:map': plain,
};

/**
 * @param missing the number that stands for a missing value, beside NaN
 * @throws bad_model naming what is missing, or not supported
 */
export function readXgboost(document: unknown, missing?: number): ReadModel {
  const root = { document } as Plain;
  const learner = objectAt(objectAt(root, 'document'), 'learner');
  const parameters = objectAt(learner, 'learner_model_param');
  const objective = textAt(objectAt(learner, 'objective'), 'name');
  const known = Object.hasOwn(OBJECTIVES, objective) ? OBJECTIVES[objective] : undefined;
  if (!known)
    throw badModel(
      `the objective ${JSON.stringify(objective)} is not supported; supported: ${Object.keys(OBJECTIVES).join(', ')}`,
    );
  const features = countAt(parameters, 'num_feature');
  const targets = Math.max(1, countAt(parameters, 'num_class', 0), countAt(parameters, 'num_target', 1));
  assertSizes(features, targets);
  const base = baseMargins(textAt(parameters, 'base_score'), targets, known.base);
  const model = { learner, features, targets, base, link: known.link, missing };
  const booster = objectAt(learner, 'gradient_booster');
  const { graph, notes } = boosted(booster, model);
  const columns = textsAt(learner, 'feature_names');
  if (columns.length > 0 && columns.length !== features) {
    throw badModel(`${columns.length} feature names, and ${features} features`);
  }
  return {
    graph,
    columns: columns.length > 0 ? columns : Array.from({ length: features }, (_, i) => `f${i}`),
    notes: [missingNote(missing), ...notes],
  };
}

function missingNote(missing: number | undefined): string {
  if (missing !== undefined)
    return `${missing} stands for a missing value, as --missing says; NaN and null do, too`;
  return 'NaN and null stand for a missing value. The file does not say whether the model was trained with another one, as by XGBClassifier(missing=-999): if so, pass --missing=-999';
}

interface Model {
  readonly learner: Plain;
  readonly features: number;
  readonly targets: number;
  readonly base: readonly number[];
  readonly link: Link;
  readonly missing: number | undefined;
}

function boosted(booster: Plain, model: Model): { graph: Body; notes: string[] } {
  const name = textAt(booster, 'name');
  switch (name) {
    case 'gbtree':
      return treesOf(objectAt(booster, 'model'), model);
    case 'dart': {
      const trees = objectAt(objectAt(booster, 'gbtree'), 'model');
      return treesOf(trees, model, numbersAt(booster, 'weight_drop', listAt(trees, 'trees').length));
    }
    case 'gblinear':
      return { graph: linearOf(objectAt(booster, 'model'), model), notes: [] };
    default:
      throw badModel(
        `the booster ${JSON.stringify(name)} is not supported; supported: gbtree, dart, gblinear`,
      );
  }
}

/** base_score is a number, or since 3.1 a list: what the model predicts without trees. */
function baseMargins(text: string, targets: number, base: Base): number[] {
  const numbers = text
    .replace(/^\[(.*)\]$/, '$1')
    .split(',')
    .map((item) => Math.fround(Number(item)));
  const isRight = (numbers.length === 1 || numbers.length === targets) && numbers.every(Number.isFinite);
  if (!isRight || text.trim() === '')
    throw badModel(`base_score is ${JSON.stringify(text.slice(0, 80))}, expected 1 or ${targets} numbers`);
  const margins = numbers.map((score) => {
    const margin = Math.fround(
      base === 'logit' ? -Math.log(odds(score)) : base === 'log' ? Math.log(score) : score,
    );
    if (Number.isFinite(margin)) return margin;
    throw badModel(`base_score ${score} does not fit the objective`);
  });
  return Array.from({ length: targets }, (_, i) => margins[i] ?? (margins[0] as number));
}

/** Against the outcome, rounded to float32 at each step, as XGBoost does. */
function odds(score: number): number {
  return Math.fround(Math.fround(1 / score) - 1);
}

function linearOf(model: Plain, { features, targets, base, link, missing }: Model): Body {
  if (base.some((margin) => margin !== base[0])) {
    throw badModel(
      'gblinear with a base_score per class, of which XGBoost 3 uses only the first, is not supported; train with base_score=0.5',
    );
  }
  const all = Float32Array.from(numbersAt(model, 'weights', (features + 1) * targets));
  const bias = base.map((margin, i) => Math.fround(margin + (all[features * targets + i] as number)));
  return linearGraph({ features, targets, weights: all.slice(0, features * targets), bias, missing }, link);
}

function treesOf(
  model: Plain,
  { learner, features, targets, base, link, missing }: Model,
  weights?: ArrayLike<number>,
) {
  const all = listAt(model, 'trees');
  const groups = numbersAt(model, 'tree_info', all.length);
  const { count, notes } = usedTrees(learner, model, all.length, targets);
  const categories = new Set<number>();
  // One at a time: a large model fits into memory once.
  function* read() {
    for (let i = 0; i < count; i++) {
      const weight = weights?.[i] ?? 1;
      const tree = treeOf({ tree: all[i] }, { group: groups[i] as number, weight, targets }, i);
      for (const node of tree.categories.keys()) categories.add(tree.feature[node] as number);
      yield tree;
    }
  }
  notes.push(...encodingNotes(model));
  const columns = () =>
    ({ categories, rounding: 'floor', zeroIsMissing: new Set<number>(), missing }) as const;
  const ensemble = { trees: read(), features, targets, mode: 'BRANCH_LT', dtype: 'float32', base } as const;
  return { graph: treeGraph(ensemble, columns, link), notes };
}

/** Since 3.1 the file says which categories the codes of each column stand for: numbers, or texts by their offsets. */
function encodingNotes(model: Plain): string[] {
  const cats = optionalObject(model, 'cats');
  const lists = (cats ? listAt(cats, 'enc') : []).map((item) => {
    const encoding = objectAt({ item }, 'item');
    const values = Array.from(numbersAt(encoding, 'values'));
    if (!Object.hasOwn(encoding, 'offsets')) return values;
    const offsets = Array.from(numbersAt(encoding, 'offsets'));
    return offsets.slice(1).map((end, i) => Buffer.from(values.slice(offsets[i], end)).toString('utf8'));
  });
  return lists.some((list) => list.length > 0) ? categoryNotes(JSON.stringify(lists)) : [];
}

/** Early stopping: XGBClassifier and XGBRegressor use the best iteration, a Booster all of them. */
function usedTrees(
  learner: Plain,
  model: Plain,
  all: number,
  targets: number,
): { count: number; notes: string[] } {
  const attributes = optionalObject(learner, 'attributes') ?? {};
  if (!Object.hasOwn(attributes, 'best_iteration')) return { count: all, notes: [] };
  const rounds = countAt(attributes, 'best_iteration') + 1;
  if (!Object.hasOwn(attributes, 'scikit_learn')) {
    return {
      count: all,
      notes: [
        `all trees are used, as Booster.predict does, not only those up to the best iteration (${rounds - 1})`,
      ],
    };
  }
  const perRound = targets * countAt(objectAt(model, 'gbtree_model_param'), 'num_parallel_tree', 1);
  const ends = Object.hasOwn(model, 'iteration_indptr') ? numbersAt(model, 'iteration_indptr') : undefined;
  const count = ends ? (ends[rounds] ?? all) : rounds * Math.max(1, perRound);
  return {
    count: Math.min(all, count),
    notes: [`trees up to the best iteration (${rounds - 1}) are used, as scikit-learn's predict does`],
  };
}

interface Place {
  /** The output that the tree adds to. */
  readonly group: number;
  readonly weight: number;
  readonly targets: number;
}

function treeOf(of: Plain, place: Place, index: number): Tree {
  try {
    return readTree(objectAt(of, 'tree'), place);
  } catch (error) {
    throw badModel(`tree ${index}: ${(error as Error).message}`, { cause: error });
  }
}

function readTree(tree: Plain, { group, weight, targets }: Place): Tree {
  const left = new Int32Array(numbersAt(tree, 'left_children'));
  const nodes = left.length;
  const thresholds = new Float64Array(new Float32Array(numbersAt(tree, 'split_conditions', nodes)));
  const size = countAt(objectAt(tree, 'tree_param'), 'size_leaf_vector', 1);
  if (size > 1) {
    throw badModel(
      `leaves of ${size} numbers (multi_strategy="multi_output_tree") are not supported; train with multi_strategy="one_output_per_tree"`,
    );
  }
  if (!(group >= 0 && group < targets))
    throw badModel(`adds to output ${group} of ${formatShape([targets])}`);
  return {
    left,
    right: new Int32Array(numbersAt(tree, 'right_children', nodes)),
    feature: new Int32Array(numbersAt(tree, 'split_indices', nodes)),
    threshold: thresholds,
    missingLeft: new Uint8Array(numbersAt(tree, 'default_left', nodes)),
    categories: categoriesOf(tree, nodes),
    setGoes: 'right',
    target: group,
    leaf: (node) => Math.fround(Math.fround(weight) * (thresholds[node] as number)),
  };
}

/** The categories that go right, by node. */
function categoriesOf(tree: Plain, nodes: number): Map<number, number[]> {
  const found = new Map<number, number[]>();
  if (!Object.hasOwn(tree, 'split_type') || !Object.hasOwn(tree, 'categories_nodes')) return found;
  const types = numbersAt(tree, 'split_type', nodes);
  const owners = numbersAt(tree, 'categories_nodes');
  const starts = numbersAt(tree, 'categories_segments', owners.length);
  const sizes = numbersAt(tree, 'categories_sizes', owners.length);
  const all = Array.from(numbersAt(tree, 'categories'));
  for (let i = 0; i < owners.length; i++) {
    const [start, size] = [starts[i] as number, sizes[i] as number];
    if (!(start >= 0 && size >= 0 && start + size <= all.length))
      throw badModel('categories beyond the list');
    found.set(owners[i] as number, all.slice(start, start + size));
  }
  for (let node = 0; node < nodes; node++) {
    const isCategorical = types[node] === 1;
    if (isCategorical !== found.has(node))
      throw badModel(`node ${node}: its categories are missing, or too many`);
  }
  return found;
}
