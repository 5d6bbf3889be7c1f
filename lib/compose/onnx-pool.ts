/**
 * A model of the single machine in processes of its own: what waits shares a batch where the rows are independent, a
 * batch that ends its process runs once more, each request alone, and a run over its time ends its process.
 */
import { ServingError } from '../contract/errors.ts';
import type { Inputs, Outcome, RunPolicy } from '../contract/values.ts';
import { type IsolatedModel, IsolatedRunner, type ModelFacts } from '../inference/isolated-runner.ts';
import { type ModelProcess, OnnxProcess, ProcessEnded } from '../inference/onnx-process.ts';
import type { OnnxSettings } from '../inference/runner.ts';
import { AdaptiveScheduler } from '../pipeline/batch/adaptive-scheduler.ts';
import { Batcher, type BatchRunner, type Clock } from '../pipeline/batch/batcher.ts';
import { flattenedLarge } from '../pipeline/bind/flatten.ts';
import type { Observer } from '../pipeline/observer.ts';
import { Pool } from '../workers/pool.ts';
import { classLabels, hasKnownRows, labelled, type OnnxRunner, RUNTIME, runtimeName } from './onnx.ts';

/** How batches run. */
export interface RunOptions {
  /** A run that takes longer ends its process, in ms. */
  readonly limitMs: number;
  readonly clock: Clock;
  /** Told of each batch that a process has answered. */
  readonly runEnded?: Observer['runEnded'];
}

export interface OnnxPoolOptions extends RunOptions {
  /** Processes, each with the model in its memory. */
  readonly processes: number;
  readonly onCrash: (reason: string) => void;
}

/** The processes of a model. */
export interface Processes {
  /** Batches that could start now. */
  readonly free: number;
  onFree: () => void;
  use<T>(work: (process: ModelProcess) => Promise<T>): Promise<T>;
  close(): Promise<void>;
}

export interface BatchedOnnx extends OnnxRunner {
  readonly batcher: Batcher;
}

export interface PooledOnnx extends BatchedOnnx {
  readonly pool: Pool<OnnxProcess>;
}

const START_MS = 120_000;
/** Records of a model that runs them one by one go to its process together, up to this number. */
const MOST_TOGETHER = 16;
/** How often a run is asked whether its time is over. */
const OVER_CHECK_MS = 250;

/** @throws model_unavailable with onnxruntime's reason */
export async function openPooledOnnx(
  file: string,
  version: string,
  settings: OnnxSettings,
  options: OnnxPoolOptions,
): Promise<PooledOnnx> {
  const { processes, clock, onCrash } = options;
  const model = { file, version, settings };
  const known = Promise.withResolvers<Awaited<ReturnType<OnnxProcess['facts']>>>();
  const pool = new Pool<OnnxProcess>({
    size: processes,
    start: () => new OnnxProcess(model),
    ready: async (process) => known.resolve(await process.facts()),
    startTimeoutMs: START_MS,
    maxBatches: 0,
    clock,
    onCrash,
  });
  await pool.open();
  return { ...batched(model, await known.promise, pool, options), pool };
}

/** A model that is open in processes. */
export function batched(
  model: IsolatedModel,
  { inputs, outputs, separable, names, image }: ModelFacts,
  processes: Processes,
  options: RunOptions,
): BatchedOnnx {
  const { version, settings } = model;
  const { clock } = options;
  const labels = classLabels(names, outputs);
  const isolated = new IsolatedRunner(model);
  const runner = new ProcessRunner(version, processes, options);
  const sharesRuns = separable && !settings.inputAlreadyBatched;
  const batchSize = sharesRuns ? settings.batchSize : MOST_TOGETHER;
  const scheduler = new AdaptiveScheduler({ now: clock.now, batchSize, sharesRuns });
  const batching = { scheduler, timeoutMs: 0, clock, wholeRequests: true };
  const batcher = new Batcher(runner, { ...batching, nextTurn: (call) => void setImmediate(call) });
  return {
    version,
    runtime: runtimeName(RUNTIME),
    inputs,
    outputs,
    separable,
    hasKnownRows: hasKnownRows(settings),
    names,
    image,
    batcher,
    run: async (records, policy) =>
      labelled(await batcher.run(flattenedLarge(records, inputs), policy), labels),
    runIsolated: async (records, limit) => labelled(await isolated.run(records, limit), labels),
    async close() {
      await Promise.all([processes.close(), isolated.close()]);
    },
  };
}

/** Runs one batch in one process of the pool. */
class ProcessRunner implements BatchRunner {
  readonly version: string;
  readonly #pool: Processes;
  readonly #options: RunOptions;

  constructor(version: string, pool: Processes, options: RunOptions) {
    this.version = version;
    this.#pool = pool;
    this.#options = options;
  }

  get free(): number {
    return this.#pool.free;
  }

  set onFree(call: () => void) {
    this.#pool.onFree = call;
  }

  async run(records: readonly Inputs[], policy: RunPolicy = {}): Promise<Outcome[]> {
    try {
      return await this.#attempt(records, policy);
    } catch (error) {
      if (!(error instanceof ProcessEnded) || records.length === 1) throw error;
    }
    const alone: Outcome[] = [];
    for (const record of records) alone.push(await this.#alone(record, policy));
    return alone;
  }

  async #alone(record: Inputs, policy: RunPolicy): Promise<Outcome> {
    try {
      const [outcome] = await this.#attempt([record], { ...policy, failFast: false });
      return outcome ?? { ok: false, error: new ServingError('internal', 'the model gave no outcome') };
    } catch (error) {
      return { ok: false, error: ServingError.from(error) };
    }
  }

  #attempt(records: readonly Inputs[], policy: RunPolicy): Promise<Outcome[]> {
    const { limitMs, clock, runEnded } = this.#options;
    return this.#pool.use(async (process) => {
      let isLate = false;
      const check = () => {
        if (policy.isOver?.()) process.stop();
        else stopCheck = clock.after(OVER_CHECK_MS, check);
      };
      let stopCheck = clock.after(OVER_CHECK_MS, check);
      const startedMs = clock.now();
      const stop = clock.after(limitMs, () => {
        isLate = true;
        process.kill(`a run did not end within ${limitMs} ms`);
      });
      try {
        const outcomes = await process.run(records, policy);
        runEnded?.({ records: records.length, tookMs: clock.now() - startedMs });
        return outcomes;
      } catch (error) {
        if (!isLate) throw error;
        // Retryable: a record of the queue comes again, and then runs isolated from the others.
        throw new ServingError('timeout', `the model did not end within ${limitMs} ms`, {
          cause: error,
        });
      } finally {
        stop();
        stopCheck();
      }
    });
  }

  close(): Promise<void> {
    return this.#pool.close();
  }
}
