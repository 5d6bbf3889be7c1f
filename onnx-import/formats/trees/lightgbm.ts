/**
 * Reads a model of LightGBM (`save_model`, model.txt). The graph answers what `Booster.predict` answers. A file of a
 * training that stopped early holds the trees up to the best iteration only.
 */
import { badModel } from '../../../lib/contract/errors.ts';
import { assertSizes, treeGraph, ZERO } from './convert.ts';
import type { Tree } from './ensemble.ts';
import { categoryNotes } from './fields.ts';
import type { Link } from './links.ts';
import type { ReadModel } from './xgboost.ts';

const IDENTITY: Link = { kind: 'identity' };
const EXP: Link = { kind: 'exp' };

/** What an objective does with the sums; it may take a number of its parameters. */
export const OBJECTIVES: Readonly<Record<string, (parameters: ReadonlyMap<string, string>) => Link>> = {
  binary: sigmoid,
  multiclass: () => ({ kind: 'softmax' }),
  multiclassova: sigmoid,
  cross_entropy: () => ({ kind: 'sigmoid', scale: 1 }),
  cross_entropy_lambda: () => ({ kind: 'softplus' }),
  regression: squared,
  regression_l1: () => IDENTITY,
  huber: () => IDENTITY,
  fair: () => IDENTITY,
  quantile: () => IDENTITY,
  mape: () => IDENTITY,
  poisson: () => EXP,
  gamma: () => EXP,
  tweedie: () => EXP,
  lambdarank: () => IDENTITY,
  rank_xendcg: () => IDENTITY,
  custom: () => IDENTITY,
};

function sigmoid(parameters: ReadonlyMap<string, string>): Link {
  const scale = Number(parameters.get('sigmoid') ?? 1);
  if (!(scale > 0 && Number.isFinite(scale))) throw badModel(`sigmoid is ${parameters.get('sigmoid')}`);
  return { kind: 'sigmoid', scale };
}

/** `sqrt`: the model was trained on square roots. */
function squared(parameters: ReadonlyMap<string, string>): Link {
  return parameters.has('sqrt') ? { kind: 'signed_square' } : IDENTITY;
}

type Lines = ReadonlyMap<string, string>;

const TREE = '\nTree=';

const CATEGORICAL = 1;
const DEFAULT_LEFT = 2;
/** The next float64 below -ZERO: more than half of its last place is added. */
const BELOW_ZERO = -(ZERO + (ZERO * Number.EPSILON) / 2);
/** Bits 2 and 3 of a decision: what counts as missing. */
const MISSING = { none: 0, zero: 1, nan: 2 } as const;

/** @throws bad_model naming the line, or what is not supported */
export function readLightgbm(file: Buffer): ReadModel {
  const starts = treeStarts(file);
  const textOf = (from: number, to?: number) => file.toString('utf8', from, to).replaceAll('\r\n', '\n');
  const head = textOf(0, starts[0]);
  const lines = linesOf(head);
  if (!head.startsWith('tree\n')) throw badModel('expected a model of LightGBM, whose first line is "tree"');
  const features = whole(lines, 'max_feature_idx') + 1;
  const targets = whole(lines, 'num_tree_per_iteration');
  assertSizes(features, targets);
  const count = starts.length;
  if (count === 0 || count % targets !== 0) {
    throw badModel(`${count} trees, expected a multiple of ${targets} (num_tree_per_iteration)`);
  }
  const end = file.indexOf('\nend of trees', starts.at(-1));
  if (end < 0) throw badModel('the file is cut off: it has no "end of trees"');
  const columns = names(lines, features);
  // Random forests answer with the mean of their trees.
  const share = lines.has('average_output') ? targets / count : 1;
  const kinds = new ColumnKinds();
  // One at a time, as of XGBoost.
  function* read() {
    for (let i = 0; i < count; i++) {
      try {
        yield treeOf(linesOf(textOf(starts[i] as number, starts[i + 1] ?? end)), i % targets, share, kinds);
      } catch (error) {
        throw badModel(`tree ${i}: ${(error as Error).message}`, { cause: error });
      }
    }
  }
  const base = Array.from({ length: targets }, () => 0);
  const ensemble = { trees: read(), features, targets, mode: 'BRANCH_LEQ', dtype: 'float64', base } as const;
  const graph = treeGraph(ensemble, () => kinds.columns(), linkOf(lines));
  return { graph, columns, notes: notesOf(textOf(end)) };
}

