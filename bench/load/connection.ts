/**
 * One keep-alive connection with one request under way. A client built on node:http or fetch is about as slow as the server
 * it measures; this one writes prepared bytes and cuts answers by their content-length or chunks.
 */

import { connect, type Socket } from 'node:net';
import { asError } from '../../lib/contract/errors.ts';

const HEADER_END = Buffer.from('\r\n\r\n');
const ANSWER_LIMIT_MS = 20_000;

export interface RequestSpec {
  readonly path: string;
  readonly contentType?: string;
  readonly body: string | Uint8Array;
}

export function requestBytes({ path, contentType = 'application/json', body }: RequestSpec): Buffer {
  const bytes = typeof body === 'string' ? Buffer.from(body) : body;
  const head =
    `POST ${path} HTTP/1.1\r\nhost: 127.0.0.1\r\naccept: */*\r\nuser-agent: bench\r\n` +
    `content-type: ${contentType}\r\ncontent-length: ${bytes.byteLength}\r\n\r\n`;
  return Buffer.concat([Buffer.from(head), bytes]);
}

export class Connection {
  readonly #socket: Socket;
  #received: Buffer = Buffer.alloc(0);
  #onBody: (body: Buffer) => void = () => undefined;
  #onError: (error: Error) => void = () => undefined;
  #failed: Error | undefined;

  constructor(port: number) {
    this.#socket = connect({ port, host: '127.0.0.1', noDelay: true });
    this.#socket.setTimeout(ANSWER_LIMIT_MS, () => this.#socket.destroy(new Error('no answer')));
    this.#socket.on('data', (chunk: Buffer) => this.#take(chunk));
    this.#socket.on('error', (error) => this.#fail(error));
    this.#socket.on('close', () => this.#fail(new Error('the server closed the connection')));
  }

  /** @param onBody gets the body of a 200; @param onError everything else */
  send(request: Buffer, onBody: (body: Buffer) => void, onError: (error: Error) => void): void {
    if (this.#failed) {
      onError(this.#failed);
      return;
    }
    this.#onBody = onBody;
    this.#onError = onError;
    this.#socket.write(request);
  }

  ask(request: Buffer): Promise<Buffer> {
    return new Promise((resolve, reject) => this.send(request, resolve, reject));
  }

  close(): void {
    this.#onError = () => undefined;
    this.#socket.destroy();
  }

  #fail(error: Error): void {
    this.#failed ??= error;
    this.#onError(error);
  }

  #take(chunk: Buffer): void {
    this.#received = this.#received.length === 0 ? chunk : Buffer.concat([this.#received, chunk]);
    const headEnd = this.#received.indexOf(HEADER_END);
    if (headEnd === -1) return;
    const head = this.#received.toString('latin1', 0, headEnd);
    const bodyAt = headEnd + HEADER_END.length;
    const length = /\r\ncontent-length: *(\d+)/i.exec(head)?.[1];
    const isChunked = /\r\ntransfer-encoding: *chunked/i.test(head);
    if (!head.startsWith('HTTP/1.1 200 ') || (length === undefined && !isChunked)) {
      this.#fail(new Error(`unexpected answer: ${this.#received.toString('latin1', 0, 500)}`));
      return;
    }
    const rest = this.#received.subarray(bodyAt);
    let cut: Cut | undefined;
    try {
      cut = length === undefined ? cutChunks(rest) : cutLength(rest, Number(length));
    } catch (error) {
      this.#fail(asError(error));
      return;
    }
    if (!cut) return;
    this.#received = rest.subarray(cut.end);
    this.#onBody(cut.body);
  }
}

interface Cut {
  readonly body: Buffer;
  /** Where the next answer begins. */
  readonly end: number;
}

function cutLength(bytes: Buffer, length: number): Cut | undefined {
  return bytes.length < length ? undefined : { body: bytes.subarray(0, length), end: length };
}

/** Chunks with their lengths in hexadecimal before them, an empty one last; undefined while there are more to come. */
export function cutChunks(bytes: Buffer): Cut | undefined {
  const parts: Buffer[] = [];
  for (let at = 0; ; ) {
    const lineEnd = bytes.indexOf('\r\n', at);
    if (lineEnd === -1) return undefined;
    const length = Number.parseInt(bytes.toString('latin1', at, lineEnd), 16);
    if (!(length >= 0)) throw new Error('a chunk without a length');
    const from = lineEnd + 2;
    at = from + length + 2;
    if (bytes.length < at) return undefined;
    if (length === 0) return { body: Buffer.concat(parts), end: at };
    parts.push(bytes.subarray(from, from + length));
  }
}

/** A request and the one right answer to it. */
export interface Exchange {
  readonly request: Buffer;
  readonly expected: Buffer;
}

export function assertExpected(body: Buffer, { expected }: Exchange): void {
  if (!body.equals(expected)) throw new Error(`wrong answer: ${body.toString('utf8', 0, 500)}`);
}
