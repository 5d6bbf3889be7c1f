/**
 * The types of commands and what they may access, and parsers of common arguments. Arguments are byte strings;
 * `args[0]` is the command's name and counts for `arity`, as in Redis.
 */
import {
  type Bytes,
  doubleText,
  ERRORS,
  type Protocol,
  type Reply,
  ReplyError,
  wrongCount,
} from './replies.ts';
import type { Store, Watch } from './store.ts';

/** The state of one connection. */
export interface Session {
  readonly id: number;
  protocol: Protocol;
  name: Bytes;
  readonly address: string;
  /** The commands between MULTI and EXEC. */
  queue: Bytes[][] | undefined;
  queueFailed: boolean;
  watch: Watch;
  readonly channels: Set<Bytes>;
  readonly patterns: Set<Bytes>;
  /** The connection closes after the replies written so far. */
  closing: boolean;
  send(reply: Reply): void;
}

/** The engine as commands see it. */
export interface Engine {
  readonly store: Store;
  readonly sessions: ReadonlySet<Session>;
  readonly commandCount: number;
  readonly serverInfo: () => Record<string, Record<string, string | number>>;
  /** Runs one command; an error is a reply. */
  execute(session: Session, args: readonly Bytes[], fromScript?: boolean): Reply;
  /** A crash keeps all of what `work` writes, or none of it. */
  atomically<T>(work: () => T): T;
  publish(channel: Bytes, message: Bytes): number;
  readonly scripts: Scripts;
}

export interface Scripts {
  evaluate(session: Session, script: Bytes | { sha: Bytes }, keys: Bytes[], argv: Bytes[]): Reply;
  load(script: Bytes): Bytes;
  has(sha: Bytes): boolean;
  flush(): void;
}

export interface Context {
  readonly store: Store;
  readonly session: Session;
  readonly engine: Engine;
}

export interface Command {
  /** The number of arguments including the name; a negative number is a minimum. */
  readonly arity: number;
  readonly write?: 'grows' | 'shrinks';
  /** Scripts may not call it. */
  readonly noScript?: true;
  /** Runs immediately between MULTI and EXEC. */
  readonly notQueued?: true;
  run(context: Context, args: readonly Bytes[]): Reply;
}

export type CommandTable = Record<string, Command>;

export function reads(arity: number, run: Command['run']): Command {
  return { arity, run };
}

/** A command that scripts may not call. */
export function unscripted(arity: number, run: Command['run']): Command {
  return { arity, run, noScript: true };
}

/** A command that scripts may not call and MULTI does not queue. */
export function immediate(arity: number, run: Command['run']): Command {
  return { arity, run, noScript: true, notQueued: true };
}

/** A write that needs more memory. */
export function grows(arity: number, run: Command['run']): Command {
  return { arity, run, write: 'grows' };
}

/** A write that also runs when memory is full. */
export function shrinks(arity: number, run: Command['run']): Command {
  return { arity, run, write: 'shrinks' };
}

const INT64_MAX = 2n ** 63n - 1n;

/** A 64-bit integer in the only form that Redis accepts: no plus sign, leading zeros or spaces. */
export function integer(text: Bytes | undefined, problem: string = ERRORS.integer): bigint {
  if (text === undefined || !/^(?:0|-?[1-9]\d{0,18})$/.test(text)) throw new ReplyError(problem);
  const value = BigInt(text);
  if (value > INT64_MAX || value < -INT64_MAX - 1n) throw new ReplyError(problem);
  return value;
}

/** The sum of two integers; an error outside 64 bits. */
export function sum(a: bigint, b: bigint): bigint {
  const value = a + b;
  if (value > INT64_MAX || value < -INT64_MAX - 1n) throw new ReplyError(ERRORS.overflow);
  return value;
}

/** An integer clamped to the safe range of a double: ranks, counts, milliseconds. */
export function count(text: Bytes | undefined, problem: string = ERRORS.integer): number {
  const value = Number(integer(text, problem));
  return Math.max(Math.min(value, Number.MAX_SAFE_INTEGER), Number.MIN_SAFE_INTEGER);
}

