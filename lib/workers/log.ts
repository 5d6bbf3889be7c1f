/**
 * The log of a service: what its processes print goes to <name>_<YYYY-MM-DD>.log, their errors, stamped, to .err. A file that has
 * grown to the limit gets the ending .1, and the one before it .2. What cannot be written, as on a full disk, is lost.
 */

import { closeSync, fstatSync, mkdirSync, openSync, renameSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { asError } from '../contract/errors.ts';
import { localTime } from './local-time.ts';
import { type LogSource, logEvents, stamp } from './stamp.ts';

const MB = 1_000_000;
interface LogLimits {
  readonly bytes: number;
  readonly files: number;
}

const LOG_LIMITS: LogLimits = { bytes: 500 * MB, files: 10 };
const MAX_LINE_BYTES = 64 * 1024;
const MODE = 0o640;
const NEWLINE = 10;

export type LogStream = 'log' | 'err';

export interface ServiceLog {
  /**
   * @param lines one or more, each with its newline
   * @param from the process that wrote them; without it, they are complete
   */
  write(stream: LogStream, lines: Uint8Array, from?: LogSource): void;
}

export const STDERR_LOG: ServiceLog = {
  write: (...line) => void process.stderr.write(completed(new Date(), ...line)),
};

/** The log of a function. */
export const EVENT_LOG: ServiceLog = {
  write: (stream, lines, from = { name: '', pid: undefined }) => logEvents(stream === 'err', lines, from),
};

function completed(now: Date, stream: LogStream, lines: Uint8Array, from?: LogSource): Uint8Array {
  return stream === 'err' && from ? stamp(lines, from, now) : lines;
}

interface OpenFile {
  readonly path: string;
  readonly fd: number;
  bytes: number;
}

export class FileLog implements ServiceLog {
  readonly #stem: string;
  readonly #clock: () => Date;
  readonly #limits: LogLimits;
  readonly #files = new Map<LogStream, OpenFile>();

  /** @param folder created if it is missing */
  constructor(folder: string, name: string, clock: () => Date, limits = LOG_LIMITS) {
    mkdirSync(folder, { recursive: true });
    this.#stem = join(folder, name);
    this.#clock = clock;
    this.#limits = limits;
  }

  write(stream: LogStream, lines: Uint8Array, from?: LogSource): void {
    try {
      const bytes = completed(this.#clock(), stream, lines, from);
      const file = this.#fileOf(stream, bytes.byteLength);
      file.bytes += writeSync(file.fd, bytes);
    } catch {
      // The next lines may find room again.
      this.#close(stream);
    }
  }

  #fileOf(stream: LogStream, more: number): OpenFile {
    const [day] = localTime(this.#clock()).split(' ');
    const path = `${this.#stem}_${day}.${stream}`;
    const known = this.#files.get(stream);
    const file = known?.path === path ? known : this.#open(stream, path);
    if (file.bytes === 0 || file.bytes + more <= this.#limits.bytes) return file;
    this.#close(stream);
    // The oldest is replaced.
    for (let i = this.#limits.files - 1; i > 0; i--)
      move(i === 1 ? path : `${path}.${i - 1}`, `${path}.${i}`);
    return this.#open(stream, path);
  }

  #open(stream: LogStream, path: string): OpenFile {
    this.#close(stream);
    const fd = openSync(path, 'a', MODE);
    const file = { path, fd, bytes: fstatSync(fd).size };
    this.#files.set(stream, file);
    return file;
  }

  #close(stream: LogStream): void {
    const file = this.#files.get(stream);
    if (file) closeSync(file.fd);
    this.#files.delete(stream);
  }
}

function move(from: string, to: string): void {
  try {
    renameSync(from, to);
  } catch (error) {
    if (asError(error).code !== 'ENOENT') throw error;
  }
}

/** Writes whole lines, so that those of several processes do not mix. */
export function logLines(input: Readable, log: ServiceLog, stream: LogStream, from?: LogSource): void {
  let rest = Buffer.alloc(0);
  input.on('data', (chunk: Buffer) => {
    const all = Buffer.concat([rest, chunk]);
    const isLong = all.byteLength > MAX_LINE_BYTES;
    const end = all.lastIndexOf(NEWLINE) + 1 || (isLong ? all.byteLength : 0);
    if (end > 0) log.write(stream, all.subarray(0, end), from);
    rest = all.subarray(end);
  });
  input.on('close', () => {
    if (rest.byteLength > 0) log.write(stream, Buffer.concat([rest, Buffer.from('\n')]), from);
  });
  // The process may end while it is read.
  input.on('error', () => undefined);
}
