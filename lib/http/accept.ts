/**
 * Puts a request's records into the queue and answers 202 with their uris and identities, once SQS has every record. Bodies
 * with a record on each line are read in accept-many.ts.
 */
import { randomUUID } from 'node:crypto';
import { assertIdentity } from '../contract/enqueue.ts';
import { logError } from '../contract/log.ts';
import { readTrace } from '../contract/trace.ts';
import {
  type Announcer,
  type LargeRecords,
  type Sender,
  type SentRecord,
  sendAnnounced,
  submit,
} from '../pipeline/submit.ts';
import { assertForm, assertQuery, warningOf } from './body-keys.ts';
import {
  instanceMessage,
  locationOf,
  readSubmission,
  readSubmissions,
  type Submission,
} from './predictions.ts';
import { type HttpRequest, mediaType } from './request.ts';
import { type HttpResponse, json } from './response.ts';

export interface AcceptDeps {
  readonly queue: () => Sender;
  /** The store for large records, loaded at the first one. */
  readonly payloads: () => Promise<LargeRecords>;
  /** Lets `status` know what is queued; absent where Redis cannot be reached. */
  readonly announcer?: () => Announcer;
}

/** A record on each line. */
const MANY = /^(?:application\/(?:x-)?(?:ndjson|jsonl)|text\/csv)$/;

export async function acceptRecords(request: HttpRequest, deps: AcceptDeps): Promise<HttpResponse> {
  const type = mediaType(request);
  assertQuery(request);
  if (MANY.test(type)) return acceptLines(request, type === 'text/csv', deps);
  assertForm(type, '/predictions');
  const { submissions, ignored } = readSubmissions(request.body());
  const several = submissions.length > 1;
  const records = submissions.map((one, i) => identified(one, request.headers, several ? i : undefined));
  await sendAll(records, deps);
  const warning = warningOf(ignored);
  const [{ uri, identity }] = records as [SentRecord];
  if (records.length === 1) return json(202, { uri, identity }, { location: locationOf(uri), ...warning });
  const uris = records.map((record) => record.uri);
  return json(202, { uris, identities: records.map((record) => record.identity) }, warning);
}

/** Loaded on demand: few requests have many records. */
async function acceptLines(request: HttpRequest, isTable: boolean, deps: AcceptDeps): Promise<HttpResponse> {
  const { acceptMany } = await import('./accept-many.ts');
  return acceptMany(request, isTable, {
    readSubmission,
    instanceMessage,
    identified: (submission, place) => identified(submission, request.headers, place),
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
  const sender = queue();
  await sendAnnounced(announcer?.(), records, (record) => submit(sender, payloads, record));
}

/** @param place of one of several, with which the request's key is continued. @throws bad_request for a bad key */
function identified(submission: Submission, headers: HttpRequest['headers'], place?: number): SentRecord {
  const key = headers['idempotency-key'];
  const trace = readTrace(headers);
  if (key === undefined) return { ...submission, identity: randomUUID(), trace };
  return { ...submission, identity: assertIdentity(place === undefined ? key : `${key}-${place}`), trace };
}

/** `Prefer: respond-async` (RFC 7240). */
export function prefersAsync(request: HttpRequest): boolean {
  return /(?:^|[,;\s])respond-async(?:$|[,;\s])/i.test(request.headers['prefer'] ?? '');
}
