/** The routes of the API for the local gateway, with limits and slots that only a single machine needs. */
import { ROUTES, type Route } from '../lib/http/routes.ts';
import type { GatewayRoute } from './gateway/routes.ts';

interface JobHandlers {
  readonly predict: GatewayRoute['handler'];
  readonly predictions: GatewayRoute['handler'];
  readonly status: GatewayRoute['handler'];
}

interface PredictLimits {
  readonly timeoutMs: number;
  /** True while a run would be refused, so that its request is refused before its body is read. */
  readonly refuses: () => boolean;
}

export function jobRoutes(handlers: JobHandlers, limits: PredictLimits): GatewayRoute[] {
  return ROUTES.map((route) => {
    const { method, path } = route;
    const functionName = route.function === 'submit' ? 'predictions' : route.function;
    return { method, path, functionName, handler: handlers[functionName], ...extras(route, limits) };
  });
}

function extras({ function: name, method }: Route, { timeoutMs, refuses }: PredictLimits) {
  if (name === 'predict') return method === 'POST' ? { timeoutMs, refuses } : { timeoutMs };
  // The status must be available even while a thousand requests wait.
  return name === 'status' ? { ownSlots: true } : {};
}
