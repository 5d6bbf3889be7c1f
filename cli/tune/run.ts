/**
 * Calls the functions that Lambda runs, from the event's JSON to the answer's, and measures each call and the model's
 * share of it. A failing record is answered fast and would look like a fast model, so every answer is checked.
 * Nothing is stored: the times exclude Redis and Lambda's overhead (docs/how-to/tune.md).
 */

import type { SQSEvent } from 'aws-lambda';
import { predict } from '../../functions/predict.ts';
import { axesOf, type JobConfig } from '../../lib/config/job.ts';
import { ServingError } from '../../lib/contract/errors.ts';
import { LIMITS } from '../../lib/contract/limits.ts';
import { elementAt } from '../../lib/contract/present.ts';
import type { Inputs, Model, Outcome, Runner } from '../../lib/contract/values.ts';
import type { Verification } from '../../lib/contract/verification.ts';
import { tensorRunner } from '../../lib/inference/runner.ts';
import { openSession, type Session } from '../../lib/inference/session.ts';
import { RUN_BYTES } from '../../lib/inference/warm-up.ts';
import { together } from '../../lib/observe/together.ts';
import { parseFilter } from '../../lib/pipeline/answer/postprocess.ts';
import { batchAxisOf } from '../../lib/pipeline/batch/batch-axes.ts';
import { serveEvent } from '../../lib/pipeline/event.ts';
import { infer } from '../../lib/pipeline/infer.ts';
import { resultSink } from '../../lib/results/sink.ts';
import type { Results } from '../../lib/results/store.ts';
import { messageOf, predictEvent, queueEvent, requestBody, resolver } from './events.ts';
import { coversAll, type DataFile, madeUpRecords, recordsOfFiles, type Sizes, sizedSpecs } from './inputs.ts';
import type { ModelFacts, Point } from './points.ts';

/** The settings of a job that affect the time. */
type TuneJob = Pick<
  JobConfig,
  'inputAlreadyBatched' | 'image' | 'postProcessing' | 'batching' | 'inputs' | 'outputs'
>;

export interface OpenRequest {
  readonly file: string;
  /** Inputs of unknown rank. */
  readonly shapeless: readonly string[];
  readonly point: Point;
  readonly sizes: Sizes;
  readonly data: readonly DataFile[];
  readonly job: TuneJob;
  /** As it would be stored with the model's version. */
  readonly verification?: Verification | undefined;
}

export interface OpenPoint {
  readonly facts: ModelFacts;
  /** @returns the time of the call in ms, and the model's share. @throws the function's error */
  call(): Promise<{ readonly callMs: number; readonly modelMs: number }>;
}

/** Calls have no time limit here; the parent ends the process. */
const CONTEXT = { getRemainingTimeInMillis: () => 900_000 };

/** @throws model_unavailable, bad_config for missing sizes or data, model_failed when no record runs */
export async function openPoint(request: OpenRequest): Promise<OpenPoint> {
  const { file, point } = request;
  const begin = performance.now();
  const session = await openSession(file, {
    threads: point.threads,
    optimization: request.verification?.runtime,
  });
  const loadMs = performance.now() - begin;
  const served = await serve(session, point.records, request);
  const { records, data, specs } = await recordsFor(request, served.runner);
  const first = elementAt(records, 0, 'records');
  const messageBytes = Buffer.byteLength(messageOf(records, 0));
  // A record that is too large for a message is in S3, and the event has a pointer.
  const isPointing = messageBytes > LIMITS.messageBytes;
  if (isPointing) served.stored.resolve = resolver(records);
  const one = (JSON.parse(queueEvent(records, 1, isPointing)) as SQSEvent).Records[0];
  const body = requestBody(first);
  const facts: ModelFacts = {
    inputs: session.inputs,
    outputs: session.outputs,
    shapes: specs.map(({ shape }) => shape.map((dim) => (typeof dim === 'number' ? dim : 1))),
    fixedRows: served.fixedRows ?? null,
    shared: served.separable,
    loadMs,
    messageBytes,
    eventBytes: Buffer.byteLength(JSON.stringify(one)),
    requestBytes: Buffer.byteLength(body),
    data,
  };
  return { facts, call: caller(point, queueEvent(records, point.records, isPointing), body, served) };
}

type Served = Awaited<ReturnType<typeof serve>>;

