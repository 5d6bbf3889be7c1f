/** The state of a uri, from its announcement to its outcome, in its item. */
import type { EnqueueQuery } from '../contract/enqueue.ts';
import type { RecordStatus } from '../contract/result.ts';
import { allEnded } from '../contract/under-way.ts';
import type { RunningRecord } from '../pipeline/serve.ts';
import type { Announcement, SentRecord } from '../pipeline/submit.ts';
import { parseIdempotencyRecord } from '../results/order.ts';
import {
  type Found,
  keyIsUsed,
  OUTLASTS_QUEUE_MS,
  payloadDigest,
  statusOfEnqueue,
  statusOfUri,
  wasCancelled,
} from '../results/record-state.ts';
import type { States, StatesOptions } from '../results/store.ts';
import type { TableConnection } from './connection.ts';
import { Entries } from './entries.ts';
import { type Entry, TTL, visible } from './entry.ts';
import { changeItem, type Decision, type Item } from './items.ts';
import { announce, cancel, markRunning, withdraw } from './steps.ts';

export class TableStates implements States {
  readonly #connection: TableConnection;
  readonly #options: StatesOptions;
  readonly #entries: Entries;

  constructor(connection: TableConnection, options: StatesOptions) {
    this.#connection = connection;
    this.#options = options;
    this.#entries = new Entries(connection, options.job);
  }

  /**
   * The key of a request is compared among all uris of the job, and kept first: a record that then is not announced is sent again
   * under the same key.
   */
  async announce({ uri, message, identity, request }: SentRecord): Promise<Announcement> {
    const payload = payloadDigest(message);
    if (request) await this.#use(request.key, request.digest ?? payload);
    await this.#entries.take(uri, (entry) => {
      return { answer: 0, entry: announce(entry, { identity, payload, now: this.#entries.now() }) };
    });
    const withdrawn = (entry: Entry) => ({ answer: 0, entry: withdraw(entry, identity) });
    return {
      withdraw: async () => {
        await this.#entries.take(uri, withdrawn).catch(() => undefined);
      },
    };
  }

  /** @throws conflict when the key was used for another request */
  async #use(key: string, digest: string): Promise<void> {
    const decide = (item: Item | undefined): Decision<boolean> => {
      const now = this.#entries.now();
      if (item && Number(item['until']) > now && item['digest'] !== digest) return { answer: false };
      const until = now + OUTLASTS_QUEUE_MS;
      const set = { digest, until, [TTL]: Math.ceil(until / 1000) };
      return { answer: true, change: { set, remove: [] } };
    };
    const { answer } = await changeItem(this.#connection, `${this.#options.job}/k/${key}`, decide);
    if (!answer) throw keyIsUsed(key);
  }

  async markRunning(records: readonly RunningRecord[], forMs: number): Promise<void> {
    const marking = records.map(({ uri, enqueue: { identity } }) =>
      this.#entries.take(uri, (entry) => {
        return { answer: 0, entry: markRunning(entry, identity, this.#entries.now() + forMs) };
      }),
    );
    await allEnded(marking).catch(() => undefined);
  }

  async status(uri: string, { identity }: EnqueueQuery = {}): Promise<RecordStatus> {
    const found = foundOf(await this.#entries.read(uri), this.#entries.now());
    return identity === undefined ? statusOfUri(found) : statusOfEnqueue(found, identity);
  }

  async cancel(uri: string): Promise<boolean> {
    const { now, latestOrder = () => 0 } = this.#options;
    const { answer } = await this.#entries.take(uri, (entry) => {
      const { isCancelled, entry: next } = cancel(entry, {
        error: wasCancelled(),
        now: this.#entries.now(),
        finishedAt: now(),
        latestOrder: latestOrder(),
      });
      return { answer: isCancelled, entry: next === entry ? undefined : next };
    });
    return answer;
  }
}

function foundOf(entry: Entry, nowMs: number): Found {
  const { state, newest } = entry;
  const fields = visible(entry)?.fields;
  const pending = state?.pending.join(' ') ?? null;
  const done = state && pending === '' ? '1' : null;
  return {
    result: ['status', 'value', 'identity', 'cancelled'].map((name) => fields?.[name] ?? null),
    state: [done, state ? String(state.running) : null, pending, state?.runs ?? null],
    newest: parseIdempotencyRecord(newest?.text ?? null)?.latest.identity,
    nowMs,
  };
}
