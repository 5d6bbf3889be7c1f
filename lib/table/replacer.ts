/** Replaces the failure `max_receives_exceeded` of a dead letter by the result of its replay, or frees its uri, in one conditional write. */

import type { StoredFields } from '../results/fields.ts';
import { OUTLASTS_QUEUE_MS, payloadDigest } from '../results/record-state.ts';
import { decide, errorOf, type StoredState } from '../results/replacement.ts';
import type {
  ReplacedRecord,
  Replacement,
  Replacer,
  ReplacerOptions,
  StoredOutcome,
} from '../results/store.ts';
import type { TableConnection } from './connection.ts';
import { Entries } from './entries.ts';
import { type Entry, readEntry, visible } from './entry.ts';
import { free, replace } from './steps.ts';

export class TableReplacer implements Replacer {
  readonly #entries: Entries;
  readonly #options: ReplacerOptions;

  constructor(connection: TableConnection, options: ReplacerOptions) {
    this.#entries = new Entries(connection, options.job);
    this.#options = options;
  }

  async outcomes(uris: readonly string[]): Promise<(StoredOutcome | undefined)[]> {
    const items = await this.#entries.readAll(uris);
    return uris.map((uri) => {
      const fields = visible(readEntry(items.get(uri)?.item, this.#entries.now()))?.fields;
      return fields && { status: fields['status'] ?? '', ...errorOf(fields['error']) };
    });
  }

  store(record: ReplacedRecord, fields: StoredFields, model: string): Promise<Replacement> {
    const { ttlSeconds, now } = this.#options;
    const { enqueue } = record;
    const ttlMs = ttlSeconds * 1000;
    return this.#replace(record, (entry) => {
      const saving = { fields, enqueue, model, ttlMs, newestTtlMs: OUTLASTS_QUEUE_MS, finishedAt: now() };
      return replace(entry, { ...saving, now: this.#entries.now() });
    });
  }

  free(record: ReplacedRecord): Promise<Replacement> {
    const { identity } = record.enqueue;
    const payload = payloadDigest(record.message);
    return this.#replace(record, (entry) => free(entry, { identity, payload, now: this.#entries.now() }));
  }

  async #replace(record: ReplacedRecord, next: (entry: Entry) => Entry): Promise<Replacement> {
    const payload = payloadDigest(record.message);
    const { answer } = await this.#entries.take(record.uri, (entry) => {
      const verdict = decide(heldOf(entry), record, payload);
      return { answer: verdict, entry: verdict === 'replaced' ? next(entry) : undefined };
    });
    return answer;
  }
}

/** The entry as lib/results/replacement.ts reads it, without what is absent. */
function heldOf(entry: Entry): StoredState {
  const { state, newest } = entry;
  const fields = visible(entry)?.fields;
  const { status, error, finishedAt, identity = '' } = fields ?? {};
  const pending = state?.pending.join(' ');
  return {
    ...(fields ? { exists: '1', identity } : {}),
    ...(status ? { status } : {}),
    ...(error ? { error } : {}),
    ...(finishedAt ? { finishedAt } : {}),
    ...(state ? { payload: state.payload, last: state.last } : {}),
    ...(pending === undefined ? {} : { pending }),
    ...(pending === '' ? { done: '1' } : {}),
    ...(newest ? { newest: newest.text } : {}),
  };
}