export function float(text: Bytes | undefined, problem: string = ERRORS.float): number {
  const value = text ?? '';
  if (/^[+-]?inf(?:inity)?$/i.test(value)) return value.startsWith('-') ? -Infinity : Infinity;
  if (!/^[+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?$/i.test(value)) throw new ReplyError(problem);
  return Number(value);
}

/**
 * The sum as INCRBYFLOAT writes it: decimal, never with an exponent. Redis adds with a 64-bit mantissa and a double
 * has 53 bits, so 15 digits are kept and 0.1 + 0.2 is 0.3 here too.
 */
export function floatSum(a: number, b: number): Bytes {
  const value = a + b;
  if (!Number.isFinite(value)) throw new ReplyError(ERRORS.float);
  const rounded = Number.isSafeInteger(value) ? value : Number(value.toPrecision(15));
  const text = doubleText(rounded);
  if (!text.includes('e')) return text;
  return Math.abs(rounded) >= 1 ? String(BigInt(rounded)) : rounded.toFixed(17).replace(/\.?0+$/, '');
}

/** The arguments from `from` on as pairs. */
export function inPairs(args: readonly Bytes[], from: number): [Bytes, Bytes][] {
  if ((args.length - from) % 2 !== 0) throw wrongCount((args[0] ?? '').toLowerCase());
  const pairs: [Bytes, Bytes][] = [];
  for (let at = from; at < args.length; at += 2) pairs.push([args[at] ?? '', args[at + 1] ?? '']);
  return pairs;
}

/** A command with subcommands. The arity of each counts both names. */
export function subcommands(name: string, table: CommandTable): Command['run'] {
  return (context, args) => {
    const word = (args[1] ?? '').toLowerCase();
    const command = Object.hasOwn(table, word) ? table[word] : undefined;
    if (command === undefined) {
      return {
        error: `ERR unknown subcommand '${(args[1] ?? '').slice(0, 128)}'. Try ${name.toUpperCase()} HELP.`,
      };
    }
    if (!fits(command.arity, args.length)) throw wrongCount(`${name}|${word}`);
    return command.run(context, args);
  };
}

export function fits(arity: number, length: number): boolean {
  return arity < 0 ? length >= -arity : length === arity;
}

/** Redis' patterns: `*`, `?`, `[a-c]`, `[^x]`, and `\` before a literal character. Takes time text x pattern. */
export function matches(pattern: Bytes, text: Bytes): boolean {
  let p = 0;
  let t = 0;
  let starAt = -1;
  let starText = 0;
  while (t < text.length) {
    const step = pattern[p] === '*' ? 0 : matchOne(pattern, p, text[t] ?? '');
    if (pattern[p] === '*') {
      starAt = p;
      p += 1;
      starText = t;
    } else if (step > 0) {
      p += step;
      t += 1;
    } else if (starAt >= 0) {
      p = starAt + 1;
      starText += 1;
      t = starText;
    } else return false;
  }
  while (pattern[p] === '*') p += 1;
  return p >= pattern.length;
}

/** The number of pattern characters that match this character of the text; 0 for no match. */
function matchOne(pattern: Bytes, at: number, char: string): number {
  const mark = pattern[at];
  if (mark === undefined) return 0;
  if (mark === '?') return 1;
  if (mark === '\\' && at + 1 < pattern.length) return pattern[at + 1] === char ? 2 : 0;
  if (mark !== '[') return mark === char ? 1 : 0;
  const negated = pattern[at + 1] === '^';
  let found = false;
  let p = at + (negated ? 2 : 1);
  for (; p < pattern.length && pattern[p] !== ']'; p += 1) {
    if (pattern[p] === '\\' && p + 1 < pattern.length) p += 1;
    const low = pattern[p] ?? '';
    if (pattern[p + 1] === '-' && p + 2 < pattern.length) {
      const high = pattern[p + 2] ?? '';
      found ||= low <= high ? low <= char && char <= high : high <= char && char <= low;
      p += 2;
    } else found ||= low === char;
  }
  return found === negated ? 0 : p + 1 - at;
}
