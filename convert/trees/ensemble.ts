/**
 * Trees as both libraries have them, and the node of ONNX (ai.onnx.ml 3, TreeEnsembleRegressor) that they become. A set of
 * categories becomes a chain of comparisons whose true branches are one node: the form in which onnxruntime reads sets.
 */
import { badModel } from '../../lib/contract/errors.ts';
import type { Attributes } from '../graph/value.ts';

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
  /** Calls `add` with each output and what a leaf adds to it. */
  readonly leaf: (node: number, add: (target: number, value: number) => void) => void;
}

export interface Ensemble {
  readonly trees: Iterable<Tree>;
  readonly features: number;
  readonly targets: number;
  /** What the comparison of numbers is: XGBoost goes left below the threshold, LightGBM at most there. */
  readonly mode: 'BRANCH_LT' | 'BRANCH_LEQ';
  /** Of the thresholds and of the input: float32 for XGBoost, float64 for LightGBM. */
  readonly dtype: 'float32' | 'float64';
  /** What is added to each output. */
  readonly base: readonly number[];
}

/** The largest ensembles in use have a few million. */
const MAX_NODES = 20_000_000;
/** onnxruntime follows a tree by recursion while it loads. */
const MAX_DEPTH = 5_000;
const EQUAL = 'BRANCH_EQ';
const LEAF = 'LEAF';

/** A list of numbers that grows. */
class Growing<T extends Int32Array | Float64Array> {
  data: T;
  length = 0;

  constructor(data: T) {
    this.data = data;
  }

  push(value: number): void {
    if (this.length === this.data.length) {
      const larger = new (this.data.constructor as new (length: number) => T)(this.length * 2);
      larger.set(this.data);
      this.data = larger;
    }
    this.data[this.length++] = value;
  }

  done(): T {
    return this.data.subarray(0, this.length) as T;
  }
}

const ints = () => new Growing(new Int32Array(1024));
const doubles = () => new Growing(new Float64Array(1024));

/** The attributes of the node. @throws bad_model for a tree that is none, or is too large */
export function treeAttributes({ trees, features, targets, mode, dtype, base }: Ensemble): Attributes {
  const writer = new TreeWriter(features, targets, mode);
  for (const tree of trees) writer.add(tree);
  const lists = writer.done();
  const numbers = (values: Float64Array) => ({
    tensor: {
      dtype,
      shape: [values.length],
      data: dtype === 'float64' ? values : Float32Array.from(values),
    },
  });
  const values = Object.entries(lists.values).map(
    ([name, list]) => [`${name}_as_tensor`, numbers(list)] as const,
  );
  return {
    n_targets: targets,
    post_transform: 'NONE',
    aggregate_function: 'SUM',
    ...(base.some((value) => value !== 0) ? { base_values_as_tensor: numbers(Float64Array.from(base)) } : {}),
    ...lists.nodes,
    ...Object.fromEntries(values),
  };
}

