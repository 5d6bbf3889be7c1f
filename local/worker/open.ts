/** What the single machine adds to the HTTP API of a job for the worker service, in one piece. */

import type { ServingError } from '../../lib/contract/errors.ts';
import type { EncodeDeps } from '../../lib/http/worker/endpoint.ts';
import type { GatewayRoute } from '../gateway/routes.ts';
import { runningTime } from '../machine/running-time.ts';
import { type FetchImageOptions, imageFetcher } from './fetch-image.ts';
import { LaterResults } from './results.ts';
import { controlRoute, resultsRoute, type StatOptions, statRoutes } from './routes.ts';
import type { ServiceStatistics } from './statistics.ts';

export interface ServicePartOptions extends StatOptions {
  readonly statistics: ServiceStatistics;
  /** How long results stay, in ms. */
  readonly ttlMs: number;
  readonly fetch: FetchImageOptions;
  /** Without it there is no /control. */
  readonly control?: {
    readonly token: string;
    readonly verbs: Readonly<Record<string, () => Promise<unknown>>>;
  };
  readonly log: (error: ServingError) => void;
}

export interface ServiceParts {
  /** For the predict function. */
  readonly encode: EncodeDeps;
  /** Routes of the single machine, for `jobRoutes`. */
  readonly routes: readonly GatewayRoute[];
  /** Waits until every accepted item has its outcome, up to `limitMs`. */
  idle(limitMs: number): Promise<void>;
  /** Answers those who wait for results. Call it before the gateway closes. */
  close(): void;
}

export function openServiceParts(options: ServicePartOptions): ServiceParts {
  const { ttlMs, log, control, statistics } = options;
  const later = new LaterResults({ ttlMs, now: runningTime });
  return {
    encode: { fetchImage: imageFetcher(options.fetch), later },
    routes: [
      ...statRoutes(statistics, options),
      resultsRoute(later, log),
      ...(control ? [controlRoute(control.token, control.verbs, log)] : []),
    ],
    idle: (limitMs) => later.idle(limitMs),
    close: () => later.close(),
  };
}
