/**
 * In: uris. Out: their results, which are gone from Redis afterwards; of two who take, one gets each.
 * Trap: an answer that gets lost would lose what was taken. So results are put aside under a name of this taking's own,
 * and who asks again by that name gets them; they are removed with the next taking, or by time.
 */
import { randomUUID } from 'node:crypto';
import { heldKey, indexKey, resultKey, seenPrefix, stateKey } from '../contract/names.ts';
import type { ServingError } from '../errors.ts';
import type { RedisConnection } from './redis.ts';
import { TAKE } from './scripts.ts';

/** How long a taken result can be had again by its taker, whose answer got lost; the last ones taken lie for so long. */
const HELD_MS = 10 * 60 * 1000;
/** Of results whose answer got lost, how many a client remembers. */
const MAX_UNANSWERED = 1_000;
/** Keys of results that arrived which one taking removes. */
const MAX_ARRIVED = 1_000;

export interface Taken {
  readonly fields: Readonly<Record<string, string>>;
  /** Why there are no fields: the key holds something else. */
  readonly error: ServingError | undefined;
  /** Whether we took it off the index: of two who dequeue a cancelled uri, one did. */
  readonly wasListed: boolean;
}

/** What TAKE tells of one uri: whether it was listed; the fields of what stays, or the text of an error. */
type TakeReply = readonly [listed: number, stays: readonly string[] | string];

export class ResultTaker {
  readonly #connection: RedisConnection;
  readonly #job: string;
  /** By uri, the name under which a taking was asked for whose answer got lost: to ask for the same again. */
  readonly #unanswered = new Map<string, string>();
  /** Keys of results that have arrived here; the next taking removes them, so that nobody waits for a removal. */
  readonly #arrived: string[] = [];

  constructor(connection: RedisConnection, job: string) {
    this.#connection = connection;
    this.#job = job;
  }

  /** Up to `count` uris whose answer got lost. */
  unanswered(count: number): string[] {
    return [...this.#unanswered.keys()].slice(0, count);
  }

  /**
   * As many as uris, in order, in one round trip.
   * @throws results_unavailable; then asking again loses nothing
   */
  async take(uris: readonly string[]): Promise<Taken[]> {
    const fresh = randomUUID();
    const held = uris.map((uri) => heldKey(this.#job, this.#unanswered.get(uri) ?? fresh, uri));
    const arrived = this.#arrived.splice(0, MAX_ARRIVED);
    let taken: Taken[];
    try {
      taken = await this.#ask(uris, held, arrived);
    } catch (error) {
      this.#arrived.push(...arrived);
      for (const uri of uris) this.#remember(uri, fresh);
      throw error;
    }
    for (const uri of uris) this.#unanswered.delete(uri);
    this.#arrived.push(...held.filter((_, i) => Object.keys(taken[i]?.fields ?? {}).length > 0));
    return taken;
  }

  #ask(uris: readonly string[], held: readonly string[], arrived: readonly string[]): Promise<Taken[]> {
    const job = this.#job;
    const keys = uris.flatMap((uri, i) => [resultKey(job, uri), stateKey(job, uri), held[i] as string]);
    return this.#connection.use(async (redis) => {
      // No transaction: a full Redis refuses whatever is in one. What was put aside is ours alone.
      const pipeline = redis.pipeline();
      pipeline.eval(TAKE, keys.length + 1, indexKey(job), ...keys, HELD_MS, seenPrefix(job), ...uris);
      for (const key of held) pipeline.hgetall(key);
      if (arrived.length > 0) pipeline.unlink(...arrived);
      const [took, ...values] = ((await pipeline.exec()) ?? []).map(([error, reply]) => {
        if (error) throw error;
        return reply;
      });
      return (took as TakeReply[]).map((reply, i) => this.#takenOf(reply, values[i]));
    }, true);
  }

  #remember(uri: string, taking: string): void {
    if (this.#unanswered.size < MAX_UNANSWERED && !this.#unanswered.has(uri))
      this.#unanswered.set(uri, taking);
  }

  #takenOf([listed, stays]: TakeReply, held: unknown): Taken {
    const wasListed = listed === 1;
    if (typeof stays === 'string') {
      return { fields: {}, error: this.#connection.unavailable(new Error(stays)), wasListed };
    }
    const fields = stays.length > 0 ? fieldsOf(stays) : (held as Record<string, string>);
    return { fields, error: undefined, wasListed };
  }
}

/** Names and values in turn. */
function fieldsOf(flat: readonly string[]): Record<string, string> {
  const fields: Record<string, string> = {};
  for (let i = 0; i + 1 < flat.length; i += 2) fields[flat[i] as string] = flat[i + 1] as string;
  return fields;
}
