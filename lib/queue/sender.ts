/**
 * Owns SQS: collects messages into SendMessageBatch calls of up to ten. A call can answer 200 and still refuse
 * entries, so each message has its own promise, which rejects when SQS did not accept it.
 */
import type { Agent } from 'node:https';
import { Readable } from 'node:stream';
import { SendMessageBatchCommand, SQSClient } from '@aws-sdk/client-sqs';
import { attributesBytes, type MessageAttributes } from '../codecs/attributes.ts';
import { asError, badRequest, ServingError } from '../contract/errors.ts';
import { LIMITS } from '../contract/limits.ts';

interface Pending {
  readonly body: string;
  readonly attributes: MessageAttributes;
  readonly groupId: string | undefined;
  readonly delaySeconds: number;
  /** Size of body and attributes. */
  readonly bytes: number;
  attempts: number;
  readonly resolve: () => void;
  readonly reject: (error: ServingError) => void;
}

/** SendMessageBatch calls in flight at most. */
const PARALLEL_CALLS = 16;
/** Attempts for an entry that SQS refused temporarily, besides the SDK's own retries of the call. */
const MAX_ATTEMPTS = 4;
const FIRST_PAUSE_MS = 50;
/** SQS answers in some 20 ms. With the attempts of the AWS SDK, a silent endpoint is given up after four times that. */
const CALL_TIMEOUT_MS = 7_000;
const BATCH_TIMEOUT_MS = 4 * CALL_TIMEOUT_MS + 2_000;
/** Limit for an answer to ten messages, which has about 4 kB. */
const ANSWER_BYTES = 1024 * 1024;

/** @param options.timeoutMs of one attempt of a call, which the AWS SDK would wait for without end */
export function openSqs(options: {
  endpoint?: string | undefined;
  region?: string | undefined;
  credentials?: { accessKeyId: string; secretAccessKey: string } | undefined;
  timeoutMs?: number;
  /** Goes through a proxy. */
  httpsAgent?: Agent;
}): SQSClient {
  const { timeoutMs = CALL_TIMEOUT_MS } = options;
  const sqs = new SQSClient({
    maxAttempts: 4,
    requestHandler: {
      connectionTimeout: timeoutMs,
      requestTimeout: timeoutMs,
      throwOnRequestTimeout: true,
      ...(options.httpsAgent ? { httpsAgent: options.httpsAgent } : {}),
    },
    ...(options.region ? { region: options.region } : {}),
    ...(options.credentials ? { credentials: options.credentials } : {}),
    // The host in the queue's URL may not be reachable (an emulator in a container); the endpoint is.
    ...(options.endpoint ? { endpoint: options.endpoint, useQueueUrlAsEndpoint: false } : {}),
  });
  sqs.middlewareStack.add(
    (next) => async (args) => {
      const output = await next(args);
      const response = output.response as { body?: unknown };
      if (response.body instanceof Readable)
        response.body = Readable.from(piecesUpTo(ANSWER_BYTES, response.body));
      return output;
    },
    // Nearest to the connection: before the answer is read.
    { step: 'deserialize', priority: 'low' },
  );
  writeNatively(sqs);
  return sqs;
}

/**
 * The SDK writes the JSON of a request in JavaScript, character by character, which is half of the processor time of sending a
 * large message. So it gets the call without its entries, and what it wrote is replaced.
 */
function writeNatively({ middlewareStack }: SQSClient): void {
  const whole = new WeakMap<object, object>();
  middlewareStack.add(
    (next, context) => (args) => {
      // Other calls may have bytes in them, and are short.
      if (!('Entries' in args.input) || context.commandName !== 'SendMessageBatchCommand') return next(args);
      whole.set(context, args.input);
      return next({ ...args, input: { ...args.input, Entries: [] } });
    },
    { step: 'serialize', priority: 'high' },
  );
  middlewareStack.add(
    (next, context) => (args) => {
      const input = whole.get(context);
      if (input) (args.request as { body: unknown }).body = Buffer.from(JSON.stringify(input));
      return next(args);
    },
    // Before the SDK counts its bytes and signs it.
    { step: 'build', priority: 'high' },
  );
}

async function* piecesUpTo(limit: number, body: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  let bytes = 0;
  for await (const piece of body) {
    bytes += piece.byteLength;
    if (bytes > limit) throw new Error(`the answer of SQS is over the limit of ${limit} bytes`);
    yield piece;
  }
}

/**
 * Checks the group id of a fair queue.
 * @throws bad_request
 */
export function assertGroupId(text: string): string {
  if (typeof text === 'string' && /^[\x21-\x7e]{1,128}$/.test(text)) return text;
  throw badRequest(
    `tenant: expected 1 to 128 letters, digits and punctuation of ASCII, got ${JSON.stringify(text)?.slice(0, 140)}`,
  );
}

