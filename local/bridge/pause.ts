/** Waits that end with the bridge. */
import { setTimeout as delay } from 'node:timers/promises';

export const FIRST_PAUSE_MS = 100;
const MAX_PAUSE_MS = 10_000;

/** @returns whether the bridge was stopped */
export function stopsWithin(ms: number, signal: AbortSignal): Promise<boolean> {
  return delay(ms, false, { signal }).catch(() => true);
}

export function longer(pauseMs: number): number {
  return Math.min(2 * pauseMs, MAX_PAUSE_MS);
}
