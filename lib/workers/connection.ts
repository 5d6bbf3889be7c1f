/** The worker's side of the two pipes. It reads ahead, so that the end of the service is seen while the worker computes. */
import { Socket } from 'node:net';
import { FrameDecoder } from '../codecs/values/frame.ts';
import type { WorkerValue } from '../contract/worker-values.ts';
import { encodeMessage, type FromWorker, type ToWorker } from './messages.ts';
import { readToWorker } from './read-message.ts';

const INCOMING = 3;
const OUTGOING = 4;

export class Connection {
  readonly #outgoing = new Socket({ fd: OUTGOING, readable: false, writable: true });
  readonly #decoder = new FrameDecoder();
  readonly #arrived: ToWorker[] = [];
  #waiting: ((message: ToWorker) => void) | undefined;
  #retiring = false;
  /** Makes a value of an encoded image; known when the worker is loaded. */
  image: ((bytes: Uint8Array) => WorkerValue) | undefined;

  constructor() {
    const incoming = new Socket({ fd: INCOMING, readable: true, writable: false });
    incoming.on('data', (chunk) => this.#read(chunk));
    incoming.on('close', () => this.#ended());
    incoming.on('error', () => this.#ended());
    this.#outgoing.on('error', () => this.#ended());
  }

  receive(): Promise<ToWorker> {
    const message = this.#arrived.shift();
    if (message) return Promise.resolve(message);
    return new Promise((resolve) => {
      this.#waiting = resolve;
    });
  }

  /** Resolves when the pipe has it all. */
  async send(message: FromWorker): Promise<void> {
    const chunks = encodeMessage(message);
    await new Promise<void>((resolve) => {
      this.#outgoing.cork();
      for (const chunk of chunks.slice(0, -1)) this.#outgoing.write(chunk);
      this.#outgoing.write(chunks.at(-1) ?? '', () => resolve());
      this.#outgoing.uncork();
    });
  }

  #read(chunk: Uint8Array): void {
    try {
      for (const frame of this.#decoder.push(chunk)) {
        const message = readToWorker(frame, this.image);
        this.#retiring ||= message.type === 'retire';
        const waiting = this.#waiting;
        this.#waiting = undefined;
        if (waiting) waiting(message);
        else this.#arrived.push(message);
      }
    } catch (error) {
      fail(error);
    }
  }

  #ended(): void {
    if (this.#retiring) return;
    try {
      this.#decoder.end();
    } catch (error) {
      fail(error);
    }
    process.exit(1);
  }
}

function fail(error: unknown): never {
  console.error(error);
  process.exit(1);
}
