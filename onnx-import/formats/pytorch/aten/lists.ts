/** Lists, tuples, dicts and texts of a symbolic run. */
import type { Context } from '../run/context.ts';

import { Dict, itemsOf, kindOf, List, type Py, refuse, Tuple } from '../run/values.ts';
import { asFloat } from './numbers.ts';

function listOf(value: Py | undefined): List {
  return value instanceof List ? value : refuse(`needs a list, got ${kindOf(value)}`);
}

/** A list that may be changed here: one from outside of a branch would change in one case only. */
export function writable(c: Context, value: Py | undefined): Py[] {
  const list = listOf(value);
  if (list.scope !== c.scopes.current) refuse('changes a list in a branch that the data decide');
  if (list.items.length > 1_000_000) refuse('has a list of over 1000000 items');
  return list.items;
}

export function place(items: readonly Py[], index: Py | undefined): number {
  if (typeof index !== 'number') return refuse(`needs a known index, got ${kindOf(index)}`);
  const at = index < 0 ? index + items.length : index;
  return at >= 0 && at < items.length ? at : refuse(`index ${index} is outside of ${items.length} items`);
}

export function getItem(value: Py, index: Py): Py {
  if (value instanceof Dict) {
    const found = keyOf(index) === undefined ? undefined : value.items.get(keyOf(index) as string);
    return found === undefined ? refuse(`has no key ${String(keyOf(index))}`) : found;
  }
  if (typeof value === 'string') return value[place(Array.from(value), index)] as string;
  const items = itemsOf(value) ?? refuse(`cannot be indexed: ${kindOf(value)}`);
  return items[place(items, index)] as Py;
}

export function keyOf(value: Py): string | number | boolean | undefined {
  return typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean'
    ? value
    : undefined;
}

export function setItem(c: Context, target: Py, index: Py, value: Py): Py {
  if (target instanceof Dict) {
    if (c.isBranch) refuse('changes a dict in a branch that the data decide');
    target.items.set(keyOf(index) ?? refuse('has a key that is no text or number'), value);
    return target;
  }
  const items = writable(c, target);
  items[place(items, index)] = value;
  return target;
}

export function sliceList(c: Context, value: Py, start: Py, end: Py, step: Py): Py {
  const items = itemsOf(value) ?? refuse(`cannot be cut: ${kindOf(value)}`);
  const by = step === null || step === undefined ? 1 : asFloat(step);
  if (by < 1) return refuse('has a negative step');
  const bound = (at: Py, fallback: number) =>
    at === null || at === undefined ? fallback : Math.min(asFloat(at), items.length);
  const cut = items.slice(bound(start, 0), bound(end, items.length)).filter((_, i) => i % by === 0);
  return value instanceof Tuple ? new Tuple(cut) : c.list(cut);
}

/** Whole numbers count as torch counts them. */
export function bools(value: Py): readonly boolean[] {
  const items = itemsOf(value) ?? refuse(`is no list: ${kindOf(value)}`);
  return items.map((item) => {
    if (typeof item === 'boolean') return item;
    return typeof item === 'number' ? item !== 0 : refuse(`needs a known bool, got ${kindOf(item)}`);
  });
}
