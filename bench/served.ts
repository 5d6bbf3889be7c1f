/**
 * The handlers of functions/ as Lambda calls them, with a model and a Redis, and events for them. Texts of an event come from
 * JSON on Lambda, so they are flat in memory; every event here goes through JSON once, or the handler would flatten it.
 */
import type { APIGatewayProxyEventV2, SQSEvent } from 'aws-lambda';
import { httpEvent, sqsEvent } from '../cli/tune/events.ts';
import { predict } from '../functions/predict.ts';
import { type OnnxRunner, openOnnx } from '../lib/compose/onnx.ts';
import { connect, openResults, openStates, openSums } from '../lib/compose/store.ts';
import { logError } from '../lib/contract/log.ts';
import { ModelManager } from '../lib/inference/model-manager.ts';
import { TrialWatch } from '../lib/observe/trial.ts';
import { serveEvent } from '../lib/pipeline/event.ts';
import type { Observer, Observers } from '../lib/pipeline/observer.ts';
import { RunningReports } from '../lib/results/running.ts';
import { resultSink } from '../lib/results/sink.ts';
import type { Results } from '../lib/results/store.ts';
import { openS3 } from '../lib/s3/client.ts';
import { PayloadStore } from '../lib/s3/payloads.ts';
import { timersTo } from '../test/support/observers.ts';
import type { BenchModel } from './models.ts';
import { THREADS } from './raw.ts';

export const JOB = 'bench';
const RESULT_TTL_SECONDS = 600;
/** As config/job.ts has it. */
const MODEL_REFRESH_MS = 30_000;

const CANARY = 'canary';

export interface Served {
  readonly predict: ReturnType<typeof predict>;
  readonly batch: ReturnType<typeof serveEvent>;
  readonly results: Results;
  readonly model: ModelManager<OnnxRunner>;
  readonly observers: Observers;
  close(): Promise<void>;
}

interface ServeOptions {
  readonly batchSize: number;
  /** The S3 that holds records too large for a message. Most have none, and nothing listens at the default. */
  readonly endpoint?: string;
  /** Threads of a run. Default 1. */
  readonly threads?: number | undefined;
  /** Observe what is served. Default: none but the timers and the failures. */
  readonly observers?: readonly Observer[];
  /** Default: in this process. */
  readonly openRunner?: typeof openOnnx;
  /** The share of a canary, which is the same model, opened once more. Default: there is none. */
  readonly canaryShare?: number | undefined;
}

export function serve(
  model: BenchModel,
  redisUrl: string,
  {
    batchSize,
    endpoint = 'http://127.0.0.1:9',
    threads = THREADS,
    observers: more = [],
    openRunner = openOnnx,
    canaryShare,
  }: ServeOptions,
): Served {
  const connection = connect({ redisUrl });
  const results = openResults(connection, { job: JOB, ttlSeconds: RESULT_TTL_SECONDS, now: Date.now });
  const states = openStates(connection, { job: JOB, now: Date.now });
  // The rows of these models are independent, which is proven when a model is published; here none is.
  const settings = {
    threads,
    batchSize,
    inputAlreadyBatched: false,
    image: {},
    batching: 'always',
  } as const;
  const trials = new TrialWatch({
    deliver: (trial, counts) => openSums(connection, { job: JOB, kind: 'trial' }).add(trial, counts),
    now: Date.now,
  });
  const host = new ModelManager<OnnxRunner>(
    {
      version: async () => model.sha256.slice(0, 12),
      canary:
        canaryShare === undefined ? undefined : { version: CANARY, share: canaryShare, since: 'the start' },
      open: (version) => openRunner(model.path, version, settings),
    },
    {
      refreshMs: MODEL_REFRESH_MS,
      now: Date.now,
      onError: (error) => logError(error),
      // As on Lambda: the first request opens the canary.
      ...(canaryShare !== undefined && { canaries: trials, leftMs: CONTEXT.getRemainingTimeInMillis }),
    },
  );
  const payloads = new PayloadStore(openS3({ endpoint, region: 'local' }), 'bench', JOB);
  const { timers, observers } = timersTo(results, ...(canaryShare === undefined ? [] : [trials]), ...more);
  const deps = { model: host, payloads, observers };
  const running = new RunningReports(states, CONTEXT.getRemainingTimeInMillis(), Date.now);
  return {
    predict: predict({ ...deps, filter: undefined }),
    batch: serveEvent({ ...deps, now: Date.now, sink: resultSink(results, { timers }), running }),
    results,
    model: host,
    observers,
    async close() {
      await host.close();
      await results.close();
    },
  };
}

/** The fields of Lambda's context that a handler uses. */
export const CONTEXT = { getRemainingTimeInMillis: () => 29_000 };

/** POST /predict with a JSON body. */
export function predictEvent(body: string): APIGatewayProxyEventV2 {
  return JSON.parse(JSON.stringify(httpEvent(JOB, body)));
}

/** Messages of the queue. */
export function queueEvent(bodies: readonly string[]): SQSEvent {
  return JSON.parse(JSON.stringify(sqsEvent(JOB, bodies, 'bench')));
}

/** A row as a client writes it in JSON: nested, each number with the 9 digits that a float32 needs. */
export function nestedNumbers(row: Float32Array, shape: readonly number[]): unknown {
  let level: unknown[] = Array.from(row, (value) => Number(value.toPrecision(9)));
  for (const dim of shape.slice(1).toReversed()) {
    const below = level;
    level = Array.from({ length: below.length / dim }, (_, i) => below.slice(i * dim, (i + 1) * dim));
  }
  return level;
}

/** The values of the only prediction of an answer that has them as numbers, as peers' do. */
export function plainValues(body = ''): number[] {
  return (JSON.parse(body) as { predictions: [number[]] }).predictions[0];
}

/** The values of the only prediction: `{"predictions":["{value={\"data\":[...],\"shape\":[10]}}"]}`. */
export function predictionOf(body = ''): number[] {
  const [text, ...more] = (JSON.parse(body) as { predictions: string[] }).predictions;
  if (text === undefined || more.length > 0) throw new Error(`expected one prediction, got ${body}`);
  return (JSON.parse(text.slice('{value='.length, -1)) as { data: number[] }).data;
}
