/**
 * Runs dead letters again and replaces their failures. A message leaves the bucket only after its result is stored or its
 * queue has it. If the caller ends in between, the next replay finds the result and removes the message: nothing is lost, and
 * no result appears twice.
 */

import { type DeadLetter, replayOf } from '../../lib/codecs/dead-letter.ts';
import { quoteName } from '../../lib/codecs/quote.ts';
import type { JobConfig } from '../../lib/config/job.ts';
import type { Enqueue } from '../../lib/contract/enqueue.ts';
import { ServingError } from '../../lib/contract/errors.ts';
import { elementAt, present } from '../../lib/contract/present.ts';
import type { Inputs, Outcome } from '../../lib/contract/values.ts';
import { type Filter, parseFilter } from '../../lib/pipeline/answer/postprocess.ts';
import { runMessages } from '../../lib/pipeline/serve.ts';
import { announceOutcomes } from '../../lib/results/announce.ts';
import { type StoredFields, serializeOutcome } from '../../lib/results/fields.ts';
import { serializeResults } from '../../lib/results/large.ts';
import type { ReplacedRecord, Replacement, Replacer } from '../../lib/results/store.ts';
import type { DeadLetters } from '../../lib/s3/dead-letters.ts';
import { LargeResults } from '../../lib/s3/large-results.ts';
import type { S3Client } from '../../lib/s3/objects.ts';
import { OutboxWriter } from '../../lib/s3/outbox.ts';
import { PayloadStore } from '../../lib/s3/payloads.ts';

/** Where the dead letters and the results of a job are. */
export interface ReplayPlace {
  readonly job: JobConfig;
  readonly s3: S3Client;
  readonly bucket: string;
  readonly deadLetters: DeadLetters;
  /** Undefined when no Redis is known. */
  readonly results: Replacer | undefined;
}

/** Opens the runner of dead letters: the model or the worker of the job. */
export interface ReplayRunner {
  /** The model's version. */
  readonly version: string;
  /** As many outcomes, same order. @throws model_unavailable */
  run(records: readonly Inputs[]): Promise<Outcome[]>;
}

/** A record that was tried again and did not get a result. */
export interface Unreplayed {
  readonly id: string;
  readonly uri: string | undefined;
  readonly error: ServingError;
}

export interface Counts {
  succeeded: number;
  /** Records that had a result already, or were cancelled. */
  over: number;
  failed: number;
}

/** Sends a message as it was sent. @param groupId of its tenant */
export type Send = (body: string, enqueue: Enqueue, groupId: string | undefined) => Promise<void>;

type Sent = Pick<DeadLetter, 'body' | 'groupId'>;

/** Gets each record that has succeeded. */
export type OnReplaced = (
  replaced: Pick<ReplacedRecord, 'uri' | 'enqueue'> & { readonly outcome: Outcome },
) => void;

export interface ReplaySettings {
  /** True: nothing is stored, sent or removed. */
  readonly dryRun: boolean;
  /** Sends what works back into the queue; undefined stores its result. */
  readonly send: Send | undefined;
  readonly onFailed: (failed: Unreplayed) => void;
  readonly onReplaced?: OnReplaced | undefined;
}

export class Replay {
  readonly counts: Counts = { succeeded: 0, over: 0, failed: 0 };
  readonly #place: ReplayPlace;
  readonly #runner: ReplayRunner;
  readonly #options: ReplaySettings;
  readonly #payloads: PayloadStore;
  readonly #filter: Filter | undefined;

  constructor(place: ReplayPlace, runner: ReplayRunner, options: ReplaySettings) {
    this.#place = place;
    this.#runner = runner;
    this.#options = options;
    this.#payloads = new PayloadStore(place.s3, place.bucket, place.job.jobName);
    this.#filter = parseFilter(place.job.postProcessing);
  }

