/**
 * Operators of ai.onnx.ml that prepare columns, by the specification. Of Normalizer MAX the specification says X / max(X), and
 * scikit-learn and onnx.reference divide by the largest magnitude, which is what files mean by it.
 */
import type { Tensor } from '../../lib/contract/tensor.ts';
import type { RawNode } from '../onnx/rewrite/graph.ts';
import {
  type Evaluate,
  floatAt,
  intAt,
  type Label,
  labelsAt,
  numbersAt,
  ROUNDING,
  rowsOf,
} from '../onnx/rewrite/ml-node.ts';

const NORMS: Readonly<Record<string, (row: readonly number[]) => number>> = {
  MAX: (row) => Math.max(...row.map(Math.abs)),
  L1: (row) => row.reduce((sum, value) => sum + Math.abs(value), 0),
  L2: (row) => Math.hypot(...row),
};

export const normalizer: Evaluate = (node, [x]) => {
  const norm = NORMS[node.text('norm') || 'MAX'];
  if (!norm) return `the norm ${node.text('norm')} is not in the specification`;
  const values = rowsOf(x as Tensor).flatMap((row) => {
    const size = norm(row) || 1;
    return row.map((value) => value / size);
  });
  const columns = (x as Tensor).shape.at(-1) ?? 1;
  return [{ values, allowed: values.map((value) => ROUNDING * (columns + 8) * Math.abs(value)) }];
};

export const imputer: Evaluate = (node, [x]) => {
  const floats = numbersAt(node, 'imputed_value_floats');
  const isFloat = floats.length > 0;
  const filled = isFloat ? floats : numbersAt(node, 'imputed_value_int64s');
  const missing = isFloat ? floatAt(node, 'replaced_value_float', 0) : intAt(node, 'replaced_value_int64', 0);
  const isMissing = (value: number) => value === missing || (Number.isNaN(value) && Number.isNaN(missing));
  const values = rowsOf(x as Tensor).flatMap((row) =>
    row.map((value, i) => (isMissing(value) ? (filled[filled.length === 1 ? 0 : i] as number) : value)),
  );
  return [{ values }];
};

function keysOf(x: Tensor): (number | Label)[] {
  return Array.from(x.data as ArrayLike<number | Label>);
}

/** Numbers are compared as numbers. */
function keyOf(value: number | Label): string {
  return typeof value === 'string' ? `s${value}` : `n${Number(value)}`;
}

export const oneHot: Evaluate = (node, [x]) => {
  const categories = labelsAt(node, ['cats_strings', 'cats_int64s']);
  const places = new Map(categories.map((category, i) => [keyOf(category), i] as const));
  const values = keysOf(x as Tensor).flatMap((value) => {
    const place = places.get(keyOf(value));
    return categories.map((_, i) => Number(i === place));
  });
  return [{ values }];
};

const KEYS = ['strings', 'int64s', 'floats'] as const;

function listOf(node: RawNode, kind: 'keys' | 'values'): readonly (number | Label)[] {
  for (const type of KEYS) {
    if (!node.attribute(`${kind}_${type}`)) continue;
    return type === 'floats'
      ? Array.from(numbersAt(node, `${kind}_floats`))
      : labelsAt(node, [`${kind}_${type}`]);
  }
  const labels = labelsAt(node, [`${kind}_tensor`]);
  return labels.length > 0 ? labels : Array.from(numbersAt(node, kind));
}

function defaultOf(node: RawNode, sample: number | Label | undefined): number | Label {
  const tensor = node.attribute('default_tensor');
  if (tensor) return labelsAt(node, ['default_tensor'])[0] ?? (numbersAt(node, 'default')[0] as number);
  if (typeof sample === 'string') return node.text('default_string') || '_Unused';
  if (typeof sample === 'bigint') return BigInt(intAt(node, 'default_int64', -1));
  return floatAt(node, 'default_float', -0);
}

export const labelEncoder: Evaluate = (node, [x]) => {
  const [keys, values] = [listOf(node, 'keys'), listOf(node, 'values')];
  if (keys.length === 0 || keys.length !== values.length) return 'its keys and values are no pairs';
  // Whether the first or the last of equal keys counts is open, and whether NaN is a key: that changed with the opset.
  const known = new Map<string, number | Label>();
  const twice = new Set<string>();
  for (const [i, key] of keys.entries()) {
    if (known.has(keyOf(key))) twice.add(keyOf(key));
    else known.set(keyOf(key), values[i] as number | Label);
  }
  const unknown = defaultOf(node, values[0]);
  const rows = keysOf(x as Tensor);
  return [
    {
      values: rows.map((key) => known.get(keyOf(key)) ?? unknown),
      allowed: rows.map((key) => (twice.has(keyOf(key)) || Number.isNaN(key) ? Infinity : 0)),
    },
  ];
};

export const categoryMapper: Evaluate = (node, [x]) => {
  const [ints, texts] = [labelsAt(node, ['cats_int64s']), labelsAt(node, ['cats_strings'])];
  const values = keysOf(x as Tensor).map((key): Label => {
    if (typeof key === 'string') return ints[texts.indexOf(key)] ?? BigInt(intAt(node, 'default_int64', -1));
    return texts[ints.indexOf(BigInt(key))] ?? (node.text('default_string') || '_Unused');
  });
  return [{ values }];
};

export const binarizer: Evaluate = (node, [x]) => {
  const threshold = floatAt(node, 'threshold', 0);
  return [{ values: keysOf(x as Tensor).map((value) => Number(Number(value) > threshold)) }];
};

export const arrayFeatures: Evaluate = (_node, [x, places]) => {
  const list = Array.from((places as Tensor).data as ArrayLike<bigint>, Number);
  const columns = (x as Tensor).shape.at(-1) ?? 1;
  const all = keysOf(x as Tensor);
  const rows = Array.from({ length: all.length / columns }, (_, i) =>
    all.slice(i * columns, (i + 1) * columns),
  );
  return [{ values: rows.flatMap((row) => list.map((place) => row[place] as number | Label)) }];
};

export const featureVectors: Evaluate = (node, inputs) => {
  const sizes = numbersAt(node, 'inputdimensions');
  const tables = inputs.map(rowsOf);
  const rows = Array.from((tables[0] ?? []).keys());
  const part = (row: number) => (table: readonly (readonly number[])[], i: number) => {
    const own = table[row] as readonly number[];
    return Array.from({ length: sizes[i] ?? own.length }, (_, at) => own[at] ?? 0);
  };
  return [{ values: rows.flatMap((row) => tables.flatMap(part(row))) }];
};
