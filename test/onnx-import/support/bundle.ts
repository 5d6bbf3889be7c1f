/** Builds the files of a TensorFlow variables bundle from tensors by key, and LevelDB tables from any entries. */
import { crc32c, maskCrc } from '../../../onnx-import/formats/tensorflow/files/bundle/crc32c.ts';
import { bytes, fixed32, int, varint } from './protobuf.ts';
import { DT, shape } from './tensorflow.ts';

const MAGIC = Buffer.from([0x57, 0xfb, 0x80, 0x8b, 0x24, 0x75, 0x47, 0xdb]);
const RESTART_EVERY = 4;

export interface TableOptions {
  readonly snappy?: boolean;
  /** Entries per block. Default 3. */
  readonly perBlock?: number;
}

/** A table of entries by key, one character per byte. */
export function levelTable(
  entries: ReadonlyMap<string, Uint8Array>,
  { snappy = false, perBlock = 3 }: TableOptions = {},
): Buffer {
  const sorted = [...entries].toSorted(([a], [b]) =>
    Buffer.compare(Buffer.from(a, 'latin1'), Buffer.from(b, 'latin1')),
  );
  const parts: Buffer[] = [];
  let offset = 0;
  const add = (list: readonly (readonly [string, Uint8Array])[]): Buffer => {
    const raw = block(list);
    const stored = Buffer.concat([snappy ? compress(raw) : raw, Buffer.from([snappy ? 1 : 0])]);
    const checksum = Buffer.alloc(4);
    checksum.writeUInt32LE(maskCrc(crc32c(stored)));
    const handle = Buffer.concat([varint(offset), varint(stored.length - 1)]);
    parts.push(stored, checksum);
    offset += stored.length + 4;
    return handle;
  };
  const index: [string, Uint8Array][] = [];
  for (let i = 0; i < sorted.length; i += perBlock) {
    const some = sorted.slice(i, i + perBlock);
    index.push([some.at(-1)?.[0] ?? '', add(some)]);
  }
  const meta = add([]);
  const handles = Buffer.concat([meta, add(index)]);
  return Buffer.concat([...parts, handles, Buffer.alloc(40 - handles.length), MAGIC]);
}

function block(list: readonly (readonly [string, Uint8Array])[]): Buffer {
  const parts: Buffer[] = [];
  const restarts: number[] = [];
  let length = 0;
  let before = '';
  for (const [i, [key, value]] of list.entries()) {
    let shared = 0;
    if (i % RESTART_EVERY === 0) restarts.push(length);
    else while (shared < before.length && before[shared] === key[shared]) shared += 1;
    const own = Buffer.from(key.slice(shared), 'latin1');
    const entry = Buffer.concat([varint(shared), varint(own.length), varint(value.length), own, value]);
    parts.push(entry);
    length += entry.length;
    before = key;
  }
  const tail = Buffer.alloc(4 * restarts.length + 4);
  for (const [i, restart] of [...restarts, restarts.length].entries()) tail.writeUInt32LE(restart, 4 * i);
  return Buffer.concat([...parts, tail]);
}

/** Snappy with literals, and a copy wherever four bytes repeat those eight before. */
export function compress(raw: Uint8Array): Buffer {
  const parts: Buffer[] = [varint(raw.length)];
  let start = 0;
  const literal = (end: number): void => {
    for (; start < end; start += 60) {
      const some = raw.subarray(start, Math.min(end, start + 60));
      parts.push(Buffer.from([(some.length - 1) << 2]), Buffer.from(some));
    }
    start = end;
  };
  for (let at = 8; at + 4 <= raw.length; at += 1) {
    if (at < start + 8) continue;
    if (!Buffer.from(raw.subarray(at, at + 4)).equals(Buffer.from(raw.subarray(at - 8, at - 4)))) continue;
    literal(at);
    parts.push(Buffer.from([(3 << 2) | 2, 8, 0]));
    start = at + 4;
  }
  literal(raw.length);
  return Buffer.concat(parts);
}

export interface BundleTensor {
  readonly shape: readonly number[];
  /** float32, or a single text's bytes. */
  readonly data: readonly number[] | Float32Array | Uint8Array;
  readonly shard?: number;
  /** Wrong on purpose. */
  readonly entry?: Readonly<Partial<Record<'offset' | 'size' | 'shard' | 'crc', number>>>;
}

/** File name to content, for `prefix`. Keys are as in the table; `slices` adds entries that name pieces. */
export function bundleFiles(
  prefix: string,
  tensors: Readonly<Record<string, BundleTensor>>,
  options: TableOptions & { readonly shards?: number; readonly extra?: ReadonlyMap<string, Uint8Array> } = {},
): Record<string, Buffer> {
  const shards = options.shards ?? 1;
  const data = Array.from({ length: shards }, () => [] as Buffer[]);
  const entries = new Map<string, Uint8Array>([['', int(1, shards)], ...(options.extra ?? [])]);
  for (const [key, tensor] of Object.entries(tensors)) {
    const shard = tensor.shard ?? 0;
    const parts = data[shard] ?? [];
    const text = tensor.data instanceof Uint8Array;
    const content = text ? textContent(tensor.data) : Buffer.from(new Float32Array(tensor.data).buffer);
    const offset = parts.reduce((sum, part) => sum + part.length, 0);
    parts.push(content);
    entries.set(
      Buffer.from(key, 'utf8').toString('latin1'),
      Buffer.concat([
        int(1, text ? DT.string : DT.float),
        bytes(2, shape(tensor.shape)),
        int(3, tensor.entry?.shard ?? shard),
        int(4, tensor.entry?.offset ?? offset),
        int(5, tensor.entry?.size ?? content.length),
        fixed32(6, tensor.entry?.crc ?? maskCrc(crc32c(content))),
      ]),
    );
  }
  const pad = (number: number): string => String(number).padStart(5, '0');
  return {
    [`${prefix}.index`]: levelTable(entries, options),
    ...Object.fromEntries(
      data.map((parts, i) => [`${prefix}.data-${pad(i)}-of-${pad(shards)}`, Buffer.concat(parts)]),
    ),
  };
}

function textContent(text: Uint8Array): Buffer {
  return Buffer.concat([varint(text.length), Buffer.alloc(4), text]);
}
