/** `node:https` as lib/s3/signed-read.ts uses it: one GET of a part of an object, to the model of S3. */
import { EventEmitter } from 'node:events';
import { connectionError } from '../machine/network.ts';
import type { SimulatedProcess } from '../machine/process.ts';
import type { Services } from './aws.ts';

interface RequestOptions {
  readonly headers: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal;
  readonly timeout?: number;
}

const PIECE_BYTES = 1_500;

/** Connections are not modelled one by one. */
class Agent {
  destroy(): void {}
}

class Request extends EventEmitter {
  readonly #process: SimulatedProcess;
  readonly #services: Services;
  readonly #url: URL;
  readonly #options: RequestOptions;
  readonly #name: string;
  #silence: { close(): void } | undefined;
  #isOver = false;
  /** The connection was kept open from an earlier request. */
  readonly reusedSocket: boolean;

  constructor(
    process: SimulatedProcess,
    services: Services,
    url: URL,
    options: RequestOptions,
    isReused: boolean,
  ) {
    super();
    this.#process = process;
    this.#services = services;
    this.#url = url;
    this.#options = options;
    this.#name = `s3 GET ${++process.askedCount}`;
    this.reusedSocket = isReused;
  }

  end(): void {
    const { signal, timeout, headers } = this.#options;
    const process = this.#process;
    process.asked.add(this.#name);
    if (timeout !== undefined) this.#silence = process.clock.setTimeout(() => this.emit('timeout'), timeout);
    const onAbort = () =>
      this.#fail(Object.assign(new Error('The operation was aborted'), { name: 'AbortError' }));
    if (signal?.aborted) return void process.after(0, onAbort);
    signal?.addEventListener('abort', onAbort, { once: true });
    const [bucket] = this.#url.hostname.split('.');
    const input = {
      Bucket: bucket,
      Key: this.#url.pathname.slice(1),
      Range: headers['range'],
      IfMatch: headers['if-match'],
    };
    const call = { service: 's3', operation: 'GetObject', input } as const;
    const { thereMs, backMs, what } = this.#services.fate(call, process);
    if (this.reusedSocket || what === 'refused') {
      process.after(thereMs + backMs, () => this.#fail(connectionError('ECONNRESET', 'socket hang up')));
      return;
    }
    if (what === 'lost') return;
    process.machine.scheduler.after(thereMs, undefined, () => {
      const answer = attempt(() => this.#services.serve(call, process));
      if (what === 'arrives') process.after(backMs, () => this.#answer(answer));
    });
  }

  destroy(error?: Error): void {
    if (error) this.#process.after(0, () => this.#fail(error));
    else this.#finish();
  }

  #answer(answer: { status: number; body?: Buffer; etag?: string }): void {
    if (this.#isOver) return;
    this.#silence?.close();
    const response = Object.assign(new EventEmitter(), {
      statusCode: answer.status,
      headers: { etag: answer.etag },
    });
    this.emit('response', response);
    const { body = Buffer.alloc(0) } = answer;
    for (let at = 0; at < body.length && !this.#isOver; at += PIECE_BYTES)
      response.emit('data', body.subarray(at, at + PIECE_BYTES));
    if (this.#isOver) return;
    this.#finish();
    response.emit('end');
  }

  #finish(): void {
    this.#isOver = true;
    this.#silence?.close();
    this.#process.asked.delete(this.#name);
  }

  #fail(error: Error): void {
    if (this.#isOver) return;
    this.#finish();
    this.emit('error', error);
  }
}

function attempt(serve: () => object): { status: number; body?: Buffer; etag?: string } {
  try {
    const { Body, ETag }: { Body?: Buffer; ETag?: string } = serve();
    return { status: 206, ...(Body ? { body: Body } : {}), ...(ETag ? { etag: ETag } : {}) };
  } catch (error) {
    const { $metadata }: { $metadata?: { httpStatusCode?: number } } = Object(error);
    return { status: $metadata?.httpStatusCode ?? 500 };
  }
}

/** The module `https`. */
export function httpsModule(process: SimulatedProcess, services: Services) {
  /** How often it had been stopped when it kept its connection. */
  let keptAt = -1;
  return {
    Agent,
    request(url: URL, options: RequestOptions) {
      const { stops } = process;
      const isReused =
        keptAt >= 0 && keptAt !== stops && process.machine.choices.chance(`s3 closed ${process.name}`, 0.5);
      keptAt = isReused ? -1 : stops;
      return new Request(process, services, url, options, isReused);
    },
  };
}
