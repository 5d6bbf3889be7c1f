/**
 * `dlq replay`. In: parked messages. Out: those that work now have their result and are parked no more; the others
 * stay, each with its reason.
 * Trap: a message leaves the bucket only after its result is stored or its queue has it. If the command ends in between,
 * the next replay finds the result and removes the message: nothing is lost, and nothing is done twice to be seen.
 */
import type { ParkedMessage } from '../../lib/codecs/dead-letter.ts';
import { ServingError } from '../../lib/contract/errors.ts';
import type { Outcome } from '../../lib/contract/values.ts';
import { type Filter, parseFilter } from '../../lib/pipeline/postprocess.ts';
import { runMessages } from '../../lib/pipeline/serve.ts';
import type { HandedOver, HandedRecord } from '../../lib/redis/replace-result.ts';
import { toFields } from '../../lib/redis/result/fields.ts';
import type { ParkedEntry } from '../../lib/s3/dead-letters.ts';
import { PayloadStore } from '../../lib/s3/payloads.ts';
import type { DlqPlace } from './place.ts';
import { openRunner, type ReplayRunner } from './runner.ts';
import { findEntries, type Where } from './where.ts';

/** A record that was tried again and did not get a result. */
export interface Unreplayed {
  readonly id: string;
  readonly uri: string | undefined;
  readonly error: ServingError;
}

export interface Counts {
  succeeded: number;
  /** Had a result already, or were cancelled. */
  over: number;
  failed: number;
}

export interface ReplayOptions {
  /** True: nothing is stored, sent or removed. */
  readonly dryRun: boolean;
  /** Sends what works back into the queue; undefined stores its result. */
  readonly send: ((body: string) => Promise<void>) | undefined;
  /** Longest time of one record. Default the job's function.timeoutSeconds. */
  readonly limitMs?: number | undefined;
  readonly onStart?: (version: string) => void;
  readonly onFailed: (failed: Unreplayed) => void;
  /** Asked between parts: true ends the replay there. */
  readonly isStopped?: () => boolean;
  /** Hears how many were looked at. */
  readonly onProgress: (looked: number) => void;
}

/** Of the messages that run together; their payloads may be 32 MiB each. */
const PART_BYTES = 8 * 1024 * 1024;
const PART_RECORDS = 64;

/** @throws model_unavailable, queue_unavailable, results_unavailable: what was handed over until then is, the rest stays */
export async function replay(place: DlqPlace, where: Where, options: ReplayOptions): Promise<Counts> {
  const runner = await openRunner(place, options.limitMs);
  const counts: Counts = { succeeded: 0, over: 0, failed: 0 };
  try {
    options.onStart?.(runner.version);
    let looked = 0;
    const work = new Replay(place, runner, options, counts);
    for await (const found of findEntries(place, where)) {
      for (const part of partsOf(found)) {
        if (options.isStopped?.()) return counts;
        await work.part(part.map(({ id }) => id));
        looked += part.length;
        options.onProgress(looked);
      }
    }
    return counts;
  } finally {
    await runner.close();
  }
}

function partsOf(found: readonly ParkedEntry[]): ParkedEntry[][] {
  const parts: ParkedEntry[][] = [];
  let bytes = Number.POSITIVE_INFINITY;
  for (const one of found) {
    const last = parts.at(-1);
    bytes += one.bytes;
    if (last && last.length < PART_RECORDS && bytes <= PART_BYTES) last.push(one);
    else {
      parts.push([one]);
      bytes = one.bytes;
    }
  }
  return parts;
}

class Replay {
  readonly #place: DlqPlace;
  readonly #runner: ReplayRunner;
  readonly #options: ReplayOptions;
  readonly #counts: Counts;
  readonly #payloads: PayloadStore;
  readonly #filter: Filter | undefined;

  constructor(place: DlqPlace, runner: ReplayRunner, options: ReplayOptions, counts: Counts) {
    this.#place = place;
    this.#runner = runner;
    this.#options = options;
    this.#counts = counts;
    this.#payloads = new PayloadStore(place.s3, place.bucket, place.job.jobName);
    this.#filter = parseFilter(place.job.postProcessing);
  }

  async part(ids: readonly string[]): Promise<void> {
    const found = await this.#place.parked.messages(ids);
    const messages: ParkedMessage[] = [];
    for (const [i, message] of found.entries()) {
      const id = ids[i] as string;
      if (message instanceof ServingError) this.#fail(id, undefined, message);
      // The file's name counts: it is what gets removed.
      else if (message) messages.push({ ...message, messageId: id });
    }
    const bodies = await this.#payloads.resolve(messages.map(({ body }) => body));
    const byId = new Map(
      messages.map((message, i) => [message.messageId, { message, body: bodies[i] as string }]),
    );
    const { finished, returned } = await runMessages(
      messages.map(({ messageId }, i) => ({
        id: messageId,
        tries: 1,
        body: bodies[i] as string | ServingError,
      })),
      (records) => this.#runner.run(records),
    );
    for (const { id, error } of returned) this.#fail(id, error.uri, error);
    const handed: string[] = [];
    await settled(
      finished.map(async ({ id, uri, outcome }) => {
        const entry = byId.get(id) as { message: ParkedMessage; body: string };
        const record = { uri, messageId: id, message: entry.body };
        if (await this.#hand(record, entry.message.body, outcome)) handed.push(id);
      }),
      // What was handed over is removed, also when another one could not be.
      async () => {
        if (handed.length > 0 && !this.#options.dryRun) await this.#place.parked.remove(handed);
      },
    );
  }

  /** @returns true when the message is needed no more */
  async #hand(record: HandedRecord, sent: string, outcome: Outcome): Promise<boolean> {
    const { uri, messageId } = record;
    if (!outcome.ok) return this.#fail(messageId, uri, outcome.error);
    const fields = toFields(outcome, this.#filter);
    if (fields.status === 'failed') return this.#fail(messageId, uri, errorOf(fields.error));
    const handed = this.#options.dryRun ? 'done' : await this.#give(record, sent, fields);
    if (handed === 'taken') {
      const message = 'it works now, but its uri is in use for another record, whose result stays';
      return this.#fail(messageId, uri, new ServingError('conflict', message, { uri }));
    }
    if (handed === 'over') this.#counts.over++;
    else this.#counts.succeeded++;
    return true;
  }

  async #give(record: HandedRecord, sent: string, fields: ReturnType<typeof toFields>): Promise<HandedOver> {
    const { results } = this.#place;
    const { send } = this.#options;
    if (!send) return results ? results.store(record, fields, this.#runner.version) : 'taken';
    const freed = results ? await results.free(record) : 'done';
    if (freed === 'done') await send(sent);
    return freed;
  }

  #fail(id: string, uri: string | undefined, error: ServingError): false {
    this.#counts.failed++;
    this.#options.onFailed({ id, uri, error });
    return false;
  }
}

/** All have ended, `after` too; then what the first of them threw. */
async function settled(works: readonly Promise<void>[], after: () => Promise<void>): Promise<void> {
  const ends = await Promise.allSettled(works);
  await after();
  const failed = ends.find((end) => end.status === 'rejected');
  if (failed) throw failed.reason;
}

function errorOf(text: string): ServingError {
  const { code, message } = JSON.parse(text) as ServingError;
  return new ServingError(code, message);
}
