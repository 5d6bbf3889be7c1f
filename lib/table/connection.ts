/**
 * Calls DynamoDB for one table, without the AWS SDK: four operations of JSON, signed. What AWS refuses for now, and what gets no
 * answer, is called again until the time is up; every write of this store says what it found, so a second one changes nothing.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { type AwsAnswer, type AwsPlace, callAws, parsed, reasonOf } from '../aws/call.ts';
import { badRequest, ServingError } from '../contract/errors.ts';
import type { StoreConnection, StoreTimeouts } from '../results/store.ts';

/** Where the table is. The role is read at each call, because Lambda renews it. */
export interface TablePlace {
  readonly tableName: string;
  readonly role: Pick<AwsPlace, 'region' | 'credentials'>;
  /** Another endpoint than AWS's, as of an emulator. */
  readonly tableEndpoint: string | undefined;
}

/** An attribute of an item: a text or a number. */
export interface Attribute {
  readonly S?: string;
  readonly N?: string;
}

export type Attributes = Readonly<Record<string, Attribute>>;

export interface Answer {
  readonly Item?: Attributes;
  readonly Attributes?: Attributes;
  readonly Items?: readonly Attributes[];
  readonly LastEvaluatedKey?: Attributes;
  readonly Responses?: Readonly<Record<string, readonly Attributes[]>>;
  readonly UnprocessedKeys?: Readonly<Record<string, { readonly Keys: readonly Attributes[] }>>;
}

/** Why AWS refused a call, by its name of the error. */
export class Refusal extends ServingError {
  readonly kind: string;

  constructor(kind: string, message: string) {
    super('results_unavailable', message);
    this.kind = kind;
  }

  /** True if the table, or one of its partitions, gets more than it takes. */
  get isThrottling(): boolean {
    return THROTTLING.has(this.kind);
  }
}

const THROTTLING: ReadonlySet<string> = new Set([
  'ProvisionedThroughputExceededException',
  'RequestLimitExceeded',
  'ThrottlingException',
  'TransactionConflictException',
]);

/** Calls in flight; what is more waits. */
const TOGETHER = 16;
/** DynamoDB answers in some 5 ms; what has 16 MB takes longer. */
const ATTEMPT_MS = 2_000;
/** A call is repeated for so long. */
const CALL_MS = 4_000;
/** Attempts of a call that gets no answer. */
const UNANSWERED_ATTEMPTS = 3;
const FIRST_PAUSE_MS = 25;
const MOST_PAUSE_MS = 400;
/** BatchGetItem answers 16 MB at most, which JSON lengthens a little. */
const ANSWER_BYTES = 24 * 1024 * 1024;

export class TableConnection implements StoreConnection {
  readonly #place: TablePlace;
  readonly #attemptMs: number;
  readonly #waiting: (() => void)[] = [];
  #running = 0;
  #closed = false;

  constructor(place: TablePlace, { commandTimeoutMs = ATTEMPT_MS }: StoreTimeouts = {}) {
    this.#place = place;
    this.#attemptMs = commandTimeoutMs;
  }

  get tableName(): string {
    return this.#place.tableName;
  }

  /** By this machine's clock: DynamoDB tells no time. In ms since 1970. */
  now(): number {
    return Date.now();
  }

  /** Nothing to do: the first call connects. */
  async open(): Promise<void> {}

  /**
   * @param operation its name, such as `GetItem`
   * @param input without the name of the table
   * @throws results_unavailable, a Refusal where AWS gave a reason
   */
  async call(operation: string, input: object): Promise<Answer> {
    const request = { TableName: this.tableName, ...input };
    return this.#send(operation, JSON.stringify(request));
  }

  /** Reads several items. @param keys at most 100 */
  batchGet(keys: readonly Attributes[], options: object): Promise<Answer> {
    const RequestItems = { [this.tableName]: { Keys: keys, ...options } };
    return this.#send('BatchGetItem', JSON.stringify({ RequestItems }));
  }

  async #send(operation: string, body: string): Promise<Answer> {
    if (this.#closed) throw badRequest('this connection to the table was closed');
    if (this.#running >= TOGETHER) await new Promise<void>((resolve) => this.#waiting.push(resolve));
    else this.#running++;
    try {
      return await this.#repeat(operation, body);
    } finally {
      const next = this.#waiting.shift();
      if (next) next();
      else this.#running--;
    }
  }

  async #repeat(operation: string, body: string): Promise<Answer> {
    const endAt = performance.now() + CALL_MS;
    for (let attempt = 1; ; attempt++) {
      const failure = await this.#attempt(operation, body);
      if (!(failure instanceof ServingError)) return failure;
      const isAnswer = failure instanceof Refusal;
      if (isAnswer && !failure.isThrottling && failure.kind !== 'InternalServerError') throw failure;
      const pauseMs = Math.random() * Math.min(MOST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** attempt);
      const isLast = !isAnswer && attempt >= UNANSWERED_ATTEMPTS;
      if (isLast || this.#closed || performance.now() + pauseMs > endAt) throw failure;
      await delay(pauseMs);
    }
  }

  async #attempt(operation: string, body: string): Promise<Answer | ServingError> {
    const { role, tableEndpoint: endpoint } = this.#place;
    try {
      const answer = await callAws(
        { ...role, endpoint },
        {
          service: 'dynamodb',
          headers: {
            'content-type': 'application/x-amz-json-1.0',
            'x-amz-target': `DynamoDB_20120810.${operation}`,
          },
          body,
          limitMs: this.#attemptMs,
          maxBytes: ANSWER_BYTES,
        },
      );
      return answer.status === 200 ? parsed(answer.text) : this.#refusalOf(operation, answer);
    } catch (error) {
      if (error instanceof ServingError) throw error;
      return this.unavailable(operation, error instanceof Error ? error.message : String(error));
    }
  }

  #refusalOf(operation: string, answer: AwsAnswer): ServingError {
    const reason = reasonOf(answer);
    // A status without a name is that of a proxy, or of a service that is not there.
    const [kind = ''] = reason.split(':');
    const { message } = this.unavailable(operation, reason);
    return new Refusal(answer.status >= 500 ? 'InternalServerError' : kind, message);
  }

  unavailable(operation: string, reason: string): ServingError {
    return new ServingError(
      'results_unavailable',
      `table ${this.tableName} of DynamoDB, ${operation}: ${reason}`,
    );
  }

  async close(): Promise<void> {
    this.#closed = true;
  }
}
