/** The middle of the routes that answer the records of one request together: the limit, the run, the timers and the version. */
import { DEFAULT_JOB_NAME } from '../contract/names.ts';
import type { Inputs, Outcome, Runner } from '../contract/values.ts';
import { type InvocationClock, requestPolicy } from '../pipeline/deadline.ts';
import { serveRequest } from '../pipeline/serve.ts';
import type { InferenceDeps } from './open-inference/run.ts';
import { type HttpResponse, jsonText } from './response.ts';
import { runHeaders } from './run-headers.ts';

interface Asked {
  readonly records: readonly Inputs[];
  /** Throws an error of a record, with its place in the body as the caller counts it. Default: throws it unchanged. */
  readonly inPlace?: (error: unknown) => never;
  /** The model that the body names. Default: that of the request. */
  readonly model?: string | undefined;
  /** Headers of the answer, besides the model's version. */
  readonly headers?: Readonly<Record<string, string>> | undefined;
}

interface Steps<A extends Asked> {
  /** Called once the limit lets the request through. */
  readonly read: () => A | Promise<A>;
  /** Refuses a model that this route does not serve, by throwing. Default: it serves all. */
  readonly assertServes?: (runner: Runner, asked: A) => void;
  /** @returns the JSON text of the answer */
  readonly answer: (outcomes: readonly Outcome[], asked: A) => string | Promise<string>;
}

/** POST /predict has its own copy, which awaits less. @throws rate_limited, and any error of the steps and the model */
export async function answerRecords<A extends Asked>(
  deps: InferenceDeps,
  clock: InvocationClock | undefined,
  { read, assertServes, answer }: Steps<A>,
): Promise<HttpResponse> {
  const stopRequest = deps.observers.start('request');
  await deps.limiter?.acquire(clock?.caller);
  const asked = await read();
  const { model, observers } = await chosenFor(deps, asked);
  const { records, inPlace = raise, headers } = asked;
  observers.rowsRead?.(records.length);
  const stopRun = observers.start('run');
  const { outcomes, runner } = await model.use(async (serving) => {
    assertServes?.(serving, asked);
    return {
      outcomes: await serveRequest(records, serving, requestPolicy(clock), observers).catch(inPlace),
      runner: serving,
    };
  });
  stopRun();
  const text = await answer(outcomes, asked);
  stopRequest();
  return jsonText(200, text, { ...runHeaders(runner, outcomes), ...headers });
}

async function chosenFor(deps: InferenceDeps, { model: name }: Asked): Promise<InferenceDeps> {
  if (name === undefined || name === (deps.jobName ?? DEFAULT_JOB_NAME)) return deps;
  const { withModel } = await import('./named.ts');
  return withModel(deps, { name, isInPath: false });
}

function raise(error: unknown): never {
  throw error;
}
