/**
 * Announces outcomes: writes what targets are notified of them into the outbox, after they are stored and before their messages are
 * acknowledged. A function that ends in between gets its messages again, and announces them again under the same ids. What is
 * announced is what is stored: a redelivered record may have ended in another way the first time, or was cancelled.
 */
import { createHash } from 'node:crypto';
import { type ErrorRecord, ServingError } from '../contract/errors.ts';
import { logError } from '../contract/log.ts';
import { locationOf } from '../contract/names.ts';
import {
  type Notice,
  RESULT_BYTES,
  TASK_OUTPUT_BYTES,
  type Target,
  type Targets,
} from '../contract/notice.ts';
import type { Result } from '../contract/result.ts';
import { resultText } from '../pipeline/answer/result-text.ts';
import type { FinishedRecord } from '../pipeline/decode.ts';
import { parseResult, type StoredFields } from './fields.ts';
import type { Results } from './store.ts';

/** Records whose outcomes are stored, at least one of which has a target. */
export interface StoredOutcomes {
  readonly records: readonly StoredRecord[];
  /** The version that ran them; "" for none. */
  readonly model: string;
  /** In ms since 1970. */
  readonly finishedAt: number;
  /** True if each of these outcomes was written. Else one of the uris may have another outcome. */
  readonly areNew: boolean;
}

export interface StoredRecord extends Pick<FinishedRecord, 'id' | 'uri' | 'enqueue'> {
  readonly fields: StoredFields;
}

/** Never throws. @returns ids of the messages whose outcomes could not be announced */
export type Announce = (stored: StoredOutcomes) => Promise<readonly string[]>;

interface AnnounceOptions {
  readonly targets: Targets;
  /** Reads the outcome that a redelivered record has already. */
  readonly results: Pick<Results, 'get'>;
  /** @throws results_unavailable */
  readonly put: (notices: readonly Notice[]) => Promise<void>;
  readonly job: string;
  /** Says which deployment of a job it is. */
  readonly place: string;
}

/** Characters of an error's message. A longer one is cut, so that each notice fits into every target. */
const MOST_MESSAGE = 8_192;
/** Reads of the store at the same time. */
const TOGETHER = 16;

export function announceOutcomes(options: AnnounceOptions): Announce {
  return async (stored) => {
    const told = stored.records.filter(({ enqueue }) => enqueue.notify !== undefined);
    try {
      const notices: Notice[] = [];
      for (let i = 0; i < told.length; i += TOGETHER) {
        const some = told.slice(i, i + TOGETHER).map((record) => noticeOf(record, stored, options));
        notices.push(...(await Promise.all(some)));
      }
      await options.put(notices);
      return [];
    } catch (error) {
      logError(error, { messages: told.length });
      return told.map(({ id }) => id);
    }
  };
}

/** How a record ended. */
interface Ended {
  readonly status: 'succeeded' | 'failed' | 'cancelled';
  readonly version: string;
  readonly finishedAt: number;
  readonly error?: ErrorRecord;
  readonly result?: () => string;
}

async function noticeOf(
  record: StoredRecord,
  stored: StoredOutcomes,
  options: AnnounceOptions,
): Promise<Notice> {
  const { uri, enqueue } = record;
  const { identity, notify: target = '', taskToken } = enqueue;
  const { job, targets } = options;
  const ended =
    (stored.areNew ? undefined : await storedEnd(record, stored, options)) ?? ownEnd(record, stored);
  const { status, version } = ended;
  const error = ended.error && { ...ended.error, message: ended.error.message.slice(0, MOST_MESSAGE) };
  const finishedAt = new Date(ended.finishedAt).toISOString();
  const data = { job, uri, identity, status, ...(version && { version }), finishedAt, error };
  const text = JSON.stringify({ type: `record.${status}`, timestamp: finishedAt, data });
  const most = Object.hasOwn(targets, target) ? mostBytes(targets[target], text) : 0;
  const body = most > 0 ? withResult(text, ended.result?.(), { most, uri }) : text;
  return { id: idOf(record, options), target, body, taskToken };
}

/** @returns the longest result that the notice `text` may have; 0 for none */
function mostBytes(target: Target | undefined, text: string): number {
  if (target?.stepFunctions !== undefined) return TASK_OUTPUT_BYTES - Buffer.byteLength(text);
  return target?.include === 'result' ? RESULT_BYTES : 0;
}

/** A replay of the same enqueue has an outcome of its own. No uri has a line feed. */
function idOf({ uri, enqueue }: StoredRecord, { job, place }: AnnounceOptions): string {
  const parts = [place, job, uri, enqueue.identity, String(enqueue.replays)];
  return `msg_${createHash('sha256').update(parts.join('\n')).digest('hex').slice(0, 32)}`;
}

function ownEnd({ uri, enqueue, fields }: StoredRecord, { model, finishedAt }: StoredOutcomes): Ended {
  const common = { status: fields.status, version: model, finishedAt };
  if (fields.status === 'failed') {
    const error: ErrorRecord = JSON.parse(fields.error);
    return { ...common, error };
  }
  const texts = { ...fields, large: fields.large ?? '', model, identity: enqueue.identity };
  return {
    ...common,
    result: () => textOf(parseResult(uri, { ...texts, finishedAt: String(finishedAt) })),
  };
}

/** @returns undefined where nothing is stored of this enqueue: it was taken, or a later one has its outcome. */
async function storedEnd(
  { uri, enqueue }: StoredRecord,
  stored: StoredOutcomes,
  { results }: AnnounceOptions,
) {
  const { identity } = enqueue;
  try {
    const result = await results.get(uri, { identity });
    if (!result) return undefined;
    const { model, finishedAt } = result;
    return { status: 'succeeded', version: model, finishedAt, result: () => textOf(result) } as const;
  } catch (error) {
    const known = ServingError.from(error);
    if (known.code === 'results_unavailable') throw known;
    // The stored result cannot be read.
    if (known.code === 'internal') return undefined;
    const status = known.code === 'cancelled' ? 'cancelled' : 'failed';
    return { status, version: stored.model, finishedAt: stored.finishedAt, error: known.toJSON() } as const;
  }
}

/** Empty for a result in S3. */
function textOf(result: Result | undefined): string {
  return !result || result.large ? '' : resultText(result);
}

function withResult(
  text: string,
  result: string | undefined,
  { most, uri }: { readonly most: number; readonly uri: string },
): string {
  if (result === undefined) return text;
  const inner = text.slice(0, -2);
  if (result !== '' && Buffer.byteLength(result) <= most) return `${inner},"result":${result}}}`;
  return `${inner},"resultTooLarge":true,"location":${JSON.stringify(locationOf(uri))}}}`;
}
