/**
 * Converts lookups in tables whose content is known, as LabelEncoder: exact for texts and 64-bit integers. A table is no
 * tensor, so its value has no name and only its lookups may use it.
 */
import type { DType, Tensor } from '../../../../lib/contract/tensor.ts';
import type { GraphBuilder } from '../../../graph/builder.ts';
import type { Value } from '../../../graph/value.ts';
import { tensorAttribute } from '../graph.ts';
import { cast } from './kernels.ts';
import { refuse } from './refuse.ts';
import { type Context, type LookupTable, listValue, type OpTable, type Rule, takes } from './rule.ts';

const hashTable: Rule = (node, _inputs, _g, { facts }) => {
  const [keys, values] = [tensorAttribute(node, 'keys'), tensorAttribute(node, 'values')];
  const table = listValue(keys.dtype);
  assertDistinct({ keys, values });
  facts.tables.set(table, { keys, values });
  return table;
};

/** TensorFlow refuses a key with two values. */
function assertDistinct({ keys, values }: LookupTable): void {
  const width = values.data.length / Math.max(1, keys.data.length);
  const first = new Map<unknown, number>();
  for (const [i, key] of (keys.data as unknown[]).entries()) {
    const shown = JSON.stringify(String(key).slice(0, 40));
    if (typeof key === 'string' && /[\0\ufffd]/.test(key))
      refuse(`has the key ${shown}, which is no UTF-8 text or holds a zero byte`);
    const before = first.get(key) ?? i;
    first.set(key, before);
    const places = before === i ? [] : Array.from({ length: width }, (_, k) => k);
    if (places.some((k) => values.data[before * width + k] !== values.data[i * width + k]))
      refuse(`has two values for the key ${shown}`);
  }
}

function tableOf(value: Value, { facts }: Context): LookupTable {
  return (
    facts.tables.get(value) ?? refuse('looks up in a table that is passed through a loop or a condition')
  );
}

/** What LabelEncoder maps, as onnxruntime's kernels have it. */
const ENCODED: readonly DType[] = ['int64', 'string'];

const find: Rule = (node, [handle, given, fallback], g, context) => {
  const { keys, values } = tableOf(handle, context);
  const unknown = fallback.constant ?? refuse('has a default value that is computed, which is not supported');
  if (given.dtype !== keys.dtype) refuse(`looks up ${given.dtype} in a table of ${keys.dtype}`);
  if (!['int32', 'int64', 'string'].includes(keys.dtype))
    refuse(`is not supported for keys of ${keys.dtype}`);
  const x = keys.dtype === 'int32' ? cast(g, given, 'int64') : given;
  const from = keys.dtype === 'int32' ? wide(keys) : keys;
  const scalar = values.shape.length === 1 && unknown.data.length === 1;
  if (keys.data.length === 0) {
    const shape = g.one('Shape', [given]);
    return g.one('Expand', [g.constant({ ...unknown, shape: [] }), shape], {}, node.name);
  }
  if (scalar && ENCODED.includes(values.dtype)) return encoded(g, x, from, values, unknown, node.name);
  if (scalar && values.dtype === 'int32')
    return cast(g, encoded(g, x, from, wide(values), wide(unknown), node.name), 'int32');
  // Any other value is found by its place in a list that ends with the default.
  const count = keys.data.length;
  const list = (tensor: Tensor) => g.constant(tensor, `${node.name}/values`);
  const size = unknown.shape.length === 0 ? values.shape.slice(1).map(() => 1) : unknown.shape;
  const width = values.data.length / count;
  if (unknown.data.length !== width)
    refuse(`has a default value of ${unknown.data.length} numbers for values of ${width}`);
  const last = { ...unknown, shape: [1, ...size] };
  const all = g.one('Concat', [list(values), list(last)], { axis: 0 });
  const places: Tensor = {
    dtype: 'int64',
    shape: [count],
    data: BigInt64Array.from({ length: count }, (_, i) => BigInt(i)),
  };
  const none: Tensor = { dtype: 'int64', shape: [], data: BigInt64Array.of(BigInt(count)) };
  return g.one(
    'Gather',
    [all, encoded(g, x, from, places, none, `${node.name}/place`)],
    { axis: 0 },
    node.name,
  );
};

function encoded(
  g: GraphBuilder,
  x: Value,
  keys: Tensor,
  values: Tensor,
  unknown: Tensor,
  hint: string,
): Value {
  return g.add(
    'ai.onnx.ml:LabelEncoder',
    [x],
    {
      keys_tensor: { tensor: keys },
      values_tensor: { tensor: values },
      default_tensor: { tensor: { ...unknown, shape: [1] } },
    },
    { hint, results: [{ dtype: values.dtype, shape: x.shape }] },
  )[0] as Value;
}

function wide({ shape, data }: Tensor): Tensor {
  return { dtype: 'int64', shape, data: BigInt64Array.from(data as Int32Array, BigInt) };
}

const size: Rule = (_node, [handle], g, context) =>
  g.scalar('int64', tableOf(handle, context).keys.data.length);

export const LOOKUPS: OpTable = {
  HashTableV2: hashTable,
  ...takes(1, { LookupTableSize: size, LookupTableSizeV2: size }),
  ...takes(3, { LookupTableFind: find, LookupTableFindV2: find }),
};
