/**
 * Trees as both libraries have them, and the node of ONNX (ai.onnx.ml 3, TreeEnsembleRegressor) that they become. A set of
 * categories becomes a chain of comparisons whose true branches are one node: the form in which onnxruntime reads sets.
 */
import { badModel } from '../../lib/contract/errors.ts';
import { ELEMENT_TYPES } from '../graph/attributes.ts';
import type { Attributes } from '../graph/value.ts';
import { bytes, type Chunk, Growing, integer, message, text } from '../onnx/chunk.ts';

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

/** The attributes of the node. @throws bad_model for a tree that is none, or is too large */
export function treeAttributes(ensemble: Ensemble): Attributes {
  const { targets, dtype, base } = ensemble;
  const writer = new TreeWriter(ensemble);
  for (const tree of ensemble.trees) writer.add(tree);
  const data = dtype === 'float64' ? Float64Array.from(base) : Float32Array.from(base);
  return {
    n_targets: targets,
    post_transform: 'NONE',
    aggregate_function: 'SUM',
    ...(base.some((value) => value !== 0)
      ? { base_values_as_tensor: { tensor: { dtype, shape: [base.length], data } } }
      : {}),
    ...writer.done(),
  };
}

/** A node as it is written; its children are known when they are. */
interface Written {
  readonly mode: Chunk;
  readonly feature: number;
  readonly value: number;
  readonly missingTrue: number;
  whenTrue: number;
  whenFalse: number;
}

type Side = 'whenTrue' | 'whenFalse';
const INTS = 7;
const TEXTS = 8;
const TENSOR = 4;
const MODES = ['BRANCH_LT', 'BRANCH_LEQ', EQUAL, LEAF] as const;
const MODE_FIELDS = Object.fromEntries(MODES.map((mode) => [mode, text(9, mode)]));

class TreeWriter {
  readonly #features: number;
  readonly #targets: number;
  readonly #mode: Ensemble['mode'];
  readonly #dtype: Ensemble['dtype'];
  readonly #modes = new Growing();
  readonly #ints = {
    nodes_treeids: new Growing(),
    nodes_nodeids: new Growing(),
    nodes_featureids: new Growing(),
    nodes_truenodeids: new Growing(),
    nodes_falsenodeids: new Growing(),
    nodes_missing_value_tracks_true: new Growing(),
    target_treeids: new Growing(),
    target_nodeids: new Growing(),
    target_ids: new Growing(),
  };
  readonly #values = { nodes_values: new Growing(), target_weights: new Growing() };
  #trees = 0;
  /** Nodes of all trees that are written, and leaves. */
  #count = 0;
  #weights = 0;
  /** The nodes of the tree that is being written. */
  #nodes: Written[] = [];

  constructor({ features, targets, mode, dtype }: Ensemble) {
    this.#features = features;
    this.#targets = targets;
    this.#mode = mode;
    this.#dtype = dtype;
  }

  /** Each node of the tree is written once, its children after it. */
  add(tree: Tree): void {
    this.#nodes = [];
    const seen = new Uint8Array(tree.left.length);
    // Where the id of a node is to be written, once it has one.
    const open: { node: number; depth: number; side: Side; at: readonly Written[] }[] = [
      { node: 0, depth: 0, side: 'whenTrue', at: [] },
    ];
    for (let next = open.pop(); next; next = open.pop()) {
      const { node, depth, side, at } = next;
      if (!(node >= 0 && node < seen.length) || seen[node] === 1) {
        throw badModel(`tree ${this.#trees} is no tree: node ${node} is not there, or is reached twice`);
      }
      seen[node] = 1;
      for (const place of at) place[side] = this.#nodes.length;
      if ((tree.left[node] as number) < 0) this.#leaf(tree, node);
      else open.push(...this.#split(tree, node, depth));
    }
    this.#encode();
    this.#trees += 1;
  }

  #encode(): void {
    const ints = this.#ints;
    for (const [id, node] of this.#nodes.entries()) {
      this.#modes.field(node.mode);
      ints.nodes_treeids.varint(this.#trees);
      ints.nodes_nodeids.varint(id);
      ints.nodes_featureids.varint(node.feature);
      ints.nodes_truenodeids.varint(node.whenTrue);
      ints.nodes_falsenodeids.varint(node.whenFalse);
      ints.nodes_missing_value_tracks_true.varint(node.missingTrue);
      this.#values.nodes_values.number(this.#dtype, node.value);
    }
    this.#count += this.#nodes.length;
  }

  #leaf(tree: Tree, node: number): void {
    const id = this.#nodes.length;
    this.#node(LEAF, 0, 0, 0);
    tree.leaf(node, (target, value) => {
      if (!(target >= 0 && target < this.#targets)) {
        throw badModel(`tree ${this.#trees} adds to output ${target}, the model has ${this.#targets}`);
      }
      if (Number.isNaN(value)) throw badModel(`tree ${this.#trees} has a leaf that is NaN`);
      this.#ints.target_treeids.varint(this.#trees);
      this.#ints.target_nodeids.varint(id);
      this.#ints.target_ids.varint(target);
      this.#values.target_weights.number(this.#dtype, value);
      this.#weights += 1;
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
    const first = this.#nodes.length;
    // The next comparison of the chain; the last one's is set with the child.
    for (const [i, value] of values.entries()) {
      this.#node(isNumber ? this.#mode : EQUAL, feature, value, missingTrue, first + i + 1);
    }
    const chain = this.#nodes.slice(first);
    return [
      { node: chosen, depth: to, side: 'whenTrue', at: chain },
      { node: other, depth: to, side: 'whenFalse', at: chain.slice(-1) },
    ] as const;
  }

  #node(mode: string, feature: number, value: number, missingTrue: number, whenFalse = 0): void {
    const field = MODE_FIELDS[mode] as Chunk;
    const all = this.#nodes.push({ mode: field, feature, value, missingTrue, whenTrue: 0, whenFalse });
    if (this.#count + all > MAX_NODES) throw badModel(`the trees have more than ${MAX_NODES} nodes`);
  }

  done(): Attributes {
    if (this.#trees === 0) throw badModel('the model has no trees');
    const ints = Object.entries(this.#ints).map(
      ([name, list]) => [name, { type: INTS, encoded: bytes(8, list.done()) }] as const,
    );
    const tensor = (count: number, values: Growing) => {
      const head = [integer(1, count), integer(2, ELEMENT_TYPES[this.#dtype])];
      return { type: TENSOR, encoded: bytes(5, message([...head, bytes(9, values.done())])) };
    };
    return {
      ...Object.fromEntries(ints),
      nodes_modes: { type: TEXTS, encoded: this.#modes.done() },
      nodes_values_as_tensor: tensor(this.#count, this.#values.nodes_values),
      target_weights_as_tensor: tensor(this.#weights, this.#values.target_weights),
    };
  }
}
