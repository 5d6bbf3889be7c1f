/** Enqueues records and asks for predictions: the client half of the contract. A call ends when the queue has the record, or throws. */

import { isObject } from '../../lib/codecs/instances.ts';
import { encodeBinaryMessage } from '../../lib/codecs/message.ts';
import { assertCanaryKey, assertIdentity } from '../../lib/contract/enqueue.ts';
import { badConfig, withUri } from '../../lib/contract/errors.ts';
import { assertJobName, assertModelAsked, DEFAULT_JOB_NAME } from '../../lib/contract/names.ts';
import { assertNotified, type Notified } from '../../lib/contract/notice.ts';
import { elementAt } from '../../lib/contract/present.ts';
import { assertSchedule, type Schedule } from '../../lib/contract/schedule.ts';
import type { Inputs } from '../../lib/contract/values.ts';
import { Turns } from '../../lib/pipeline/batch/turns.ts';
import { type Answer, malformed, request } from '../fetch.ts';
import { type RecordInputs, toInputs } from '../inputs.ts';
import { type CallOptions, limited } from '../limit.ts';
import { newIdentity } from './digest.ts';
import { type Asked, headersOf, type Keyed, queryOf, type TextHeaders, type Traced } from './headers.ts';
import { stoppable } from './in-order.ts';
import { type Prediction, predictionOf } from './predictions.ts';
import { ServedModel } from './served-model.ts';
import { instanceJson } from './tensors.ts';
import { type UploadApi, withinGateway } from './upload.ts';

export interface PredictOptions extends CallOptions, Traced, Keyed {}

export interface EnqueueOptions extends CallOptions, Traced, Keyed, Schedule {
  /**
   * Names this enqueue, in 1 to 64 letters, digits, ".", "_" or "-". Default a random UUID. To be given when the same
   * enqueue is tried again after an error, because the queue may have the record although its answer was lost. Where the
   * service or this client reaches Redis, another record under the same identity is refused with `conflict`.
   */
  readonly identity?: string | undefined;
  /**
   * Whose record it is, in 1 to 128 letters, digits and punctuation of ASCII. SQS delivers the records of a tenant who sends
   * many after those of the others (a fair queue). For the queue only, not over HTTPS.
   */
  readonly tenant?: string | undefined;
  /** The target of the job's config.yaml that is notified when the record is done. */
  readonly notify?: string | undefined;
  /** The token of the task of Step Functions that the record ends, where the target has `stepFunctions`. */
  readonly taskToken?: string | undefined;
  /** Default 60,000. */
  readonly timeoutMs?: number | undefined;
}

/** A record that the queue has. */
export interface Enqueued {
  readonly uri: string;
  /** For `query`, `wait` and `status`: they then know the result of this enqueue from that of any other of the uri. */
  readonly identity: string;
}

export interface QueueRecord extends Traced, Keyed, Notified, Schedule {
  readonly uri: string;
  readonly inputs: RecordInputs;
  readonly identity?: string | undefined;
  readonly tenant?: string | undefined;
}

export interface EnqueueManyOptions extends CallOptions {
  /** Called now and then, and at the end, with the number of records accepted so far. */
  readonly onProgress?: (taken: number) => void;
  /** Time for one record. Default 60,000. */
  readonly timeoutMs?: number | undefined;
}

/** The contract's request: one value per input of the model, as JSON; a text is a base64 image, or text. */
export interface PredictRequest {
  readonly instances: readonly object[];
  /** Inputs of which none has a name of the model bind in their order. Default: one input does, several are refused. */
  readonly bindByPosition?: boolean;
}

/** The part of a record that is sent. */
export interface Message extends Traced, Keyed, Notified, Schedule {
  readonly uri: string;
  readonly identity: string;
  /** JSON: uri, data and serde. */
  readonly message: string;
  /** The tenant's group. */
  readonly groupId?: string | undefined;
  /** The identity, where the caller gave it and may have used it before. */
  readonly key?: string | undefined;
}

/** Concurrent records of `enqueueMany`: enough for 16 calls of ten to SQS, with little memory. */
const IN_FLIGHT = 320;
const ENQUEUE_MS = 60_000;
/** The gateway's limit. */
const PREDICT_MS = 29_000;
const JSON_TYPE = { 'content-type': 'application/json' };

export abstract class RecordWriter {
  protected readonly job: string;
  readonly #name: string | undefined;
  readonly #api: UploadApi | undefined;
  readonly #turns = new Turns();
  /** By the name of a further model. */
  readonly #served = new Map<string | undefined, ServedModel>();

