/**
 * The only user of ioredis: one connection for each environment, which reconnects by itself. Lambda freezes environments,
 * and a connection that broke meanwhile looks open until a command times out. So every timeout is short, and a command
 * that is safe to repeat is repeated once on a new connection.
 */
import { Redis } from 'ioredis';
import { badConfig, badRequest, ServingError } from '../contract/errors.ts';
import { allEnded } from '../contract/under-way.ts';
import { HINTS, TLS_HINTS } from './hints.ts';
import { Room } from './room.ts';

export interface RedisOptions {
  readonly connectTimeoutMs?: number;
  readonly commandTimeoutMs?: number;
  /** The user, with a password for each connection. Default: the user and password of the url, if it has them. */
  readonly signIn?: SignIn | undefined;
  /** The most that it stores, where it would evict results beyond that. */
  readonly maxBytes?: number | undefined;
  /** For a node of a cluster: the name in its certificate (TLS); undefined: the host of its url. */
  readonly node?: { readonly certifiedName: string | undefined };
}

export interface SignIn {
  /** Undefined: Redis' own default user. */
  readonly username: string | undefined;
  readonly password: () => string | Promise<string>;
  /** The password as it is now, for when `password` may have been refused because it was changed since it was read. */
  readonly changedPassword?: () => Promise<string>;
}

const RECONNECT_MS = 2_000;
/** How long a connection that is given up may take to end; a dead one never does, and ioredis would wait 2 s. */
const DISCONNECT_MS = 100;

/**
 * Error codes of a server that is not the primary, or not ready yet. After a failover the same host name leads to another
 * server, while on the old connection every command would fail for as long as the environment lives.
 */
const WRONG_SERVER = /(^|: )(READONLY|LOADING|MASTERDOWN|CLUSTERDOWN) /;

/** What a server in cluster mode answers to a client that knows no slots. */
const CLUSTER_MODE = /^(MOVED|ASK|CROSSSLOT) /;

/** What ioredis says of whatever was under way when the connection ended. */
const CLOSED = 'Connection is closed.';

/** Sends commands; what may not be repeated sends one only. */
export type Work<T> = (redis: Redis) => Promise<T>;

export class RedisConnection {
  /** Whether a script reaches only the keys of one slot. */
  readonly isCluster: boolean = false;
  readonly redis: Redis;
  /** Undefined where Redis itself refuses what is too much. */
  readonly room: Room | undefined;
  readonly #url: string;
  readonly #where: string;
  readonly #node: RedisOptions['node'];
  readonly #signIn: SignIn | undefined;
  #connecting: Promise<void> | undefined;
  /** Counts connections, so that an error of an old one does not end a new one. */
  #connection = 0;
  #dropping: Promise<void> | undefined;
  #closed = false;
  /** Why the connection ended, or was not made. The error itself holds the command, and with it the password. */
  #why: string | undefined;

  constructor(url: string, options: RedisOptions = {}) {
    const { connectTimeoutMs = 1000, commandTimeoutMs = 1000 } = options;
    const ask = () => this.use((redis) => redis.info('memory'), true);
    this.room = options.maxBytes === undefined ? undefined : new Room(options.maxBytes, ask, Date.now);
    this.#url = url;
    this.#signIn = options.signIn;
    this.#node = options.node;
    this.#where = describeUrl(url);
    this.redis = new Redis(url, {
      ...this.#tls(),
      lazyConnect: true,
      enableOfflineQueue: false,
      // The ready check of ioredis costs a round trip, and waits up to 10 s at a time while Redis loads its data. A command
      // fails at once with LOADING.
      enableReadyCheck: false,
      connectTimeout: connectTimeoutMs,
      commandTimeout: commandTimeoutMs,
      disconnectTimeout: DISCONNECT_MS,
      maxRetriesPerRequest: 0,
      // The next command reconnects; a frozen function cannot.
      retryStrategy: () => null,
    });
    // Without a listener ioredis prints the error. What waits fails with CLOSED, which does not say why.
    this.#keepWhy(this.redis);
  }

  /**
   * What stands for the job in the names of the keys beside the result of a uri (names.ts). One script may touch the keys
   * of all uris with the same home.
   */
  home(job: string, _uri: string): string {
    return job;
  }

