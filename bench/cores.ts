/**
 * Keeps servers on one core and clients on another: a client on the server's core measures itself. Without taskset, or with
 * one core, nothing is pinned, and the report says so.
 */

import { execFileSync, spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { elementAt } from '../lib/contract/present.ts';

export type Role = 'server' | 'client';

/** The cores this process may use, as `taskset` counts them. */
function allowedCores(): number[] {
  try {
    const list = /Cpus_allowed_list:\s*(\S+)/.exec(readFileSync('/proc/self/status', 'utf8'))?.[1] ?? '';
    return coresOf(list);
  } catch {
    return [];
  }
}

/** "0-2,5" -> 0, 1, 2, 5. */
export function coresOf(list: string): number[] {
  if (list === '') return [];
  return list.split(',').flatMap((range) => {
    const [first, last = first] = range.split('-').map(Number);
    if (first === undefined || !Number.isInteger(first) || !Number.isInteger(last)) return [];
    return Array.from({ length: (last as number) - first + 1 }, (_, i) => first + i);
  });
}

const CORES = allowedCores();
const HAS_TASKSET = spawnSync('taskset', ['--version'], { stdio: 'ignore' }).status === 0;
const PINS = HAS_TASKSET && CORES.length >= 2;

/** The server has the last core: the system's own work is more often on the first. */
function coreOf(role: Role): number {
  return elementAt(CORES, role === 'server' ? CORES.length - 1 : 0, 'CORES');
}

export function pinned(role: Role, command: string, args: readonly string[]): [string, string[]] {
  if (!PINS) return [command, [...args]];
  return ['taskset', ['--cpu-list', String(coreOf(role)), command, ...args]];
}

/** Moves a process that runs already, all its threads with it. */
export function movePid(pid: number, role: Role): void {
  if (!PINS) return;
  execFileSync('taskset', ['--all-tasks', '--pid', '--cpu-list', String(coreOf(role)), String(pid)], {
    stdio: 'ignore',
  });
}

export function coresText(): string {
  if (!PINS) return 'server and client are not pinned: one core, or no taskset';
  return `servers on core ${coreOf('server')}, clients and Redis on core ${coreOf('client')} (taskset)`;
}
