/**
 * Reads the zip archives of PyTorch and NumPy. What is stored unpacked becomes a view of the file; the rest is deflated.
 * Archives over 4 GB (zip64) are never whole in memory here, but their records also appear in small archives.
 */
import { inflateRawSync } from 'node:zlib';
import { badModel } from '../../lib/contract/errors.ts';

const MAX_RATIO = 1032;
const LIMIT_32 = 0xff_ff_ff_ff;
const [END, END_64, CENTRAL, LOCAL] = [0x06_05_4b_50, 0x06_06_4b_50, 0x02_01_4b_50, 0x04_03_4b_50];

interface Entry {
  readonly method: number;
  readonly packed: number;
  readonly size: number;
  readonly local: number;
}

export interface ArchiveOptions {
  /** Most entries, and bytes of an entry that is unpacked. */
  readonly entries: number;
  readonly unpackedBytes: number;
  /** True: all entries are in one folder, which is no part of their names. Default false. */
  readonly hasFolder?: boolean;
}

export interface Archive {
  /** In the order of the directory. */
  readonly names: readonly string[];
  /** The bytes of an entry: a view of the file when it is stored. @throws bad_model when it is missing or broken */
  read(name: string): Uint8Array;
}

export function isZip(file: Uint8Array): boolean {
  return file[0] === 0x50 && file[1] === 0x4b && file[2] === 3 && file[3] === 4;
}

/** @throws bad_model for a broken directory, too many entries, and names that leave the archive */
export function openArchive(file: Buffer, what: string, options: ArchiveOptions): Archive {
  let entries: Map<string, Entry>;
  try {
    entries = directoryOf(file, what, options);
  } catch (error) {
    if (error instanceof RangeError)
      throw badModel(`${what}: the zip directory is cut off`, { cause: error });
    throw error;
  }
  return {
    names: [...entries.keys()],
    read: (name) => {
      const entry = entries.get(name);
      if (!entry) throw badModel(`${what}: has no entry ${name}`);
      return contentOf(file, entry, `${what}: ${name}`, options);
    },
  };
}

function directoryOf(file: Buffer, what: string, options: ArchiveOptions): Map<string, Entry> {
  const end = file.lastIndexOf(Buffer.from('PK\u0005\u0006', 'latin1'));
  if (end < 0) throw badModel(`${what}: the zip archive is cut off, it has no directory`);
  if (file.readUInt32LE(end) !== END) throw badModel(`${what}: the zip directory is broken`);
  let count = file.readUInt16LE(end + 10);
  let at = file.readUInt32LE(end + 16);
  const wide = end >= 20 ? Number(file.readBigUInt64LE(end - 12)) : -1;
  if ((count === 0xff_ff || at === LIMIT_32) && wide >= 0 && wide + 56 <= file.length) {
    if (file.readUInt32LE(wide) !== END_64) throw badModel(`${what}: the zip64 directory is broken`);
    count = Number(file.readBigUInt64LE(wide + 32));
    at = Number(file.readBigUInt64LE(wide + 48));
  }
  if (count > options.entries)
    throw badModel(`${what}: ${count} zip entries are over the limit of ${options.entries}`);
  const entries = new Map<string, Entry>();
  for (let i = 0; i < count; i++) {
    if (file.readUInt32LE(at) !== CENTRAL) throw badModel(`${what}: the zip directory is broken at ${at}`);
    const nameBytes = file.readUInt16LE(at + 28);
    const extra = file.readUInt16LE(at + 30);
    const name = file.toString('utf8', at + 46, at + 46 + nameBytes);
    const entry = entryOf(file, at, at + 46 + nameBytes, extra);
    at += 46 + nameBytes + extra + file.readUInt16LE(at + 32);
    assertName(name, what);
    const path = options.hasFolder === true ? name.slice(name.indexOf('/') + 1) : name;
    if (entries.has(path)) throw badModel(`${what}: the zip archive has two entries ${name}`);
    entries.set(path, entry);
  }
  return entries;
}

function assertName(name: string, what: string): void {
  const isOutside = name.startsWith('/') || name.includes('\\') || name.split('/').includes('..');
  if (isOutside || name.includes('\0'))
    throw badModel(`${what}: the entry ${JSON.stringify(name)} leaves the archive`);
}

function entryOf(file: Buffer, at: number, extraAt: number, extraBytes: number): Entry {
  const narrow = [24, 20, 42].map((offset) => file.readUInt32LE(at + offset));
  let [size, packed, local] = narrow as [number, number, number];
  for (let i = extraAt; i + 4 <= extraAt + extraBytes; i += 4 + file.readUInt16LE(i + 2)) {
    if (file.readUInt16LE(i) !== 1) continue;
    let from = i + 4;
    const next = (value: number) => {
      if (value !== LIMIT_32) return value;
      from += 8;
      return Number(file.readBigUInt64LE(from - 8));
    };
    [size, packed, local] = [next(size), next(packed), next(local)];
  }
  return { method: file.readUInt16LE(at + 10), size, packed, local };
}

function contentOf(
  file: Buffer,
  { method, packed, size, local }: Entry,
  what: string,
  { unpackedBytes }: ArchiveOptions,
): Uint8Array {
  if (local + 30 > file.length || file.readUInt32LE(local) !== LOCAL)
    throw badModel(`${what}: the zip entry is broken`);
  const start = local + 30 + file.readUInt16LE(local + 26) + file.readUInt16LE(local + 28);
  if (start + packed > file.length) throw badModel(`${what}: the zip entry is cut off`);
  const bytes = file.subarray(start, start + packed);
  if (method === 0) return bytes;
  if (method !== 8) throw badModel(`${what}: is packed by method ${method}, expected stored or deflated`);
  if (size > unpackedBytes || size > packed * MAX_RATIO + 64)
    throw badModel(`${what}: ${size} unpacked bytes are over the limit`);
  try {
    return inflateRawSync(bytes, { maxOutputLength: size || 1 });
  } catch (error) {
    throw badModel(`${what}: cannot be unpacked`, { cause: error });
  }
}
