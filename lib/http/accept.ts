/**
 * Puts a request's records into the queue and answers 202 with their uris, once SQS has every record.
 */
import { type Claims, type LargeRecords, type Sender, sendClaimed, submit } from '../pipeline/submit.ts';
import { readSubmissions } from './predictions.ts';
import type { HttpRequest } from './request.ts';
import { type HttpResponse, json } from './response.ts';

export interface AcceptDeps {
  readonly queue: () => Sender;
  /** The store for large records, loaded at the first one. */
  readonly payloads: () => Promise<LargeRecords>;
  /** Refuses a uri that is in use for another payload; absent where Redis cannot be reached. */
  readonly claims?: () => Claims;
}

export async function acceptRecords(
  request: HttpRequest,
  { queue, payloads, claims }: AcceptDeps,
): Promise<HttpResponse> {
  const submissions = readSubmissions(request.body());
  const sender = queue();
  await sendClaimed(claims?.(), submissions, (submission) => submit(sender, payloads, submission));
  const uris = submissions.map(({ uri }) => uri);
  const [uri] = uris as [string];
  return uris.length > 1 ? json(202, { uris }) : json(202, { uri }, { location: locationOf(uri) });
}

/** API Gateway would interpret `?`, `/` and `..` of the uri in a path. */
function locationOf(uri: string): string {
  return /^[\w-]+$/.test(uri) ? `/predictions/${uri}` : `/predictions?uri=${encodeURIComponent(uri)}`;
}

/** `Prefer: respond-async` (RFC 7240). */
export function prefersAsync(request: HttpRequest): boolean {
  return /(?:^|[,;\s])respond-async(?:$|[,;\s])/i.test(request.headers['prefer'] ?? '');
}
