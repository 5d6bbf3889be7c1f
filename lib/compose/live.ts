/**
 * In: a handler that wants its dependencies, and how to open them. Out: the handler Lambda calls.
 * Trap: INIT is the cheapest time to open (full CPU, not in a request), but it ends after 10 s; an opening that
 * takes longer goes on in the first request, and one that failed is tried again by the next. Outside Lambda nothing
 * is opened before the first event, so that a test or the local stack can import a handler's maker alone.
 */
import type { Context } from 'aws-lambda';
import { type Environment, readEnvironment } from '../config/environment.ts';
import { logError, logWith } from '../contract/log.ts';
import { liveMeasuring } from './live-metrics.ts';

/** Lambda gives INIT 10 s; the rest is for loading code. */
const INIT_WAIT_MS = 8_000;

type Handler<E, R> = (event: E, context: Context) => Promise<R>;

export async function live<D, E, R>(
  make: (deps: D) => Handler<E, R>,
  open: (environment: Environment) => Promise<D>,
): Promise<Handler<E, R>> {
  let opened: Promise<Handler<E, R>> | undefined;
  const environment = readEnvironment();
  const measuring = environment.inLambda ? liveMeasuring(environment) : undefined;
  const opening = () => {
    opened ??= (measuring?.opening(() => open(environment)) ?? open(environment)).then(make);
    return opened;
  };
  const forget = (error: unknown) => {
    opened = undefined;
    logError(error, { phase: 'init' });
  };
  if (environment.inLambda) await Promise.race([opening().then(() => undefined, forget), wait(INIT_WAIT_MS)]);
  const handle: Handler<E, R> = async (event, context) => {
    const handler = await opening().catch((error: unknown) => {
      forget(error);
      throw error;
    });
    return handler(event, context);
  };
  if (!measuring) return handle;
  return (event, context) => {
    const ids = { requestId: context.awsRequestId, traceId: environment.traceId };
    return logWith(ids, () => measuring.invocation(event, ids, () => handle(event, context)));
  };
}

function wait(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms).unref());
}