/** Where the line of each tree begins. */
function treeStarts(file: Buffer): number[] {
  const starts: number[] = [];
  for (let at = file.indexOf(TREE); at >= 0; at = file.indexOf(TREE, at + 1)) {
    if (/^\d+\r?\n/.test(file.toString('latin1', at + TREE.length, at + TREE.length + 20))) starts.push(at);
  }
  return starts;
}

function linesOf(block: string): Map<string, string> {
  const found = new Map<string, string>();
  for (const line of block.split('\n')) {
    const at = line.indexOf('=');
    if (at < 0) found.set(line.trim(), '');
    else found.set(line.slice(0, at), line.slice(at + 1));
  }
  return found;
}

function linkOf(lines: Lines): Link {
  const [name = '', ...parameters] = (lines.get('objective') ?? 'custom').trim().split(/\s+/);
  const link = Object.hasOwn(OBJECTIVES, name) ? OBJECTIVES[name] : undefined;
  if (link) {
    return link(
      new Map(parameters.map((item) => [item.split(':')[0] as string, item.split(':')[1] ?? ''] as const)),
    );
  }
  throw badModel(
    `the objective ${JSON.stringify(name)} is not supported; supported: ${Object.keys(OBJECTIVES).join(', ')}`,
  );
}

function names(lines: Lines, features: number): readonly string[] {
  const found = (lines.get('feature_names') ?? '').split(' ');
  if (found.length === features) return found;
  throw badModel(`${found.length} feature names, and ${features} features`);
}

function notesOf(text: string): string[] {
  const categories = /^pandas_categorical:(\[.+\])$/m.exec(text)?.[1] ?? '[]';
  return /^\[[\s[\]]*\]$/.test(categories) ? [] : categoryNotes(categories);
}

function whole(lines: Lines, name: string): number {
  const value = lines.get(name);
  const number = Number(value);
  if (value !== undefined && value !== '' && Number.isSafeInteger(number) && number >= 0) return number;
  throw badModel(`${name} is ${JSON.stringify(value?.slice(0, 80))}, expected a whole number`);
}

function numbers(lines: Lines, name: string, count: number): Float64Array {
  const text = lines.get(name) ?? '';
  const items = text === '' ? [] : text.trim().split(' ');
  if (items.length !== count) throw badModel(`${name} has ${items.length} numbers, expected ${count}`);
  return Float64Array.from(items, (item) => {
    const value = numberOf(item);
    if (!Number.isNaN(value)) return value;
    throw badModel(`${name}: ${JSON.stringify(item.slice(0, 40))} is no number`);
  });
}

/** C++ writes infinity as "inf". */
function numberOf(item: string): number {
  if (/^[+-]?inf(inity)?$/i.test(item)) return item.startsWith('-') ? -Infinity : Infinity;
  return item === '' ? Number.NaN : Number(item);
}

/** What the splits say of each column; in all trees the same. */
class ColumnKinds {
  readonly #kinds = new Map<number, 'category' | 'zero is missing' | 'number'>();

  add(feature: number, kind: 'category' | 'zero is missing' | 'number'): void {
    const known = this.#kinds.get(feature);
    if (known !== undefined && known !== kind) {
      throw badModel(
        `feature ${feature} is split as "${kind}" here, and as "${known}" elsewhere, which is not supported`,
      );
    }
    this.#kinds.set(feature, kind);
  }

