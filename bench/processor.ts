/** The processor time that a process has used, alone or with all it started, from /proc (Linux), in steps of 10 ms. */
import { readdirSync, readFileSync } from 'node:fs';

/** Linux's USER_HZ, 100 on every processor that Node runs on. */
const TICK_MS = 10;

interface Stat {
  readonly pid: number;
  readonly parent: number;
  readonly session: number;
  readonly ticks: number;
}

/** A line of /proc/<pid>/stat. The name is in brackets and may hold anything, brackets too. */
export function readStat(text: string): Stat {
  const fields = text
    .slice(text.lastIndexOf(')') + 2)
    .split(' ')
    .map(Number);
  const [, parent = 0, , session = 0] = fields;
  return { pid: Number.parseInt(text, 10), parent, session, ticks: (fields[11] ?? 0) + (fields[12] ?? 0) };
}

function statOf(pid: string): Stat | undefined {
  try {
    return readStat(readFileSync(`/proc/${pid}/stat`, 'utf8'));
  } catch {
    return undefined;
  }
}

/** A process that leads its session, what it started, and the session's other processes; undefined when it has ended. */
function familyNow(leader: number): Stat[] | undefined {
  if (!statOf(String(leader))) return undefined;
  const stats = readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .flatMap((pid) => statOf(pid) ?? []);
  return familyOf(stats, leader);
}

/** ms of all its threads. */
export function familyMs(leader: number): number | undefined {
  return familyNow(leader)?.reduce((sum, { ticks }) => sum + ticks * TICK_MS, 0);
}

/** Resident bytes; what processes share counts in each. NaN where the system does not count it. */
export function familyBytes(leader: number): number {
  const ofOne = ({ pid }: Stat) => {
    const [, kB] = /VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? [];
    return Number(kB) * 1024;
  };
  return familyNow(leader)?.reduce((sum, stat) => sum + ofOne(stat), 0) ?? Number.NaN;
}

export function familyOf(stats: readonly Stat[], leader: number): Stat[] {
  const byPid = new Map(stats.map((stat) => [stat.pid, stat]));
  const belongs = (stat: Stat | undefined): boolean =>
    stat !== undefined &&
    (stat.pid === leader || stat.session === leader || (stat.parent > 1 && belongs(byPid.get(stat.parent))));
  return stats.filter(belongs);
}
