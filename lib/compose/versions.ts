/**
 * Composes the versions of a model or of a worker: found in S3, downloaded, opened, replaced by new ones. /tmp has 512 MB
 * and lives as long as an environment, so a version's files are removed once nothing uses them. They may not go earlier,
 * because the isolated process of a running event may still open them.
 */
import { ServingError } from '../contract/errors.ts';
import { logWarning } from '../contract/log.ts';
import { leave } from '../contract/under-way.ts';
import type { CanaryShare, Runner } from '../contract/values.ts';
import { LoadStopped, type LoadTime, waitWithin } from '../inference/load-time.ts';
import type { ManagerOptions } from '../inference/manager-options.ts';
import { ModelManager } from '../inference/model-manager.ts';
import {
  downloadModel,
  type ModelLocation,
  type ModelPointer,
  readPointer,
  type ServingPointer,
} from '../registry/download.ts';
import { makeFolder, removeOthers } from '../registry/download-folder.ts';
import type { S3Client } from '../s3/objects.ts';

export interface VersionsOptions<R extends Runner> extends ManagerOptions {
  readonly s3: S3Client;
  readonly location: ModelLocation;
  /** Where downloads go: one folder per version. */
  readonly directory: string;
  /** The version of a job that needs no files. */
  readonly withoutFiles?: string | undefined;
  /** Opens a version that was downloaded. Its runner has the same version. */
  readonly open: (folder: string, pointer: ModelPointer) => Promise<R>;
  /**
   * Makes room for a version before it is downloaded and opened.
   * @param isServing false for a canary, which opens beside the version that serves
   * @returns what gives the room up again. Default: there is room. @throws model_unavailable
   */
  readonly makeRoom?:
    | ((version: ModelPointer, signal: AbortSignal | undefined, isServing: boolean) => Promise<() => void>)
    | undefined;
  /** The two steps of opening: each starts while S3 is awaited. */
  readonly prepare?: { readonly load: () => Promise<unknown>; readonly start: () => Promise<unknown> };
}

/** Called after what is under way has asked S3. Failures are left to the opening. */
const meanwhile = (work: () => Promise<unknown>) => setImmediate(() => leave(work()));

export function openVersions<R extends Runner>(options: VersionsOptions<R>): ModelManager<R> {
  return new ModelManager(new Versions(options), options);
}

class Versions<R extends Runner> {
  readonly #options: VersionsOptions<R>;
  #pointer: ServingPointer | undefined;
  readonly #open: R[] = [];
  /**
   * The versions that serve or are being opened. They are kept when the model manager closes, so that the next process
   * finds them.
   */
  #latest: readonly string[] = [];
  /** An opening that outlasted the time of its invocation. */
  #lasting:
    | { readonly version: string; readonly runner: Promise<R>; readonly leaveRoom: () => void }
    | undefined;

  constructor(options: VersionsOptions<R>) {
    this.#options = options;
  }

  async version(signal?: AbortSignal): Promise<string> {
    const { prepare } = this.#options;
    if (prepare) meanwhile(prepare.load);
    this.#pointer = await this.#read(signal);
    return this.#pointer.version;
  }

  get canary(): CanaryShare | undefined {
    const { canary } = this.#pointer ?? {};
    return canary && { version: canary.version, share: canary.share, since: canary.since };
  }

  async open(version: string, time?: LoadTime): Promise<R> {
    const known = [this.#pointer, this.#pointer?.canary].find((one) => one?.version === version);
    const wanted = known ?? (await this.#read(time?.signal));
    const before = this.#latest;
    this.#latest = [...this.#open.map((runner) => runner.version), wanted.version];
    try {
      const { runner, leaveRoom } = await this.#lasts(wanted, time);
      this.#latest = [this.#pointer, this.#pointer?.canary].flatMap((one) => one?.version ?? []);
      this.#open.push(runner);
      return closing(runner, leaveRoom, async () => {
        this.#open.splice(this.#open.indexOf(runner), 1);
        await this.#tidy();
      });
    } catch (error) {
      // An interrupted download is continued.
      if (!(error instanceof LoadStopped)) this.#latest = before;
      else if (this.#open.length > 0) logWarning(error.message, { phase: 'model' });
      throw error;
    }
  }

  /** The opening of a worker takes as long as its code: in the next invocation it goes on where it was frozen. */
  async #lasts(wanted: ModelPointer, time: LoadTime | undefined) {
    if (this.#lasting && this.#lasting.version !== wanted.version) {
      const { runner, leaveRoom } = this.#lasting;
      leave(runner.then((opened) => opened.close()).finally(leaveRoom));
      this.#lasting = undefined;
    }
    this.#lasting ??= await this.#begin(wanted, time);
    const { runner, leaveRoom } = this.#lasting;
    try {
      const opened = await waitWithin(time?.signal, runner);
      this.#lasting = undefined;
      return { runner: opened, leaveRoom };
    } catch (error) {
      if (time && error === time.signal.reason)
        throw stopped(wanted, 'it is being opened, and the next request waits for it', true);
      this.#lasting = undefined;
      leaveRoom();
      throw error;
    }
  }

  async #begin(wanted: ModelPointer, time: LoadTime | undefined) {
    const isServing = wanted.version === this.#pointer?.version;
    const leaveRoom = (await this.#options.makeRoom?.(wanted, time?.signal, isServing)) ?? (() => undefined);
    try {
      const folder = await this.#download(wanted, time);
      return { version: wanted.version, runner: this.#options.open(folder, wanted), leaveRoom };
    } catch (error) {
      leaveRoom();
      throw error;
    }
  }

  /** @throws LoadStopped at the end of the time, or when it leaves none for the opening, which cannot be stopped */
  async #download(wanted: ModelPointer, time: LoadTime | undefined): Promise<string> {
    const { s3, location, directory, prepare } = this.#options;
    await makeFolder(directory);
    // Removes first to make room: at most the versions in use and this one exist together.
    await this.#tidy();
    if (prepare) meanwhile(prepare.start);
    let [here, came] = [0, 0];
    const onBytes = (done: number, _total: number, more: number) => {
      here = done;
      came += more;
    };
    try {
      const limits = { signal: time?.signal, onBytes, keeps: time !== undefined };
      const folder = await downloadModel(s3, location, wanted, directory, limits);
      if (!time || came === 0 || time.mayOpen()) return folder;
    } catch (error) {
      if (!time || error !== time.signal.reason) throw error;
      throw stopped(wanted, `${here} bytes of it are here, and the next request continues`, came > 0);
    }
    throw stopped(wanted, 'it is here, and the next request opens it', true);
  }

  #read(signal?: AbortSignal): Promise<ServingPointer> {
    const { s3, location, withoutFiles } = this.#options;
    return readPointer(s3, location, withoutFiles, signal);
  }

  /** Failing to remove an old version is logged and never blocks a load. */
  #tidy(): Promise<void> {
    const keep = new Set([...this.#open.map(({ version }) => version), ...this.#latest]);
    return removeOthers(this.#options.directory, keep).catch((error: unknown) =>
      this.#options.onError(ServingError.from(error)),
    );
  }
}

function stopped({ version }: ModelPointer, what: string, progressed: boolean): LoadStopped {
  return new LoadStopped(`version ${version} of the model: ${what}`, { progressed });
}

/** The same runner; once it is closed, the others are called. */
function closing<R extends Runner>(runner: R, leaveRoom: () => void, then: () => Promise<void>): R {
  let ending: Promise<void> | undefined;
  return { ...runner, close: () => (ending ??= runner.close().finally(leaveRoom).then(then)) };
}
