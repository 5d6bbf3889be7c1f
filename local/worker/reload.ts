/**
 * A worker in development: when its files change, processes with the new files start beside the old and take over together.
 * Requests that have begun end on the old. What does not start is reported, and the old processes keep serving.
 */
import { resolve } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import type { Scope } from '../../lib/compose/scope.ts';
import { openWorker, type ServedWorker } from '../../lib/compose/worker.ts';
import { badConfig, type ServingError } from '../../lib/contract/errors.ts';
import type { Runner } from '../../lib/contract/values.ts';
import { ModelManager } from '../../lib/inference/model-manager.ts';
import { FileWatch } from './watch.ts';

export interface ReloadOptions {
  /** Takes a line about each change. */
  readonly tell: (line: string) => void;
  readonly dataDir: string;
  /** The old processes end before the new ones start. Default: true where they use a GPU, whose memory does not hold both. */
  readonly oldEndFirst?: boolean;
}

const ASK_AGAIN_MS = 100;

export class ReloadingWorker implements ServedWorker {
  readonly #scope: Scope;
  readonly #options: ReloadOptions;
  readonly #manager: ModelManager;
  /** The processes of at most two versions. */
  readonly #open = new Set<ServedWorker>();
  #current: ServedWorker | undefined;
  #watch: FileWatch | undefined;
  /** The version of the files. */
  #wanted = '';
  /** The version that was started last. */
  #tried: string | undefined;
  #starting = new AbortController();
  #following: Promise<void> | undefined;
  #isClosing = false;
  #users = 0;
  #onIdle: () => void = () => undefined;
  /** Lets requests wait while the old processes have ended and the new ones start. */
  #gate: Promise<void> | undefined;
  /** The reason for missing processes. */
  #down: ServingError | undefined;

  private constructor(scope: Scope, options: ReloadOptions) {
    this.#scope = scope;
    this.#options = options;
    const source = { version: async () => this.#wanted, open: (version: string) => this.#start(version) };
    // It looks for a version only when it is asked to.
    const onError = (error: ServingError) => this.#failed(error);
    this.#manager = new ModelManager(source, { refreshMs: Number.POSITIVE_INFINITY, now: () => 0, onError });
  }

  /** @throws bad_config, model_unavailable as openWorker */
  static async open(scope: Scope, options: ReloadOptions): Promise<ReloadingWorker> {
    const worker = new ReloadingWorker(scope, options);
    await worker.#watchFiles();
    try {
      await worker.#manager.ready();
      return worker;
    } catch (error) {
      await worker.close();
      throw error;
    }
  }

  get runner(): ServedWorker['runner'] {
    return this.#serving.runner;
  }

  get pool(): ServedWorker['pool'] {
    return this.#serving.pool;
  }

  get version(): string {
    return this.#serving.version;
  }

  isReady(): boolean {
    return this.#serving.isReady();
  }

  async use<T>(work: (runner: Runner) => Promise<T>): Promise<T> {
    while (this.#gate) await this.#gate;
    if (this.#down) throw this.#down;
    this.#users++;
    try {
      return await this.#manager.use(work);
    } finally {
      if (--this.#users === 0) this.#onIdle();
    }
  }

  async close(): Promise<void> {
    this.#isClosing = true;
    this.#watch?.close();
    this.#starting.abort();
    await this.#following;
    await Promise.all([...this.#open].map((worker) => worker.close()));
  }

  get #serving(): ServedWorker {
    if (!this.#current) throw new Error('the first processes are not ready');
    return this.#current;
  }

  async #watchFiles(): Promise<void> {
    const { job, workerFolders } = this.#scope.environment;
    const { class: name, logDir, tmpFolder, modelName } = job.worker;
    if (name === undefined || workerFolders === undefined) throw badConfig('--watch: the job has no worker');
    const others = [logDir, tmpFolder, this.#options.dataDir].filter((path) => path !== undefined);
    const ignored = others.map((path) => resolve(workerFolders.directory, path));
    const { tell } = this.#options;
    this.#watch = await FileWatch.open(
      { ...workerFolders, modelName, ignored },
      {
        changed: (fingerprint) => this.#changed(`${name}-${fingerprint}`),
        failed: (error) => tell(`${job.jobName}: ${error.message}`),
      },
    );
    this.#wanted = `${name}-${this.#watch.fingerprint}`;
  }

  #changed(version: string): void {
    this.#wanted = version;
    this.#options.tell(`${this.#scope.environment.job.jobName}: files have changed, new processes start`);
    // A process that starts now has older files.
    this.#starting.abort();
    this.#following ??= this.#follow().finally(() => {
      this.#following = undefined;
    });
  }

  /** Ends when the latest files serve, or do not start. */
  async #follow(): Promise<void> {
    await this.#manager.ready().catch(() => undefined);
    while (!this.#isClosing && this.#wanted !== this.#manager.version && this.#wanted !== this.#tried) {
      const release = this.#endsFirst ? await this.#endOld() : () => undefined;
      await this.#manager.refresh();
      release();
      // Nothing starts while requests still run on the version before the one that serves.
      if (this.#wanted !== this.#tried) await pause(ASK_AGAIN_MS);
    }
  }

  async #start(version: string): Promise<Runner> {
    this.#tried = version;
    this.#starting = new AbortController();
    const { tell } = this.#options;
    const isFirst = this.#current === undefined;
    const worker = await openWorker(this.#scope, {
      watched: { version, signal: this.#starting.signal },
    });
    this.#open.add(worker);
    this.#current = worker;
    this.#down = undefined;
    if (!isFirst) tell(`${this.#scope.environment.job.jobName}: version ${version} serves`);
    return {
      version,
      run: (records, policy) => worker.runner.run(records, policy),
      close: () => worker.close().finally(() => this.#open.delete(worker)),
    };
  }

  #failed(error: ServingError): void {
    if (this.#starting.signal.aborted) return;
    // The traceback is in the log, where the process wrote it.
    const [reason = ''] = error.message.split('\n');
    const { jobName } = this.#scope.environment.job;
    if (this.#endsFirst) this.#down = error;
    const serving = this.#endsFirst ? 'no version' : `version ${this.version} still`;
    this.#options.tell(`${jobName}: ${reason}; ${serving} serves`);
  }

  get #endsFirst(): boolean {
    const { deviceMap } = this.#scope.environment.job.worker;
    return this.#options.oldEndFirst ?? deviceMap.some((device) => device >= 0);
  }

  /** Ends the processes that serve, after the requests that have begun; others wait. @returns what ends that */
  async #endOld(): Promise<() => void> {
    const { stopTimeout } = this.#scope.environment.job.worker;
    const gate = Promise.withResolvers<void>();
    this.#gate = gate.promise;
    const idle = Promise.withResolvers<void>();
    this.#onIdle = idle.resolve;
    if (this.#users > 0) await Promise.race([idle.promise, pause(stopTimeout, undefined, { ref: false })]);
    await this.#serving.close();
    return () => {
      this.#gate = undefined;
      gate.resolve();
    };
  }
}
