/** The console of a job on the single machine, in one piece. */
import type { SQSEvent } from 'aws-lambda';
import { STEP_MS } from '../../console/api.ts';
import type { InvocationClock } from '../../lib/pipeline/deadline.ts';
import type { Sink } from '../../lib/pipeline/serve.ts';
import type { GatewayRoute } from '../gateway/routes.ts';
import { type LocalConsoleOptions, localConsole } from './local.ts';
import { RecentRecords } from './recent.ts';
import { consoleRoutes } from './routes.ts';

export interface LocalConsole {
  /** Goes around what saves results, so that the page knows the last ones. */
  beside<Deps extends { readonly sink: Sink }>(deps: Deps): Deps;
  /** Goes around the function of the queue, for how long its records waited. */
  waits<Answer>(handler: Handler<Answer>): Handler<Answer>;
  /** @param root answers GET / to a client that does not ask for HTML */
  routes(allowedHosts: readonly string[], root: GatewayRoute['handler']): GatewayRoute[];
}

type Handler<Answer> = (event: SQSEvent, clock?: InvocationClock) => Answer;

/** @param onClose takes what ends looking at the queue */
export function openConsole(
  options: Omit<LocalConsoleOptions, 'recent'>,
  onClose: (close: () => Promise<void>) => void,
): LocalConsole {
  const recent = new RecentRecords(Date.now);
  const source = localConsole({ ...options, recent });
  // The depth of the queue is asked when a step ends, which it does only when something looks.
  const timer = setInterval(() => options.statistics.history(), STEP_MS / 2).unref();
  onClose(async () => clearInterval(timer));
  return {
    beside: (deps) => ({ ...deps, sink: recent.beside(deps.sink) }),
    waits: (handler) => (event, clock) => {
      for (const { attributes } of event.Records)
        options.statistics.past.waited(Math.max(0, Date.now() - Number(attributes.SentTimestamp)));
      return handler(event, clock);
    },
    routes: (allowedHosts, root) => consoleRoutes({ source, allowedHosts, root }),
  };
}
