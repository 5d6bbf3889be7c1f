/** What only the single machine answers for a job: its statistics, outcomes that come later, and its end. */
import { badRequest, ServingError } from '../../lib/contract/errors.ts';
import { LIMITS } from '../../lib/contract/limits.ts';
import { SERVER_VERSION } from '../../lib/contract/names.ts';
import { page as htmlPage } from '../../lib/http/page.ts';
import { readRequest } from '../../lib/http/request.ts';
import { type HttpResponse, json, respond } from '../../lib/http/response.ts';
import { WIRE_VERSION } from '../../lib/http/worker/endpoint.ts';
import { errorEnvelope } from '../../lib/http/worker/envelope.ts';
import { nameOf } from '../../lib/http/worker/frames.ts';
import { type Declaration, partsOf } from '../../lib/openapi/declaration.ts';
import { TEXT } from '../../lib/openapi/json-schema.ts';
import { answer, parameter } from '../../lib/openapi/operation.ts';
import { BYTES, envelope, FRAME, NAME } from '../../lib/openapi/worker.ts';
import { isBearer } from '../gateway/caller.ts';
import type { GatewayRoute } from '../gateway/routes.ts';
import type { LaterResults } from './results.ts';
import { type PageFacts, statPage } from './stat-page.ts';
import type { Facts, ServiceStatistics } from './statistics.ts';

export interface StatOptions {
  /** What /stat shows beside the statistics. */
  readonly page: () => PageFacts;
  /** Settings and versions for /status/server, which has them in snake_case, `protocol` (obj or npy) among them. */
  readonly facts: () => Facts;
}

/** `/status/server` is one of the deployed routes. */
export const STATISTICS: Declaration = {
  routes: ['GET /status/client', 'GET /stat'],
  operations: () => [
    {
      id: 'clientStatus',
      tag: 'worker',
      summary: 'What waits',
      answers: { 200: answer('What waits', { type: 'object' }) },
      errors: [],
    },
    {
      path: '/stat',
      id: 'statisticsPage',
      tag: 'worker',
      summary: 'A page of statistics',
      answers: { 200: answer('HTML without scripts.', TEXT, 'text/html') },
      errors: [],
    },
  ],
};

/** `GET /status/server`, `/status/client` and `/stat`. */
export function statRoutes(statistics: ServiceStatistics, { page, facts }: StatOptions): GatewayRoute[] {
  const route = (path: string, write: () => HttpResponse): GatewayRoute => ({
    method: 'GET',
    path,
    functionName: 'statistics',
    ownSlots: true,
    handler: async () => write(),
  });
  const versions = () => ({
    ...snakeCase(facts()),
    wkr_protocol: WIRE_VERSION,
    server_version: SERVER_VERSION,
  });
  return [
    route('/status/server', () =>
      json(200, {
        ...versions(),
        server_start_time: statistics.startedAt.toISOString(),
        server_current_time: new Date().toISOString(),
        ...statistics.status(),
      }),
    ),
    // The original's HTTP front was a client of its server; here it is the same process.
    route('/status/client', () =>
      json(200, { ...versions(), num_pending_request: statistics.counts.inQueue }),
    ),
    route('/stat', () => htmlPage(statPage(statistics, page()))),
  ];
}

/** Names as the flags of wkr_serving have them. */
function snakeCase(settings: Facts): Facts {
  const nameOf = (name: string) => name.replaceAll(/[A-Z]+/g, (letters) => `_${letters.toLowerCase()}`);
  return Object.fromEntries(Object.entries(settings).map(([name, value]) => [nameOf(name), value]));
}

export const CONTROL: Declaration = {
  routes: ['POST /control/{verb}'],
  errorForm: 'WorkerError',
  operations: () => [
    {
      id: 'control',
      tag: 'worker',
      summary: 'Ends the service, with the token that was made at its start',
      parameters: [parameter('verb', 'path', { type: 'string', const: 'terminate' })],
      answers: { 200: answer('What the worker or the model returned.', envelope({})) },
      errors: ['not_found'],
    },
  ],
};

/**
 * `POST /control/{verb}`, which always needs a token: what it does ends the service.
 * @param verbs what each does before it is answered
 */
export function controlRoute(
  token: string,
  verbs: Readonly<Record<string, () => Promise<unknown>>>,
  log: (error: ServingError) => void,
): GatewayRoute {
  return {
    ...partsOf(CONTROL.routes[0]),
    functionName: 'control',
    ownSlots: true,
    hasEnvelope: true,
    handler: (event) =>
      respond(
        async () => {
          if (!isBearer(event.headers['authorization'], token)) {
            throw new ServingError('unauthorized', 'this needs the token that was made at the start');
          }
          const verb = event.pathParameters?.['verb'] ?? '';
          const act = Object.hasOwn(verbs, verb) ? verbs[verb] : undefined;
          if (!act) {
            throw new ServingError('not_found', `no such verb; there are ${Object.keys(verbs).join(', ')}`);
          }
          return json(200, { error_code: 0, error_message: '', data: (await act()) ?? null });
        },
        log,
        errorEnvelope,
      ),
  };
}

/** A caller waits at most this long for the next result, below the gateway's 30 s. */
const MAX_WAIT_SECONDS = 20;

export const LATER: Declaration = {
  routes: ['GET /results/{identity}'],
  errorForm: 'WorkerError',
  operations: () => {
    const count = { type: 'integer', minimum: 0, maximum: Number.MAX_SAFE_INTEGER };
    return [
      {
        id: 'laterResults',
        tag: 'worker',
        summary: 'Outcomes of items whose client did not wait',
        parameters: [
          parameter('identity', 'path', NAME),
          parameter('after', 'query', count, 'The cursor of the page before.'),
          parameter('wait', 'query', count, 'Seconds; 20 at most count.'),
        ],
        answers: { 200: answer('A frame.', BYTES, FRAME) },
        errors: ['bad_request', 'too_large'],
      },
    ];
  },
};

/** `GET /results/{identity}?after=N&wait=20` */
export function resultsRoute(results: LaterResults, log: (error: ServingError) => void): GatewayRoute {
  return {
    ...partsOf(LATER.routes[0]),
    functionName: 'results',
    maxBytes: LIMITS.frameBytes,
    hasEnvelope: true,
    waits: (_, query) => Number(new URLSearchParams(query).get('wait')) > 0,
    handler: (event, clock) =>
      respond(
        () => {
          const { identity, after, wait } = readRequest(event).parameters;
          const seconds = Math.min(MAX_WAIT_SECONDS, wholeNumber(wait, 'wait'));
          const cursor = wholeNumber(after, 'after');
          return results.after(nameOf(identity, 'identity'), cursor, seconds * 1_000, clock.caller?.signal);
        },
        log,
        errorEnvelope,
      ),
  };
}

function wholeNumber(text: string | undefined, name: string): number {
  const value = Number(text ?? 0);
  if (/^\d{0,16}$/.test(text ?? '') && Number.isSafeInteger(value)) return value;
  throw badRequest(`${name}: expected a whole number`);
}