  async part(ids: readonly string[]): Promise<void> {
    const { deadLetters } = this.#place;
    const found = (await deadLetters.messages(ids)).map((message, i) => ({
      id: elementAt(ids, i, 'ids'),
      message,
    }));
    const messages = found.flatMap(({ id, message }) => {
      if (message instanceof ServingError) this.#fail(id, undefined, message);
      if (!message || message instanceof ServingError) return [];
      const { model } = message;
      if (model !== undefined && model !== this.#place.job.jobName) {
        this.#fail(id, undefined, ofOther(model));
        return [];
      }
      // The id is the file's name, not the one in the message, because that file is removed.
      return [{ id, enqueue: replayOf(message), attempts: 1, sent: message }];
    });
    const bodies = await this.#payloads.resolve(messages.map(({ sent }) => sent.body));
    const byId = new Map(messages.map(({ id, sent }, i) => [id, { sent, body: bodies[i] as string }]));
    const { finished, returned } = await runMessages(
      messages.map((message, i) => ({ ...message, body: elementAt(bodies, i, 'bodies') })),
      (records) => this.#runner.run(records),
    );
    for (const { id, error } of returned) this.#fail(id, error.uri, error);
    const done: string[] = [];
    const ends = await Promise.allSettled(
      finished.map(async ({ id, enqueue, uri, outcome }) => {
        const { body, sent } = present(byId.get(id), 'entry of byId');
        if (await this.#replace(id, { uri, enqueue, message: body }, sent, outcome)) done.push(id);
      }),
    );
    // Finished messages are removed even if another one failed.
    if (done.length > 0 && !this.#options.dryRun) await deadLetters.remove(done);
    const failed = ends.find((end) => end.status === 'rejected');
    if (failed) throw failed.reason;
  }

  /** @returns true when the message is no longer needed */
  async #replace(id: string, record: ReplacedRecord, sent: Sent, outcome: Outcome): Promise<boolean> {
    const { uri } = record;
    if (!outcome.ok) return this.#fail(id, uri, outcome.error);
    const fields = await this.#serialize(record, outcome);
    if (fields?.status === 'failed') {
      const { code, message } = JSON.parse(fields.error) as ServingError;
      return this.#fail(id, uri, new ServingError(code, message));
    }
    const replaced = this.#options.dryRun ? 'replaced' : await this.#store(record, sent, fields);
    if (replaced === 'conflict') {
      const message = 'it works now, but its uri was used again for another record, which counts';
      return this.#fail(id, uri, new ServingError('conflict', message, { uri }));
    }
    if (fields && !this.#options.send) await this.#announce(id, record, fields, replaced);
    if (replaced === 'superseded') this.counts.over++;
    else {
      this.counts.succeeded++;
      this.#options.onReplaced?.({ uri, enqueue: record.enqueue, outcome });
    }
    return true;
  }

  /**
   * @returns undefined for a large result that is not to be stored
   * @throws results_unavailable when S3 does not take one that is
   */
  async #serialize(record: ReplacedRecord, outcome: Outcome): Promise<StoredFields | undefined> {
    const filter = this.#filter;
    if (this.#options.dryRun || this.#options.send) {
      const made = serializeOutcome(outcome, filter);
      return 'fields' in made ? made.fields : undefined;
    }
    const { s3, bucket, job } = this.#place;
    const large = new LargeResults(s3, { bucket, job: job.jobName, now: Date.now });
    const serialized = await serializeResults([{ ...record, outcome }], this.#runner.version, {
      filter,
      large,
    });
    const [fields] = serialized;
    if (fields instanceof ServingError) throw fields;
    return fields;
  }

  /** Where it was sent again, the batch function announces its outcome. @throws results_unavailable */
  async #announce(id: string, record: ReplacedRecord, fields: StoredFields, replaced: Replacement) {
    const { s3, bucket, job, results } = this.#place;
    const { uri, enqueue } = record;
    if (enqueue.notify === undefined || this.#options.dryRun) return;
    if (replaced === 'superseded') {
      // A replay that ended before it announced its result; or the record was cancelled, which is announced already.
      const [outcome] = (await results?.outcomes([uri])) ?? [];
      if (outcome?.status !== 'succeeded') return;
    }
    const outbox = new OutboxWriter(s3, bucket, job.jobName);
    const announce = announceOutcomes({
      targets: job.notify,
      results: { get: async () => undefined },
      put: (notices) => outbox.put(notices),
      job: job.jobName,
      place: bucket,
    });
    const records = [{ id, uri, enqueue, fields }];
    const unannounced = await announce({
      records,
      model: this.#runner.version,
      finishedAt: Date.now(),
      areNew: true,
    });
    if (unannounced.length > 0)
      throw new ServingError('results_unavailable', 'the new result is stored and could not be announced', {
        uri,
      });
  }

  async #store(record: ReplacedRecord, sent: Sent, fields: StoredFields | undefined): Promise<Replacement> {
    const { results } = this.#place;
    const { send } = this.#options;
    if (!send) return results && fields ? results.store(record, fields, this.#runner.version) : 'conflict';
    const freed = results ? await results.free(record) : 'replaced';
    if (freed === 'replaced') await send(sent.body, record.enqueue, sent.groupId);
    return freed;
  }

  #fail(id: string, uri: string | undefined, error: ServingError): false {
    this.counts.failed++;
    this.#options.onFailed({ id, uri, error });
    return false;
  }
}

/** Here only the job's own model runs, whose answer would be another one. */
function ofOther(model: string): ServingError {
  return new ServingError(
    'model_unavailable',
    `a record of the further model ${quoteName(model)} is not run here; send it through the queue again`,
  );
}
