/** The routes of the API for the local gateway, with limits and slots that only a single machine needs. */
import { LIMITS } from '../../lib/contract/limits.ts';
import { preferredWaitMs } from '../../lib/http/results.ts';
import { ROUTES, type Route } from '../../lib/http/routes.ts';
import type { GatewayRoute } from '../gateway/routes.ts';

interface JobHandlers {
  readonly predict: GatewayRoute['handler'];
  readonly predictions: GatewayRoute['handler'];
  readonly status: GatewayRoute['handler'];
}

interface PredictLimits {
  readonly timeoutMs: number;
  /** True while a run would be refused, so that its request is refused before its body is read. */
  readonly refuses: () => boolean;
  /** Called when clients have left, or may have. */
  readonly onLeave?: () => void;
}

/** @param own routes of the single machine, also in place of deployed ones */
export function jobRoutes(
  handlers: JobHandlers,
  limits: PredictLimits,
  own: readonly GatewayRoute[] = [],
): GatewayRoute[] {
  const isOwn = ({ method, path }: Route) => own.some((one) => one.method === method && one.path === path);
  const deployed = ROUTES.filter((route) => !isOwn(route)).map((route): GatewayRoute => {
    const { method, path } = route;
    const functionName = route.function === 'submit' ? 'predictions' : route.function;
    return { method, path, functionName, handler: handlers[functionName], ...extras(route, limits) };
  });
  return [...own, ...deployed];
}

function extras({ function: name, method, isWorker }: Route, { timeoutMs, ...limits }: PredictLimits) {
  if (name === 'predict') {
    const worker = isWorker ? { maxBytes: LIMITS.frameBytes, hasEnvelope: true } : {};
    return method === 'POST' ? { timeoutMs, ...limits, ...worker } : { timeoutMs };
  }
  if (name === 'predictions' && method === 'GET') return { waits };
  // The status must be available even while a thousand requests wait.
  return name === 'status' ? { ownSlots: true } : {};
}

function waits({ prefer }: Readonly<Record<string, string>>): boolean {
  return preferredWaitMs(prefer) > 0;
}
