/**
 * The one owner of ioredis: one connection per environment, which reconnects by itself. Lambda freezes environments,
 * and a connection that died meanwhile looks open until a command times out. So every wait is short, and a command that
 * is safe to repeat is repeated once on a fresh connection.
 */
import { Redis } from 'ioredis';
import { badConfig, badRequest, ServingError } from '../contract/errors.ts';

interface RedisOptions {
  readonly connectTimeoutMs?: number;
  readonly commandTimeoutMs?: number;
  /** Who signs in, with a password of its own for each connection. Default: whom the url names, if anybody. */
  readonly signIn?: SignIn | undefined;
}

export interface SignIn {
  readonly username: string;
  readonly password: () => string;
}

const RECONNECT_MS = 2_000;
/** How long a connection we give up may take to end by itself: a dead one never does (ioredis waits 2 s for it). */
const DISCONNECT_MS = 100;

/**
 * Answers of a server that is not (or not yet) the one that serves. After a failover the same name leads to another
 * server; over the old connection every command fails for as long as the environment lives.
 */
const WRONG_SERVER = /(^|: )(READONLY|LOADING|MASTERDOWN|CLUSTERDOWN) /;

export class RedisConnection {
  readonly redis: Redis;
  readonly #url: string;
  readonly #where: string;
  readonly #signIn: SignIn | undefined;
  #connecting: Promise<void> | undefined;
  /** Counts connections, so that an error of an old one does not end a new one. */
  #connection = 0;
  #dropping: Promise<void> | undefined;
  #closed = false;

  constructor(url: string, options: RedisOptions = {}) {
    const { connectTimeoutMs = 1000, commandTimeoutMs = 1000 } = options;
    this.#url = url;
    this.#signIn = options.signIn;
    this.#where = describeUrl(url);
    this.redis = new Redis(url, {
      lazyConnect: true,
      enableOfflineQueue: false,
      // Asking INFO first costs a round trip, and waits up to 10 s at a time while Redis loads its data; the command
      // itself is told LOADING at once.
      enableReadyCheck: false,
      connectTimeout: connectTimeoutMs,
      commandTimeout: commandTimeoutMs,
      disconnectTimeout: DISCONNECT_MS,
      maxRetriesPerRequest: 0,
      // We reconnect when there is something to say, not behind a frozen function's back.
      retryStrategy: () => null,
    });
    // Without a listener ioredis prints; the error reaches whoever waits for a command.
    this.redis.on('error', () => undefined);
  }

  /**
   * Runs `work` on a live connection.
   * @param repeatable true when doing it twice does no harm: then a broken connection costs a second try, not an error
   * @throws results_unavailable
   */
  async use<T>(work: (redis: Redis) => Promise<T>, repeatable: boolean): Promise<T> {
    for (let attempt = repeatable ? 1 : 2; ; attempt++) {
      let connection = this.#connection;
      try {
        connection = await this.#connected();
        return await work(this.redis);
      } catch (error) {
        const { name, message } = error as Error;
        // Redis answered, and said no: the connection is as good as before, and asking again changes nothing.
        if (name === 'ReplyError' && !WRONG_SERVER.test(message)) throw this.unavailable(error);
        // A timed-out command leaves its late reply in the pipe; only a new connection is in a known state.
        await this.#drop(connection);
        if (attempt >= 2 || this.#closed) throw this.unavailable(error);
      }
    }
  }

  /** The number of the connection that stands. */
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
    renewPassword(this.redis, this.#signIn);
    await this.redis.connect();
  }

  /** Ends connection number `connection`, unless somebody already did and a newer one stands. */
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
    // `status` says "ready" until the socket has told of its end; a command sent before that fails.
    redis.disconnect();
    await ended;
  }

  /**
   * A second connection for subscriptions; it mends itself and subscribes again.
   * @throws results_unavailable when it cannot be made now
   */
  async subscriber(onMessage: (channel: string) => void): Promise<Redis> {
    const redis = new Redis(this.#url, {
      lazyConnect: true,
      connectTimeout: 5_000,
      commandTimeout: 5_000,
      maxRetriesPerRequest: 1,
      retryStrategy: (times) => {
        renewPassword(redis, this.#signIn);
        return Math.min(times * 100, RECONNECT_MS);
      },
      autoResubscribe: true,
    });
    redis.on('error', () => undefined);
    redis.on('message', onMessage);
    renewPassword(redis, this.#signIn);
    try {
      await redis.connect();
      return redis;
    } catch (error) {
      redis.disconnect();
      throw this.unavailable(error);
    }
  }

  unavailable(error: unknown): ServingError {
    if (error instanceof ServingError) return error;
    const message = error instanceof Error ? error.message : String(error);
    return new ServingError('results_unavailable', `Redis at ${this.#where}: ${message}`, { cause: error });
  }

  async close(): Promise<void> {
    this.#closed = true;
    if (this.redis.status === 'ready') await this.redis.quit().catch(() => undefined);
    this.redis.disconnect();
  }
}

/** ioredis reads both when it connects, and not before. */
function renewPassword(redis: Redis, signIn: SignIn | undefined): void {
  if (signIn) Object.assign(redis.options, { username: signIn.username, password: signIn.password() });
}

/** Host and port only: a url may carry a password. */
function describeUrl(url: string): string {
  try {
    const { host, protocol } = new URL(url);
    // `user:password@host` is a url too, of the scheme `user`; ioredis would quote it whole.
    if (!/^rediss?:$/.test(protocol)) throw new Error('scheme');
    return `${protocol}//${host}`;
  } catch {
    throw badConfig('the Redis url is not a url; expected redis://host:port or rediss://...');
  }
}
