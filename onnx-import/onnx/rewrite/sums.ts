/**
 * Sums of trees without the rounding of float32, in the same node. Every weight is split into a multiple of a power of two,
 * whose sums are exact in float32, and a small rest; both are added in float64. Where the comparison is that of XGBoost, whose
 * own sums are float32, the node answers each tree's leaf, and they are added one by one, as XGBoost does.
 */
import { tensorOf } from '../../graph/numbers.ts';
import type { Attribute } from '../../graph/value.ts';
import { bytes, type Chunk, Growing, message, text } from '../../wire/chunk.ts';
import { attributeChunk } from '../write.ts';
import { replaceFields } from './fields.ts';
import { attributeName, type RawNode } from './graph.ts';
import { numbersAt, typeAt } from './ml-node.ts';
import type { NewNodes } from './nodes.ts';

/** Marks a node whose sums are exact. */
const DONE = 'sums of trees without rounding';
/** More columns than these take longer than the trees. */
const MOST_OWNED = 512;
const FIRST_CUM_SUM = 11;
/** The lists are read at once. */
const MOST_WEIGHTS = 4_000_000;
const [INTS, FLOAT64] = [7, 11];

interface Leaves {
  readonly kind: 'class' | 'target';
  /** Outputs of the node that are used, or the only one. */
  readonly outputs: number;
  /** Of each output; empty for none. */
  readonly base: readonly number[];
  readonly trees: readonly number[];
  readonly ids: readonly number[];
  readonly weights: readonly number[];
}

/** Columns of a node in place of its outputs. */
interface Columns {
  readonly count: number;
  /** Of each weight; the lists may be repeated. */
  readonly ids: readonly number[];
  readonly weights: readonly number[];
}

/** @returns [rows, outputs] in float64 with the base; undefined where the node has to stay */
export function exactSums(
  node: RawNode,
  content: Uint8Array,
  nodes: NewNodes,
  { outputs, base }: Pick<Leaves, 'outputs' | 'base'>,
): string | undefined {
  const kind = node.operator === 'TreeEnsembleClassifier' ? 'class' : 'target';
  const own = ['ids', 'nodeids', 'treeids'].map((name) => node.numbers(`${kind}_${name}`));
  const [ids = [], , trees = []] = own;
  const weights = Array.from(numbersAt(node, `${kind}_weights`));
  const isWhole = own.every((list) => list.length === weights.length) && weights.every(Number.isFinite);
  const isSmall = weights.length > 0 && weights.length <= MOST_WEIGHTS;
  if (!isWhole || !isSmall || !ids.every((id) => id >= 0 && id < outputs)) return undefined;
  const leaves: Leaves = { kind, outputs, base, trees, ids, weights };
  const order = nodes.opset < FIRST_CUM_SUM ? undefined : inOrder(node, leaves);
  const columns = order ?? inTwoParts(leaves, new Set(node.numbers('nodes_treeids')).size);
  const scores = nodes.name();
  nodes.keep(
    withColumns(node, content, {
      columns,
      kind,
      names: kind === 'class' ? [nodes.name(), scores] : [scores],
    }),
  );
  const wide = (value: string) => nodes.add('Cast', [value], { to: FLOAT64 });
  if (order) {
    const ordered = nodes.add('Reshape', [scores, nodes.places([-1, outputs, order.count / outputs])]);
    const sums = nodes.add('CumSum', [ordered, nodes.place(2)]);
    return wide(nodes.add('Gather', [sums, nodes.place(order.count / outputs - 1)], { axis: 2 }));
  }
  const part = (start: number) =>
    wide(
      nodes.add('Gather', [scores, nodes.places(Array.from({ length: outputs }, (_, i) => start + i))], {
        axis: 1,
      }),
    );
  const sum = nodes.add('Add', [part(0), part(outputs)]);
  return base.length === 0 ? sum : nodes.add('Add', [sum, nodes.numbers(base)]);
}

/** Whether the node is one of ours. */
export function hasExactSums(content: Uint8Array): boolean {
  return Buffer.from(content.subarray(-DONE.length)).toString() === DONE;
}

