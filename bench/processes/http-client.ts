/**
 * In: an address, requests and the answer each must get. Out: how many a second over N connections, and how long each
 * took. Trap: a client built on node:http is about as slow as the server it measures; this one writes whole requests
 * to sockets and cuts answers by their content-length. Each connection has one request under way (no pipelining).
 */
import { connect, type Socket } from 'node:net';
import { serveParent } from './child.ts';

export type HttpQuestion =
  | {
      readonly kind: 'load';
      readonly id: string;
      readonly bodies: readonly string[];
      /** Exact body of the answer to each. */
      readonly expected: readonly string[];
    }
  | {
      readonly kind: 'drive';
      readonly id: string;
      readonly port: number;
      readonly connections: number;
      readonly warmUpMs: number;
      readonly measureMs: number;
    };

export interface HttpAnswer {
  /** Finished within the measured time, all of them right. */
  readonly requests: number;
  readonly seconds: number;
  /** Ascending, ms. */
  readonly latencies: Float64Array;
}

interface Exchange {
  readonly request: Buffer;
  readonly expected: Buffer;
}

const HEADER_END = Buffer.from('\r\n\r\n');
const ANSWER_LIMIT_MS = 20_000;

function toExchanges(bodies: readonly string[], expected: readonly string[]): Exchange[] {
  return bodies.map((body, i) => ({
    request: Buffer.from(
      `POST /predict HTTP/1.1\r\nhost: 127.0.0.1\r\naccept: */*\r\nuser-agent: bench\r\n` +
        `content-type: application/json\r\ncontent-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
    ),
    expected: Buffer.from(expected[i] as string),
  }));
}

class Connection {
  readonly #socket: Socket;
  #received: Buffer = Buffer.alloc(0);
  #onBody: (body: Buffer) => void = () => undefined;
  #onError: (error: Error) => void = () => undefined;

  constructor(port: number) {
    this.#socket = connect({ port, host: '127.0.0.1', noDelay: true });
    this.#socket.setTimeout(ANSWER_LIMIT_MS, () => this.#socket.destroy(new Error('no answer')));
    this.#socket.on('data', (chunk: Buffer) => this.#take(chunk));
    this.#socket.on('error', (error) => this.#onError(error));
    this.#socket.on('close', () => this.#onError(new Error('the server closed the connection')));
  }

  send(request: Buffer): Promise<Buffer> {
    return new Promise((resolve, reject) => {
      this.#onBody = resolve;
      this.#onError = reject;
      this.#socket.write(request);
    });
  }

  #take(chunk: Buffer): void {
    this.#received = this.#received.length === 0 ? chunk : Buffer.concat([this.#received, chunk]);
    const headEnd = this.#received.indexOf(HEADER_END);
    if (headEnd === -1) return;
    const head = this.#received.toString('latin1', 0, headEnd);
    const length = /\r\ncontent-length: *(\d+)/i.exec(head)?.[1];
    if (!head.startsWith('HTTP/1.1 200 ') || length === undefined) {
      this.#onError(new Error(`unexpected answer: ${this.#received.toString('latin1', 0, 500)}`));
      return;
    }
    const end = headEnd + HEADER_END.length + Number(length);
    if (this.#received.length < end) return;
    const body = this.#received.subarray(headEnd + HEADER_END.length, end);
    this.#received = this.#received.subarray(end);
    this.#onBody(body);
  }

  close(): void {
    this.#onError = () => undefined;
    this.#socket.destroy();
  }
}

async function drive(
  exchanges: readonly Exchange[],
  { port, connections, warmUpMs, measureMs }: Extract<HttpQuestion, { kind: 'drive' }>,
): Promise<HttpAnswer> {
  const begin = performance.now() + warmUpMs;
  const end = begin + measureMs;
  const latencies: number[] = [];
  let next = 0;
  const work = async (connection: Connection) => {
    for (let now = performance.now(); now < end; ) {
      const { request, expected } = exchanges[next++ % exchanges.length] as Exchange;
      const body = await connection.send(request);
      const after = performance.now();
      if (!body.equals(expected)) throw new Error(`wrong answer: ${body.toString('utf8', 0, 500)}`);
      if (after >= begin && after < end) latencies.push(after - now);
      now = after;
    }
  };
  const open = Array.from({ length: connections }, () => new Connection(port));
  try {
    await Promise.all(open.map(work));
  } finally {
    for (const connection of open) connection.close();
  }
  return {
    requests: latencies.length,
    seconds: measureMs / 1000,
    latencies: Float64Array.from(latencies).sort(),
  };
}

if (process.send) {
  const loaded = new Map<string, Exchange[]>();
  serveParent(async (asked): Promise<HttpAnswer | undefined> => {
    const question = asked as HttpQuestion;
    if (question.kind === 'drive') return drive(loaded.get(question.id) ?? [], question);
    loaded.set(question.id, toExchanges(question.bodies, question.expected));
    return undefined;
  });
}
