/**
 * Determines whether a process from a pid file is still running. Pids are reused, so a pid counts only with its start
 * time. In a container without an init, a killed process keeps its pid as a zombie forever.
 */

import { readFile } from 'node:fs/promises';
import { asError } from '../../lib/contract/errors.ts';

export interface ProcessIdentity {
  readonly pid: number;
  /** Its start in clock ticks since boot; undefined where the system does not provide it. */
  readonly startedAt?: string | undefined;
}

const PAUSE_MS = 20;

export async function identify(pid: number): Promise<ProcessIdentity> {
  return { pid, startedAt: (await statOf(pid))?.startedAt };
}

export async function isAlive({ pid, startedAt }: ProcessIdentity): Promise<boolean> {
  // 0 and negative pids name groups, which a broken file must never end.
  if (!Number.isSafeInteger(pid) || pid < 1) return false;
  if (!isPid(pid)) return false;
  const stat = await statOf(pid);
  // The system has no /proc, or the process has ended meanwhile.
  if (stat === undefined) return isPid(pid);
  if (stat.state === 'Z' || stat.state === 'X') return false;
  return startedAt === undefined || startedAt === stat.startedAt;
}

function isPid(pid: number): boolean {
  try {
    process.kill(pid, 0);
  } catch (error) {
    return asError(error).code === 'EPERM';
  }
  return true;
}

/** Waits until the process has ended, at most `limitMs`. Returns whether it has. */
export async function untilGone(identity: ProcessIdentity, limitMs: number): Promise<boolean> {
  const endAt = performance.now() + limitMs;
  while (await isAlive(identity)) {
    if (performance.now() >= endAt) return false;
    await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
  }
  return true;
}

/** Reads fields 3 and 22 of /proc/<pid>/stat; the command before them may contain spaces and brackets. */
async function statOf(pid: number): Promise<{ state: string; startedAt: string } | undefined> {
  const text = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => undefined);
  const fields = text?.slice(text.lastIndexOf(')') + 2).split(' ');
  const [state, startedAt] = [fields?.[0], fields?.[19]];
  return state === undefined || startedAt === undefined ? undefined : { state, startedAt };
}
