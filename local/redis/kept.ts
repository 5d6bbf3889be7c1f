/**
 * Restarts a redis-server on the same port and data when its process dies, but not one that keeps dying. Closing also
 * ends a restart in progress.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { type InstalledOptions, type InstalledRedis, launch, startInstalled } from './installed.ts';

export interface RestartLimits {
  /** The pause before the first restart, in ms; each further one soon after waits twice as long. Default 100. */
  readonly pauseMs?: number;
  /** Restarts in a row; default 10, over more than a minute. */
  readonly attempts?: number;
}

interface KeptRedis {
  readonly port: number;
  readonly version: string;
  /** The pid of the current or last process. */
  readonly pid: number;
  close(): Promise<void>;
}

const PAUSE_MS = 100;
const LONGEST_PAUSE_MS = 30_000;
const ATTEMPTS = 10;
/** A process that ran this long before it died starts a new count. */
const STEADY_MS = 60_000;

export async function keepInstalled(
  options: InstalledOptions,
  limits: RestartLimits = {},
): Promise<KeptRedis> {
  const state: State = { running: await startInstalled(options), closing: new AbortController() };
  const kept = keep(state, options, limits);
  return {
    port: state.running.port,
    version: state.running.version,
    get pid() {
      return state.running.pid;
    },
    close: async () => {
      state.closing.abort();
      await state.running.close();
      // A restart in progress has been cancelled by then.
      await kept;
    },
  };
}

interface State {
  running: InstalledRedis;
  readonly closing: AbortController;
}

/** Runs until it is closed or dies too often. */
async function keep(
  state: State,
  options: InstalledOptions,
  { pauseMs = PAUSE_MS, attempts = ATTEMPTS }: RestartLimits,
): Promise<void> {
  const { signal } = state.closing;
  const { dataDir, log } = options;
  for (let inARow = 0; ; ) {
    const since = performance.now();
    const how = await state.running.ended;
    if (signal.aborted) return;
    // Releases the resources of the process that died.
    await state.running.close();
    if (performance.now() - since >= STEADY_MS) inARow = 0;
    let why = `redis-server (pid ${state.running.pid}) ended by itself: ${how}.`;
    for (let isUp = false; !isUp; ) {
      inARow += 1;
      if (inARow > attempts) {
        log(
          `${why} It ended ${inARow} times in a row and is not started again: see that there is memory and room for ${dataDir}, then run \`cluster-serving restart\`.`,
        );
        return;
      }
      const waitMs = Math.min(pauseMs * 2 ** (inARow - 1), LONGEST_PAUSE_MS);
      log(`${why} It is started again in ${waitMs} ms.`);
      await delay(waitMs, undefined, { signal }).catch(() => undefined);
      if (signal.aborted) return;
      try {
        state.running = await launch(options, state.running.port, signal);
        isUp = true;
        log(`redis-server runs again (pid ${state.running.pid}).`);
      } catch (error) {
        why = (error instanceof Error ? error.message : String(error)).replaceAll(/\s*\n\s*/g, ' ');
      }
      if (signal.aborted) return isUp ? state.running.close() : undefined;
    }
  }
}
