/**
 * Trees as both libraries have them, and the nodes of ONNX (ai.onnx.ml 5, TreeEnsemble) that they become. onnxruntime copies
 * the lists of a node several times while it opens it, so a large ensemble becomes several nodes, whose answers are added.
 */
import { badModel } from '../../../lib/contract/errors.ts';
import type { DType } from '../../../lib/contract/tensor.ts';
import { ELEMENT_TYPES } from '../../graph/attributes.ts';
import type { Attributes } from '../../graph/value.ts';
import { bytes, Growing, integer, message } from '../../wire/chunk.ts';

/** One tree. Node 0 is its root; a node without a left child is a leaf. */
export interface Tree {
  /** The left child of each node; -1 for a leaf. */
  readonly left: Int32Array;
  readonly right: Int32Array;
  readonly feature: Int32Array;
  /** Of inner nodes; at most or below it a number goes left. */
  readonly threshold: Float64Array;
  /** 1: a missing value goes left. */
  readonly missingLeft: Uint8Array;
  /** The splits by category: numbers in the set go to this child, others to the other one. */
  readonly categories: ReadonlyMap<number, readonly number[]>;
  readonly setGoes: 'left' | 'right';
  /** The output that its leaves add to. */
  readonly target: number;
  /** What a leaf adds. */
  readonly leaf: (node: number) => number;
}

export interface Ensemble {
  readonly trees: Iterable<Tree>;
  readonly features: number;
  readonly targets: number;
  /** What the comparison of numbers is: XGBoost goes left below the threshold, LightGBM at most there. */
  readonly mode: 'BRANCH_LT' | 'BRANCH_LEQ';
  /** Of the thresholds and of the input: float32 for XGBoost, float64 for LightGBM. */
  readonly dtype: 'float32' | 'float64';
  /** What each output begins with; float32. */
  readonly base: readonly number[];
}

/** The outputs that the trees of some parts add to, in order; without it a tree's output is its target. */
export type Owners = number[];

/** The largest ensembles in use have a few million. */
const MAX_NODES = 20_000_000;
/** onnxruntime follows a tree by recursion while it loads. */
const MAX_DEPTH = 5_000;
/** A part ends with the tree that reaches one of these. Smaller parts would hardly take less memory. */
const PART_SPLITS = 30_000;
/** onnxruntime goes through the nodes of a part once for each of its trees. */
const PART_TREES = 1_000;
/** With an output for each tree, more of them take twice as long. */
const OWNED_TREES = 64;

/**
 * The attributes of each node: the ensemble's answer is the sum of theirs. With `owners` each tree has an output of its
 * own, and they are noted there.
 * @throws bad_model for a tree that is none, or is too large
 */
export function* treeParts(ensemble: Ensemble, owners?: Owners): Generator<Attributes> {
  let part = new Part(ensemble, owners);
  const most = owners ? OWNED_TREES : PART_TREES;
  let trees = 0;
  let nodes = 0;
  for (const tree of withBase(ensemble)) {
    nodes += tree.left.length;
    if (nodes > MAX_NODES) throw badModel(`the trees have more than ${MAX_NODES} nodes`);
    part.add(tree, trees);
    trees += 1;
    if (part.splits < PART_SPLITS && part.trees < most) continue;
    yield part.done();
    part = new Part(ensemble, owners);
  }
  if (trees === 0) throw badModel('the model has no trees');
  if (part.trees > 0) yield part.done();
}

/** The first tree of each output begins with its base, as XGBoost's sums do. All outputs get as many trees. */
function* withBase({ trees, base }: Ensemble): Generator<Tree> {
  const counts = base.map(() => 0);
  const based = (tree: Tree): Tree => {
    const start = counts[tree.target] === 0 ? (base[tree.target] as number) : 0;
    counts[tree.target] = (counts[tree.target] as number) + 1;
    return start === 0 ? tree : { ...tree, leaf: (node) => start + tree.leaf(node) };
  };
  for (const tree of trees) yield based(tree);
  const most = Math.max(...counts);
  for (const target of base.keys()) {
    while ((counts[target] as number) < most) yield based(leafOf(target));
  }
}

/** A tree of one leaf, which adds nothing. */
function leafOf(target: number): Tree {
  const [child, none] = [Int32Array.of(-1), new Float64Array(1)];
  const lists = {
    left: child,
    right: child,
    feature: child,
    threshold: none,
    missingLeft: new Uint8Array(1),
  };
  return { ...lists, categories: new Map(), setGoes: 'left', target, leaf: () => 0 };
}

/** Where a split leads to: the number of a split, or of a leaf, in its part. */
type Place = readonly [id: number, isLeaf: boolean];
type Fail = (problem: string) => Error;

const MODES = { BRANCH_LEQ: 0, BRANCH_LT: 1, BRANCH_EQ: 4, BRANCH_MEMBER: 6 } as const;
const SUM = 1;
const INTS = 7;
const TENSOR = 4;

