/** Routes that only the single machine answers for a job: its statistics, and its end. */
import { ServingError } from '../../lib/contract/errors.ts';
import { SERVER_VERSION } from '../../lib/contract/names.ts';
import { page as htmlPage } from '../../lib/http/page.ts';
import { type HttpResponse, json, respond } from '../../lib/http/response.ts';
import { WIRE_VERSION } from '../../lib/http/worker/endpoint.ts';
import { errorEnvelope } from '../../lib/http/worker/paths.ts';
import { isBearer } from '../gateway/caller.ts';
import type { GatewayRoute } from '../gateway/routes.ts';
import { type PageFacts, statPage } from './stat-page.ts';
import type { Facts, ServiceStatistics } from './statistics.ts';

export interface StatOptions {
  /** Data that /stat shows beside the statistics. */
  readonly page: () => PageFacts;
  /** Settings and versions for /status/server, which has them in snake_case, `protocol` (obj or npy) among them. */
  readonly facts: () => Facts;
}

/** `GET /status/server`, `/status/client` and `/stat`. */
export function statRoutes(statistics: ServiceStatistics, { page, facts }: StatOptions): GatewayRoute[] {
  const route = (path: string, answer: () => HttpResponse): GatewayRoute => ({
    method: 'GET',
    path,
    functionName: 'statistics',
    ownSlots: true,
    handler: async () => answer(),
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
    method: 'POST',
    path: '/control/{verb}',
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
