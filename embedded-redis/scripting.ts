/** Runs EVAL scripts. A script that fails halfway keeps what it wrote, as in Redis: nothing is rolled back. */
import { createHash } from 'node:crypto';
import type { Engine, Scripts, Session } from './command.ts';
import { LUA_NULL, LuaError, LuaMachine, type LuaValue } from './lua.ts';
import { PRELUDE } from './lua-prelude.ts';
import { type Bytes, doubleText, type Reply, ReplyError } from './replies.ts';

const SCRIPT_BYTES = 1024 * 1024;
/** How many scripts are kept. The oldest is dropped, and its EVALSHA answers NOSCRIPT. */
const SCRIPT_COUNT = 1_000;

export class LuaScripts implements Scripts {
  readonly #engine: () => Engine;
  readonly #limitMs: number;
  readonly #sources = new Map<Bytes, Bytes>();
  /** The scripts that the current Lua machine has compiled. */
  readonly #compiled = new Set<Bytes>();
  #machine: LuaMachine | undefined;
  #preparing: Promise<void> | undefined;
  #problem = 'not loaded';
  #session: Session | undefined;

  /** Redis lets a slow script run and answers others with BUSY; here it is ended after `limitMs`. */
  constructor(engine: () => Engine, limitMs: number) {
    this.#engine = engine;
    this.#limitMs = limitMs;
  }

  get isReady(): boolean {
    return this.#machine !== undefined;
  }

