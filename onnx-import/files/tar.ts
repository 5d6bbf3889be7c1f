/**
 * Unpacks tar archives, gzipped or not, such as the model.tar.gz of SageMaker: files and folders alone, each with a checked
 * header, within limits of count, depth and bytes, and never outside of the folder. The author of an archive is not trusted.
 */
import { createReadStream } from 'node:fs';
import { mkdir, open } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { pipeline } from 'node:stream';
import { createGunzip } from 'node:zlib';
import { asError, badModel, ServingError } from '../../lib/contract/errors.ts';
import { elementAt } from '../../lib/contract/present.ts';

export const TAR_LIMITS = { entries: 10_000, depth: 16, bytes: 8 * 1024 ** 3, nameBytes: 4_096 } as const;
const BLOCK = 512;

export type TarLimits = Readonly<Record<keyof typeof TAR_LIMITS, number>>;

/** @returns the paths of its files. @throws bad_model for what is broken, too large, or no plain file */
export async function unpackTar(
  path: string,
  folder: string,
  limits: TarLimits = TAR_LIMITS,
): Promise<readonly string[]> {
  try {
    return await unpack(path, folder, limits);
  } catch (error) {
    if (error instanceof ServingError) throw badModel(`${path}: ${error.message}`, { cause: error });
    throw badModel(`${path} cannot be unpacked: ${asError(error).message}`, { cause: error });
  }
}

async function unpack(path: string, folder: string, limits: TarLimits): Promise<string[]> {
  const source = createReadStream(path);
  // The reader gets the error of a damaged archive.
  const bytes = new Bytes((await isGzip(path)) ? pipeline(source, createGunzip(), () => undefined) : source);
  const files: string[] = [];
  let [entries, total] = [0, 0];
  let long: string | undefined;
  try {
    for (let header = await nextHeader(bytes); header; header = await nextHeader(bytes)) {
      entries += 1;
      total += header.size;
      if (entries > limits.entries) throw badModel(`more than ${limits.entries} entries`);
      if (total > limits.bytes) throw badModel(`more than ${limits.bytes} bytes when unpacked`);
      if (header.type === 'x' || header.type === 'L') {
        if (header.size > limits.nameBytes) throw badModel(`a name of more than ${limits.nameBytes} bytes`);
        const content = await bytes.take(padded(header.size));
        const own = nameIn(header.type, content.subarray(0, header.size));
        long = own ?? long;
        continue;
      }
      const name = long ?? header.name;
      if (header.type !== 'g') long = undefined;
      await takeEntry(bytes, header, header.type === 'g' ? undefined : placeOf(name, limits), folder, files);
    }
  } finally {
    source.destroy();
  }
  return files;
}

async function isGzip(path: string): Promise<boolean> {
  const file = await open(path);
  try {
    const { buffer } = await file.read(Buffer.alloc(2), 0, 2, 0);
    return buffer.readUInt16BE(0) === 0x1f8b;
  } finally {
    await file.close();
  }
}

interface Header {
  readonly name: string;
  readonly size: number;
  readonly type: string;
}

const padded = (size: number) => Math.ceil(size / BLOCK) * BLOCK;

/** Undefined at the end. */
async function nextHeader(bytes: Bytes): Promise<Header | undefined> {
  const block = await bytes.take(BLOCK, true);
  if (block.every((byte) => byte === 0)) return undefined;
  const text = (start: number, length: number) => {
    const field = block.subarray(start, start + length);
    const end = field.indexOf(0);
    return field.subarray(0, end < 0 ? length : end).toString();
  };
  const sum = block.reduce((all, byte, i) => all + (i >= 148 && i < 156 ? 0x20 : byte), 0);
  if (octal(text(148, 8)) !== sum)
    throw badModel('it is no tar archive, or it is damaged: a checksum differs');
  const prefix = text(257, 5) === 'ustar' ? text(345, 155) : '';
  const name = prefix === '' ? text(0, 100) : `${prefix}/${text(0, 100)}`;
  return { name, size: octal(text(124, 12)), type: text(156, 1) || '0' };
}

function octal(text: string): number {
  const trimmed = text.trim();
  if (/^[0-7]{1,12}$/.test(trimmed)) return Number.parseInt(trimmed, 8);
  throw badModel('it is no tar archive, or it is damaged: expected an octal number in a header');
}

/** The path that comes before an entry whose own header has no room for it. */
function nameIn(type: string, content: Buffer): string | undefined {
  if (type === 'L') return content.toString().replace(/\0.*$/s, '');
  const records = content.toString();
  if (/^\d+ size=/m.test(records)) throw badModel('a file of more than 8 GiB');
  return /^\d+ path=(.*)$/m.exec(records)?.[1];
}

/** The path within the folder; undefined for the folder itself, and for what macOS adds. */
function placeOf(name: string, { depth }: TarLimits): string | undefined {
  const parts = name.split('/').filter((part) => part !== '' && part !== '.');
  const isOutside = name.startsWith('/') || parts.includes('..') || /[\\\0]/.test(name);
  if (isOutside) throw badModel(`${JSON.stringify(name.slice(0, 200))} lies outside of the archive`);
  if (parts.length > depth) throw badModel(`${name.slice(0, 200)}: more than ${depth} folders deep`);
  return parts.length === 0 || parts.at(-1)?.startsWith('._') ? undefined : parts.join('/');
}

async function takeEntry(
  bytes: Bytes,
  { type, size }: Header,
  place: string | undefined,
  folder: string,
  files: string[],
): Promise<void> {
  const isFile = type === '0' || type === '7';
  if (!isFile && type !== '5' && type !== 'g') {
    const what = type === '1' || type === '2' ? 'a link' : `an entry of type ${JSON.stringify(type)}`;
    throw badModel(`${place ?? 'an entry'} is ${what}; pack plain files, as tar --dereference does`);
  }
  if (isFile && place !== undefined) {
    const target = join(folder, place);
    await mkdir(dirname(target), { recursive: true });
    const file = await open(target, 'wx');
    try {
      for await (const chunk of bytes.pass(size)) await file.writeFile(chunk);
    } finally {
      await file.close();
    }
    files.push(place);
  } else await bytes.skip(size);
  await bytes.skip(padded(size) - size);
}

/** A stream, taken by length. */
class Bytes {
  readonly #chunks: AsyncIterator<Buffer>;
  #rest: Buffer = Buffer.alloc(0);

  constructor(stream: AsyncIterable<Buffer>) {
    this.#chunks = stream[Symbol.asyncIterator]();
  }

  /** @param mayEnd nothing at the end of the stream is an answer. @throws bad_model at the end */
  async take(length: number, mayEnd = false): Promise<Buffer> {
    const parts: Buffer[] = [];
    for await (const chunk of this.pass(length, mayEnd)) parts.push(chunk);
    return parts.length === 1 ? elementAt(parts, 0, 'parts') : Buffer.concat(parts);
  }

  async skip(length: number): Promise<void> {
    const parts = this.pass(length);
    while (!(await parts.next()).done);
  }

  async *pass(length: number, mayEnd = false): AsyncGenerator<Buffer> {
    for (let left = length; left > 0; ) {
      if (this.#rest.length === 0) {
        const next = await this.#chunks.next();
        if (next.done) {
          if (mayEnd && left === length) return;
          throw badModel('it is cut off');
        }
        this.#rest = next.value;
      }
      const part = this.#rest.subarray(0, left);
      this.#rest = this.#rest.subarray(part.length);
      left -= part.length;
      yield part;
    }
  }
}
