/** `node:https` as lib/notify/webhook.ts uses it: one POST to a receiver of notices, which fails at times. */
import { EventEmitter } from 'node:events';
import { connectionError } from '../machine/network.ts';
import type { SimulatedProcess } from '../machine/process.ts';

export interface Receiver {
  /** The share of calls that go wrong. */
  readonly share: () => number;
  /** Takes a notice. */
  readonly take: (id: string, body: string) => void;
}

interface RequestOptions {
  readonly headers: Readonly<Record<string, string>>;
  readonly signal: AbortSignal;
}

/** `unanswered`: it takes the notice, and its answer does not arrive. */
const WAYS = ['refused', 'silent', 'unanswered', 'fails', 'fails after'] as const;

class Request extends EventEmitter {
  readonly reusedSocket = false;
  readonly #process: SimulatedProcess;
  readonly #receiver: Receiver;
  readonly #options: RequestOptions;
  readonly #name: string;
  #isOver = false;

  constructor(process: SimulatedProcess, receiver: Receiver, options: RequestOptions) {
    super();
    this.#process = process;
    this.#receiver = receiver;
    this.#options = options;
    this.#name = `webhook ${++process.askedCount}`;
  }

  end(body: string): void {
    const process = this.#process;
    const { choices, scheduler } = process.machine;
    const about = `webhook ${process.name}`;
    const { signal, headers } = this.#options;
    process.asked.add(this.#name);
    signal.addEventListener('abort', () => this.#fail(new Error('The operation was aborted')), {
      once: true,
    });
    const how = choices.chance(about, this.#receiver.share()) ? choices.pick(about, WAYS) : 'well';
    const [thereMs, backMs] = [choices.between(about, 10, 200), choices.between(about, 10, 200)];
    if (how === 'silent') return;
    if (how === 'refused') {
      process.after(thereMs, () => this.#fail(connectionError('ECONNREFUSED', 'connect ECONNREFUSED')));
      return;
    }
    scheduler.after(thereMs, undefined, () => {
      if (how !== 'fails') this.#receiver.take(headers['webhook-id'] ?? '', body);
      if (how === 'unanswered') return;
      process.after(backMs, () => this.#answer(how === 'well' ? 204 : 503));
    });
  }

  #answer(statusCode: number): void {
    if (this.#isOver) return;
    this.#finish();
    const response = Object.assign(new EventEmitter(), { statusCode, headers: {}, destroy: () => undefined });
    this.emit('response', response);
    response.emit('end');
  }

  #fail(error: Error): void {
    if (this.#isOver) return;
    this.#finish();
    this.emit('error', error);
  }

  #finish(): void {
    this.#isOver = true;
    this.#process.asked.delete(this.#name);
  }
}

/** Connections are not modelled one by one. */
class Agent {
  destroy(): void {}
}

/** The module `https`. */
export function webhookModule(process: SimulatedProcess, receiver: Receiver) {
  return { Agent, request: (_url: URL, options: RequestOptions) => new Request(process, receiver, options) };
}
