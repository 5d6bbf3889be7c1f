/** The batches of OpenAI's API: a batch is a job, and what it is follows from the objects of that job. */
import { badRequest, ServingError } from '../../contract/errors.ts';
import {
  ERRORS,
  type JobKeys,
  keysOf,
  type Progress,
  RESULTS,
  readRequest,
  type Summary,
} from '../request.ts';
import { readJson } from '../store.ts';
import {
  type BatchRequest,
  type EndpointName,
  fileKeys,
  readEndpoint,
  readMetadata,
  stemOf,
  WINDOW_SECONDS,
} from './batch.ts';
import { type BatchFiles, type FilePlace, listPage, newStem, type Page, stemTimeMs } from './files.ts';
import type { LineProblem } from './lines.ts';
import { outputFileId } from './outputs.ts';

/** The objects of a job stay for 30 days, and its request for ever. */
const KNOWN_MS = 29 * 86_400_000;
const ID = /^batch_[0-9a-f]{24}$/;

export interface NewBatch {
  readonly inputFileId: string;
  readonly endpoint: unknown;
  readonly metadata: unknown;
}

type Status =
  | 'validating'
  | 'failed'
  | 'in_progress'
  | 'finalizing'
  | 'completed'
  | 'expired'
  | 'cancelling'
  | 'cancelled';

interface Moment {
  readonly atMs: number;
}

export class Batches {
  readonly #place: FilePlace;
  readonly #files: BatchFiles;

  constructor(place: FilePlace, files: BatchFiles) {
    this.#place = place;
    this.#files = files;
  }

  /** @throws bad_request, not_found for a file that is not there */
  async create({ inputFileId, endpoint, metadata }: NewBatch) {
    const { job, bucket, store, now } = this.#place;
    const batch: BatchRequest = {
      endpoint: readEndpoint(endpoint),
      inputFileId,
      metadata: readMetadata(metadata),
      createdAt: Math.floor(now() / 1000),
    };
    const { key, purpose } = await this.#files.kept(inputFileId);
    if (purpose !== 'batch')
      throw badRequest(`input_file_id: expected a file with the purpose "batch", not "${purpose}"`);
    const id = `batch_${newStem(this.#place)}`;
    const { outputs } = fileKeys(job);
    const input = `s3://${bucket}/${key}`;
    const output = `s3://${bucket}/${outputs}${id}/`;
    await store.put(this.#requestKey(id), JSON.stringify({ input, output, batch }));
    return batchObject(id, batch, {});
  }

  /** @throws not_found */
  async batch(id: string) {
    const found = await this.#read(id);
    if (found) return found;
    throw new ServingError('not_found', `No batch found with id '${id}'.`);
  }

  list(page: Page) {
    const { requests } = fileKeys(this.#place.job);
    const isMeant = (id: string) => this.#isKnown(id);
    return listPage(this.#place, { prefix: requests, ending: '.job.json', page, isMeant }, (id) =>
      this.#read(id),
    );
  }

  /** @throws not_found; conflict for one that has ended */
  async cancel(id: string) {
    const found = await this.batch(id);
    if (found.status === 'cancelling' || found.status === 'cancelled') return found;
    if (!['validating', 'in_progress', 'finalizing'].includes(found.status))
      throw new ServingError('conflict', `Cannot cancel a batch with status '${found.status}'.`);
    const { job, store, now } = this.#place;
    await store.put(keysOf(job, id).cancelled, JSON.stringify({ atMs: now() }));
    return this.batch(id);
  }

  #isKnown(id: string): boolean {
    return ID.test(id) && this.#place.now() - stemTimeMs(stemOf(id)) < KNOWN_MS;
  }

  #requestKey(id: string): string {
    return `${fileKeys(this.#place.job).requests}${id}.job.json`;
  }

  async #read(id: string) {
    if (!this.#isKnown(id)) return undefined;
    const { job, store } = this.#place;
    const asked = await store.text(this.#requestKey(id));
    const batch = asked && readRequest(asked.text).batch;
    return batch && batchObject(id, batch, await this.#facts(keysOf(job, id)));
  }

  async #facts(keys: JobKeys): Promise<BatchFacts> {
    const { store } = this.#place;
    const [summary, failed, cancelled, expired, checked, progress] = await Promise.all([
      readJson<Summary>(store, keys.summary),
      readJson<Failed>(store, keys.failed),
      readJson<Moment>(store, keys.cancelled),
      readJson<Moment>(store, keys.expired),
      readJson<Checked>(store, keys.checked),
      readJson<Progress & Moment>(store, keys.progress),
    ]);
    const problems = failed && (await readJson<LineProblem[]>(store, keys.problems));
    return { summary, failed, problems, cancelled, expired, checked, progress };
  }
}

interface Failed extends Moment {
  readonly error: string;
  readonly code: string;
}

interface Checked extends Moment {
  readonly requests: number;
}

interface BatchFacts {
  readonly summary?: Summary | undefined;
  readonly failed?: Failed | undefined;
  readonly problems?: readonly LineProblem[] | undefined;
  readonly cancelled?: Moment | undefined;
  readonly expired?: Moment | undefined;
  readonly checked?: Checked | undefined;
  readonly progress?: (Progress & Moment) | undefined;
}

function statusOf({ summary, failed, cancelled, expired, checked, progress }: BatchFacts): Status {
  if (summary) return cancelled ? 'cancelled' : expired ? 'expired' : 'completed';
  if (failed) return 'failed';
  if (cancelled) return 'cancelling';
  if (!checked) return 'validating';
  return expired || progress?.rows === checked.requests ? 'finalizing' : 'in_progress';
}

function batchObject(id: string, batch: BatchRequest, facts: BatchFacts) {
  const { summary, failed, problems, cancelled, expired, checked, progress } = facts;
  const status = statusOf(facts);
  const { rows = 0, errors = 0 } = summary ?? progress ?? {};
  const ended = summary && seconds(Date.parse(summary.finishedAt));
  const file = (name: typeof RESULTS | typeof ERRORS, count: number) =>
    summary && count > 0 ? outputFileId(id, name) : null;
  const answered = summary ? Date.parse(summary.answeredAt) : progress?.atMs;
  const isAnswered = summary !== undefined || status === 'finalizing';
  const told: readonly LineProblem[] | undefined =
    failed && (problems ?? [{ code: failed.code, message: failed.error, param: null, line: null }]);
  return {
    id,
    object: 'batch',
    endpoint: batch.endpoint satisfies EndpointName,
    errors: told ? { object: 'list', data: told } : null,
    input_file_id: batch.inputFileId,
    completion_window: '24h',
    status,
    output_file_id: file(RESULTS, rows - errors),
    error_file_id: file(ERRORS, errors),
    created_at: batch.createdAt,
    in_progress_at: checked ? seconds(checked.atMs) : null,
    expires_at: batch.createdAt + WINDOW_SECONDS,
    finalizing_at: isAnswered && answered !== undefined ? seconds(answered) : null,
    completed_at: status === 'completed' ? ended : null,
    failed_at: failed ? seconds(failed.atMs) : null,
    expired_at: expired ? seconds(expired.atMs) : null,
    cancelling_at: cancelled ? seconds(cancelled.atMs) : null,
    cancelled_at: status === 'cancelled' ? ended : null,
    request_counts: { total: checked?.requests ?? 0, completed: rows - errors, failed: errors },
    metadata: batch.metadata,
  };
}

function seconds(ms: number): number {
  return Math.floor(ms / 1000);
}
