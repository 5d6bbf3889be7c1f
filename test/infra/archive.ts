/**
 * Reads the entries of a zip archive of osls, and unzips it. osls writes sizes after the data, so only the central
 * directory at the end has them. Zip64 is not supported, as Lambda needs none.
 */
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { dirname, join, sep } from 'node:path';
import { inflateRawSync } from 'node:zlib';

export interface Entry {
  readonly name: string;
  /** Unix permission bits and file type. */
  readonly mode: number;
  /** Date and time of MS-DOS, as in the archive. */
  readonly time: number;
  readonly crc: number;
  readonly bytes: number;
  read(): Buffer;
}

const END = 0x06054b50;
const END_BYTES = 22;
const CENTRAL = 0x02014b50;
const CENTRAL_BYTES = 46;
const LOCAL_BYTES = 30;
const DEFLATED = 8;

export async function readArchive(path: string): Promise<Entry[]> {
  const bytes = await readFile(path);
  const end = bytes.byteLength - END_BYTES;
  if (end < 0 || bytes.readUInt32LE(end) !== END) throw new Error(`${path} is not a zip archive`);
  const entries: Entry[] = [];
  let at = bytes.readUInt32LE(end + 16);
  for (let count = bytes.readUInt16LE(end + 10); count > 0; count--) {
    if (bytes.readUInt32LE(at) !== CENTRAL) throw new Error(`${path}: no entry at byte ${at}`);
    const nameBytes = bytes.readUInt16LE(at + 28);
    entries.push(readEntry(bytes, at, nameBytes));
    at += CENTRAL_BYTES + nameBytes + bytes.readUInt16LE(at + 30) + bytes.readUInt16LE(at + 32);
  }
  return entries;
}

function readEntry(bytes: Buffer, at: number, nameBytes: number): Entry {
  const deflated = bytes.readUInt16LE(at + 10) === DEFLATED;
  const packedBytes = bytes.readUInt32LE(at + 20);
  const local = bytes.readUInt32LE(at + 42);
  return {
    name: bytes.toString('utf8', at + CENTRAL_BYTES, at + CENTRAL_BYTES + nameBytes),
    mode: bytes.readUInt32LE(at + 38) >>> 16,
    time: bytes.readUInt32LE(at + 12),
    crc: bytes.readUInt32LE(at + 16),
    bytes: bytes.readUInt32LE(at + 24),
    read() {
      const start = local + LOCAL_BYTES + bytes.readUInt16LE(local + 26) + bytes.readUInt16LE(local + 28);
      const packed = bytes.subarray(start, start + packedBytes);
      return deflated ? inflateRawSync(packed) : packed;
    },
  };
}

/** Writes every entry below `folder`, with its rights: on Lambda the files belong to another user than the function's. */
export async function extract(entries: readonly Entry[], folder: string): Promise<void> {
  for (const entry of entries) {
    const path = join(folder, entry.name);
    if (!path.startsWith(folder + sep)) throw new Error(`entry ${entry.name} leaves the folder`);
    await mkdir(dirname(path), { recursive: true });
    await writeFile(path, entry.read(), { mode: entry.mode & 0o777 });
  }
}
