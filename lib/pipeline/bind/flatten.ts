/**
 * Nested numbers as tensors, before records go to another process: sending 28,000 nested numbers takes five times as
 * long as their bytes. Everything else is bound where the model is, which also reports what is wrong.
 */

import { contentOf, JsonNumbers } from '../../contract/json-numbers.ts';
import { present } from '../../contract/present.ts';
import type { Inputs, TensorSpec, Value } from '../../contract/values.ts';
import { jsonTensor } from './numbers.ts';

/** The same records, which bind as the given ones do. @param specs the model's inputs */
export function flattened(records: readonly Inputs[], specs: readonly TensorSpec[]): readonly Inputs[] {
  return records.map((record) => {
    if (!hasExactly(record, specs)) return record;
    // In the order of the record, which is kept.
    const dtypes = new Map(specs.map(({ name, dtype }) => [name, dtype]));
    return new Map(
      Array.from(record, ([name, value]) => [name, flat(value, present(dtypes.get(name), `input ${name}`))]),
    );
  });
}

/** The same records, but for large arrays of numbers, which are tensors then as in `flattened`. */
export function flattenedLarge(records: readonly Inputs[], specs: readonly TensorSpec[]): readonly Inputs[] {
  const hasLarge = records.some((record) => [...record.values()].some(isLarge));
  return hasLarge ? flattened(records, specs) : records;
}

export function hasExactly(record: Inputs, specs: readonly TensorSpec[]): boolean {
  return record.size === specs.length && specs.every(({ name }) => record.has(name));
}

function isLarge(value: Value): boolean {
  return value.kind === 'json' && contentOf(value) instanceof JsonNumbers;
}

function flat(value: Value, dtype: TensorSpec['dtype']): Value {
  if (value.kind !== 'json' || dtype === 'string') return value;
  const content = contentOf(value);
  if (!Array.isArray(content) && !(content instanceof JsonNumbers)) return value;
  try {
    return { kind: 'tensor', tensor: jsonTensor(content, dtype) };
  } catch {
    return value;
  }
}
