/**
 * Puts a request's records into the queue and answers 202 with their uris and identities, once SQS has every record.
 */
import { randomUUID } from 'node:crypto';
import { assertIdentity } from '../contract/enqueue.ts';
import { readTrace } from '../contract/trace.ts';
import {
  type Announcer,
  type LargeRecords,
  type Sender,
  type SentRecord,
  sendAnnounced,
  submit,
} from '../pipeline/submit.ts';
import { locationOf, readSubmissions, type Submission } from './predictions.ts';
import type { HttpRequest } from './request.ts';
import { type HttpResponse, json } from './response.ts';

export interface AcceptDeps {
  readonly queue: () => Sender;
  /** The store for large records, loaded at the first one. */
  readonly payloads: () => Promise<LargeRecords>;
  /** Lets `status` know what is queued; absent where Redis cannot be reached. */
  readonly announcer?: () => Announcer;
}

export async function acceptRecords(
  request: HttpRequest,
  { queue, payloads, announcer }: AcceptDeps,
): Promise<HttpResponse> {
  const records = identified(readSubmissions(request.body()), request.headers);
  const sender = queue();
  await sendAnnounced(announcer?.(), records, (record) => submit(sender, payloads, record));
  const [{ uri, identity }] = records as [SentRecord];
  if (records.length === 1) return json(202, { uri, identity }, { location: locationOf(uri) });
  return json(202, {
    uris: records.map((record) => record.uri),
    identities: records.map((record) => record.identity),
  });
}

/** The key of a request with several records is continued with their places. @throws bad_request for a bad key */
function identified(submissions: readonly Submission[], headers: HttpRequest['headers']): SentRecord[] {
  const key = headers['idempotency-key'];
  const trace = readTrace(headers);
  return submissions.map((submission, i) => {
    if (key === undefined) return { ...submission, identity: randomUUID(), trace };
    const identity = assertIdentity(submissions.length === 1 ? key : `${key}-${i}`);
    return { ...submission, identity, trace };
  });
}

/** `Prefer: respond-async` (RFC 7240). */
export function prefersAsync(request: HttpRequest): boolean {
  return /(?:^|[,;\s])respond-async(?:$|[,;\s])/i.test(request.headers['prefer'] ?? '');
}