  /** @throws bad_config */
  constructor(name: string | undefined, api: UploadApi | undefined) {
    this.job = assertJobName(name ?? DEFAULT_JOB_NAME);
    this.#api = api && { ...api, url: api.url.replace(/\/+$/, '') };
    this.#name = name;
  }

  /** Converts the inputs of one record, whose values may be files. */
  protected toInputs(inputs: RecordInputs): Promise<Inputs> {
    return toInputs(inputs);
  }

  /** @throws bad_config, bad_request */
  protected assertTenant(_tenant: string): void {
    throw badConfig('a tenant is for the queue: give queueUrl or a stack');
  }

  /** Sends a message whose parts were checked. */
  protected async send(
    { message, identity, notify, taskToken, expiresAfter, delaySeconds, priority, model, ...said }: Message,
    signal: AbortSignal,
  ): Promise<void> {
    const headers = { 'idempotency-key': identity, ...headersOf(said) };
    const query = queryOf({ notify, expiresAfter, delaySeconds, priority, model });
    // In the body, because addresses are logged on the way.
    const body =
      taskToken === undefined ? message : `{"taskToken":${JSON.stringify(taskToken)},${message.slice(1)}`;
    await this.#post(`/predictions${query}`, body, signal, headers);
  }

  /**
   * Resolves when the queue has the record. Of several records under one uri the last enqueued counts: those of one
   * InputQueue in the order of the calls, others by the time at which the queue took them.
   * @throws queue_unavailable, too_large, bad_request, conflict, timeout; with redisUrl results_unavailable; each with the uri
   */
  async enqueue(uri: string, inputs: RecordInputs, options: EnqueueOptions = {}): Promise<Enqueued> {
    try {
      const { identity: key, tenant: groupId } = options;
      const identity = assertIdentity(key ?? newIdentity());
      if (groupId !== undefined) this.assertTenant(groupId);
      if (options.canaryKey !== undefined) assertCanaryKey(options.canaryKey);
      if (options.model !== undefined) assertModelAsked(options.model);
      // Over HTTPS the service knows the targets.
      assertNotified(options);
      assertSchedule(options);
      // Made at once, because a caller may use its arrays again; the turn is taken before a file is read.
      const made = this.toInputs(inputs).then((read) => encodeBinaryMessage(uri, read));
      made.catch(() => undefined);
      await this.#inTurn(uri, options, async (signal) =>
        this.send({ ...options, uri, identity, message: await made, groupId, key }, signal),
      );
      return { uri, identity };
    } catch (error) {
      if (options.signal?.aborted) throw error;
      throw withUri(error, uri);
    }
  }

  /**
   * Enqueues a record whose message was made elsewhere. Calls of one tick for different uris share requests to SQS.
   * @throws as `enqueue`
   */
  enqueueMessage(record: Message, options: CallOptions = {}): Promise<void> {
    return this.#inTurn(record.uri, options, (signal) => this.send(record, signal));
  }

  /** The wait for its turn is a part of the call. */
  #inTurn(uri: string, options: CallOptions, send: (signal: AbortSignal) => Promise<void>): Promise<void> {
    const { timeoutMs = ENQUEUE_MS, signal } = options;
    const limit = { timeoutMs, signal, what: 'the queue did not take the record in', uri };
    return limited(limit, (end) => this.#turns.run(uri, async () => end.throwIfAborted() ?? send(end)));
  }

  /**
   * Enqueues any number of records with bounded memory. An iterable is read as fast as the queue accepts records.
   * @returns the number of accepted records, which is all of them
   * @throws AggregateError with one error (with its uri) per record that was not accepted; the others were. The signal's
   *   reason: of the records under way, some may be accepted
   */
  async enqueueMany(
    records: Iterable<QueueRecord> | AsyncIterable<QueueRecord>,
    options: EnqueueManyOptions | ((taken: number) => void) = {},
  ): Promise<number> {
    const { onProgress, timeoutMs, signal } =
      typeof options === 'function' ? { onProgress: options } : options;
    const errors: unknown[] = [];
    const flying = new Set<Promise<void>>();
    let taken = 0;
    try {
      for await (const { uri, inputs, ...own } of stoppable(records, signal)) {
        const flight = this.enqueue(uri, inputs, { ...own, timeoutMs, signal }).then(
          () => void taken++,
          (error: unknown) => void errors.push(error),
        );
        const landed = flight.then(() => void flying.delete(landed));
        flying.add(landed);
        if (flying.size < IN_FLIGHT) continue;
        await Promise.race(flying);
        onProgress?.(taken);
      }
    } finally {
      // Also if the iterable or onProgress throws, so that nothing is still in flight afterwards.
      await Promise.all(flying);
    }
    signal?.throwIfAborted();
    onProgress?.(taken);
    if (errors.length === 0) return taken;
    throw new AggregateError(
      errors,
      `${errors.length} of ${taken + errors.length} records were not enqueued`,
    );
  }

  /**
   * Runs the model on the inputs of one record by name, or of several, which are those of `enqueue`. Outputs have the names and
   * dtypes of the model where it says them (workers and filters do not).
   * @param options.timeoutMs default 29,000, the limit of the gateway
   * @throws the service's error by its code, such as bad_input for what does not fit the model; timeout
   */
  predict(inputs: readonly RecordInputs[], options?: PredictOptions): Promise<Prediction[]>;
  /**
   * Sends the contract's request unchanged, an object or JSON text.
   * @param options or the time limit in ms
   * @returns the contract's text `{value=…}` for each instance
   */
  predict(request: string | PredictRequest, options?: PredictOptions | number): Promise<string[]>;
  predict(inputs: RecordInputs, options?: PredictOptions): Promise<Prediction>;
  async predict(
    given: string | PredictRequest | RecordInputs | readonly RecordInputs[],
    options: PredictOptions | number = {},
  ): Promise<string[] | Prediction | Prediction[]> {
    const {
      timeoutMs = PREDICT_MS,
      signal,
      model,
      ...said
    }: PredictOptions = typeof options === 'number' ? { timeoutMs: options } : options;
    const asked = { model, headers: headersOf(said) };
    const limit = { timeoutMs, signal, what: 'there was no prediction in' };
    return limited<string[] | Prediction | Prediction[]>(limit, async (end) => {
      const body = typeof given === 'string' || !isRequest(given) ? given : JSON.stringify(given);
      if (typeof body === 'string') return (await this.#predicted(body, end, asked)).texts;
      const all = await this.#predict([body].flat(), end, asked);
      return Array.isArray(body) ? all : elementAt(all, 0, 'all');
    });
  }

  /** Closes the connections. Records that were not awaited may not have been sent. */
  async close(): Promise<void> {}

  async #predict(records: readonly RecordInputs[], signal: AbortSignal, asked: Asked) {
    const instances = await Promise.all(
      records.map(async (inputs) => instanceJson(await this.toInputs(inputs))),
    );
    const { texts, model } = await this.#predicted(`{"instances":[${instances.join(',')}]}`, signal, asked);
    if (texts.length !== instances.length) throw malformed('the number of predictions differs');
    const facts = await limited({ signal }, () => this.#servedBy(asked.model).of(model));
    return texts.map((text) => predictionOf(text, model, facts));
  }

  async #predicted(body: string, signal: AbortSignal, { model, headers }: Asked) {
    const answer = await this.#post(`/predict${queryOf({ model })}`, body, signal, headers);
    const { predictions }: { readonly predictions?: unknown } = Object(answer.body);
    if (!Array.isArray(predictions)) throw malformed('it has no predictions');
    return { texts: predictions as string[], model: answer.headers.get('model-version') ?? '' };
  }

  /** Calls share what it asks, so that the end of one does not end it. */
  #servedBy(model: string | undefined): ServedModel {
    const known = this.#served.get(model);
    if (known) return known;
    const served = new ServedModel(
      model ?? this.#name,
      async (path) => (await this.#request(path, {}, undefined, PREDICT_MS)).body,
    );
    this.#served.set(model, served);
    return served;
  }

  async #post(path: string, body: string, signal: AbortSignal, headers: TextHeaders): Promise<Answer> {
    const send = (to: string, text: string, more?: TextHeaders) =>
      this.#request(to, { method: 'POST', body: text, headers: { ...JSON_TYPE, ...more } }, signal);
    const api = this.#api;
    const sent = api && (await withinGateway(body, { api, signal, post: (text) => send('/uploads', text) }));
    return send(path, sent ?? body, headers);
  }

  #request(path: string, init: RequestInit, signal?: AbortSignal, limitMs = Infinity): Promise<Answer> {
    if (!this.#api) throw badConfig('this needs the option frontendUrl');
    return request(this.#api.url + path, init, limitMs, signal, this.#api.send);
  }
}

/** True unless it is inputs: no input's value can be an element of this. The service checks the rest. */
function isRequest(given: PredictRequest | RecordInputs | readonly RecordInputs[]): given is PredictRequest {
  const { instances }: { readonly instances?: unknown } = Object(given);
  return Array.isArray(instances) && instances.every(isObject);
}
