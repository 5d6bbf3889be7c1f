/**
 * Reads the size, the entries and the processor of the binaries of a zip archive from its central directory. Nothing
 * is unpacked except the first bytes of each binary.
 */
import { type FileHandle, open } from 'node:fs/promises';
import { constants, inflateRawSync } from 'node:zlib';
import { ServingError } from '../../lib/contract/errors.ts';

export interface ArchiveFacts {
  readonly bytes: number;
  readonly unzippedBytes: number;
  readonly names: ReadonlySet<string>;
  /** The *.node and *.so files. */
  readonly binaries: readonly BinaryFacts[];
}

export interface BinaryFacts {
  readonly name: string;
  readonly processor: Processor;
}

/** As Lambda calls them. */
export type Processor = 'x86_64' | 'arm64' | 'another processor' | 'no Linux';

interface Entry {
  readonly name: string;
  readonly bytes: number;
  readonly packedBytes: number;
  readonly isDeflated: boolean;
  readonly localAt: number;
}

const END = 0x06054b50;
const END_BYTES = 22;
const CENTRAL = 0x02014b50;
const CENTRAL_BYTES = 46;
const LOCAL_BYTES = 30;
const DEFLATED = 8;
/** The comment at the end of the archive. */
const MAX_COMMENT_BYTES = 65_535;
const MAX_DIRECTORY_BYTES = 16 * 1024 * 1024;
/** Enough for an ELF header; deflate may need a table before the first byte. */
const HEAD_BYTES = 4096;
const ELF = 0x464c457f;
const PROCESSORS: Readonly<Record<number, Processor>> = { 62: 'x86_64', 183: 'arm64' };

/** @throws bad_config when the file is not a zip archive */
export async function readArchiveFacts(path: string): Promise<ArchiveFacts> {
  const file = await open(path, 'r');
  try {
    const { size } = await file.stat();
    const entries = entriesOf(await readDirectory(file, size, path), path);
    const binaries: BinaryFacts[] = [];
    for (const entry of entries.filter(({ name }) => /\.node$|\.so(\.\d+)*$/.test(name))) {
      binaries.push({ name: entry.name, processor: await processorOf(file, entry) });
    }
    return {
      bytes: size,
      unzippedBytes: entries.reduce((sum, { bytes }) => sum + bytes, 0),
      names: new Set(entries.map(({ name }) => name)),
      binaries,
    };
  } finally {
    await file.close();
  }
}

async function readDirectory(file: FileHandle, size: number, path: string): Promise<Buffer> {
  const length = Math.min(size, END_BYTES + MAX_COMMENT_BYTES);
  const tail = await readAt(file, size - length, length);
  let end = tail.length - END_BYTES;
  while (end >= 0 && tail.readUInt32LE(end) !== END) end--;
  if (end < 0) throw noArchive(path, 'it has no end of a central directory');
  const bytes = tail.readUInt32LE(end + 12);
  const at = tail.readUInt32LE(end + 16);
  if (bytes > MAX_DIRECTORY_BYTES || at + bytes > size) throw noArchive(path, 'its directory lies outside');
  return readAt(file, at, bytes);
}

function entriesOf(directory: Buffer, path: string): Entry[] {
  const entries: Entry[] = [];
  for (let at = 0; at + CENTRAL_BYTES <= directory.length; ) {
    if (directory.readUInt32LE(at) !== CENTRAL)
      throw noArchive(path, `no entry at byte ${at} of its directory`);
    const nameBytes = directory.readUInt16LE(at + 28);
    entries.push({
      name: directory.toString('utf8', at + CENTRAL_BYTES, at + CENTRAL_BYTES + nameBytes),
      bytes: directory.readUInt32LE(at + 24),
      packedBytes: directory.readUInt32LE(at + 20),
      isDeflated: directory.readUInt16LE(at + 10) === DEFLATED,
      localAt: directory.readUInt32LE(at + 42),
    });
    at += CENTRAL_BYTES + nameBytes + directory.readUInt16LE(at + 30) + directory.readUInt16LE(at + 32);
  }
  return entries;
}

async function processorOf(file: FileHandle, entry: Entry): Promise<Processor> {
  const local = await readAt(file, entry.localAt, LOCAL_BYTES);
  if (local.length < LOCAL_BYTES) return 'no Linux';
  const start = entry.localAt + LOCAL_BYTES + local.readUInt16LE(26) + local.readUInt16LE(28);
  const packed = await readAt(file, start, Math.min(entry.packedBytes, HEAD_BYTES));
  const head = entry.isDeflated ? inflatedStart(packed) : packed;
  if (head.length < 20 || head.readUInt32LE(0) !== ELF) return 'no Linux';
  return PROCESSORS[head.readUInt16LE(18)] ?? 'another processor';
}

/** Inflates data that is cut off. */
function inflatedStart(packed: Buffer): Buffer {
  try {
    return inflateRawSync(packed, { finishFlush: constants.Z_SYNC_FLUSH });
  } catch {
    return Buffer.alloc(0);
  }
}

async function readAt(file: FileHandle, position: number, length: number): Promise<Buffer> {
  const { buffer, bytesRead } = await file.read(Buffer.alloc(length), 0, length, position);
  return buffer.subarray(0, bytesRead);
}

function noArchive(path: string, why: string): ServingError {
  return new ServingError('bad_config', `${path} is not a zip archive: ${why}; package again`);
}
