/**
 * Reads the body of POST /predictions into queue messages and writes the JSON of what failed and of pages.
 */

import { randomUUID } from 'node:crypto';
import { inInstance, instancesOf, instanceText, isObject, readJson } from '../codecs/instances.ts';
import { parseExactly } from '../codecs/json.ts';
import { decodeData, encodeBinaryMessage, wireRecord } from '../codecs/message.ts';
import { quoteName } from '../codecs/quote.ts';
import { badRequest, ServingError } from '../contract/errors.ts';
import { LIMITS } from '../contract/limits.ts';
import { assertUri, locationOf } from '../contract/names.ts';
import type { Notified, Unchecked } from '../contract/notice.ts';
import { elementAt } from '../contract/present.ts';
import type { Dequeued, Result } from '../contract/result.ts';
import type { Schedule } from '../contract/schedule.ts';
import type { Inputs, Outcome } from '../contract/values.ts';
import { type Filter, filterText, needsTensors, outputsText } from '../pipeline/answer/postprocess.ts';
import { largeText, resultText } from '../pipeline/answer/result-text.ts';
import { valueText } from '../pipeline/answer/value-text.ts';
import { checkInstances, checkKeys, RECORD_KEYS, SUBMIT_KEYS } from './body-keys.ts';

/** A sender's statements about records, beside their inputs. */
type Said = Notified & Schedule;

export interface Submissions {
  readonly submissions: readonly Submission[];
  /** Keys of the body that change nothing. */
  readonly ignored: readonly string[];
}

/** Who is notified of its outcome, and when it is to run, is checked when the record is sent. */
export interface Submission extends Unchecked<Said> {
  readonly uri: string;
  /** Body of the SQS message. */
  readonly message: string;
}

/** Names a record that has no uri. @param data its instance as text */
export type NameRecord = (data: string) => string;

const atRandom: NameRecord = () => randomUUID();

/**
 * Accepts a wire record {uri, data, serde}, as the SDK makes it, or {instances: [...]} as for /predict, with an
 * optional `uri` (one instance) or `uris` (one each); missing uris are generated.
 * @throws bad_request, too_large
 */
export function readSubmissions(body: Uint8Array | string, nameRecord: NameRecord = atRandom): Submissions {
  const { text, parsed } = readJson(body, undefined, parseExactly);
  return submissionsOf(text, parsed, nameRecord);
}

/** `readSubmissions` of one record. @throws bad_request for several, too */
export function readSubmission(
  line: Uint8Array,
  nameRecord: NameRecord = atRandom,
): { readonly submission: Submission; readonly ignored: readonly string[] } {
  const { text, parsed } = readJson(line, undefined, parseExactly);
  assertOne(parsed);
  const { submissions, ignored } = submissionsOf(text, parsed, nameRecord);
  // Rows by column may be several.
  if (submissions.length > 1) throw oneRecord(submissions.length);
  return { submission: elementAt(submissions, 0, 'submissions'), ignored };
}

function submissionsOf(text: string, parsed: unknown, nameRecord: NameRecord): Submissions {
  if (isObject(parsed) && 'data' in parsed) {
    const ignored = checkKeys(parsed, RECORD_KEYS);
    const record = wireRecord(parsed);
    // Errors that need no model are reported now: broken base64, invalid Arrow, two instances.
    decodeData(record);
    const message = JSON.stringify(record);
    return { submissions: [{ uri: record.uri, message, ...saidIn(parsed) }], ignored };
  }
  const ignored = checkInstances(parsed, SUBMIT_KEYS);
  const instances = instancesOf(parsed, text);
  const uris = urisFor(parsed as Record<string, unknown>, instances.length);
  const said = saidIn(parsed);
  if (said.taskToken !== undefined && instances.length > 1)
    throw badRequest(`taskToken: one record ends a task, and the body has ${instances.length}`);
  const submissions = instances.map((instance, i) => ({
    ...instanceSubmission(uris?.[i], instance, nameRecord),
    ...said,
  }));
  return { submissions, ignored };
}

function saidIn(parsed: unknown): Unchecked<Said> {
  const { notify, taskToken, expiresAfter, delaySeconds, priority }: Unchecked<Said> = Object(parsed);
  return { notify, taskToken, expiresAfter, delaySeconds, priority };
}

/** Before a thousand instances become as many messages. Anything else that is wrong is said later. */
function assertOne(body: unknown): void {
  const instances = isObject(body) ? body['instances'] : undefined;
  if (!Array.isArray(instances) || instances.length < 2) return;
  throw oneRecord(instances.length);
}

function oneRecord(count: number): ServingError {
  return badRequest(`a line holds one record, got ${count} instances`);
}