/** The time that a call may take now, in ms, where that is less than usual. */
type LimitMs = () => number | undefined;

export class QueueSender {
  readonly #sqs: SQSClient;
  readonly #queueUrl: string;
  readonly #limitMs: LimitMs;
  readonly #waiting: Pending[] = [];
  #calls = 0;
  #scheduled = false;

  constructor(
    sqs: SQSClient,
    { queueUrl, limitMs = () => undefined }: { readonly queueUrl: string; readonly limitMs?: LimitMs },
  ) {
    this.#sqs = sqs;
    this.#queueUrl = queueUrl;
    this.#limitMs = limitMs;
  }

  /**
   * Sends one message; messages of one tick share calls. Resolves when SQS has it.
   * @param groupId the sender among whom SQS shares a standard queue fairly
   * @param delaySeconds how long SQS keeps it from receivers, at most 900
   * @throws queue_unavailable, too_large
   */
  send(body: string, attributes: MessageAttributes = {}, groupId?: string, delaySeconds = 0): Promise<void> {
    return new Promise((resolve, reject) => {
      const bytes = Buffer.byteLength(body) + attributesBytes(attributes);
      this.#waiting.push({ body, attributes, groupId, delaySeconds, bytes, attempts: 0, resolve, reject });
      if (this.#scheduled) return;
      this.#scheduled = true;
      setImmediate(() => {
        this.#scheduled = false;
        this.#pump();
      });
    });
  }

  #pump(): void {
    while (this.#waiting.length > 0 && this.#calls < PARALLEL_CALLS) {
      this.#calls++;
      void this.#sendBatch(this.#nextBatch()).finally(() => {
        this.#calls--;
        this.#pump();
      });
    }
  }

  /** Up to ten messages of together up to 1 MiB: both are limits of one call. */
  #nextBatch(): Pending[] {
    let bytes = 0;
    let count = 0;
    for (const pending of this.#waiting) {
      if (count === LIMITS.sendEntries || (count > 0 && bytes + pending.bytes > LIMITS.messageBytes)) break;
      bytes += pending.bytes;
      count++;
    }
    return this.#waiting.splice(0, count);
  }

  async #sendBatch(batch: Pending[]): Promise<void> {
    let left = batch;
    for (let pauseMs = FIRST_PAUSE_MS; left.length > 0; pauseMs *= 2) {
      left = await this.#trySend(left);
      if (left.length > 0) await new Promise((resolve) => setTimeout(resolve, pauseMs));
    }
  }

  /** Settles what it can and returns the entries to retry. */
  async #trySend(batch: readonly Pending[]): Promise<Pending[]> {
    try {
      const entries = batch.map(({ body, attributes, groupId, delaySeconds }, i) => ({
        Id: String(i),
        MessageBody: body,
        MessageAttributes: attributes,
        ...(groupId === undefined ? {} : { MessageGroupId: groupId }),
        ...(delaySeconds === 0 ? {} : { DelaySeconds: delaySeconds }),
      }));
      const command = new SendMessageBatchCommand({ QueueUrl: this.#queueUrl, Entries: entries });
      // The limit of an attempt ends with the headers of its answer.
      const limitMs = Math.min(BATCH_TIMEOUT_MS, this.#limitMs() ?? BATCH_TIMEOUT_MS);
      const reply = await this.#sqs.send(command, { abortSignal: AbortSignal.timeout(limitMs) });
      const refused = new Map((reply.Failed ?? []).map((failure) => [Number(failure.Id), failure]));
      // An entry on neither list (an empty answer of a proxy) may not be queued.
      const taken = new Set((reply.Successful ?? []).map(({ Id }) => Number(Id)));
      const again: Pending[] = [];
      for (const [i, pending] of batch.entries()) {
        const { SenderFault, Code = 'no word', Message = '' } = refused.get(i) ?? {};
        if (taken.has(i)) pending.resolve();
        else if (SenderFault || ++pending.attempts >= MAX_ATTEMPTS) {
          pending.reject(this.#unavailable(`${Code}: ${Message}`));
        } else again.push(pending);
      }
      return again;
    } catch (error) {
      for (const pending of batch) pending.reject(this.#unavailable(asError(error).message, error));
      return [];
    }
  }

  #unavailable(message: string, cause?: unknown): ServingError {
    return new ServingError(
      'queue_unavailable',
      `SQS did not take the record (${this.#queueUrl}): ${message}`,
      { cause },
    );
  }

  close(): void {
    this.#sqs.destroy();
  }
}