/** Trees that are written as the lists of one node. Splits and leaves have numbers of their own. */
class Part {
  readonly #ensemble: Ensemble;
  readonly #owners: Owners | undefined;
  readonly #ints = {
    tree_roots: new Growing(),
    nodes_featureids: new Growing(),
    nodes_truenodeids: new Growing(),
    nodes_trueleafs: new Growing(),
    nodes_falsenodeids: new Growing(),
    nodes_falseleafs: new Growing(),
    nodes_missing_value_tracks_true: new Growing(),
    leaf_targetids: new Growing(),
  };
  readonly #modes = new Growing();
  readonly #values = {
    nodes_splits: new Growing(),
    leaf_weights: new Growing(),
    membership_values: new Growing(),
  };
  trees = 0;
  splits = 0;
  #leaves = 0;
  #members = 0;

  constructor(ensemble: Ensemble, owners: Owners | undefined) {
    this.#ensemble = ensemble;
    this.#owners = owners;
  }

  /** Level by level, so that a split has its number before it is written. @param number of the tree, for errors */
  add(tree: Tree, number: number): void {
    const fail = (problem: string) => badModel(`tree ${number} ${problem}`);
    const seen = new Uint8Array(tree.left.length);
    const open: { node: number; depth: number }[] = [];
    const placeOf = (node: number, depth: number): Place => {
      if (!(node >= 0 && node < seen.length) || seen[node] === 1) {
        throw fail(`is no tree: node ${node} is not there, or is reached twice`);
      }
      seen[node] = 1;
      if ((tree.left[node] as number) < 0) return [this.#leaf(tree, node, fail), true];
      if (depth > MAX_DEPTH) throw fail(`is deeper than ${MAX_DEPTH} comparisons`);
      open.push({ node, depth });
      return [this.splits + open.length - 1, false];
    };
    this.trees += 1;
    this.#ints.tree_roots.varint(this.splits);
    const root = placeOf(0, 1);
    // The root is a split: one leaf alone is on both its sides.
    this.#owners?.push(tree.target);
    if (root[1]) this.#split('BRANCH_LEQ', 0, 0, false, [root, root]);
    for (const { node, depth } of open) {
      const left = placeOf(tree.left[node] as number, depth + 1);
      const right = placeOf(tree.right[node] as number, depth + 1);
      this.#branch(tree, node, [left, right], fail);
    }
    this.splits += Math.max(1, open.length);
  }

  #leaf(tree: Tree, node: number, fail: Fail): number {
    const value = tree.leaf(node);
    if (Number.isNaN(value)) throw fail('has a leaf that is NaN');
    this.#ints.leaf_targetids.varint(this.#owners ? this.trees - 1 : tree.target);
    this.#values.leaf_weights.number(this.#ensemble.dtype, value);
    return this.#leaves++;
  }

  #branch(tree: Tree, node: number, sides: readonly [Place, Place], fail: Fail): void {
    const { features, mode, dtype } = this.#ensemble;
    const feature = tree.feature[node] as number;
    if (!(feature >= 0 && feature < features)) {
      throw fail(`asks for feature ${feature}, the model has ${features}`);
    }
    const missingLeft = tree.missingLeft[node] === 1;
    const set = tree.categories.get(node);
    const threshold = tree.threshold[node] as number;
    if ((set ?? [threshold]).some(Number.isNaN)) throw fail('compares with NaN');
    if (set === undefined) return this.#split(mode, feature, threshold, missingLeft, sides);
    const isLeft = tree.setGoes === 'left';
    const isTrue = missingLeft === isLeft;
    const ordered = isLeft ? sides : ([sides[1], sides[0]] as const);
    // Nothing equals NaN: of an empty set, which onnxruntime does not take, only missing values can be.
    if (set.length === 0) return this.#split('BRANCH_EQ', feature, Number.NaN, isTrue, ordered);
    for (const value of [...set, Number.NaN]) this.#values.membership_values.number(dtype, value);
    this.#members += set.length + 1;
    this.#split('BRANCH_MEMBER', feature, 0, isTrue, ordered);
  }

  #split(
    mode: keyof typeof MODES,
    feature: number,
    value: number,
    isMissingTrue: boolean,
    [whenTrue, whenFalse]: readonly [Place, Place],
  ): void {
    const ints = this.#ints;
    this.#modes.varint(MODES[mode]);
    this.#values.nodes_splits.number(this.#ensemble.dtype, value);
    ints.nodes_featureids.varint(feature);
    ints.nodes_missing_value_tracks_true.varint(Number(isMissingTrue));
    ints.nodes_truenodeids.varint(whenTrue[0]);
    ints.nodes_trueleafs.varint(Number(whenTrue[1]));
    ints.nodes_falsenodeids.varint(whenFalse[0]);
    ints.nodes_falseleafs.varint(Number(whenFalse[1]));
  }

  done(): Attributes {
    const { targets, dtype } = this.#ensemble;
    const ints = Object.entries(this.#ints).map(
      ([name, list]) => [name, { type: INTS, encoded: bytes(8, list.done()) }] as const,
    );
    const tensor = (count: number, values: Growing, type: DType = dtype) => {
      const head = [integer(1, count), integer(2, ELEMENT_TYPES[type])];
      return { type: TENSOR, encoded: bytes(5, message([...head, bytes(9, values.done())])) };
    };
    const { nodes_splits, leaf_weights, membership_values } = this.#values;
    return {
      n_targets: this.#owners ? this.trees : targets,
      aggregate_function: SUM,
      ...Object.fromEntries(ints),
      nodes_modes: tensor(this.splits, this.#modes, 'uint8'),
      nodes_splits: tensor(this.splits, nodes_splits),
      leaf_weights: tensor(this.#leaves, leaf_weights),
      ...(this.#members > 0 ? { membership_values: tensor(this.#members, membership_values) } : {}),
    };
  }
}
