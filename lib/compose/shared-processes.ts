/**
 * Processes of the single machine that further models share, because one for each would take more memory than most models do. A
 * process that ends takes the models in it along, and only the batch that ran fails: each is opened again where it next runs.
 */
import { modelUnavailable, ServingError } from '../contract/errors.ts';
import type { IsolatedModel, ModelFacts } from '../inference/isolated-runner.ts';
import { type ModelProcess, OnnxProcess } from '../inference/onnx-process.ts';
import { Pool } from '../workers/pool.ts';
import {
  type BatchedOnnx,
  batched,
  type OnnxPoolOptions,
  type Processes,
  type RunOptions,
} from './onnx-pool.ts';

/** How long a process may take to start, or to open a model. */
const START_MS = 120_000;

export class SharedProcesses {
  readonly #options: OnnxPoolOptions;
  readonly #pool: Pool<OnnxProcess>;
  readonly #processes = new Set<OnnxProcess>();
  readonly #models = new Set<SharedModel>();
  #opening: Promise<void> | undefined;
  #keys = 0;

  constructor(options: OnnxPoolOptions) {
    const { processes: size, clock, onCrash } = options;
    this.#options = options;
    this.#pool = new Pool<OnnxProcess>({
      size,
      start: () => this.#start(),
      ready: async () => undefined,
      startTimeoutMs: START_MS,
      maxBatches: 0,
      clock,
      onCrash,
    });
    this.#pool.onFree = () => this.#offer();
  }

  get free(): number {
    return this.#pool.free;
  }

  /** The time that all processes together have worked, in ms. */
  get busyMs(): number {
    return this.#pool.busyMs;
  }

  /** @throws model_unavailable with onnxruntime's reason */
  async open(model: IsolatedModel, runEnded: RunOptions['runEnded']): Promise<BatchedOnnx> {
    // Started for the first of them: a job without further models has no such process.
    await (this.#opening ??= this.#pool.open().catch((error: unknown) => {
      this.#opening = undefined;
      throw error;
    }));
    const shared = new SharedModel(String(this.#keys++), model, this);
    const facts = await this.use((process) => this.openIn(process, shared));
    this.#models.add(shared);
    return batched(model, facts, shared, { ...this.#options, runEnded });
  }

  use<T>(work: (process: OnnxProcess) => Promise<T>): Promise<T> {
    return this.#pool.use(work);
  }

  /** @throws model_unavailable, after ending a process in which a model does not open */
  async openIn(process: OnnxProcess, { key, model }: SharedModel): Promise<ModelFacts> {
    const why = `model ${model.file} was not open after ${START_MS} ms`;
    const stop = this.#options.clock.after(START_MS, () => process.kill(why));
    try {
      return await process.open(key, model);
    } catch (error) {
      process.close(key);
      throw modelUnavailable(ServingError.from(error).message, { cause: error });
    } finally {
      stop();
    }
  }

  /** Nothing runs in it any more. */
  remove(shared: SharedModel): void {
    this.#models.delete(shared);
    for (const process of this.#processes) process.close(shared.key);
  }

  async close(): Promise<void> {
    await this.#pool.close();
  }

  #start(): OnnxProcess {
    const process = new OnnxProcess();
    this.#processes.add(process);
    void process.ended.then(() => this.#processes.delete(process));
    return process;
  }

  /** Models take turns: the one that was offered a process last comes last the next time. */
  #offer(): void {
    for (const shared of Array.from(this.#models)) {
      if (this.#pool.free === 0) return;
      this.#models.delete(shared);
      this.#models.add(shared);
      shared.onFree();
    }
  }
}

/** The processes, as one of their models sees them. */
class SharedModel implements Processes {
  readonly key: string;
  readonly model: IsolatedModel;
  readonly #shared: SharedProcesses;
  onFree: () => void = () => undefined;

  constructor(key: string, model: IsolatedModel, shared: SharedProcesses) {
    this.key = key;
    this.model = model;
    this.#shared = shared;
  }

  get free(): number {
    return this.#shared.free;
  }

  use<T>(work: (process: ModelProcess) => Promise<T>): Promise<T> {
    return this.#shared.use(async (process) => {
      if (!process.has(this.key)) await this.#shared.openIn(process, this);
      return work({
        run: (records, policy) => process.run(records, policy, this.key),
        stop: () => process.stop(),
        kill: (why) => process.kill(why),
      });
    });
  }

  async close(): Promise<void> {
    this.#shared.remove(this);
  }
}
