/** The console of a job on the single machine, in one piece. */
import { STEP_MS } from '../../console/api.ts';
import type { GatewayRoute } from '../gateway/routes.ts';
import { type LocalConsoleOptions, localConsole } from './local.ts';
import { consoleRoutes } from './routes.ts';

export interface LocalConsole {
  /** @param root answers GET / to a client that does not ask for HTML */
  routes(allowedHosts: readonly string[], root: GatewayRoute['handler']): GatewayRoute[];
}

/** @param onClose takes what ends looking at the queue */
export function openConsole(
  options: LocalConsoleOptions,
  onClose: (close: () => Promise<void>) => void,
): LocalConsole {
  const source = localConsole(options);
  // The depth of the queue is asked when a step ends, which it does only when something looks.
  const timer = setInterval(() => options.statistics.history(), STEP_MS / 2).unref();
  onClose(async () => clearInterval(timer));
  return {
    routes: (allowedHosts, root) => consoleRoutes({ source, allowedHosts, root }),
  };
}
