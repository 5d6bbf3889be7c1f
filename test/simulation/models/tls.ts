/** `node:tls` as lib/s3/connection.ts uses it: GETs of parts of objects, to the model of S3. */
import { EventEmitter } from 'node:events';
import { connectionError } from '../machine/network.ts';
import type { SimulatedProcess } from '../machine/process.ts';
import type { Services } from './aws.ts';

interface ConnectOptions {
  readonly host: string;
  readonly onread: { readonly buffer: Uint8Array; readonly callback: (bytes: number) => boolean };
}

interface Answer {
  readonly status: number;
  readonly body?: Buffer;
  readonly etag?: string;
}

const PIECE_BYTES = 1_500;

class Connection extends EventEmitter {
  readonly #process: SimulatedProcess;
  readonly #services: Services;
  readonly #options: ConnectOptions;
  #name = '';
  #timeoutMs = 0;
  #silence: { close(): void } | undefined;
  #isOpen = true;
  /** The number of stops of the process when the connection was kept; undefined before its first answer. */
  #keptAt: number | undefined;

  constructor(process: SimulatedProcess, services: Services, options: ConnectOptions) {
    super();
    this.#process = process;
    this.#services = services;
    this.#options = options;
  }

  setNoDelay(): void {}
  ref(): void {}
  unref(): void {}

  /** Counts while an answer is awaited. */
  setTimeout(ms: number): void {
    this.#timeoutMs = ms;
  }

  write(request: string): void {
    const process = this.#process;
    this.#name = `s3 GET ${++process.askedCount}`;
    process.asked.add(this.#name);
    this.#silence = process.clock.setTimeout(() => this.emit('timeout'), this.#timeoutMs);
    const isClosed =
      this.#keptAt !== undefined &&
      this.#keptAt !== process.stops &&
      process.machine.choices.chance(`s3 closed ${process.name}`, 0.5);
    const call = callOf(request, this.#options.host);
    const { thereMs, backMs, what } = this.#services.fate(call, process);
    if (isClosed || what === 'refused') {
      process.after(thereMs + backMs, () => this.#fail(connectionError('ECONNRESET', 'read ECONNRESET')));
      return;
    }
    if (what === 'lost') return;
    process.machine.scheduler.after(thereMs, undefined, () => {
      const answer = attempt(() => this.#services.serve(call, process));
      if (what === 'arrives') process.after(backMs, () => this.#answer(answer));
    });
  }

  destroy(): void {
    this.#isOpen = false;
    this.#endWait();
  }

  #answer({ status, body = Buffer.alloc(0), etag }: Answer): void {
    if (!this.#isOpen) return;
    this.#endWait();
    this.#keptAt = this.#process.stops;
    const tag = etag === undefined ? '' : `ETag: ${etag}\r\n`;
    const head = `HTTP/1.1 ${status} Status\r\n${tag}Content-Length: ${body.length}\r\n\r\n`;
    const bytes = Buffer.concat([Buffer.from(head), body]);
    const { buffer, callback } = this.#options.onread;
    for (let at = 0; at < bytes.length && this.#isOpen; at += PIECE_BYTES)
      callback(bytes.copy(buffer, 0, at, at + PIECE_BYTES));
  }

  #endWait(): void {
    this.#silence?.close();
    this.#process.asked.delete(this.#name);
  }

  #fail(error: Error): void {
    if (this.#isOpen) this.emit('error', error);
  }
}

function callOf(request: string, host: string) {
  const [first = '', ...lines] = request.split('\r\n');
  const valueOf = (name: string) =>
    lines.find((line) => line.startsWith(`${name}: `))?.slice(name.length + 2);
  const input = {
    Bucket: host.split('.')[0],
    Key: first.split(' ')[1]?.slice(1),
    Range: valueOf('range'),
    IfMatch: valueOf('if-match'),
  };
  return { service: 's3', operation: 'GetObject', input } as const;
}

function attempt(serve: () => object): Answer {
  try {
    const { Body, ETag }: { Body?: Buffer; ETag?: string } = serve();
    return { status: 206, ...(Body ? { body: Body } : {}), ...(ETag ? { etag: ETag } : {}) };
  } catch (error) {
    const { $metadata }: { $metadata?: { httpStatusCode?: number } } = Object(error);
    return { status: $metadata?.httpStatusCode ?? 500 };
  }
}

/** The module `tls`. */
export function tlsModule(process: SimulatedProcess, services: Services) {
  return { connect: (options: ConnectOptions) => new Connection(process, services, options) };
}