/** The functions around the session, as openOnnx makes a runner of it, with a clock around the model. */
async function serve(session: Session, maxRows: number, { job, verification }: OpenRequest) {
  const { image, inputAlreadyBatched } = job;
  const chosen = { image, batching: job.batching, ...axesOf(job), verification };
  const { fixedRows, separable, inputs, outputs } = await tensorRunner(session, chosen);
  const axes = { inputAxes: inputs.map(batchAxisOf), outputAxes: outputs.map(batchAxisOf) };
  const limits = { maxRows, maxBytes: RUN_BYTES, fixedRows, separable, ...axes };
  const settings = { ...limits, inputAlreadyBatched, image };
  const seen: { modelMs: number; failure: ServingError | undefined } = { modelMs: 0, failure: undefined };
  const timed: Session['run'] = async (feeds) => {
    const begin = performance.now();
    try {
      return await session.run(feeds);
    } finally {
      seen.modelMs += performance.now() - begin;
    }
  };
  const runner: Runner = {
    version: 'tune',
    inputs,
    async run(records, options) {
      const outcomes = await infer(records, inputs, settings, timed, options);
      seen.failure ??= failureIn(outcomes);
      return outcomes;
    },
    close: () => session.close(),
  };
  const observers = together([], () => performance.now());
  const filter = parseFilter(job.postProcessing);
  const stored = { resolve: async (bodies: readonly string[]) => [...bodies] };
  const deps = { model: { use: (work) => work(runner) } satisfies Model, observers };
  const save: Results['save'] = async (finished) => finished.length;
  return {
    runner,
    seen,
    stored,
    fixedRows,
    separable,
    predict: predict({ ...deps, filter }),
    batch: serveEvent({
      ...deps,
      now: Date.now,
      sink: resultSink({ save }, { filter }),
      running: { begin: () => async () => undefined },
      payloads: { resolve: (bodies) => stored.resolve(bodies) },
    }),
  };
}

function failureIn(outcomes: readonly Outcome[]): ServingError | undefined {
  return outcomes.find((outcome) => !outcome.ok)?.error;
}

/** The records of the files, or generated ones that the model accepts: random numbers, else zeros. */
async function recordsFor({ data, sizes, shapeless, job }: OpenRequest, runner: Runner) {
  const { inputs = [] } = runner;
  const failureOf = async (records: readonly Inputs[]) => failureIn(await runner.run(records.slice(0, 1)));
  if (data.length > 0 && !coversAll(inputs, data)) {
    const names = inputs.map(({ name }) => `"${name}"`).join(', ');
    const message = `--data: expected a file for each of the inputs ${names}, got ${data.length}`;
    throw new ServingError('bad_config', message);
  }
  if (data.length > 0) {
    const records = await recordsOfFiles(data, inputs, job.inputAlreadyBatched);
    const failure = await failureOf(records);
    if (!failure) return { records, data: 'given', specs: inputs } as const;
    throw new ServingError('model_failed', `the model does not run with --data: ${failure.message}`);
  }
  const specs = sizedSpecs(inputs, shapeless, sizes, job.image);
  let reason = '';
  for (const filling of ['random', 'zeros'] as const) {
    const records = madeUpRecords(specs, job.inputAlreadyBatched, filling);
    const failure = await failureOf(records);
    if (!failure) return { records, data: filling, specs } as const;
    // The first of two reasons belongs to the likelier values.
    reason ||= failure.message;
  }
  throw new ServingError(
    'model_failed',
    `the model does not run with made-up inputs: ${reason}; give real ones with --data, or other sizes with --dim or --shape`,
  );
}

function caller(
  { endpoint }: Point,
  event: string,
  body: string,
  { seen, predict: onPredict, batch: onBatch }: Served,
) {
  const request = predictEvent(body);
  const call = async () => {
    if (endpoint === 'predict') {
      const answer = await onPredict(JSON.parse(request), CONTEXT);
      JSON.stringify(answer);
      const text = `POST /predict answers ${answer.statusCode}: ${String(answer.body).slice(0, 300)}`;
      return answer.statusCode === 200 ? undefined : text;
    }
    const answer = await onBatch(JSON.parse(event), CONTEXT);
    JSON.stringify(answer);
    const { length } = answer.batchItemFailures;
    return length === 0 ? undefined : `${length} records came back`;
  };
  return async () => {
    seen.modelMs = 0;
    seen.failure = undefined;
    const begin = performance.now();
    const refusal = await call();
    const callMs = performance.now() - begin;
    if (seen.failure) throw seen.failure;
    if (refusal !== undefined) throw new ServingError('model_failed', refusal);
    return { callMs, modelMs: seen.modelMs };
  };
}
