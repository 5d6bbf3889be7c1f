/**
 * Leaves a process that is still starting to the next model: models that are closed for each other would all begin a start, and
 * none would end it.
 */
import type { ChildProcess } from 'node:child_process';

export interface Started {
  readonly child: ChildProcess;
  /** Resolves when the model is open. */
  readonly ready: Promise<unknown>;
  isReady: boolean;
  /** True if it was starting for another model, which comes first. */
  readonly isTaken: boolean;
  /** The time that events have waited for it, in ms. */
  waitedMs: number;
}

/** A process ends when no model was opened in it for this time. */
export const UNUSED_MS = 10_000;
/** The model that a process was starting for may never open. */
export const MOST_LEFT_SECONDS = 20;

let starting: Started | undefined;

/** @returns false for a process that has started, and while there is another one */
export function leaveStarting(started: Started): boolean {
  const isOther = starting !== undefined && !hasEnded(starting.child);
  if (isOther || started.isReady || hasEnded(started.child)) return false;
  starting = started;
  const endUnused = () => {
    if (starting !== started) return;
    starting = undefined;
    started.child.kill('SIGKILL');
  };
  started.ready.catch(() => undefined).finally(() => setTimeout(endUnused, UNUSED_MS).unref());
  void secondsOf(MOST_LEFT_SECONDS, started.ready).then((isOver) => isOver && endUnused());
  return true;
}

export function takeStarting(): Started | undefined {
  const taken = starting && !hasEnded(starting.child) ? starting : undefined;
  starting = undefined;
  return taken;
}

/**
 * Counts seconds in which this process runs: what a function has started makes no progress while it is frozen.
 * @returns false when the work has ended before, in any way
 */
export function secondsOf(seconds: number, work: Promise<unknown>): Promise<boolean> {
  return new Promise((resolve) => {
    let passed = 0;
    const timer = setInterval(() => {
      if (++passed >= seconds) end(true);
    }, 1_000).unref();
    const end = (isOver: boolean) => {
      clearInterval(timer);
      resolve(isOver);
    };
    work.then(
      () => end(false),
      () => end(false),
    );
  });
}

export function hasEnded({ exitCode, signalCode }: ChildProcess): boolean {
  return exitCode !== null || signalCode !== null;
}