/** A column for each tree; undefined unless the leaves are those of XGBoost. */
function inOrder(node: RawNode, { outputs, base, trees, ids, weights }: Leaves): Columns | undefined {
  const modes = node.texts('nodes_modes');
  const leaves = modes.filter((mode) => mode === 'LEAF').length;
  if (leaves !== weights.length || modes.some((mode) => !['LEAF', 'BRANCH_LT'].includes(mode)))
    return undefined;
  const owner = new Map<number, number>();
  for (const [i, tree] of trees.entries()) owner.set(tree, ids[i] as number);
  if (trees.some((tree, i) => owner.get(tree) !== ids[i])) return undefined;
  const counts = Array.from({ length: outputs }, () => 0);
  const place = new Map<number, number>();
  for (const tree of new Set(node.numbers('nodes_treeids'))) {
    const output = owner.get(tree);
    if (output === undefined) return undefined;
    place.set(tree, counts[output] as number);
    counts[output] = (counts[output] as number) + 1;
  }
  // onnxruntime labels fewer than three classes by rules of their own.
  const most = Math.max(...counts, Math.ceil(3 / outputs));
  if (most * outputs > MOST_OWNED || counts.includes(0)) return undefined;
  const first = (i: number) => (place.get(trees[i] as number) === 0 ? (base[ids[i] as number] ?? 0) : 0);
  return {
    count: most * outputs,
    ids: ids.map((id, i) => id * most + (place.get(trees[i] as number) as number)),
    weights: weights.map((weight, i) => Math.fround(first(i) + weight)),
  };
}

function inTwoParts({ outputs, ids, weights }: Leaves, trees: number): Columns {
  const most = weights.reduce((size, weight) => Math.max(size, Math.abs(weight)), 0);
  // Sums of so many multiples fit into the 24 bits of a float32.
  const unit = most === 0 ? 1 : 2 ** (Math.ceil(Math.log2(most * trees)) - 23);
  const large = weights.map((weight) => Math.round(weight / unit) * unit);
  return {
    count: 2 * outputs,
    ids: [...ids, ...ids.map((id) => id + outputs)],
    weights: [...large, ...weights.map((weight, i) => weight - (large[i] as number))],
  };
}

function withColumns(
  node: RawNode,
  content: Uint8Array,
  {
    columns,
    kind,
    names,
  }: { readonly columns: Columns; readonly kind: string; readonly names: readonly string[] },
): Chunk {
  const times = columns.ids.length / node.numbers(`${kind}_ids`).length;
  const repeated = (name: string) => {
    const list = node.numbers(name);
    return ints(Array.from({ length: times }, () => list).flat());
  };
  const classes = Array.from({ length: Math.max(3, columns.count) }, (_, i) => i);
  const attributes: Record<string, Attribute> = {
    [`${kind}_ids`]: ints(columns.ids),
    [`${kind}_nodeids`]: repeated(`${kind}_nodeids`),
    [`${kind}_treeids`]: repeated(`${kind}_treeids`),
    ...weightsOf(kind, columns.weights, typeAt(node, `${kind}_weights_as_tensor`)),
    ...(kind === 'class' ? { classlabels_int64s: classes } : { n_targets: columns.count }),
  };
  const dropped: ReadonlySet<string> = new Set([...Object.keys(attributes), 'post_transform', 'base_values', 'base_values_as_tensor', 'aggregate_function', 'classlabels_strings', 'nodes_hitrates', 'nodes_hitrates_as_tensor']); // biome-ignore format: a list
  let at = 0;
  const rest = replaceFields(content, (item) => {
    if (item.number === 2) return [text(2, names[at++] ?? '')];
    return item.number === 5 && dropped.has(attributeName(item.content)) ? [] : undefined;
  });
  const added = Object.entries(attributes).map(([name, value]) => bytes(5, attributeChunk(name, value)));
  return message([rest, ...added, text(6, DONE)]);
}

/** A list of float32, or the tensor that the source has. */
function weightsOf(kind: string, weights: readonly number[], type: number): Record<string, Attribute> {
  if (type === 0) return { [`${kind}_weights`]: { floats: weights } };
  const tensor = tensorOf(type === FLOAT64 ? 'float64' : 'float32', [weights.length], weights);
  return { [`${kind}_weights_as_tensor`]: { tensor } };
}

/** In ONNX's own form, because a list of a million numbers takes a million parts otherwise. */
function ints(values: readonly number[]): Attribute {
  const list = new Growing();
  for (const value of values) list.varint(value);
  return { type: INTS, encoded: bytes(8, list.done()) };
}