export function instanceSubmission(
  given: string | undefined,
  instance: Inputs,
  nameRecord: NameRecord = atRandom,
): Submission {
  const data = instanceText(instance);
  const uri = given ?? nameRecord(data);
  return { uri, message: JSON.stringify({ uri, data, serde: 'stream' }) };
}

/** A record of images and texts, as the SDK writes them. @throws bad_request, too_large */
export function fileSubmission(
  given: string | undefined,
  inputs: Inputs,
  nameRecord: NameRecord = atRandom,
): Submission {
  const uri = given ?? nameRecord(encodeBinaryMessage('any', inputs));
  return { uri, message: encodeBinaryMessage(uri, inputs) };
}

/** Undefined if the body has no such key. */
function urisFor(body: Readonly<Record<string, unknown>>, count: number): string[] | undefined {
  const { uri } = body;
  const uris = body['uris'] ?? undefined;
  if (uris === undefined && uri === undefined) return undefined;
  if (uris !== undefined && uri !== undefined) throw badRequest('"uri" and "uris" exclude each other');
  const given = uris ?? [uri];
  if (!Array.isArray(given) || given.length !== count) {
    const got = Array.isArray(given) ? given.length : 'no array';
    throw badRequest(`uris: expected one per instance (${count}), got ${got}`);
  }
  const checked = given.map(assertUri);
  const seen = new Set<string>();
  const twice = checked.find((one) => seen.size === seen.add(one).size);
  if (twice !== undefined) {
    // A uri has one result, so the second record's would be lost.
    throw badRequest(`uris: expected a different one per instance, got ${quoteName(twice)} twice`);
  }
  return checked;
}

/**
 * The contract's answer: `{value=...}` per instance.
 * @throws the first failed instance's error with its index, because the answer has no place for it
 */
export function predictionTexts(outcomes: readonly Outcome[], filter: Filter | undefined): string[] {
  if (!filter) assertElements(outcomes);
  return outcomes.map((outcome, index) => {
    if (outcome.ok) return `{value=${answerText(outcome, filter)}}`;
    throw inInstance(outcome.error, index, outcomes.length);
  });
}

function answerText({ outputs, value }: Extract<Outcome, { ok: true }>, filter: Filter | undefined): string {
  if (value === undefined) return filter ? filterText(outputs, filter) : outputsText(outputs);
  if (filter) throw needsTensors(filter);
  return valueText(value);
}

/** The answer as JSON text. @throws as `predictionTexts`; too_large when it exceeds Lambda's limit */
export function predictionsAnswer(outcomes: readonly Outcome[], filter: Filter | undefined): string {
  return assertAnswer(JSON.stringify({ predictions: predictionTexts(outcomes, filter) }));
}

/** An element takes at least two characters, so outputs that cannot fit are not written. */
export function assertElements(outcomes: readonly Outcome[]): void {
  let elements = 0;
  for (const outcome of outcomes)
    if (outcome.ok) for (const { data } of outcome.outputs) elements += data.length;
  if (elements * 2 <= LIMITS.httpBodyBytes) return;
  throw new ServingError(
    'too_large',
    `the answer would have ${elements} numbers, over the limit of ${LIMITS.httpBodyBytes} bytes; keep less of them with postProcessing`,
  );
}

/**
 * JSON of a record whose outcome is a failure, or that was cancelled.
 * @param identity of the enqueue, where one was asked for
 */
export function failureBody(error: ServingError, identity?: string): Record<string, unknown> {
  const status = error.code === 'cancelled' ? 'cancelled' : 'failed';
  return { uri: error.uri, identity, status, error: error.publicMessage, code: error.code };
}

/** The JSON text of a page of DELETE /predictions; undefined: none are left. */
export function pageText(page: readonly Dequeued[] | undefined): string {
  const texts = (page ?? []).map((item) =>
    'error' in item ? JSON.stringify(failureBody(item.error)) : pageItem(item.result),
  );
  return `{"results":[${texts.join(',')}],"more":${page !== undefined}}`;
}

/** A result in S3 is requested by its uri. */
function pageItem(result: Result): string {
  const { uri, large } = result;
  return large ? largeText(result, large.json, locationOf(uri)) : resultText(result);
}

/** An answer must fit into Lambda's 6 MiB. @throws too_large, before anything is deleted */
export function assertAnswer(text: string): string {
  const bytes = Buffer.byteLength(text);
  if (bytes > LIMITS.httpBodyBytes) {
    throw new ServingError(
      'too_large',
      `the answer is ${bytes} bytes, over the limit of ${LIMITS.httpBodyBytes}; ask for less at a time, enqueue it (POST /predictions), or keep less of it with postProcessing`,
    );
  }
  return text;
}