  /** Loads Lua (15 ms) at the first script. Never rejects: if it fails, scripts answer with the reason. */
  prepare(): Promise<void> {
    this.#preparing ??= this.#create().finally(() => {
      this.#preparing = undefined;
    });
    return this.#preparing;
  }

  load(source: Bytes): Bytes {
    const sha = sha1(source);
    if (this.#compiled.has(sha)) return sha;
    if (source.length > SCRIPT_BYTES)
      throw new ReplyError(`ERR a script is longer than ${SCRIPT_BYTES} bytes`);
    const [problem] = this.#enter('load', sha, source);
    if (typeof problem === 'string') {
      throw new ReplyError(`ERR Error compiling script (new function): ${problem}`);
    }
    this.#compiled.add(sha);
    this.#sources.set(sha, source);
    const [oldest] = this.#sources.keys();
    if (this.#sources.size > SCRIPT_COUNT && oldest !== undefined) this.#forget(oldest);
    return sha;
  }

  has(sha: Bytes): boolean {
    return this.#sources.has(sha.toLowerCase());
  }

  flush(): void {
    for (const sha of this.#sources.keys()) this.#forget(sha);
  }

  evaluate(session: Session, script: Bytes | { sha: Bytes }, keys: Bytes[], argv: Bytes[]): Reply {
    const source = typeof script === 'string' ? script : this.#sources.get(script.sha.toLowerCase());
    if (source === undefined) throw new ReplyError('NOSCRIPT No matching script. Please use EVAL.');
    const sha = this.load(source);
    this.#session = session;
    const [ok, value] = this.#enter('run', sha, keys, argv);
    if (ok === true) return fromLua(value ?? null);
    const [text, line] = value instanceof Map ? [value.get('err'), value.get('line')] : [];
    const where = typeof line === 'bigint' ? `on @user_script:${line}` : 'user_script';
    return { error: `${typeof text === 'string' ? text : 'ERR script failed'} script: ${sha}, ${where}.` };
  }

  async #create(): Promise<void> {
    const call = (args: LuaValue[]): LuaValue => this.#call(args);
    const bodies = [call, call, ...FUNCTIONS];
    try {
      this.#machine = await LuaMachine.create(
        PRELUDE,
        bodies.map((body, at) => ({ body, onError: at === 1 ? 'return' : 'raise' })),
      );
    } catch (error) {
      this.#problem = messageOf(error);
    }
  }

  #enter(...args: LuaValue[]): LuaValue[] {
    if (this.#machine === undefined) throw new ReplyError(`ERR scripts cannot run: ${this.#problem}`);
    try {
      const results = this.#machine.call(args, this.#limitMs);
      if (results[0] === false && typeof results[1] === 'string') throw new LuaError(results[1]);
      return results;
    } catch (error) {
      // Time, memory or stack ran out, so the next script gets a new machine.
      this.#machine = undefined;
      this.#compiled.clear();
      throw new ReplyError(`ERR script failed: ${messageOf(error)}`);
    }
  }

  #forget(sha: Bytes): void {
    if (this.#compiled.delete(sha)) this.#enter('forget', sha);
    this.#sources.delete(sha);
  }

  #call(args: LuaValue[]): LuaValue {
    if (args.length === 0)
      throw new ReplyError('ERR Please specify at least one argument for this redis lib call');
    const words = args.map((arg) => {
      if (typeof arg === 'string') return arg;
      if (typeof arg === 'bigint') return String(arg);
      if (typeof arg === 'number') return doubleText(arg);
      throw new ReplyError('ERR Lua redis lib command arguments must be strings or integers');
    });
    if (this.#session === undefined) throw new ReplyError('ERR no script is running');
    const reply = this.#engine().execute(this.#session, words, true);
    if (typeof reply === 'object' && reply !== null && 'error' in reply) throw new ReplyError(reply.error);
    return toLua(reply);
  }
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

function sha1(text: Bytes): Bytes {
  return createHash('sha1').update(text, 'latin1').digest('hex');
}

/** Converts a reply as in RESP2: maps and pairs are flat lists, a double is its text, a missing value is false. */
function toLua(reply: Reply): LuaValue {
  if (reply === null) return false;
  if (typeof reply === 'string') return reply;
  if (typeof reply === 'number' || typeof reply === 'bigint') return BigInt(reply);
  if ('status' in reply) return new Map([['ok', reply.status]]);
  if ('error' in reply) return new Map([['err', reply.error]]);
  if ('double' in reply) return doubleText(reply.double);
  if ('fields' in reply) return reply.fields.map(toLua);
  if ('set' in reply) return reply.set.map(toLua);
  if ('event' in reply) return reply.event.map(toLua);
  if ('pairs' in reply) return reply.pairs.flatMap(([member, score]) => [member, doubleText(score)]);
  if ('text' in reply) return reply.text;
  if ('missing' in reply) return false;
  if ('several' in reply) return reply.several.map(toLua);
  return reply.map(toLua);
}

/**
 * Converts by Redis' rules: numbers are truncated, false is a missing value, a table is a list up to its first hole.
 */
function fromLua(value: LuaValue): Reply {
  if (value === null || value === false || typeof value === 'symbol') return null;
  if (value === true) return 1;
  if (typeof value === 'number') return Math.abs(value) < 2 ** 63 ? BigInt(Math.trunc(value)) : -(2n ** 63n);
  if (typeof value === 'string' || typeof value === 'bigint') return value;
  if (!(value instanceof Map)) return value.map(fromLua);
  const [error, status, double] = ['err', 'ok', 'double'].map((name) => value.get(name));
  if (typeof error === 'string') return { error };
  if (typeof status === 'string') return { status: status.replaceAll(/[\r\n]/g, ' ') };
  if (typeof double === 'number') return { double };
  const items: Reply[] = [];
  for (let at = 1n; value.has(at); at += 1n) items.push(fromLua(value.get(at) ?? null));
  return items;
}

/** redis.sha1hex, cjson.encode and cjson.decode. */
const FUNCTIONS: readonly ((args: LuaValue[]) => LuaValue)[] = [
  ([text]) => sha1(typeof text === 'bigint' ? String(text) : bytesOf(text)),
  ([value = null]) => encodeJson(value),
  ([text]) => decodeJson(bytesOf(text)),
];

function bytesOf(value: LuaValue | undefined): Bytes {
  if (typeof value === 'string') return value;
  throw new LuaError('ERR wrong number or type of arguments');
}

/** Keeps bytes above 127, as Redis' cjson does. An empty table is an object. */
function encodeJson(value: LuaValue): Bytes {
  if (value === null || typeof value === 'symbol') return 'null';
  if (typeof value === 'string')
    return JSON.stringify(value).replaceAll('/', '\\/').replaceAll('\x7f', '\\u007f');
  if (typeof value === 'boolean' || typeof value === 'bigint') return String(value);
  if (typeof value === 'number') {
    if (!Number.isFinite(value)) throw new LuaError('ERR Cannot serialise number: must not be NaN or Inf');
    return doubleText(Number(value.toPrecision(14)));
  }
  if (!(value instanceof Map)) return `[${value.map(encodeJson).join(',')}]`;
  const fields = [...value].map(([name, field]) => `${encodeJson(String(name))}:${encodeJson(field)}`);
  return `{${fields.join(',')}}`;
}

/** The text and the resulting strings are UTF-8. */
function decodeJson(text: Bytes): LuaValue {
  const bytes = (value: string): Bytes => Buffer.from(value, 'utf8').toString('latin1');
  const convert = (value: unknown): LuaValue => {
    if (value === null) return LUA_NULL;
    if (typeof value === 'string') return bytes(value);
    if (typeof value === 'boolean') return value;
    if (typeof value === 'number') return Number.isSafeInteger(value) ? BigInt(value) : value;
    if (Array.isArray(value)) return value.map(convert);
    return new Map(Object.entries(value ?? {}).map(([name, field]) => [bytes(name), convert(field)]));
  };
  try {
    return convert(JSON.parse(Buffer.from(text, 'latin1').toString('utf8')));
  } catch (error) {
    throw new LuaError(`ERR cjson.decode: ${messageOf(error)}`);
  }
}
