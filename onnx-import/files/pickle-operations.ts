/** The operations of the pickle machine, protocols 0 to 5. */
import {
  type Pickled,
  PickledCall,
  PickledFloat,
  PickledGlobal,
  PickledPersistent,
  PickledTuple,
} from './pickled.ts';

export class Broken extends Error {}

export interface Machine {
  byte(): number;
  uint(size: 1 | 2 | 4 | 8): number;
  bytes(count: number): Buffer;
  line(): string;
  pop(): Pickled;
  top(): Pickled;
  toMark(): Pickled[];
  push(value: Pickled): void;
  mark(): void;
  popAny(): void;
  get(index: number): void;
  put(index: number): void;
  memoize(): void;
}

type Op = (m: Machine) => void;

function signed(bytes: Buffer): number {
  let value = 0n;
  for (const [i, byte] of bytes.subarray(0, 64).entries()) value |= BigInt(byte) << BigInt(8 * i);
  return Number(BigInt.asIntN(8 * Math.min(bytes.length, 64), value));
}

const call: Op = (m) => {
  const args = m.pop();
  const made = new PickledCall(m.pop(), args);
  const [first] = made.operands;
  if (first instanceof PickledCall) first.uses.push(made);
  m.push(made);
};

function setItems(m: Machine, pairs: readonly Pickled[]): void {
  const target = m.top();
  const map = target instanceof PickledCall ? target.items : target;
  if (!(map instanceof Map)) throw new Broken('the pickle sets items of what is no dict');
  for (let i = 0; i + 1 < pairs.length; i += 2) map.set(pairs[i] as Pickled, pairs[i + 1] as Pickled);
}

function append(m: Machine, values: readonly Pickled[]): void {
  const target = m.top();
  const list = target instanceof PickledCall ? target.list : target;
  if (!Array.isArray(list)) throw new Broken('the pickle appends to what is no list');
  for (const value of values) list.push(value);
}

function dictOf(values: readonly Pickled[]): Map<Pickled, Pickled> {
  const map = new Map<Pickled, Pickled>();
  for (let i = 0; i + 1 < values.length; i += 2) map.set(values[i] as Pickled, values[i + 1] as Pickled);
  return map;
}

const tuple = (count: number): Op => {
  return (m) => {
    const items = Array.from({ length: count }, () => m.pop());
    m.push(new PickledTuple(items.reverse()));
  };
};

const text = (size: 1 | 4 | 8): Op => {
  return (m) => m.push(m.bytes(m.uint(size)).toString('utf8'));
};

const binary = (size: 1 | 4 | 8): Op => {
  return (m) => m.push(new Uint8Array(m.bytes(m.uint(size))));
};

function integer(line: string): Pickled {
  if (line === '00' || line === '01') return line === '01';
  const value = Number(line.replace(/L$/, ''));
  if (!Number.isInteger(value)) throw new Broken('the pickle has a broken integer');
  return value;
}

export const OPS: Readonly<Record<number, Op>> = {
  0x80: (m) => {
    if (m.byte() > 5) throw new Broken('the pickle has a protocol over 5');
  },
  0x95: (m) => void m.bytes(8),
  0x28: (m) => m.mark(),
  0x30: (m) => m.popAny(),
  0x31: (m) => void m.toMark(),
  0x32: (m) => m.push(m.top()),
  0x4e: (m) => m.push(null),
  0x88: (m) => m.push(true),
  0x89: (m) => m.push(false),
  0x49: (m) => m.push(integer(m.line())),
  0x4c: (m) => m.push(integer(m.line())),
  0x46: (m) => m.push(new PickledFloat(Number(m.line()))),
  0x4a: (m) => m.push(m.bytes(4).readInt32LE()),
  0x4b: (m) => m.push(m.byte()),
  0x4d: (m) => m.push(m.uint(2)),
  0x8a: (m) => m.push(signed(m.bytes(m.uint(1)))),
  0x8b: (m) => m.push(signed(m.bytes(m.uint(4)))),
  0x47: (m) => m.push(new PickledFloat(m.bytes(8).readDoubleBE())),
  0x58: text(4),
  0x8c: text(1),
  0x8d: text(8),
  0x54: binary(4),
  0x55: binary(1),
  0x42: binary(4),
  0x43: binary(1),
  0x8e: binary(8),
  0x96: binary(8),
  0x53: (m) => m.push(m.line().replace(/^(['"])(.*)\1$/, '$2')),
  0x56: (m) => m.push(m.line()),
  0x5d: (m) => m.push([]),
  0x6c: (m) => m.push(m.toMark()),
  0x7d: (m) => m.push(new Map()),
  0x64: (m) => m.push(dictOf(m.toMark())),
  0x29: (m) => m.push(new PickledTuple([])),
  0x74: (m) => m.push(new PickledTuple(m.toMark())),
  0x85: tuple(1),
  0x86: tuple(2),
  0x87: tuple(3),
  0x8f: (m) => m.push(new Set()),
  0x90: (m) => {
    const values = m.toMark();
    const target = m.top();
    if (!(target instanceof Set)) throw new Broken('the pickle adds to what is no set');
    for (const value of values) target.add(value);
  },
  0x91: (m) => m.push(new Set(m.toMark())),
  0x61: (m) => {
    const value = m.pop();
    append(m, [value]);
  },
  0x65: (m) => {
    const values = m.toMark();
    append(m, values);
  },
  0x73: (m) => {
    const [value, key] = [m.pop(), m.pop()];
    setItems(m, [key, value]);
  },
  0x75: (m) => {
    const values = m.toMark();
    setItems(m, values);
  },
  0x63: (m) => {
    const module = m.line();
    m.push(new PickledGlobal(`${module}.${m.line()}`));
  },
  0x93: (m) => {
    const [name, module] = [m.pop(), m.pop()];
    if (typeof name !== 'string' || typeof module !== 'string')
      throw new Broken('the pickle has a broken global');
    m.push(new PickledGlobal(`${module}.${name}`));
  },
  0x52: call,
  0x81: call,
  0x92: (m) => {
    m.pop();
    call(m);
  },
  0x62: (m) => {
    const state = m.pop();
    const target = m.top();
    if (!(target instanceof PickledCall)) throw new Broken('the pickle builds what is no object');
    target.state = state;
  },
  0x71: (m) => m.put(m.byte()),
  0x72: (m) => m.put(m.uint(4)),
  0x70: (m) => m.put(Number(m.line())),
  0x94: (m) => m.memoize(),
  0x68: (m) => m.get(m.byte()),
  0x6a: (m) => m.get(m.uint(4)),
  0x67: (m) => m.get(Number(m.line())),
  0x51: (m) => m.push(new PickledPersistent(m.pop())),
  0x50: (m) => m.push(new PickledPersistent(m.line())),
};
