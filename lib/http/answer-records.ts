/** The middle of the routes that answer the records of one request together: the limit, the run, the timers and the version. */
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
  { observers, limiter, model }: Pick<InferenceDeps, 'observers' | 'limiter' | 'model'>,
  clock: InvocationClock | undefined,
  { read, assertServes, answer }: Steps<A>,
): Promise<HttpResponse> {
  const stopRequest = observers.start('request');
  await limiter?.acquire(clock?.caller);
  const asked = await read();
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

function raise(error: unknown): never {
  throw error;
}
