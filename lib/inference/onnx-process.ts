/**
 * A process that runs a model for the single machine: onnxruntime runs on the JS thread, so here a run delays no other
 * request, and one that never ends, or ends its process, is ended alone. It is started as the isolated process is.
 */
import { once } from 'node:events';
import { ServingError } from '../contract/errors.ts';
import type { Inputs, Outcome, RunPolicy, TensorSpec } from '../contract/values.ts';
import {
  askProcess,
  howOf,
  type IsolatedModel,
  type IsolatedReply,
  type IsolatedRequest,
  type ModelFacts,
  receivedError,
  receivedOutcomes,
  startIsolated,
} from './isolated-runner.ts';
import { bindingsOf, packFor } from './packed.ts';

/** The process ended during a run. */
export class ProcessEnded extends ServingError {
  constructor(how: string) {
    super('model_failed', `the model ended its process (${how})`);
  }
}

/** A process, as one of its models sees it. */
export interface ModelProcess {
  /**
   * One batch; the next may follow when this one has ended.
   * @throws ProcessEnded; with `failFast` the first failure
   */
  run(records: readonly Inputs[], policy: RunPolicy): Promise<Outcome[]>;
  /** Its time is over: records of the batch that have not run get a `timeout`. */
  stop(): void;
  /** Ends it at once. @param why what `ended` says */
  kill(why: string): void;
}

export class OnnxProcess implements ModelProcess {
  readonly #child: ReturnType<typeof startIsolated>;
  #why: string | undefined;
  /** The inputs of the open models, by key. */
  readonly #inputs = new Map<string | undefined, readonly TensorSpec[]>();
  /** How it ended. Never rejects. */
  readonly ended: Promise<string>;

  /** @param model default: it begins without one */
  constructor(model?: IsolatedModel) {
    this.#child = startIsolated(model);
    this.ended = once(this.#child, 'exit').then(([code, signal]) => this.#why ?? howOf(code, signal));
  }

  /** @param key default: of the model that it began with. @throws the error of opening the model */
  async facts(key?: string): Promise<ModelFacts> {
    const reply = await this.#ask({ describe: true, key });
    if (!('facts' in reply)) throw unexpected(reply);
    this.#inputs.set(key, reply.facts.inputs);
    return reply.facts;
  }

  has(key: string): boolean {
    return this.#inputs.has(key);
  }

  /** Opens one more model. @throws the error of opening it */
  open(key: string, model: IsolatedModel): Promise<ModelFacts> {
    this.#child.send({ open: model, key } satisfies IsolatedRequest, () => undefined);
    return this.facts(key);
  }

  /** Closes a model in which nothing runs. */
  close(key: string): void {
    this.#inputs.delete(key);
    if (this.#child.connected) this.#child.send({ close: key } satisfies IsolatedRequest, () => undefined);
  }

  async run(
    records: readonly Inputs[],
    { failFast, exactSignature, isRow }: RunPolicy,
    key?: string,
  ): Promise<Outcome[]> {
    const policy = {
      failFast: failFast ?? false,
      exactSignature: exactSignature ?? false,
      isRow: isRow ?? false,
    };
    const inputs = this.#inputs.get(key) ?? [];
    const run = packFor(records, inputs);
    const reply = await this.#ask({ run, bindings: bindingsOf(records, inputs), policy, key });
    const outcomes = receivedOutcomes(reply);
    if (outcomes) return outcomes;
    throw unexpected(reply);
  }

  stop(): void {
    this.#child.send({ stop: true } satisfies IsolatedRequest, () => undefined);
  }

  /** Ends it, when nothing runs in it; after `limitMs` in any case. */
  async retire(limitMs: number): Promise<void> {
    const late = setTimeout(() => this.kill(`did not end within ${limitMs} ms`), limitMs);
    if (this.#child.connected) this.#child.disconnect();
    await this.ended;
    clearTimeout(late);
  }

  kill(why: string): void {
    this.#why ??= why;
    this.#child.kill('SIGKILL');
  }

  async #ask(request: IsolatedRequest): Promise<IsolatedReply> {
    const reply = await askProcess(this.#child, request);
    if ('ended' in reply) throw new ProcessEnded(this.#why ?? reply.ended);
    return reply;
  }
}

function unexpected(reply: IsolatedReply): Error {
  if ('failed' in reply) return receivedError(reply.failed);
  return new ServingError('internal', 'the process of the model answered something else');
}
