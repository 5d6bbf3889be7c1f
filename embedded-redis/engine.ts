/**
 * Runs a session's commands one by one and logs those that changed something. A key that expires during a command is
 * logged as DEL before it, because the command saw it missing.
 */
import path from 'node:path';
import { ServingError } from '../lib/contract/errors.ts';
import { AppendLog } from './append-log.ts';
import { type Command, type CommandTable, type Engine, fits, matches, type Session } from './command.ts';
import { HASH_COMMANDS } from './commands/hashes.ts';
import { KEY_COMMANDS } from './commands/keys.ts';
import { LIST_COMMANDS } from './commands/lists.ts';
import { SERVER_COMMANDS, SERVER_VERSION } from './commands/server.ts';
import { SESSION_COMMANDS } from './commands/sessions.ts';
import { SET_COMMANDS } from './commands/sets.ts';
import { SORTED_SET_COMMANDS } from './commands/sorted-sets.ts';
import { STREAM_COMMANDS } from './commands/streams.ts';
import { STRING_COMMANDS } from './commands/strings.ts';
import { type Bytes, type Reply, ReplyError } from './replies.ts';
import { LuaScripts } from './scripting.ts';
import { Store } from './store.ts';

export interface EngineOptions {
  /** The folder of the log, created if missing. */
  readonly dataDir: string;
  /** Wall clock. */
  readonly now: () => number;
  readonly log: (message: string) => void;
  /** The log is rewritten from this size on, in bytes; default 32 MB. */
  readonly compactAfterBytes?: number | undefined;
  /** The limit for data, in bytes of a rewritten log; default 1 GB. Beyond it only commands that free memory run. */
  readonly dataBytes?: number | undefined;
  /** The time limit of a script, in ms; default 5,000. */
  readonly scriptLimitMs?: number | undefined;
}

export const LOG_FILE = 'embedded.aof';
const SWEEP_EVERY_MS = 100;
const QUEUED_COMMANDS = 10_000;

const TABLE: ReadonlyMap<string, Command> = new Map(
  Object.entries<Command>({
    ...KEY_COMMANDS,
    ...STRING_COMMANDS,
    ...HASH_COMMANDS,
    ...SORTED_SET_COMMANDS,
    ...SET_COMMANDS,
    ...LIST_COMMANDS,
    ...STREAM_COMMANDS,
    ...SERVER_COMMANDS,
    ...SESSION_COMMANDS,
  } satisfies CommandTable),
);

const SUBSCRIBED_MAY = new Set(['subscribe', 'unsubscribe', 'psubscribe', 'punsubscribe', 'ping', 'quit']);

export class RedisEngine implements Engine {
  readonly store = new Store();
  readonly scripts: LuaScripts;
  readonly sessions = new Set<Session>();
  readonly commandCount = TABLE.size;
  /** The port shown by INFO. */
  port = 0;
  readonly #options: EngineOptions;
  readonly #log: AppendLog;
  readonly #startedMs: number;
  readonly #timer: NodeJS.Timeout;