  /**
   * Runs `work` on a live connection.
   * @param repeatable true when running it twice is safe: it is then run again on a new connection when the first breaks
   * @param _key one of the keys that `work` touches, or their home; in cluster mode it decides which node is asked
   * @throws results_unavailable
   */
  async use<T>(work: Work<T>, repeatable: boolean, _key?: string): Promise<T> {
    for (let attempt = repeatable ? 1 : 2; ; attempt++) {
      let connection = this.#connection;
      try {
        connection = await this.#connected();
        return await work(this.redis);
      } catch (error) {
        const { name, message } = error as Error;
        // Redis answered with an error: the connection works, and running the command again changes nothing.
        if (name === 'ReplyError' && !WRONG_SERVER.test(message)) throw this.unavailable(error);
        // The reply of a command that timed out may still arrive; only a new connection is in a known state.
        await this.#drop(connection);
        if (attempt >= 2 || this.#closed) throw this.unavailable(error);
      }
    }
  }

  /** Connects now instead of at the first command. Never throws. */
  async open(): Promise<void> {
    await this.use(() => Promise.resolve(), false).catch(() => undefined);
  }

  /** The number of the current connection. */
  async #connected(): Promise<number> {
    if (this.#closed) throw badRequest('this connection to Redis was closed');
    if (this.redis.status !== 'ready') {
      this.#connecting ??= this.#connect().finally(() => {
        this.#connecting = undefined;
      });
      await this.#connecting;
    }
    return this.#connection;
  }

  async #connect(): Promise<void> {
    this.#why = undefined;
    await this.#renewPassword(this.redis);
    try {
      await this.redis.connect();
    } catch (error) {
      // ioredis does not say whether the password was refused.
      const changed = await this.#signIn?.changedPassword?.();
      if (changed === undefined || changed === this.redis.options.password) throw error;
      await this.#end();
      this.redis.options.password = changed;
      await this.redis.connect();
    }
  }

  /** Ends connection number `connection`, unless a newer one has replaced it. */
  async #drop(connection: number): Promise<void> {
    if (connection === this.#connection) {
      this.#connection++;
      this.#dropping = this.#end();
    }
    await this.#dropping;
  }

  async #end(): Promise<void> {
    const { redis } = this;
    if (redis.status === 'end' || redis.status === 'wait') return;
    const ended = new Promise<void>((resolve) => redis.once('end', resolve));
    // `status` stays "ready" until the socket has ended; a command that is sent before then fails.
    redis.disconnect();
    await ended;
  }

  /**
   * Opens a second connection for subscriptions, which reconnects and subscribes again by itself.
   * @param isNeeded whether it should reconnect. Without a subscription a broken one ends
   * @throws results_unavailable when it cannot be opened now
   */
  async subscriber(onMessage: (channel: string) => void, isNeeded = () => true): Promise<Redis> {
    const redis = new Redis(this.#url, {
      ...this.#tls(),
      lazyConnect: true,
      connectTimeout: 5_000,
      commandTimeout: 5_000,
      maxRetriesPerRequest: 1,
      retryStrategy: (times) => {
        if (!isNeeded()) return null;
        // When it is not there in time, the attempt fails, and the next one has it.
        this.#renewPassword(redis).catch(() => undefined);
        return Math.min(times * 100, RECONNECT_MS);
      },
      autoResubscribe: true,
    });
    this.#keepWhy(redis);
    redis.on('message', onMessage);
    try {
      await this.#renewPassword(redis);
      await redis.connect();
      return redis;
    } catch (error) {
      redis.disconnect();
      throw this.unavailable(error);
    }
  }

  /** ioredis reads user and password each time it connects. */
  async #renewPassword(redis: Redis): Promise<void> {
    if (!this.#signIn) return;
    const { username, password } = this.#signIn;
    Object.assign(redis.options, { username, password: await password() });
  }

  #keepWhy(redis: Redis): void {
    redis.on('error', (error: NodeJS.ErrnoException) => {
      // Several addresses that were refused at once have a code only.
      this.#why = error.message || error.code;
    });
  }

  #tls() {
    const servername = this.#node?.certifiedName;
    return servername === undefined ? {} : { tls: { servername } };
  }

  unavailable(error: unknown): ServingError {
    if (error instanceof ServingError) return error;
    const said = error instanceof Error ? error.message : String(error);
    const message = (said === CLOSED ? this.#why : undefined) ?? said;
    const hints = this.#url.startsWith('rediss:') ? TLS_HINTS : HINTS;
    const hint = hints.find(([found]) => found.test(message))?.[1].replace('$&', message);
    const isUnknown = !this.#node && CLUSTER_MODE.test(message);
    const how = isUnknown ? '; it is in cluster mode: write ?cluster=on after its address' : '';
    return new ServingError('results_unavailable', `Redis at ${this.#where}: ${hint ?? message}${how}`, {
      cause: error,
    });
  }

  async close(): Promise<void> {
    this.#closed = true;
    if (this.redis.status === 'ready') await this.redis.quit().catch(() => undefined);
    this.redis.disconnect();
  }
}

/** Host and port of a url, without its password. */
function describeUrl(url: string): string {
  try {
    const { host, protocol } = new URL(url);
    // `user:password@host` parses as a url with the scheme `user`; an error of ioredis would quote the password.
    if (!/^rediss?:$/.test(protocol)) throw new Error('scheme');
    return `${protocol}//${host}`;
  } catch {
    throw badConfig('the Redis url is not a url; expected redis://host:port or rediss://...');
  }
}

/** How many slots one round trip reads or writes. */
const HOMES_PER_TRIP = 500;

export function slicesOf<T>(all: readonly T[]): T[][] {
  const count = Math.ceil(all.length / HOMES_PER_TRIP);
  return Array.from({ length: count }, (_, i) => all.slice(i * HOMES_PER_TRIP, (i + 1) * HOMES_PER_TRIP));
}

/**
 * Calls `work` once for the uris of each home, and for some hundred homes at a time: in cluster mode they share a round trip
 * to each node. Outside of cluster mode there is one home.
 * @param work gets the places of its uris in `uris`
 * @returns what each call returned
 */
export async function forEachHome<T>(
  homes: readonly string[],
  work: (home: string, places: readonly number[]) => Promise<T>,
): Promise<T[]> {
  const places = Map.groupBy(homes.keys(), (i) => homes[i] as string);
  const done: T[] = [];
  for (const some of slicesOf([...places])) {
    const [only, ...others] = some;
    // Most batches have one home, whose errors then show their caller.
    if (only && others.length === 0) done.push(await work(...only));
    else done.push(...(await allEnded(some.map(([home, of]) => work(home, of)))));
  }
  return done;
}