  columns() {
    const of = (kind: string) =>
      new Set([...this.#kinds].filter((item) => item[1] === kind).map(([at]) => at));
    return {
      categories: of('category'),
      rounding: 'truncate',
      zeroIsMissing: of('zero is missing'),
    } as const;
  }
}

function treeOf(lines: Lines, target: number, share: number, kinds: ColumnKinds): Tree {
  if (lines.has('is_linear') && whole(lines, 'is_linear') !== 0) {
    throw badModel('linear trees (linear_tree=true) are not supported; train with linear_tree=false');
  }
  const leaves = whole(lines, 'num_leaves');
  if (!(leaves >= 1 && leaves <= 2 ** 24)) throw badModel(`num_leaves is ${leaves}`);
  const inner = leaves - 1;
  const values = numbers(lines, 'leaf_value', leaves);
  const list = (name: string) => (inner === 0 ? new Float64Array(0) : numbers(lines, name, inner));
  const [feature, threshold, decision] = [list('split_feature'), list('threshold'), list('decision_type')];
  // A leaf is ~number; here leaves follow the inner nodes.
  const children = (name: string) => {
    const found = new Int32Array(inner + leaves).fill(-1);
    for (const [i, child] of list(name).entries()) found[i] = child >= 0 ? child : inner + ~child;
    return found;
  };
  const categories = new Map<number, readonly number[]>();
  const missingLeft = new Uint8Array(inner);
  for (let node = 0; node < inner; node++) {
    const type = decision[node] as number;
    if ((type & CATEGORICAL) === 0) threshold[node] = beyondZero(threshold[node] as number);
    const missing = (type >> 2) & 3;
    if ((type & CATEGORICAL) !== 0) {
      categories.set(node, categoriesOf(lines, threshold[node] as number));
      kinds.add(feature[node] as number, 'category');
      continue;
    }
    if (missing > MISSING.nan) throw badModel(`decision_type ${type} is not known`);
    kinds.add(feature[node] as number, missing === MISSING.zero ? 'zero is missing' : 'number');
    // Where nothing counts as missing, NaN is taken for 0.
    const isLeft = missing === MISSING.none ? 0 <= (threshold[node] as number) : (type & DEFAULT_LEFT) !== 0;
    missingLeft[node] = Number(isLeft);
  }
  return {
    left: children('left_child'),
    right: children('right_child'),
    feature: Int32Array.from(feature),
    threshold,
    missingLeft,
    categories,
    setGoes: 'left',
    target,
    leaf: (node) => (values[node - inner] as number) * share,
  };
}

/**
 * Before it compares a value, LightGBM takes one that is as small as this for 0. A threshold among such values moves to
 * their end, so that all of them go where 0 goes.
 */
function beyondZero(threshold: number): number {
  if (!(Math.abs(threshold) <= ZERO)) return threshold;
  return threshold < 0 ? BELOW_ZERO : ZERO;
}

/** The categories of a split, from its set of bits. */
function categoriesOf(lines: Lines, index: number): number[] {
  const sets = whole(lines, 'num_cat');
  const bounds = numbers(lines, 'cat_boundaries', sets + 1);
  const [start, end] = [bounds[index], bounds[index + 1]];
  const words = (lines.get('cat_threshold') ?? '').trim().split(' ');
  if (start === undefined || end === undefined || !(start >= 0 && start <= end && end <= words.length)) {
    throw badModel(`category set ${index} is not in the tree`);
  }
  const found: number[] = [];
  for (let i = start; i < end; i++) {
    const word = Number(words[i]);
    if (!(Number.isSafeInteger(word) && word >= 0 && word < 2 ** 32))
      throw badModel('cat_threshold: no set of bits');
    for (let bit = 0; bit < 32; bit++) if (((word >>> bit) & 1) === 1) found.push((i - start) * 32 + bit);
  }
  return found;
}