class TreeWriter {
  readonly #features: number;
  readonly #targets: number;
  readonly #mode: Ensemble['mode'];
  readonly #modes: string[] = [];
  readonly #nodes = {
    nodes_treeids: ints(),
    nodes_nodeids: ints(),
    nodes_featureids: ints(),
    nodes_truenodeids: ints(),
    nodes_falsenodeids: ints(),
    nodes_missing_value_tracks_true: ints(),
    target_treeids: ints(),
    target_nodeids: ints(),
    target_ids: ints(),
  };
  readonly #values = { nodes_values: doubles(), target_weights: doubles() };
  #trees = 0;
  /** The place of the tree's first node. */
  #start = 0;

  constructor(features: number, targets: number, mode: Ensemble['mode']) {
    this.#features = features;
    this.#targets = targets;
    this.#mode = mode;
  }

  /** Each node of the tree is written once, its children after it. */
  add(tree: Tree): void {
    this.#start = this.#modes.length;
    const seen = new Uint8Array(tree.left.length);
    // Where the id of a node is to be written, once it has one.
    const open: { node: number; depth: number; into: Int32ArrayList; at: readonly number[] }[] = [
      { node: 0, depth: 0, into: this.#nodes.nodes_truenodeids, at: [] },
    ];
    for (let next = open.pop(); next; next = open.pop()) {
      const { node, depth, into, at } = next;
      if (!(node >= 0 && node < seen.length) || seen[node] === 1) {
        throw badModel(`tree ${this.#trees} is no tree: node ${node} is not there, or is reached twice`);
      }
      seen[node] = 1;
      const id = this.#modes.length - this.#start;
      for (const place of at) into.data[place] = id;
      if ((tree.left[node] as number) < 0) this.#leaf(tree, node);
      else open.push(...this.#split(tree, node, depth));
    }
    this.#trees += 1;
  }

  #leaf(tree: Tree, node: number): void {
    const id = this.#modes.length - this.#start;
    this.#node(LEAF, 0, 0, 0);
    tree.leaf(node, (target, value) => {
      if (!(target >= 0 && target < this.#targets)) {
        throw badModel(`tree ${this.#trees} adds to output ${target}, the model has ${this.#targets}`);
      }
      if (Number.isNaN(value)) throw badModel(`tree ${this.#trees} has a leaf that is NaN`);
      this.#nodes.target_treeids.push(this.#trees);
      this.#nodes.target_nodeids.push(id);
      this.#nodes.target_ids.push(target);
      this.#values.target_weights.push(value);
    });
  }

  /** Writes an inner node, and returns its children with the places that point to them. */
  #split(tree: Tree, node: number, depth: number) {
    const feature = tree.feature[node] as number;
    if (!(feature >= 0 && feature < this.#features)) {
      throw badModel(`tree ${this.#trees} asks for feature ${feature}, the model has ${this.#features}`);
    }
    const set = tree.categories.get(node);
    const isNumber = set === undefined;
    if (isNumber && Number.isNaN(tree.threshold[node]))
      throw badModel(`tree ${this.#trees} compares with NaN`);
    const goesLeft = isNumber || tree.setGoes === 'left';
    const children = [tree.left[node] as number, tree.right[node] as number] as const;
    const [chosen, other] = goesLeft ? children : [children[1], children[0]];
    const missingLeft = tree.missingLeft[node] as number;
    const missingTrue = goesLeft ? missingLeft : 1 - missingLeft;
    // Nothing equals NaN: of an empty set, only missing values can be.
    const values = isNumber ? [tree.threshold[node] as number] : set.length > 0 ? set : [Number.NaN];
    const to = depth + values.length;
    if (to > MAX_DEPTH) throw badModel(`tree ${this.#trees} is deeper than ${MAX_DEPTH} comparisons`);
    const first = this.#modes.length;
    for (const [i, value] of values.entries()) {
      this.#node(isNumber ? this.#mode : EQUAL, feature, value, missingTrue);
      // The next comparison of the chain; the last one's is set with the child.
      this.#nodes.nodes_falsenodeids.data[first + i] = first + i + 1 - this.#start;
    }
    const last = first + values.length - 1;
    const { nodes_truenodeids: whenTrue, nodes_falsenodeids: whenFalse } = this.#nodes;
    return [
      { node: chosen, depth: to, into: whenTrue, at: values.map((_, i) => first + i) },
      { node: other, depth: to, into: whenFalse, at: [last] },
    ];
  }

  #node(mode: string, feature: number, value: number, missingTrue: number): void {
    const id = this.#modes.length - this.#start;
    if (this.#modes.push(mode) > MAX_NODES) throw badModel(`the trees have more than ${MAX_NODES} nodes`);
    this.#nodes.nodes_treeids.push(this.#trees);
    this.#nodes.nodes_nodeids.push(id);
    this.#nodes.nodes_featureids.push(feature);
    this.#nodes.nodes_truenodeids.push(0);
    this.#nodes.nodes_falsenodeids.push(0);
    this.#nodes.nodes_missing_value_tracks_true.push(missingTrue);
    this.#values.nodes_values.push(value);
  }

  done() {
    if (this.#trees === 0) throw badModel('the model has no trees');
    const nodes = Object.entries(this.#nodes).map(([name, list]) => [name, { ints: list.done() }] as const);
    const { nodes_values, target_weights } = this.#values;
    return {
      nodes: { ...Object.fromEntries(nodes), nodes_modes: { strings: this.#modes } },
      values: { nodes_values: nodes_values.done(), target_weights: target_weights.done() },
    };
  }
}

type Int32ArrayList = Growing<Int32Array>;
