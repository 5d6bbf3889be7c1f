/**
 * Makes rows for a node of ai.onnx.ml from its own numbers: both sides of splits and values on them, missing values, categories
 * and unknown ones, scores from very small to large. The same node gets the same rows.
 */
import type { DType, Tensor } from '../../lib/contract/tensor.ts';
import type { RawNode } from '../onnx/rewrite/graph.ts';
import { floatAt, intAt, type Label, labelsAt, numbersAt, typeAt } from '../onnx/rewrite/ml-node.ts';
import { randomNumbers } from '../samples/inputs.ts';
import { type Forest, forestOf, goesTrue, type Split } from './trees.ts';

/** Of splits and leaves, spread over the forest. */
const MOST_SPLITS = 1_000;
/** Deeper splits are not looked for. */
const MOST_DEPTH = 200;
const ROWS = 48;
const [STRING, INT64, DOUBLE] = [8, 7, 11];

/** The inputs of a node; undefined where its attributes do not say what it takes. */
export function madeUpInputs(node: RawNode, declared: readonly (DType | undefined)[]): Tensor[] | undefined {
  const next = randomNumbers(1);
  const [type] = declared;
  switch (node.operator) {
    case 'TreeEnsemble':
    case 'TreeEnsembleClassifier':
    case 'TreeEnsembleRegressor':
      return treeInput(node, type, next);
    case 'ArrayFeatureExtractor':
      return [table(type ?? 'float32', spread(8, 5, next)), places([0, 4, 2])];
    case 'FeatureVectorizer':
      return Array.from(numbersAt(node, 'inputdimensions'), (size) =>
        table('float32', spread(8, size, next)),
      );
    case 'OneHotEncoder':
      return keyed(labelsAt(node, ['cats_strings', 'cats_int64s']), true);
    case 'LabelEncoder':
      return encoded(node);
    case 'CategoryMapper': {
      const [ints, texts] = [labelsAt(node, ['cats_int64s']), labelsAt(node, ['cats_strings'])];
      return keyed(type === 'int64' ? ints : texts, false);
    }
    default: {
      const rows = numberRows(node, next);
      return rows && [table(type === undefined || type === 'string' ? 'float32' : type, rows)];
    }
  }
}

function numberRows(node: RawNode, next: () => number): number[][] | undefined {
  switch (node.operator) {
    case 'Normalizer':
      return [...spread(ROWS, 4, next), [0, 0, 0, 0], [-3, -1, -2, -4], [0, -0, 5, -7]];
    case 'Binarizer': {
      const threshold = floatAt(node, 'threshold', 0);
      return [[threshold, threshold + 1, threshold - 1], ...spread(4, 3, next)];
    }
    case 'Scaler': {
      const [offset, scale] = [numbersAt(node, 'offset'), numbersAt(node, 'scale')];
      const columns = Math.max(1, offset.length, scale.length);
      return spread(ROWS, columns, next).map((row) =>
        row.map((value, i) => (offset[i] ?? offset[0] ?? 0) + value / (scale[i] || scale[0] || 1)),
      );
    }
    case 'Imputer': {
      const floats = numbersAt(node, 'imputed_value_floats');
      const columns = Math.max(floats.length, numbersAt(node, 'imputed_value_int64s').length);
      const missing =
        floats.length > 0 ? floatAt(node, 'replaced_value_float', 0) : intAt(node, 'replaced_value_int64', 0);
      return spread(8, columns, next).map((row, i) =>
        row.map((value, at) => ((at + i) % 3 === 0 ? missing : Math.round(value * 4))),
      );
    }
    case 'LinearClassifier':
    case 'LinearRegressor':
    case 'SVMClassifier':
    case 'SVMRegressor':
      return scaledRows(node, next);
    default:
      return undefined;
  }
}

const SIZES = [0.1, 1, 10, 40];

/** Rows whose scores are of all sizes up to 80. */
function scaledRows(node: RawNode, next: () => number): number[][] | undefined {
  const coefficients = numbersAt(node, 'coefficients');
  const count = Math.max(1, numbersAt(node, 'intercepts').length, intAt(node, 'targets', 1));
  const vectors = numbersAt(node, 'support_vectors');
  const supports = Array.from(numbersAt(node, 'vectors_per_class')).reduce((sum, size) => sum + size, 0);
  const all = supports || intAt(node, 'n_supports', 0);
  const isLinear = node.operator.startsWith('Linear');
  const classes = labelsAt(node, ['classlabels_strings', 'classlabels_ints']).length || 1;
  const columns = isLinear
    ? coefficients.length / count
    : all > 0
      ? vectors.length / all
      : coefficients.length / classes;
  if (!Number.isInteger(columns) || columns < 1) return undefined;
  if (all > 0) {
    // Around the support vectors, where kernels are not 0.
    return spread(ROWS, columns, next).map((row, i) =>
      row.map((value, at) => (vectors[(i % all) * columns + at] as number) + (value * (i % 4)) / 4),
    );
  }
  const norm = Math.hypot(...Array.from(coefficients)) || 1;
  return spread(ROWS, columns, next).map((row, i) =>
    row.map((value) => (value * (SIZES[i % SIZES.length] as number)) / norm),
  );
}

function spread(rows: number, columns: number, next: () => number): number[][] {
  return Array.from({ length: rows }, () => Array.from({ length: columns }, () => (next() - 0.5) * 4));
}

