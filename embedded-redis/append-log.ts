/**
 * Appends write commands to a file as RESP and replays them at the next start. Replies may leave only after `flush`,
 * so a killed process loses nothing it has acknowledged. The disk is synced once a second, so a power failure may
 * lose the last second, as with Redis' everysec.
 */
import fs from 'node:fs';
import { ServingError } from '../lib/contract/errors.ts';
import { CommandReader } from './command-reader.ts';
import { type Bytes, encodeCommand } from './replies.ts';

const READ_BYTES = 1024 * 1024;
const SYNC_EVERY_MS = 1_000;

interface AppendLogOptions {
  readonly path: string;
  /** The file is rewritten when it exceeds this and twice its size after the last rewrite. */
  readonly compactAfterBytes: number;
  /** The limit of a rewritten file; beyond it `isFull` is true. */
  readonly dataBytes: number;
  readonly log: (message: string) => void;
  /** Called for every command of the file, in order. */
  readonly replay: (args: readonly Bytes[]) => void;
  /** The commands that recreate the current data. */
  readonly dump: () => Iterable<readonly Bytes[]>;
}

export class AppendLog {
  /** Why the last write failed; new writes are refused until one succeeds. */
  broken: string | undefined;
  readonly #options: AppendLogOptions;
  #descriptor: number;
  bytes = 0;
  #bytesAfterCompaction = 0;
  #pending: Buffer[] = [];
  #group: Bytes[] | undefined;
  #text: Bytes = '';
  #isSynced = true;
  #syncing: Promise<void> | undefined;
  readonly #timer: NodeJS.Timeout;

  constructor(options: AppendLogOptions) {
    this.#options = options;
    fs.rmSync(`${options.path}.new`, { force: true });
    this.bytes = load(options);
    this.#descriptor = fs.openSync(options.path, 'a');
    this.#timer = setInterval(() => this.#tick(), SYNC_EVERY_MS).unref();
  }

  get isFull(): boolean {
    return this.#bytesAfterCompaction > this.#options.dataBytes;
  }

  append(args: readonly Bytes[]): void {
    if (this.#group === undefined) this.#text += encodeCommand(args);
    else this.#group.push(encodeCommand(args));
  }

  /** Groups what `work` appends, so that a replay sees all of it or nothing. */
  grouped<T>(work: () => T): T {
    if (this.#group !== undefined) return work();
    this.#group = [];
    try {
      return work();
    } finally {
      const commands = this.#group;
      this.#group = undefined;
      if (commands.length > 1) commands.unshift(encodeCommand(['MULTI']));
      if (commands.length > 1) commands.push(encodeCommand(['EXEC']));
      this.#text += commands.join('');
    }
  }

  /** Writes everything appended to the operating system. Never throws: see `broken`. */
  flush(): void {
    if (this.#text !== '') this.#pending.push(Buffer.from(this.#text, 'latin1'));
    this.#text = '';
    try {
      for (let piece = this.#pending[0]; piece !== undefined; piece = this.#pending[0]) {
        const written = fs.writeSync(this.#descriptor, piece);
        this.bytes += written;
        this.#isSynced = false;
        if (written < piece.length) this.#pending[0] = piece.subarray(written);
        else this.#pending.shift();
      }
      this.broken = undefined;
    } catch (error) {
      const message = error instanceof Error ? error.message : String(error);
      if (this.broken === undefined) this.#options.log(`cannot write ${this.#options.path}: ${message}`);
      this.broken = message;
    }
  }

  /** Writes the current data to a new file, which then replaces the log. Blocks for about 1 s per 200 MB. */
  compact(): void {
    this.flush();
    const { path, dump } = this.#options;
    const descriptor = fs.openSync(`${path}.new`, 'w');
    let bytes = 0;
    try {
      let text = '';
      const write = (): void => {
        bytes += text.length;
        fs.writeFileSync(descriptor, text, 'latin1');
        text = '';
      };
      for (const command of dump()) {
        text += encodeCommand(command);
        if (text.length > READ_BYTES) write();
      }
      write();
      fs.fsyncSync(descriptor);
    } finally {
      fs.closeSync(descriptor);
    }
    fs.renameSync(`${path}.new`, path);
    fs.closeSync(this.#descriptor);
    this.#descriptor = fs.openSync(path, 'a');
    this.#pending = [];
    this.#isSynced = true;
    this.bytes = bytes;
    this.#bytesAfterCompaction = bytes;
  }

  async close(): Promise<void> {
    clearInterval(this.#timer);
    await this.#syncing;
    this.flush();
    fs.fsyncSync(this.#descriptor);
    fs.closeSync(this.#descriptor);
  }

  #tick(): void {
    if (this.#syncing !== undefined) return;
    this.flush();
    const bound = this.isFull ? this.#bytesAfterCompaction : 2 * this.#bytesAfterCompaction;
    if (this.bytes > Math.max(this.#options.compactAfterBytes, bound)) {
      try {
        this.compact();
      } catch (error) {
        this.#bytesAfterCompaction = this.bytes;
        this.#options.log(`cannot rewrite ${this.#options.path}: ${String(error)}`);
      }
    }
    if (this.#isSynced) return;
    this.#isSynced = true;
    this.#syncing = new Promise((resolve) => {
      fs.fdatasync(this.#descriptor, (error) => {
        if (error !== null) this.#options.log(`cannot sync ${this.#options.path}: ${error.message}`);
        this.#syncing = undefined;
        resolve();
      });
    });
  }
}

/**
 * Replays the file, cuts off an incomplete command at its end and returns the size. A file that is damaged elsewhere
 * is copied first.
 */
function load({ path, replay, log }: AppendLogOptions): number {
  let descriptor: number;
  try {
    descriptor = fs.openSync(path, 'a+');
  } catch (error) {
    throw new ServingError('bad_config', `Cannot open ${path}: ${String(error)}`, { cause: error });
  }
  const reader = new CommandReader();
  let goodBytes = 0;
  let damage: unknown;
  try {
    const piece = Buffer.alloc(READ_BYTES);
    let group: Bytes[][] | undefined;
    for (let read = 0; damage === undefined; ) {
      const bytes = fs.readSync(descriptor, piece, 0, piece.length, read);
      if (bytes === 0) break;
      read += bytes;
      reader.push(Buffer.from(piece.subarray(0, bytes)));
      try {
        for (let args = reader.next(); args !== undefined; args = reader.next()) {
          if (args[0] === 'MULTI') group = [];
          else if (args[0] === 'EXEC') for (const one of group ?? []) replay(one);
          else if (group === undefined) replay(args);
          else group.push(args);
          if (args[0] === 'EXEC') group = undefined;
          if (group === undefined) goodBytes = reader.consumedBytes;
        }
      } catch (error) {
        damage = error;
      }
    }
    const { size } = fs.fstatSync(descriptor);
    if (size > goodBytes) {
      if (damage !== undefined) fs.copyFileSync(path, `${path}.damaged`);
      const aside = damage === undefined ? '' : `, the whole file is kept as ${path}.damaged`;
      log(`${path}: dropped the ${size - goodBytes} bytes after the last whole command${aside}`);
      fs.ftruncateSync(descriptor, goodBytes);
    }
    return goodBytes;
  } finally {
    fs.closeSync(descriptor);
  }
}
