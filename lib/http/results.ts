/**
 * GET and DELETE /predictions/{uri}, and DELETE /predictions, which takes a page of finished results. A result is taken
 * only when it can be answered; one that is too large for an answer stays. A large one is answered with 303 to its object
 * in S3, also to DELETE, and is deleted when the client says that it has fetched it (`fetched=<id>`).
 */
import { encodeBase64 } from '../codecs/encode-base64.ts';
import type { EnqueueQuery, TakeQuery } from '../contract/enqueue.ts';
import { badRequest, ServingError } from '../contract/errors.ts';
import type { Dequeued, Result } from '../contract/result.ts';
import type { Caller } from '../contract/values.ts';
import { largeText, resultText } from '../pipeline/answer/result-text.ts';
import type { Observers } from '../pipeline/observer.ts';
import { assertQuery } from './body-keys.ts';
import { assertAnswer, failureBody, pageText } from './predictions.ts';
import type { HttpRequest } from './request.ts';
import { binary, type HttpResponse, json, jsonText } from './response.ts';

export interface Results {
  /** @throws the record's own error when it failed; results_unavailable */
  getWithin(
    uri: string,
    waitMs: number,
    query: EnqueueQuery & { readonly signal?: AbortSignal | undefined },
  ): Promise<Result | undefined>;
  /** @param query.use called with the result; if it throws, the result stays */
  take(
    uri: string,
    query: TakeQuery & { readonly use: (result: Result) => void },
  ): Promise<Result | undefined>;
  /** @returns undefined when there are none left */
  takePage(count: number, maxBytes: number): Promise<readonly Dequeued[] | undefined>;
}

export interface ResultsDeps {
  readonly results: () => Results;
  readonly observers: Observers;
  /** @returns where the object of a large result can be fetched for a while, by all who have this address */
  readonly locate: (key: string) => string;
}

/** The wait of one `GET /predictions/{uri}`, below the gateway's 30 s. A longer `Prefer: wait` waits this long. */
const MAX_WAIT_SECONDS = 20;
/** Results of one `DELETE /predictions`. The answer says that there are more. */
const PAGE = 100;
/** Bytes of stored values in a page. As JSON they are up to three times as large. */
const PAGE_BYTES = 1_500_000;

/** @param caller whose leaving ends a wait */
export async function answerResults(
  request: HttpRequest,
  deps: ResultsDeps,
  caller?: Caller,
): Promise<HttpResponse> {
  const { method, parameters, headers } = request;
  const results = deps.results();
  if (parameters['uri'] === undefined && method === 'DELETE') {
    assertPage(parameters);
    assertQuery(request, true);
    return jsonText(200, pageText(await results.takePage(PAGE, PAGE_BYTES)));
  }
  assertQuery(request);
  const uri = request.uri();
  const identity = request.identity();
  const stop = deps.observers.start('read');
  try {
    const waitMs = method === 'DELETE' ? 0 : preferredWaitMs(headers['prefer']);
    const fetched = method === 'DELETE' ? request.fetched() : undefined;
    const isRaw = accepts(headers['accept'], 'application/octet-stream');
    const asked = { uri, identity, isRaw, fetched, locate: deps.locate };
    if (fetched === undefined) {
      const seen = await answerWith(asked, async (use) => {
        const signal = waitMs > 0 ? caller?.signal : undefined;
        use(await results.getWithin(uri, waitMs, { identity, signal }));
      });
      if (method !== 'DELETE') return seen;
    }
    // The result fits into an answer, so it may be deleted. It may have changed since, so the answer is what was
    // taken. A large one stays unless it was fetched.
    return await answerWith(asked, (use) => results.take(uri, { identity, fetched, use }));
  } finally {
    stop();
  }
}

/** `Prefer: wait=10` (RFC 7240) as milliseconds, capped; 0 without it. */
export function preferredWaitMs(prefer: string | undefined): number {
  const seconds = Number(/(?:^|[,;\s])wait=(\d+)(?:$|[,;\s])/.exec(prefer ?? '')?.[1] ?? 0);
  return Math.min(seconds, MAX_WAIT_SECONDS) * 1000;
}

/** A caller who forgot the uri does not mean all results. @throws bad_request */
function assertPage(parameters: HttpRequest['parameters']): void {
  for (const name of ['identity', 'fetched'])
    if (parameters[name] !== undefined) throw badRequest(`uri: missing; "${name}" is about one result`);
}

/** True if an Accept header names the type. */
function accepts(header: string | undefined, type: string): boolean {
  return (header ?? '').split(',').some((part) => part.split(';', 1)[0]?.trim().toLowerCase() === type);
}

interface Asked extends TakeQuery {
  readonly uri: string;
  readonly isRaw: boolean;
  readonly locate: ResultsDeps['locate'];
}

/** @param read passes a result to `use`, which throws if it does not fit into an answer */
async function answerWith(
  asked: Asked,
  read: (use: (result: Result | undefined) => void) => Promise<unknown>,
): Promise<HttpResponse> {
  const { uri, identity } = asked;
  let answer: HttpResponse | undefined;
  try {
    await read((result) => {
      if (result) answer = answerOf(result, asked);
    });
  } catch (error) {
    // A record's own failure has its uri and is a successful answer.
    if (!(error instanceof ServingError) || error.uri !== uri) throw error;
    return json(200, failureBody(error, identity));
  }
  if (!answer) throw new ServingError('not_found', 'no result under this uri (yet, or any more)');
  return answer;
}

function answerOf(result: Result, { isRaw, fetched, locate }: Asked): HttpResponse {
  const { value, large } = result;
  if (!large) {
    return isRaw && value instanceof Uint8Array
      ? binary(200, assertAnswer(encodeBase64(value)))
      : jsonText(200, assertAnswer(resultText(result)));
  }
  const isBytes = isRaw && large.form === 'bytes';
  const text = largeText(result, isBytes ? large : large.json);
  if (fetched !== undefined) return jsonText(200, text);
  // All who have the address can read the object, so nothing in between may keep it.
  const location = locate(isBytes ? large.key : `${large.key}.json`);
  return jsonText(303, text, { location, 'cache-control': 'no-store' });
}
