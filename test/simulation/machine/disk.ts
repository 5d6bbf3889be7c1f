/** A disk in memory, with the calls of node:fs that the programs make. It outlives the processes of its environment. */
import { Readable } from 'node:stream';

interface Entry {
  /** Undefined for a folder. */
  data: Buffer | undefined;
}

interface OpenFile {
  readonly entry: Entry & { data: Buffer };
  at: number;
  readonly appends: boolean;
}

interface RemoveOptions {
  readonly recursive?: boolean;
  readonly force?: boolean;
}

interface ListOptions {
  readonly withFileTypes?: boolean;
  readonly recursive?: boolean;
}

const constants = { O_RDONLY: 0, O_WRONLY: 1, O_RDWR: 2, O_CREAT: 64, O_TRUNC: 512, O_APPEND: 1024 };

const BLOCKS = 131_072;
const BLOCK_BYTES = 4_096;

function failure(code: string, call: string, path: string): Error {
  return Object.assign(new Error(`${code}: ${call} '${path}'`), { code, syscall: call, path });
}

export class Disk {
  readonly #entries = new Map<string, Entry>([
    ['/', { data: undefined }],
    ['/tmp', { data: undefined }],
  ]);
  readonly #open = new Map<number, OpenFile>();
  readonly #bytes: number;
  #lastFd = 10;
  #lastName = 0;

  /** @param bytes its room, which only statfs knows. Default: that of Lambda */
  constructor(bytes = BLOCKS * BLOCK_BYTES) {
    this.#bytes = bytes;
  }

  #freeBlocks(): number {
    let used = 0;
    for (const { data } of this.#entries.values()) used += data?.byteLength ?? 0;
    return Math.max(0, Math.floor((this.#bytes - used) / BLOCK_BYTES));
  }

  write(path: string, data: Buffer | string): void {
    this.#makeFolder(path.slice(0, path.lastIndexOf('/')));
    this.#entries.set(path, { data: Buffer.from(data) });
  }

  #file(path: string, call: string): Entry & { data: Buffer } {
    const entry = this.#entries.get(path);
    if (!entry) throw failure('ENOENT', call, path);
    if (!isFile(entry)) throw failure('EISDIR', call, path);
    return entry;
  }

  #makeFolder(path: string): void {
    const parts = path.split('/').filter(Boolean);
    for (let i = 1; i <= parts.length; i++) {
      const folder = `/${parts.slice(0, i).join('/')}`;
      if (!this.#entries.has(folder)) this.#entries.set(folder, { data: undefined });
    }
  }

  #makeTemporary(prefix: string): string {
    const path = `${prefix}${++this.#lastName}`;
    this.#makeFolder(path);
    return path;
  }

  #below(path: string): string[] {
    return [...this.#entries.keys()].filter((name) => name.startsWith(`${path}/`));
  }

  #readdir(path: string, { withFileTypes = false, recursive = false }: ListOptions = {}): unknown[] {
    if (!this.#entries.has(path)) throw failure('ENOENT', 'scandir', path);
    const inner = this.#below(path)
      .filter((name) => recursive || !name.slice(path.length + 1).includes('/'))
      .sort();
    if (!withFileTypes) return inner.map((name) => name.slice(path.length + 1));
    return inner.map((name) => {
      const place = name.lastIndexOf('/');
      return { name: name.slice(place + 1), parentPath: name.slice(0, place), ...this.#kind(name) };
    });
  }

  #kind(path: string) {
    const isFolder = this.#entries.get(path)?.data === undefined;
    return { isFile: () => !isFolder, isDirectory: () => isFolder, isSymbolicLink: () => false };
  }

  #stat(path: string) {
    const entry = this.#entries.get(path);
    if (!entry) throw failure('ENOENT', 'stat', path);
    return { size: entry.data?.byteLength ?? 0, ...this.#kind(path) };
  }

  #remove(path: string, { recursive = false, force = false }: RemoveOptions = {}): void {
    if (!this.#entries.has(path)) {
      if (force) return;
      throw failure('ENOENT', 'rm', path);
    }
    if (recursive) for (const name of this.#below(path)) this.#entries.delete(name);
    this.#entries.delete(path);
  }

  #rename(from: string, to: string): void {
    const entry = this.#entries.get(from);
    if (!entry) throw failure('ENOENT', 'rename', from);
    if (entry.data === undefined && this.#below(to).length > 0) throw failure('ENOTEMPTY', 'rename', to);
    for (const name of this.#below(from)) {
      const inner = this.#entries.get(name);
      if (inner) this.#entries.set(to + name.slice(from.length), inner);
      this.#entries.delete(name);
    }
    this.#entries.delete(from);
    this.#entries.set(to, entry);
  }

  #openSync(path: string, flags: string | number = 'r'): number {
    const [creates, truncates, appends] =
      typeof flags === 'string'
        ? [flags !== 'r', flags === 'w', flags === 'a']
        : [
            (flags & constants.O_CREAT) > 0,
            (flags & constants.O_TRUNC) > 0,
            (flags & constants.O_APPEND) > 0,
          ];
    if (creates && !this.#entries.has(path)) this.#entries.set(path, { data: Buffer.alloc(0) });
    const entry = this.#file(path, 'open');
    if (truncates) entry.data = Buffer.alloc(0);
    this.#open.set(++this.#lastFd, { entry, at: 0, appends });
    return this.#lastFd;
  }

  #opened(fd: number): OpenFile {
    const file = this.#open.get(fd);
    if (!file) throw failure('EBADF', 'fd', String(fd));
    return file;
  }

  #writeSync(
    fd: number,
    given: Uint8Array | string,
    offset = 0,
    length?: number | null,
    position?: number | null,
  ): number {
    const file = this.#opened(fd);
    const bytes =
      typeof given === 'string'
        ? Buffer.from(given)
        : Buffer.from(given).subarray(offset, offset + (length ?? given.length));
    const { entry } = file;
    const at = file.appends ? entry.data.length : (position ?? file.at);
    if (at + bytes.length > entry.data.length) {
      const grown = Buffer.alloc(at + bytes.length);
      entry.data.copy(grown);
      entry.data = grown;
    }
    bytes.copy(entry.data, at);
    file.at = at + bytes.length;
    return bytes.length;
  }

  #readSync(
    fd: number,
    into: Buffer,
    offset = 0,
    length = into.length,
    position: number | null = null,
  ): number {
    const file = this.#opened(fd);
    const at = position ?? file.at;
    const read = file.entry.data.copy(into, offset, at, Math.min(file.entry.data.length, at + length));
    file.at = at + read;
    return read;
  }

  /** The module `fs`. */
  readonly fs = {
    constants,
    existsSync: (path: string) => this.#entries.has(path),
    mkdirSync: (path: string) => this.#makeFolder(path),
    mkdtempSync: (prefix: string) => this.#makeTemporary(prefix),
    readdirSync: (path: string, options?: ListOptions) => this.#readdir(path, options),
    rmSync: (path: string, options?: RemoveOptions) => this.#remove(path, options),
    unlinkSync: (path: string) => this.#remove(path),
    renameSync: (from: string, to: string) => this.#rename(from, to),
    statSync: (path: string) => this.#stat(path),
    fstatSync: (fd: number) => ({ size: this.#opened(fd).entry.data.length }),
    openSync: (path: string, flags?: string | number) => this.#openSync(path, flags),
    closeSync: (fd: number) => void this.#open.delete(fd),
    fsyncSync: () => undefined,
    fsync: (_fd: number, done: (error: null) => void) => process.nextTick(done, null),
    fdatasync: (_fd: number, done: (error: null) => void) => process.nextTick(done, null),
    ftruncateSync: (fd: number, length = 0) => {
      const { entry } = this.#opened(fd);
      entry.data = entry.data.subarray(0, length);
    },
    writeSync: (fd: number, bytes: Uint8Array | string, ...more: number[]) =>
      this.#writeSync(fd, bytes, ...more),
    readSync: (fd: number, into: Buffer, ...more: number[]) => this.#readSync(fd, into, ...more),
    readFileSync: (path: string, encoding?: BufferEncoding) => {
      const { data } = this.#file(path, 'open');
      return encoding === undefined ? Buffer.from(data) : data.toString(encoding);
    },
    writeFileSync: (path: string | number, data: string | Buffer, encoding?: BufferEncoding) => {
      const bytes = typeof data === 'string' ? Buffer.from(data, encoding) : data;
      if (typeof path === 'number') this.#writeSync(path, bytes);
      else this.write(path, bytes);
    },
    createReadStream: (path: string) => Readable.from(this.#pieces(path)),
  };

  /** The module `fs/promises`. Each call ends in the turn in which it began. */
  readonly promises = {
    mkdir: async (path: string) => this.#makeFolder(path),
    mkdtemp: async (prefix: string) => this.#makeTemporary(prefix),
    readdir: async (path: string, options?: ListOptions) => this.#readdir(path, options),
    rename: async (from: string, to: string) => this.#rename(from, to),
    rm: async (path: string, options?: RemoveOptions) => this.#remove(path, options),
    stat: async (path: string) => this.#stat(path),
    statfs: async () => ({ blocks: BLOCKS, bsize: BLOCK_BYTES, bavail: this.#freeBlocks() }),
    readFile: async (path: string, encoding?: BufferEncoding) => this.fs.readFileSync(path, encoding),
    writeFile: async (path: string, data: string | Buffer) => this.write(path, data),
  };

  *#pieces(path: string): Generator<Buffer> {
    yield Buffer.from(this.#file(path, 'open').data);
  }
}

function isFile(entry: Entry): entry is Entry & { data: Buffer } {
  return entry.data !== undefined;
}
