/** The needs of a manager of runners: where versions come from, clocks, and whom to tell. */
import type { ServingError } from '../contract/errors.ts';
import type { CanaryShare, Runner } from '../contract/values.ts';
import type { LoadTime } from './load-time.ts';

export interface RunnerSource<R extends Runner> {
  /** Returns the version that should serve. Cheap. */
  version(signal?: AbortSignal): Promise<string>;
  /** The version that takes a share beside the one that `version` last returned. */
  readonly canary?: CanaryShare | undefined;
  /**
   * Downloads, verifies, opens and warms up a version. Expensive.
   * @param time ends the download. Default: it may take as long as it takes
   * @throws LoadStopped at the end of its time
   */
  open(version: string, time?: LoadTime): Promise<R>;
}

export interface ManagerOptions {
  /** How long the result of `version` is used, in ms. */
  readonly refreshMs: number;
  readonly now: () => number;
  /** Called when a version did not load, once per attempt. */
  readonly onError: (error: ServingError) => void;
  /** Called with each version from when it serves. */
  readonly onChange?: ((version: string) => void) | undefined;
  /** Told of a canary. Default: nothing is counted. */
  readonly canaries?: CanaryWatch | undefined;
  /**
   * The time that the running invocation has left, in ms: checks and loads are awaited, and stop within it. Undefined:
   * they go on in the background.
   */
  readonly leftMs?: (() => number) | undefined;
  /** From 0 to below 1. With `leftMs`, it spreads the checks of environments that started together. Default: 0. */
  readonly random?: (() => number) | undefined;
}

/** Counts what decides about a canary. */
export interface CanaryWatch {
  /** Called before a canary is opened, which may end the process. Never rejects. */
  opening(canary: CanaryShare): Promise<void>;
  /** It is open, or cannot be opened. */
  opened(canary: CanaryShare, error?: ServingError): void;
  /** @returns the same runner, whose answers are counted for one of the two sides */
  counted<R extends Runner>(runner: R, canary: CanaryShare): R;
}
