/** Writes small TorchScript archives: a stored zip with code, a pickled module and its weights. */
import { crc32 } from 'node:zlib';

export interface Weight {
  readonly shape: readonly number[];
  readonly data: readonly number[] | Float32Array;
  /** Default: row-major. */
  readonly strides?: readonly number[];
  readonly offset?: number;
}

export interface Script {
  /** The body of forward, with four spaces of indentation added. */
  readonly forward: string;
  readonly parameters?: string;
  readonly weights?: Readonly<Record<string, Weight>>;
  /** More code after the class. */
  readonly more?: string;
  readonly training?: boolean;
  /** Of the archive. Default 10. */
  readonly version?: number;
}

const u32 = (value: number) => {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(value);
  return bytes;
};

const int = (value: number) => Buffer.concat([Buffer.from('J'), u32(value)]);
const text = (value: string) =>
  Buffer.concat([Buffer.from('X'), u32(Buffer.byteLength(value)), Buffer.from(value)]);
const tuple = (items: readonly Buffer[]) => Buffer.concat([Buffer.from('('), ...items, Buffer.from('t')]);
const global = (module: string, name: string) => Buffer.from(`c${module}\n${name}\n`);

function tensor(key: string, { shape, data, strides, offset = 0 }: Weight): Buffer {
  const steps = strides ?? shape.map((_, i) => shape.slice(i + 1).reduce((a, b) => a * b, 1));
  const storage = tuple([
    text('storage'),
    global('torch', 'FloatStorage'),
    text(key),
    text('cpu'),
    int(data.length),
  ]);
  const hooks = Buffer.concat([global('collections', 'OrderedDict'), Buffer.from(')R')]);
  const args = [
    Buffer.concat([storage, Buffer.from('Q')]),
    int(offset),
    tuple(shape.map(int)),
    tuple(steps.map(int)),
    Buffer.from('\u0089', 'latin1'),
    hooks,
  ];
  return Buffer.concat([global('torch._utils', '_rebuild_tensor_v2'), tuple(args), Buffer.from('R')]);
}

/** The entries of an archive whose module has the class `M`. */
export function scriptEntries({
  forward,
  parameters = 'x: Tensor',
  weights = {},
  more = '',
  training = false,
  version = 10,
}: Script): Map<string, Buffer> {
  const names = Object.keys(weights);
  const body = forward
    .split('\n')
    .map((line) => `    ${line}`)
    .join('\n');
  const fields = names.map((name) => `  ${name} : Tensor\n`).join('');
  const code = `class M(Module):\n  __parameters__ = []\n  __buffers__ = []\n${fields}  training : bool\n  def forward(self: __torch__.M,\n    ${parameters}) -> Tensor:\n${body}\n${more}`;
  const state = names.flatMap((name, i) => [text(name), tensor(String(i), weights[name] as Weight)]);
  const flag = [text('training'), Buffer.from(training ? '\u0088' : '\u0089', 'latin1')];
  const pickle = Buffer.concat([
    Buffer.from([0x80, 2]),
    global('__torch__', 'M'),
    Buffer.from(')\u0081}(', 'latin1'),
    ...state,
    ...flag,
    Buffer.from('ub.'),
  ]);
  return new Map<string, Buffer>([
    ['m/data.pkl', pickle],
    ['m/code/__torch__.py', Buffer.from(code)],
    ['m/constants.pkl', Buffer.from([0x80, 2, 0x29, 0x2e])],
    ['m/version', Buffer.from(`${version}\n`)],
    ...names.map((_, i): [string, Buffer] => [
      `m/data/${i}`,
      Buffer.from(Float32Array.from(Object.values(weights)[i]?.data ?? []).buffer),
    ]),
  ]);
}

/** A zip of stored entries. */
export function zip(entries: ReadonlyMap<string, Buffer>): Buffer {
  const parts: Buffer[] = [];
  const directory: Buffer[] = [];
  let at = 0;
  for (const [name, content] of entries) {
    const label = Buffer.from(name);
    const common = Buffer.alloc(26);
    common.writeUInt16LE(20, 0);
    common.writeUInt32LE(crc32(content), 10);
    common.writeUInt32LE(content.length, 14);
    common.writeUInt32LE(content.length, 18);
    common.writeUInt16LE(label.length, 22);
    const local = Buffer.concat([Buffer.from('PK\u0003\u0004', 'latin1'), common, label, content]);
    const tail = Buffer.alloc(14);
    tail.writeUInt32LE(at, 10);
    directory.push(Buffer.concat([Buffer.from('PK\u0001\u0002\u0014\0', 'latin1'), common, tail, label]));
    parts.push(local);
    at += local.length;
  }
  const central = Buffer.concat(directory);
  const end = Buffer.alloc(18);
  end.writeUInt16LE(entries.size, 4);
  end.writeUInt16LE(entries.size, 6);
  end.writeUInt32LE(central.length, 8);
  end.writeUInt32LE(at, 12);
  return Buffer.concat([...parts, central, Buffer.from('PK\u0005\u0006', 'latin1'), end]);
}
