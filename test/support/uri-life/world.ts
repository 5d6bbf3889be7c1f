/**
 * The life of a uri in a real store, through the product's own classes. A state is built by writing what an earlier step left, so
 * that each step costs the same however long the way to it was.
 */
import { ServingError } from '../../../lib/contract/errors.ts';
import type { Result } from '../../../lib/contract/result.ts';
import type { Leases } from '../../../lib/results/dequeue.ts';
import { serializeResult } from '../../../lib/results/fields.ts';
import type { Replacer, Results, States } from '../../../lib/results/store.ts';
import type { Action, Place, UriState } from './model.ts';

export const URI = 'the uri';
export const LEASE = 'lease';
export const TTL_SECONDS = 3_600;

export type Fields = Readonly<Record<string, string>>;

/** The entries of the uri in the store, with times as ranks. */
export interface Dump {
  readonly result: Fields;
  readonly state: Fields;
  readonly held: Fields;
  readonly newest: string;
  readonly listed: boolean;
  /** Everything else that a store has of the uri. */
  readonly rest?: Fields;
}

export const EMPTY: Dump = { result: {}, state: {}, held: {}, newest: '', listed: false };

/** Options of the parts of each world. */
export const OPTIONS = { ttlSeconds: TTL_SECONDS, now: () => 5 } as const;

interface Parts {
  readonly results: Pick<Results, 'save' | 'take' | 'get'>;
  readonly states: States;
  readonly replacer: Replacer;
  readonly leases: Leases;
}

/** A job of its own for one uri; jobs share a connection. */
export abstract class UriWorld {
  readonly #parts: Parts;
  /** The lease of the result that was put aside last. */
  protected leaseId = LEASE;

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  abstract restore(dump: Dump): Promise<void>;
  abstract dump(): Promise<Dump>;
  /** The client has what it leased, for good. */
  protected abstract acknowledge(): Promise<void>;
  /** The result's time to live passes. */
  protected abstract vanish(): Promise<void>;

  /** The action's result for its caller, in the model's terms (model.ts). */
  async act(action: Action, state: UriState): Promise<unknown> {
    switch (action.do) {
      case 'enqueue':
        if (action.announce) await this.#announce(action.identity);
        return undefined;
      case 'retry':
        return undefined;
      case 'succeed':
      case 'fail': {
        const message = state.messages[action.message] as Place;
        return this.#parts.results.save(
          [{ uri: URI, fields: outcomeOf(message, action.do), enqueue: message }],
          'v',
        );
      }
      case 'take':
        return shown(this.#parts.results.take(URI, { identity: action.identity }));
      case 'lease':
        return this.#lease();
      case 'acknowledge':
        await this.acknowledge();
        return undefined;
      case 'release': {
        const lease = { uri: URI, leaseId: this.leaseId, leftMs: 60_000 };
        await this.#parts.leases.release([{ fields: {}, error: undefined, wasListed: true, lease }]);
        return undefined;
      }
      case 'cancel':
        return this.#parts.states.cancel(URI);
      case 'vanish':
        await this.vanish();
        return undefined;
      case 'replay':
      case 'resend':
        return this.#replay(action, state);
    }
  }

  async #replay(action: Extract<Action, { archived: number }>, state: UriState): Promise<unknown> {
    const { identity, sentAt, replays } = state.archived[action.archived] as Place;
    const enqueue = { identity, sentAt, replays: replays + 1 };
    const record = { uri: URI, messageId: identity, enqueue, message: payloadOf(identity) };
    if (action.do === 'replay') return this.#parts.replacer.store(record, outcomeOf(enqueue, 'succeed'), 'v');
    return action.announce ? this.#parts.replacer.free(record) : undefined;
  }

  async #announce(identity: string): Promise<void> {
    await this.#parts.states.announce({ uri: URI, identity, message: payloadOf(identity) });
  }

  /** Takes, and keeps the key in which the result was put aside. */
  async #lease(): Promise<unknown> {
    const [taken] = await this.#parts.leases.take([URI]);
    const { status, identity = '' } = taken?.fields ?? {};
    if (taken && status !== undefined && status !== 'cancelled') {
      this.leaseId = taken.lease.leaseId;
    }
    return status === undefined ? undefined : { identity, kind: status };
  }

  /** The clients' view: the status and the outcome, without an identity and with each of these. */
  async look(identities: readonly string[]): Promise<unknown> {
    const asked = [undefined, ...identities];
    return Promise.all(
      asked.map(async (identity) => ({
        status: await this.#parts.states.status(URI, { identity }),
        found: await shown(this.#parts.results.get(URI, { identity })),
      })),
    );
  }
}

const payloadOf = (identity: string): string => `payload of ${identity}`;

/** Its value tells of which enqueue it is. */
function outcomeOf({ identity, replays }: Place, how: 'succeed' | 'fail') {
  const text = `${identity}.${replays}`;
  if (how === 'fail') {
    const error = new ServingError(
      'max_receives_exceeded',
      `the record failed and was archived as ${identity}`,
    );
    return serializeResult({ ok: false, error }, undefined);
  }
  const outputs = [{ name: 'y', dtype: 'string' as const, shape: [1], data: [text] }];
  return serializeResult({ ok: true, outputs }, undefined);
}

async function shown(asked: Promise<Result | undefined>): Promise<unknown> {
  try {
    const result = await asked;
    if (!result) return undefined;
    const [text] = result.outputs[0]?.data as readonly string[];
    if (text?.split('.')[0] !== result.identity)
      throw new Error(`${result.identity} has the value of ${text}`);
    return { identity: result.identity, kind: 'succeeded' };
  } catch (error) {
    if (!(error instanceof ServingError)) throw error;
    if (error.code === 'cancelled') return { identity: '', kind: 'cancelled' };
    const [, identity] = /archived as (.*)$/.exec(error.message) ?? [];
    if (identity === undefined) throw error;
    return { identity, kind: 'failed' };
  }
}
