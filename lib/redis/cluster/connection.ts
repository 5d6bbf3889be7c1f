/**
 * A Redis in cluster mode: one connection for each node that is asked, and the table of which node has which slot. Nodes
 * are connections as to any Redis, with its limits; what is here is the way to the right one. ioredis' own client of
 * clusters opens three connections before its first command, where this one opens one.
 */
import { setTimeout as delay } from 'node:timers/promises';
import type { Redis } from 'ioredis';
import type { ServingError } from '../../contract/errors.ts';
import { resultKey } from '../../contract/names.ts';
import { leave } from '../../contract/under-way.ts';
import { readAddress } from '../address.ts';
import { RedisConnection, type RedisOptions, type Work } from '../connection.ts';
import { type CredentialSource, cacheSignIn } from '../iam.ts';
import { SLOTS, slotOf, tagOf } from './slots.ts';

/** How often a command is sent that other nodes or a slot on its way send elsewhere: 1.6 s in all. */
const ATTEMPTS = 8;
/** The wait before the third attempt; each wait is twice as long as the one before it. */
const FIRST_WAIT_MS = 25;

/** The reply of a node that did not do what it was asked. */
const REDIRECTION = /^(MOVED|ASK|TRYAGAIN|CLUSTERDOWN)\b(?: \d+ (\S+))?/;

/** An IP address and no name. */
const IP = /^[\d.]+$|:/;

/** `host:port` of the node of each slot. */
type Owners = readonly (string | undefined)[];
type Node = Pick<RedisConnection, 'use' | 'subscriber' | 'close'>;

/**
 * Connects to the Redis of an address (address.ts).
 * @param credentials of AWS, for a public cache that signs in its users by them
 * @throws bad_config for an address of another form
 */
export function openRedis(
  address: string,
  { credentials, ...options }: RedisOptions & { readonly credentials?: CredentialSource | undefined } = {},
): RedisConnection {
  const { url, isCluster, cacheUser, maxBytes } = readAddress(address);
  const signIn = cacheUser ? cacheSignIn(cacheUser, credentials) : options.signIn;
  const all = { ...options, signIn, maxBytes: options.maxBytes ?? maxBytes };
  return isCluster ? new ClusterConnection(url, all) : new RedisConnection(url, all);
}

export class ClusterConnection extends RedisConnection {
  override readonly isCluster = true;
  readonly #url: URL;
  readonly #options: RedisOptions;
  /** By `host:port`. A node that left the cluster stays, without a connection. */
  readonly #nodes = new Map<string, Node>();
  #owners: Promise<Owners> | undefined;

  /** @param url of one node, which names the others */
  constructor(url: string, options: RedisOptions = {}) {
    const seed = { ...options, node: { certifiedName: undefined } };
    super(url, seed);
    this.#url = new URL(url);
    this.#options = options;
    this.#nodes.set(this.#seed, {
      use: (work, repeatable) => super.use(work, repeatable),
      subscriber: (...subscribing) => super.subscriber(...subscribing),
      close: () => super.close(),
    });
  }

  /** The keys beside a result share its slot: a tag in front decides, whatever braces the uri has. */
  override home(job: string, uri: string): string {
    return `{${tagOf(slotOf(resultKey(job, uri)))}}${job}`;
  }

  override async use<T>(work: Work<T>, repeatable: boolean, key = ''): Promise<T> {
    const slot = slotOf(key);
    let asked: { readonly address: string; readonly isAsking: boolean } | undefined;
    for (let attempt = 1; ; attempt++) {
      const table = this.#table();
      const address = asked?.address ?? (await table)[slot] ?? this.#seed;
      try {
        return await this.#node(address).use(asked?.isAsking ? asking(work) : work, repeatable);
      } catch (error) {
        const reply = replyOf(error);
        const [, kind, elsewhere] = REDIRECTION.exec(reply) ?? [];
        if (attempt === ATTEMPTS || (reply !== '' && kind === undefined)) throw error;
        if (kind !== 'ASK' && table === this.#owners) this.#owners = undefined;
        if (kind === undefined) {
          // The node may be lost, and another have its slots.
          const isElsewhere = repeatable && (await this.#table())[slot] !== address;
          if (!isElsewhere) throw error;
        }
        asked = elsewhere ? { address: this.#addressOf(elsewhere), isAsking: kind === 'ASK' } : undefined;
        if (attempt > 1) await delay(FIRST_WAIT_MS * 2 ** (attempt - 2));
      }
    }
  }

  /** Any node hears what is published on each. */
  override async subscriber(...subscribing: Parameters<RedisConnection['subscriber']>): Promise<Redis> {
    let failure: unknown;
    for (const node of this.#nodes.values()) {
      try {
        return await node.subscriber(...subscribing);
      } catch (error) {
        failure = error;
      }
    }
    throw failure;
  }

  override async close(): Promise<void> {
    await Promise.all([...this.#nodes.values()].map((node) => node.close()));
  }

  get #seed(): string {
    return `${this.#url.hostname}:${this.#url.port || 6379}`;
  }

  #node(address: string): Node {
    const known = this.#nodes.get(address);
    if (known) return known;
    const host = address.slice(0, address.lastIndexOf(':'));
    const url = new URL(this.#url);
    url.host = host.includes(':') ? `[${host}]${address.slice(host.length)}` : address;
    // A node that is named by its number proves that it belongs to the name that was given.
    const certifiedName =
      url.protocol === 'rediss:' && IP.test(host) && !IP.test(this.#url.hostname)
        ? this.#url.hostname
        : undefined;
    const node = new RedisConnection(url.href, { ...this.#options, node: { certifiedName } });
    this.#nodes.set(address, node);
    return node;
  }

  /** A node that does not know its own name leaves out the host: it is the one that was asked. */
  #addressOf(named: string): string {
    const [, host, port] = /^(.*):(\d+)/.exec(named) ?? [];
    return `${!host || host === '?' ? this.#url.hostname : host}:${port}`;
  }

  /** @throws results_unavailable when no node that is known answers */
  #table(): Promise<Owners> {
    if (this.#owners) return this.#owners;
    const asked = [...this.#nodes.values()].map((node) => this.#ownersBy(node));
    // The first answer counts; the others are still on their way then.
    for (const one of asked) leave(one);
    this.#owners = Promise.any(asked).catch((error: AggregateError) => {
      this.#owners = undefined;
      throw error.errors[0];
    });
    return this.#owners;
  }

  async #ownersBy(node: Node): Promise<Owners> {
    const owners = new Array<string>(SLOTS);
    for (const [first, last, ...nodes] of await node.use((redis) => redis.cluster('SLOTS'), true)) {
      const [host, port] = nodes[0] ?? [];
      owners.fill(this.#addressOf(`${host ?? ''}:${port}`), first, last + 1);
    }
    return owners;
  }
}

/** The error reply that a call ended with; '' when it ended without a reply. */
function replyOf(error: unknown): string {
  const cause = (error as ServingError).cause;
  return cause instanceof Error && cause.name === 'ReplyError' ? cause.message : '';
}

/** Lets the node to which a slot moves answer for a key that has arrived. It holds for the first command. */
function asking<T>(work: Work<T>): Work<T> {
  return async (redis) => (await Promise.all([redis.asking(), work(redis)]))[1];
}
