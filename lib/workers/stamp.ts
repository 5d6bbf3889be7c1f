/**
 * Gives what a worker's process writes a time, a level and the worker. Lines keep their order and their bytes, and a
 * line of the worker's own logger, which has all three, stays unchanged.
 */
import { type Level, logLine } from '../contract/log.ts';
import { localTime } from './local-time.ts';

/** The process that writes. */
export interface LogSource {
  /** The name of its own logger: `WKRServer worker 3`. */
  readonly name: string;
  readonly worker?: number;
  readonly pid: number | undefined;
}

interface Line {
  /** Undefined for a line that the process's own logger has not written. */
  readonly time: string | undefined;
  readonly level: string;
  readonly text: string;
}

/** A library may log in a form of its own: `INFO:root:…`, `[WARNING] …`, `2026-03-08 09:05:00 - name - INFO - …`. */
const FOREIGN =
  /^(?:\d{4}[-/]\d\d[-/]\d\d.{0,120}?|[\d\s:.,[(]{0,40})\b(DEBUG|INFO|WARN(?:ING)?|ERROR|CRITICAL|FATAL)\b/;
const PYTHON_WARNING = /^\S+:\d+: \w*Warning: /;
const OWN = /^(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}) ([A-Z]+) /;

const LEVELS: Readonly<Record<string, Level>> = {
  DEBUG: 'debug',
  INFO: 'info',
  WARN: 'warn',
  WARNING: 'warn',
};

/** @param lines of stderr, each with its newline */
export function stamp(lines: Uint8Array, { name }: LogSource, now: Date): Uint8Array {
  const source = latin1(name);
  const stamped = linesOf(lines, source, 'ERROR').map(
    ({ time = localTime(now), level, text }) => `${time} ${level} ${source}: ${text}\n`,
  );
  return Buffer.from(stamped.join(''), 'latin1');
}

/** Logs lines as events of the function. A traceback is one event if it comes at once. */
export function logEvents(isError: boolean, lines: Uint8Array, { name, worker, pid }: LogSource): void {
  const events: { level: string; text: string }[] = [];
  for (const { time, level, text } of linesOf(lines, latin1(name), isError ? 'ERROR' : 'INFO')) {
    const last = events.at(-1);
    const belongs = time === undefined && (isInner(text) || (isError && level === last?.level));
    if (last && belongs) last.text += `\n${text}`;
    else events.push({ level, text });
  }
  for (const { level, text } of events)
    logLine(LEVELS[level] ?? 'error', Buffer.from(text, 'latin1').toString(), { worker, pid });
}

function linesOf(lines: Uint8Array, source: string, usual: string): Line[] {
  let level = usual;
  const texts = Buffer.from(lines).toString('latin1').replace(/\n$/, '').split('\n');
  return texts.map((text) => {
    const [head = '', time, own = ''] = OWN.exec(text) ?? [];
    const isOwn = time !== undefined && text.startsWith(`${source}: `, head.length);
    if (isOwn) level = own;
    else if (!isInner(text)) level = foreignLevel(text) ?? usual;
    return isOwn
      ? { time, level, text: text.slice(head.length + source.length + 2) }
      : { time: undefined, level, text };
  });
}

/** A line within a traceback or another text of several lines. */
function isInner(text: string): boolean {
  return text === '' || /^\s/.test(text);
}

function foreignLevel(text: string): string | undefined {
  return PYTHON_WARNING.test(text) ? 'WARNING' : FOREIGN.exec(text)?.[1];
}

/** Bytes as characters, because what a process writes may not be UTF-8. */
function latin1(text: string): string {
  return Buffer.from(text).toString('latin1');
}
