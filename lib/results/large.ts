/** Serializes outcomes for the store; what is too large for it is put into S3 first, so that a pointer always has its objects. */
import { encodeRefusal } from '../codecs/arrow/refusal.ts';
import { encodeBase64 } from '../codecs/encode-base64.ts';
import { ServingError } from '../contract/errors.ts';
import { LIMITS } from '../contract/limits.ts';
import type { LargePointer, Result } from '../contract/result.ts';
import type { Filter } from '../pipeline/answer/postprocess.ts';
import { resultPieces } from '../pipeline/answer/result-text.ts';
import type { FinishedRecord } from '../pipeline/decode.ts';
import {
  failedFields,
  type LargeContent,
  type ResultLimit,
  type StoredFields,
  serializeOutcome,
  serializeResult,
} from './fields.ts';

/** S3, for results that are too large for the store. */
export interface LargeStore {
  /**
   * Puts the objects of one result under a key that nothing had before.
   * @param jsonAt the pieces of its JSON, for the time when it is finished in ms
   * @throws too_large; results_unavailable, and what was put by then expires
   */
  put(content: LargeContent, jsonAt: (finishedAt: number) => Iterable<string>): Promise<LargePointer>;
}

export interface SerializeSettings {
  readonly filter?: Filter | undefined;
  /** Undefined: a result that is too large for the store fails. */
  readonly large?: LargeStore | undefined;
  /** Default `resultBytes`. */
  readonly limit?: ResultLimit;
}

type Serializable = Pick<FinishedRecord, 'uri' | 'enqueue' | 'outcome'>;

/** Bytes that are in memory for S3 at once, unless one result alone has more. */
const TOGETHER_BYTES = 16 * 1024 * 1024;

/**
 * @returns for each record its fields, in order; or the error of S3, with which it is not to be saved
 */
export async function serializeResults(
  records: readonly Serializable[],
  model: string,
  settings: SerializeSettings,
): Promise<(StoredFields | ServingError)[]> {
  const slots: (StoredFields | ServingError)[] = [];
  let putting: Promise<void>[] = [];
  let bytes = 0;
  for (const [i, record] of records.entries()) {
    const { filter, large, limit = 'resultBytes' } = settings;
    const made = large ? serializeOutcome(record.outcome, filter, limit) : undefined;
    if (!large || !made || 'fields' in made) {
      slots[i] = made && 'fields' in made ? made.fields : serializeResult(record.outcome, filter, limit);
      continue;
    }
    const size = made.large.bytes.byteLength;
    if (bytes + size > TOGETHER_BYTES) {
      await Promise.all(putting);
      [putting, bytes] = [[], 0];
    }
    bytes += size;
    const put = async () => {
      slots[i] = await store(record, model, made.large, large);
    };
    putting.push(put());
  }
  await Promise.all(putting);
  return slots;
}

async function store(
  { uri, enqueue, outcome }: Serializable,
  model: string,
  content: LargeContent,
  large: LargeStore,
): Promise<StoredFields | ServingError> {
  const { identity } = enqueue;
  const { outputs, value } = outcome.ok ? outcome : { outputs: [] };
  const text = content.form === 'text' ? Buffer.from(content.bytes).toString() : undefined;
  const filtered: unknown = text === undefined ? undefined : JSON.parse(text);
  const whole: Omit<Result, 'finishedAt'> = { uri, identity, model, outputs, filtered };
  try {
    const pointer = await large.put(content, (finishedAt) =>
      resultPieces({ ...whole, finishedAt, ...(value === undefined ? {} : { value }) }),
    );
    const refusal = encodeBase64(encodeRefusal(refusalOf(pointer.bytes)));
    const { outputs: names } = content;
    const pointerText = JSON.stringify(pointer);
    return { status: 'succeeded', value: refusal, error: '', outputs: names, exact: '', large: pointerText };
  } catch (error) {
    const known = ServingError.from(error);
    return known.code === 'too_large' ? failedFields(known) : known;
  }
}

/** The text that a client of Analytics Zoo Cluster Serving shows. */
function refusalOf(bytes: number): string {
  return `the result has ${bytes} bytes, over the ${LIMITS.resultBytes} of one in Redis, and is in S3: read it with a client of Cluster Serving, or over HTTPS (GET /predictions?uri=...), which redirects to it`;
}
