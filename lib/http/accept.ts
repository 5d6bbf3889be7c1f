/**
 * Puts a request's records into the queue and answers 202 with their uris and identities, once SQS has every record. Bodies
 * with a record on each line are read in accept-many.ts.
 */

import { createHash, randomUUID } from 'node:crypto';
import { CANARY_KEY } from '../codecs/attributes.ts';
import { assertIdentity, readCanaryKey } from '../contract/enqueue.ts';
import { logError } from '../contract/log.ts';
import { assertModelAsked, locationOf } from '../contract/names.ts';
import { assertTarget, type Targets } from '../contract/notice.ts';
import { elementAt } from '../contract/present.ts';
import { assertSchedule, type Priority, scheduleOfTexts } from '../contract/schedule.ts';
import { readTrace } from '../contract/trace.ts';
import {
  type Announcer,
  type LargeRecords,
  type NamedRequest,
  type Sender,
  type SentRecord,
  sendAnnounced,
  submit,
} from '../pipeline/submit.ts';
import { assertForm, assertQuery, warningOf } from './body-keys.ts';
import { formRecord, imageRecord, isForm, isImage } from './files.ts';
import {
  fileSubmission,
  instanceSubmission,
  type NameRecord,
  readSubmission,
  readSubmissions,
  type Submission,
  type Submissions,
} from './predictions.ts';
import { type HttpRequest, mediaType } from './request.ts';
import { type HttpResponse, json } from './response.ts';
import { type ReadUpload, uploadedBody, uploadIn } from './uploads.ts';

export interface AcceptDeps {
  /** The queue of this priority. */
  readonly queue: (priority?: Priority) => Sender;
  /** The store for large records, loaded at the first one. */
  readonly payloads: () => Promise<LargeRecords>;
  /** Reads a body that was uploaded. */
  readonly uploads?: ReadUpload;
  /** Lets `status` know what is queued; absent where the store cannot be reached. */
  readonly announcer?: () => Announcer;
  readonly settings: {
    readonly notify: Targets;
    readonly queue?: { readonly recordTtlSeconds: number; readonly highShare: number };
    readonly jobName?: string;
  };
}

/** A record on each line. */
const MANY = /^(?:application\/(?:x-)?(?:ndjson|jsonl)|text\/csv)$/;

export async function acceptRecords(request: HttpRequest, deps: AcceptDeps): Promise<HttpResponse> {
  const type = mediaType(request);
  assertQuery(request);
  if (MANY.test(type)) return acceptLines(request, type === 'text/csv', deps);
  const { headers } = request;
  const { submissions, ignored } = await readOne(request, type, namesOf(headers), deps.uploads);
  const named = namedRequest(submissions, headers, deps);
  const several = submissions.length > 1;
  const records = submissions.map((one, i) => identified(one, request, deps, named, several ? i : undefined));
  await sendAll(records, deps);
  const warning = warningOf(ignored);
  const { uri, identity } = elementAt(records, 0, 'records');
  if (records.length === 1) return json(202, { uri, identity }, { location: locationOf(uri), ...warning });
  const uris = records.map((record) => record.uri);
  return json(202, { uris, identities: records.map((record) => record.identity) }, warning);
}

/** The records of a body that is one text of JSON, a form, or a picture. @throws bad_request, too_large */
async function readOne(
  request: HttpRequest,
  type: string,
  nameRecord: NameRecord | undefined,
  uploads: ReadUpload | undefined,
): Promise<Submissions> {
  if (isForm(type)) {
    const { uri, inputs } = await formRecord(request);
    return { submissions: [fileSubmission(uri, inputs, nameRecord)], ignored: [] };
  }
  assertForm(type, '/predictions');
  const body = request.body();
  if (typeof body === 'string' || !isImage(type, body)) {
    const id = uploadIn(body);
    const read = id === undefined ? body : await uploadedBody(id, request.caller(), uploads);
    return readSubmissions(read, nameRecord);
  }
  const uri = request.parameters['uri'] === undefined ? undefined : request.uri();
  return { submissions: [fileSubmission(uri, imageRecord(body), nameRecord)], ignored: [] };
}