function table(dtype: DType, rows: readonly (readonly number[])[]): Tensor {
  const shape = [rows.length, (rows[0] ?? []).length];
  const flat = rows.flat();
  if (dtype === 'float64') return { dtype, shape, data: Float64Array.from(flat) };
  if (dtype === 'int64')
    return { dtype, shape, data: BigInt64Array.from(flat, (value) => BigInt(Math.round(value) || 0)) };
  if (dtype === 'int32') return { dtype, shape, data: Int32Array.from(flat, Math.round) };
  return { dtype: 'float32', shape, data: Float32Array.from(flat) };
}

function places(values: readonly number[]): Tensor {
  return { dtype: 'int64', shape: [values.length], data: BigInt64Array.from(values, BigInt) };
}

const UNKNOWN = { text: 'no such category', number: 987_654_321n };
/** A list of categories is long enough to be seen with these. */
const MOST_KEYS = 2_000;

/** @param isColumn one column, else a list */
function keyed(keys: readonly Label[], isColumn: boolean): Tensor[] | undefined {
  if (keys.length === 0) return undefined;
  const isText = typeof keys[0] === 'string';
  const some = [...keys.slice(0, MOST_KEYS), isText ? UNKNOWN.text : UNKNOWN.number];
  const shape = isColumn ? [some.length, 1] : [some.length];
  if (isText) return [{ dtype: 'string', shape, data: some as string[] }];
  return [{ dtype: 'int64', shape, data: BigInt64Array.from(some as bigint[]) }];
}

function encoded(node: RawNode): Tensor[] | undefined {
  const labels = labelsAt(node, ['keys_strings', 'keys_int64s', 'keys_tensor']);
  if (labels.length > 0) return keyed(labels, false);
  const type = typeAt(node, 'keys_tensor');
  if (type === STRING || type === INT64) return undefined;
  const floats = numbersAt(node, node.attribute('keys_floats') ? 'keys_floats' : 'keys');
  if (floats.length === 0) return undefined;
  const values = [...Array.from(floats).slice(0, MOST_KEYS), 1.2345e30, Number.NaN];
  const shape = [values.length];
  if (type === DOUBLE) return [{ dtype: 'float64', shape, data: Float64Array.from(values) }];
  return [{ dtype: 'float32', shape, data: Float32Array.from(values) }];
}

function treeInput(node: RawNode, declared: DType | undefined, next: () => number): Tensor[] {
  const forest = forestOf(node);
  const columns = forest.splits.reduce((most, { feature }) => Math.max(most, feature), 0) + 1;
  const isDouble = [typeAt(node, 'nodes_splits'), typeAt(node, 'nodes_values_as_tensor')].includes(DOUBLE);
  const dtype = isDouble ? 'float64' : declared === undefined || declared === 'string' ? 'float32' : declared;
  const step = dtype === 'float64' ? 2 ** -52 : 2 ** -23;
  const rows: number[][] = [];
  const thresholds = forest.splits.filter(({ mode }) => mode !== 'LEAF');
  const anyOf = () =>
    thresholds.length === 0 ? 0 : (thresholds[Math.floor(next() * thresholds.length)] as Split).value;
  const row = () => Array.from({ length: columns }, () => anyOf() * (1 + (next() - 0.5) / 2));
  const every = Math.max(1, Math.ceil(forest.splits.length / MOST_SPLITS));
  for (const { path, split: end } of pathsOf(forest, every)) {
    const made = row();
    for (const [split, isTrue] of path) {
      const value = valueFor(split, { isTrue, step, at: made[split.feature] as number });
      if (value !== undefined) made[split.feature] = value;
    }
    // A leaf is reached as the path says, and a split is met by a missing value.
    if (end.mode !== 'LEAF') made[end.feature] = Number.NaN;
    rows.push(made);
  }
  for (const special of [0, -0, Number.NaN, 1e30, -1e30])
    rows.push(row().map((value, i) => (i % 2 === rows.length % 2 ? special : value)));
  return [table(dtype, rows)];
}

/** A value that goes the wanted way: the present one if it does, else the one on the threshold, else the next ones. */
function valueFor(
  split: Split,
  { isTrue, step, at }: { readonly isTrue: boolean; readonly step: number; readonly at: number },
): number | undefined {
  const { value, members } = split;
  const tick = step * Math.max(Math.abs(value), 1e-30);
  const candidates = [...(members ?? []), value, value - tick, value + tick, value - 1, value + 1];
  return [at, ...candidates].find((candidate) => goesTrue(split, candidate) === isTrue);
}

type Path = readonly (readonly [split: Split, isTrue: boolean])[];

/** The decisions to each split and leaf, or to some of them. */
function* pathsOf({ splits, roots }: Forest, every: number): Generator<{ path: Path; split: Split }> {
  let seen = 0;
  for (const root of roots) {
    const open: { at: number; path: Path }[] = [{ at: root, path: [] }];
    for (let next = open.pop(); next; next = open.pop()) {
      const split = splits[next.at];
      if (!split || next.path.length > MOST_DEPTH) continue;
      if (seen++ % every === 0) yield { path: next.path, split };
      if (split.mode === 'LEAF') continue;
      for (const isTrue of [false, true]) {
        open.push({ at: isTrue ? split.yes : split.no, path: [...next.path, [split, isTrue]] });
      }
    }
  }
}
