/**
 * Builds a function's handler as Lambda calls it. INIT is the cheapest time to open dependencies (full CPU, before
 * any request) but ends after 10 s: an opening that takes longer continues in the first request, and a failed one is
 * repeated by the next. Outside Lambda nothing is opened before the first event, so importing a function is free.
 */
import { type Environment, readEnvironment } from '../config/environment.ts';
import { logAlways, logError, logWith } from '../contract/log.ts';
import { readTrace, type TraceHeaders } from '../contract/trace.ts';
import { underWay } from '../contract/under-way.ts';
import { waitWithin, withinTime } from '../inference/load-time.ts';
import { assertEvent, type EventKind, type Handler } from './events.ts';
import { loadBudget } from './load-budget.ts';
import { observeCall, observeHandler } from './observe-handler.ts';
import { observers as observersPart, openTracing } from './observers.ts';
import { Scope } from './scope.ts';

/** Lambda gives INIT 10 s; the rest is for loading code. */
const INIT_WAIT_MS = 8_000;
/** The longest wait for what goes on beside an answer, and what it leaves for the answer. */
const LEFT_MS = 2_000;
const ANSWER_MS = 200;

/**
 * @param kind of its events; others are refused
 * @param create creates the handler from its dependencies
 * @param compose creates the dependencies from the environment
 */
export async function lambdaHandler<D, E, R>(
  kind: EventKind,
  create: (deps: D) => Handler<E, R>,
  compose: (scope: Scope) => Promise<D>,
): Promise<Handler<E, R>> {
  let opened: Promise<Handler<E, R>> | undefined;
  const environment = readEnvironment();
  let isCold = !environment.isProvisioned;
  const logAsFunction = () =>
    logAlways({
      service: environment.service,
      function_name: environment.functionName,
      cold_start: isCold,
    });
  if (environment.inLambda) logAsFunction();
  const scope = new Scope(environment, await ownOf(environment));
  const observers = scope.get(observersPart);
  const open = async () => {
    const startedMs = observers.now();
    const deps = await compose(scope);
    observers.functionOpened?.({ tookMs: observers.now() - startedMs });
    return observeHandler(scope, kind, create(deps));
  };
  const opening = () => (opened ??= open());
  const forget = (error: unknown) => {
    opened = undefined;
    logError(error, { phase: 'init' });
  };
  if (environment.inLambda) {
    const endMs = process.uptime() * 1000 + INIT_WAIT_MS;
    scope.clock = { getRemainingTimeInMillis: () => endMs - process.uptime() * 1000 };
    await Promise.race([opening().then(() => undefined, forget), wait(INIT_WAIT_MS)]);
    await ended(underWay(), scope);
  }
  const handle: Handler<E, R> = async (event, context) => {
    assertEvent(event, kind);
    scope.clock = context;
    const handler = await opening().catch((error: unknown) => {
      forget(error);
      throw error;
    });
    const answering = Promise.resolve(handler(event, context));
    const end = (): unknown => ended(underWay(), scope);
    return environment.inLambda ? answering.finally(end) : answering;
  };
  if (!environment.inLambda) return handle;
  return (event, context) => {
    const ids = {
      function_request_id: context.awsRequestId,
      xray_trace_id: environment.traceId,
      trace_id: readTrace((event as { readonly headers?: TraceHeaders }).headers ?? {})?.traceId,
      cold_start: isCold,
    };
    isCold = false;
    logAsFunction();
    return logWith(ids, () => observeCall(observers, event, ids, () => handle(event, context)));
  };
}

/** Code that few environments need. */
async function ownOf(environment: Environment) {
  const tracing = environment.traces && (await openTracing(environment));
  return { tracing, budget: await loadBudget(environment) };
}

/** Never throws. */
async function ended(work: Promise<unknown> | undefined, scope: Scope): Promise<void> {
  if (!work) return;
  const limitMs = Math.min(LEFT_MS, scope.leftMs() - ANSWER_MS);
  await withinTime(limitMs, (signal) => waitWithin(signal, work)).catch(() => undefined);
}

function wait(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms).unref());
}