  constructor(options: EngineOptions) {
    this.#options = options;
    this.scripts = new LuaScripts(() => this, options.scriptLimitMs ?? 5_000);
    this.#startedMs = options.now();
    this.store.nowMs = this.#startedMs;
    this.store.loading = true;
    const loader = newSession(0, 'log', () => {});
    this.#log = new AppendLog({
      path: path.join(options.dataDir, LOG_FILE),
      compactAfterBytes: options.compactAfterBytes ?? 32 * 1024 * 1024,
      dataBytes: options.dataBytes ?? 1024 ** 3,
      log: options.log,
      dump: () => this.store.dump(),
      replay: (args) => {
        if (TABLE.get(args[0]?.toLowerCase() ?? '')?.write === undefined)
          throw new Error('not a write command');
        this.execute(loader, args);
      },
    });
    this.store.loading = false;
    this.store.onExpired = (key) => this.#log.append(['DEL', key]);
    this.#timer = setInterval(() => {
      this.store.nowMs = options.now();
      this.store.sweep();
      this.#log.flush();
    }, SWEEP_EVERY_MS).unref();
  }

  /** Runs a client's command, or queues it after MULTI. */
  run(session: Session, args: readonly Bytes[]): Reply {
    this.store.nowMs = this.#options.now();
    const name = args[0]?.toLowerCase() ?? '';
    const command = TABLE.get(name);
    const listens = session.channels.size + session.patterns.size > 0;
    let refusal = refuse(command, args);
    if (refusal === undefined && listens && session.protocol === 2 && !SUBSCRIBED_MAY.has(name)) {
      refusal = `ERR Can't execute '${name}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context`;
    }
    if (session.queue === undefined || command?.notQueued === true) {
      return refusal === undefined ? this.execute(session, args) : { error: refusal };
    }
    if (session.queue.length >= QUEUED_COMMANDS)
      refusal ??= `ERR MULTI queues at most ${QUEUED_COMMANDS} commands`;
    refusal ??= this.#outOfRoom(command);
    if (refusal !== undefined) {
      session.queueFailed = true;
      return { error: refusal };
    }
    session.queue.push([...args]);
    return { status: 'QUEUED' };
  }

  execute(session: Session, args: readonly Bytes[], fromScript = false): Reply {
    const { store } = this;
    const command = TABLE.get(args[0]?.toLowerCase() ?? '');
    const refusal = refuse(command, args, fromScript) ?? this.#outOfRoom(command);
    if (command === undefined || refusal !== undefined) return { error: refusal ?? 'ERR unknown command' };
    if (fromScript && command.noScript === true)
      return { error: 'ERR This Redis command is not allowed from script' };
    const before = store.changes;
    store.effects = undefined;
    let reply: Reply;
    try {
      reply = command.run({ store, session, engine: this }, args);
    } catch (error) {
      reply = { error: this.#message(error) };
    }
    if (command.write !== undefined && store.changes !== before && !store.loading) {
      for (const effect of store.effects ?? [args]) this.#log.append(effect);
    }
    store.effects = undefined;
    return reply;
  }

  atomically<T>(work: () => T): T {
    return this.#log.grouped(work);
  }

  /** Must be called before replies leave. */
  flush(): void {
    this.#log.flush();
  }

  publish(channel: Bytes, message: Bytes): number {
    let receivers = 0;
    const send = (session: Session, event: Reply[]): void => {
      session.send({ event });
      receivers += 1;
    };
    for (const session of this.sessions) {
      if (session.channels.has(channel)) send(session, ['message', channel, message]);
      for (const pattern of session.patterns) {
        if (matches(pattern, channel)) send(session, ['pmessage', pattern, channel, message]);
      }
    }
    return receivers;
  }

  serverInfo(): Record<string, Record<string, string | number>> {
    const { store } = this;
    const upSeconds = Math.floor((this.#options.now() - this.#startedMs) / 1000);
    return {
      Server: {
        redis_version: SERVER_VERSION,
        redis_mode: 'standalone',
        embedded: 1,
        process_id: process.pid,
        tcp_port: this.port,
        uptime_in_seconds: upSeconds,
      },
      Clients: { connected_clients: this.sessions.size },
      Memory: { used_memory: process.memoryUsage().heapUsed, maxmemory: 0, maxmemory_policy: 'noeviction' },
      Persistence: {
        loading: 0,
        aof_enabled: 1,
        aof_last_write_status: this.#log.broken === undefined ? 'ok' : 'err',
        aof_current_size: this.#log.bytes,
      },
      Replication: { role: 'master', connected_slaves: 0 },
      Keyspace: store.size === 0 ? {} : { db0: `keys=${store.size},expires=${store.expiring},avg_ttl=0` },
    };
  }

  async close(): Promise<void> {
    clearInterval(this.#timer);
    await this.#log.close();
  }

  #outOfRoom(command: Command | undefined): string | undefined {
    if (command?.write === undefined || this.store.loading) return undefined;
    if (this.#log.broken !== undefined) {
      return `MISCONF Errors writing to the AOF file: ${this.#log.broken}`;
    }
    if (command.write === 'shrinks' || !this.#log.isFull) return undefined;
    return "OOM command not allowed when used memory > 'maxmemory'.";
  }

  #message(error: unknown): string {
    if (error instanceof ReplyError) return error.message;
    const { message } = ServingError.from(error);
    this.#options.log(`a command failed: ${error instanceof Error ? (error.stack ?? message) : message}`);
    return 'ERR internal error';
  }
}

export function newSession(id: number, address: string, send: (reply: Reply) => void): Session {
  return {
    id,
    address,
    send,
    protocol: 2,
    name: '',
    queue: undefined,
    queueFailed: false,
    watch: { keys: new Set(), broken: false },
    channels: new Set(),
    patterns: new Set(),
    closing: false,
  };
}

function refuse(
  command: Command | undefined,
  args: readonly Bytes[],
  fromScript = false,
): string | undefined {
  const [name = '', ...rest] = args;
  if (command === undefined) {
    if (fromScript) return 'ERR Unknown Redis command called from script';
    let shown = '';
    for (const arg of rest) if (shown.length < 128) shown += `'${arg.slice(0, 128 - shown.length)}' `;
    return `ERR unknown command '${name.slice(0, 128)}', with args beginning with: ${shown}`;
  }
  if (fits(command.arity, args.length)) return undefined;
  if (fromScript) return 'ERR Wrong number of args calling Redis command from script';
  return `ERR wrong number of arguments for '${name.toLowerCase()}' command`;
}
