/** The format of torch.save before version 1.6: pickles one after the other, then the storages. */
import { badModel } from '../../../../lib/contract/errors.ts';
import { readPickle } from '../../../files/pickle.ts';
import { type Pickled, PickledGlobal, PickledPersistent, PickledTuple } from '../../../files/pickled.ts';
import type { Storages } from './tensors.ts';

/** The first pickle is this number, as 10 bytes. */
const MAGIC = Buffer.from('8a0a6cfc9c46f9206aa850192e', 'hex');

const SIZES: Readonly<Record<string, number>> = {
  Double: 8,
  Long: 8,
  Float: 4,
  Int: 4,
  Half: 2,
  BFloat16: 2,
  Short: 2,
};

/** @throws bad_model unless it is a file of torch.save */
export function readLegacy(file: Buffer, name: string): { root: Pickled; storages: Storages } {
  if (!file.subarray(0, 16).includes(MAGIC))
    throw badModel(
      `${name}: is no file of torch.save or torch.jit.save; export the model with torch.jit.trace(model.eval(), example).save("model.pt")`,
    );
  let at = 0;
  const next = (): Pickled => {
    const { value, end } = readPickle(file, name, at);
    at = end;
    return value;
  };
  for (let i = 0; i < 3; i++) next();
  const root = next();
  const keys = next();
  const sizes = new Map<string, number>();
  collect(root, sizes, new Set());
  const storages = new Map<string, Uint8Array>();
  for (const key of Array.isArray(keys) ? keys : []) {
    if (typeof key !== 'string') throw badModel(`${name}: the list of storages is broken`);
    const size = sizes.get(key);
    if (at + 8 > file.length) throw badModel(`${name}: the storages are cut off`);
    const count = Number(file.readBigUInt64LE(at));
    const length = count * (size ?? 0);
    if (size === undefined || at + 8 + length > file.length)
      throw badModel(`${name}: storage ${key} is cut off`);
    storages.set(key, file.subarray(at + 8, at + 8 + length));
    at += 8 + length;
  }
  return {
    root,
    storages: (key) => storages.get(key) ?? badStorage(name, key),
  };
}

function badStorage(name: string, key: string): never {
  throw badModel(`${name}: has no storage ${key}`);
}

/** The bytes per element of each storage that the object refers to. */
function collect(root: Pickled, sizes: Map<string, number>, seen: Set<Pickled>): void {
  const open: Pickled[] = [root];
  for (let value = open.pop(); value !== undefined; value = open.pop()) {
    if (value === null || typeof value !== 'object' || seen.has(value)) continue;
    seen.add(value);
    if (value instanceof PickledPersistent) {
      const [, kind, key] = value.id instanceof PickledTuple ? value.id.items : [];
      const type = kind instanceof PickledGlobal ? /^torch\.(\w+)Storage$/.exec(kind.name)?.[1] : undefined;
      if (typeof key === 'string' && type !== undefined) sizes.set(key, SIZES[type] ?? 1);
    } else if (value instanceof PickledTuple) for (const item of value.items) open.push(item);
    else if (Array.isArray(value) || value instanceof Set) for (const item of value) open.push(item);
    else if (value instanceof Map) for (const [key, item] of value) open.push(key, item);
    else if (!(value instanceof Uint8Array) && 'callee' in value) {
      open.push(value.callee, value.args, value.state, ...value.list);
      for (const [key, item] of value.items) open.push(key, item);
    }
  }
}
