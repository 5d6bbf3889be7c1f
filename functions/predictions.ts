/**
 * The way in and out over HTTPS. POST /predictions -> 202 with uri and Location; GET (also waiting: `Prefer:
 * wait=10`) and DELETE /predictions/{uri}; DELETE /predictions takes a page of finished ones; GET /status?uri=... and
 * POST /cancel?uri=... (a uri may hold any character: in a path, its slashes and question marks would be lost).
 * Trap: it is deployed twice from one bundle: POST /predictions outside the VPC (SQS is there, no NAT needed), the
 * rest inside (Redis is there). Each opens only what its side has.
 */
import type { APIGatewayProxyEventV2 } from 'aws-lambda';
import { lambdaHandler } from '../lib/compose/handler.ts';
import { composePredictions } from '../lib/compose/predictions.ts';
import { ServingError } from '../lib/contract/errors.ts';
import { logError } from '../lib/contract/log.ts';
import { type AcceptDeps, acceptRecords } from '../lib/http/accept.ts';
import { assertAnswer, failureBody, pageText, preferredWaitMs, resultText } from '../lib/http/predictions.ts';
import { type HttpRequest, readRequest } from '../lib/http/request.ts';
import { type HttpResponse, json, jsonText, respond } from '../lib/http/response.ts';
import { answerState, isStatePath } from '../lib/http/states.ts';
import type { Reporter } from '../lib/metrics/reporter.ts';
import type { RecordStates } from '../lib/redis/record-states.ts';
import type { Result } from '../lib/redis/result-fields.ts';
import type { ResultStore } from '../lib/redis/results.ts';

export interface PredictionsDeps extends AcceptDeps {
  readonly results: () => Pick<ResultStore, 'getWithin' | 'take' | 'takePage'>;
  readonly reporter: () => Reporter;
  readonly states: () => Pick<RecordStates, 'status' | 'cancel'>;
}

/** Results of one DELETE /predictions, and bytes of their stored values: as JSON they are up to three times that. */
const PAGE = 100;
const PAGE_BYTES = 1_500_000;

export const predictions = (deps: PredictionsDeps) => (event: APIGatewayProxyEventV2) =>
  respond(async () => {
    const request = readRequest(event);
    if (isStatePath(request.path)) return answerState(request, deps.states());
    return request.method === 'POST' ? acceptRecords(request, deps) : look(request, deps);
  }, logError);

async function look(request: HttpRequest, deps: PredictionsDeps): Promise<HttpResponse> {
  const { method, parameters, headers } = request;
  const results = deps.results();
  if (parameters['uri'] === undefined && method === 'DELETE')
    return jsonText(200, pageText(await results.takePage(PAGE, PAGE_BYTES)));
  const uri = request.uri();
  const reporter = deps.reporter();
  const stop = reporter.start('zoo.serving.redis.get');
  try {
    const waitMs = method === 'DELETE' ? 0 : preferredWaitMs(headers['prefer']);
    const seen = await answerWith(uri, async (use) => use(await results.getWithin(uri, waitMs)));
    if (method !== 'DELETE') return seen;
    // It can be answered, so it may go. By now it may be another, or another's: what counts is what is taken.
    return await answerWith(uri, (use) => results.take(uri, use));
  } finally {
    stop();
    await reporter.flushWhenDue();
  }
}

/** @param read gives a result to `use`, which throws for one that cannot be answered */
async function answerWith(
  uri: string,
  read: (use: (result: Result | undefined) => void) => Promise<unknown>,
): Promise<HttpResponse> {
  let text: string | undefined;
  try {
    await read((result) => {
      if (result) text = assertAnswer(resultText(result));
    });
  } catch (error) {
    // A record's own failure carries its uri; it is an answer to the question, not a failure to answer.
    if (!(error instanceof ServingError) || error.uri !== uri) throw error;
    return json(200, failureBody(error));
  }
  if (text === undefined) throw new ServingError('not_found', 'no result under this uri (yet, or any more)');
  return jsonText(200, text);
}

export const handler = await lambdaHandler(predictions, composePredictions);