/** Loaded on demand: few requests have many records. */
async function acceptLines(request: HttpRequest, isTable: boolean, deps: AcceptDeps): Promise<HttpResponse> {
  const { acceptMany } = await import('./accept-many.ts');
  const { headers } = request;
  const nameRecord = namesOf(headers);
  return acceptMany(request, isTable, {
    readSubmission: (body) => readSubmission(body, nameRecord),
    instanceSubmission: (uri, instance) => instanceSubmission(uri, instance, nameRecord),
    namedRequest: (submissions) => namedRequest(submissions, headers, deps),
    identified: (submission, named, place) => identified(submission, request, deps, named, place),
    send: (record) => sendAll([record], deps),
    locationOf,
    warningOf,
    logError,
    json,
  });
}

async function sendAll(
  records: readonly SentRecord[],
  { queue, payloads, announcer }: AcceptDeps,
): Promise<void> {
  await sendAnnounced(announcer?.(), records, (record) => submit(queue(record.priority), payloads, record));
}

const KEY = 'idempotency-key';

/**
 * @param place of one of several, with which the request's key is continued
 * @throws bad_request for a bad key of either kind, a target that the job does not have, and a time at which the record cannot run
 */
function identified(
  { notify, taskToken, expiresAfter, delaySeconds, priority, ...submission }: Submission,
  { headers, parameters }: HttpRequest,
  { settings }: AcceptDeps,
  request: NamedRequest | undefined,
  place?: number,
): SentRecord {
  const key = headers[KEY];
  const trace = readTrace(headers);
  // An image, a form or a table has no place for it.
  const given = { notify: notify ?? parameters['notify'], taskToken };
  const canaryKey = readCanaryKey(headers[CANARY_KEY]);
  const { model: name } = parameters;
  const model = name === undefined || name === settings.jobName ? undefined : assertModelAsked(name);
  const texts = scheduleOfTexts(parameters);
  const times = {
    expiresAfter: expiresAfter ?? texts.expiresAfter,
    delaySeconds: delaySeconds ?? texts.delaySeconds,
    priority: priority ?? texts.priority,
  };
  const record = {
    ...submission,
    trace,
    canaryKey,
    model,
    ...assertTarget(given, settings.notify),
    ...assertSchedule(times, settings.queue),
  };
  if (key === undefined) return { ...record, identity: randomUUID() };
  const identity = assertIdentity(place === undefined ? key : `${key}-${place}`);
  return { ...record, identity, request };
}

/** With a key, the same body gets the same uris, so that repeating a request makes no second result. */
function namesOf(headers: HttpRequest['headers']): NameRecord | undefined {
  const key = headers[KEY];
  if (key === undefined) return undefined;
  let place = 0;
  return (data) => {
    const digest = createHash('sha256').update(`${key}\n${place++}\n${data}`).digest('hex');
    // A UUID of version 8, whose bits are free.
    return digest.replace(/^(.{8})(.{4}).(.{3}).(.{3})(.{12}).*$/, '$1-$2-8$3-8$4-$5');
  };
}

/**
 * A digest of the request: the uris and data of its records, regardless of the body's form. Compared where records are
 * announced.
 */
function namedRequest(
  submissions: readonly (Submission | undefined)[],
  headers: HttpRequest['headers'],
  { announcer }: AcceptDeps,
): NamedRequest | undefined {
  const key = headers[KEY];
  if (key === undefined || !announcer) return undefined;
  if (submissions.length === 1) return { key };
  const digest = createHash('sha256');
  for (const one of submissions) digest.update(`${one?.message ?? ''}\n`);
  return { key, digest: digest.digest('hex').slice(0, 16) };
}

/** `Prefer: respond-async` (RFC 7240). */
export function prefersAsync(request: Pick<HttpRequest, 'headers'>): boolean {
  return /(?:^|[,;\s])respond-async(?:$|[,;\s])/i.test(request.headers['prefer'] ?? '');
}
