/**
 * Decides which calls are read: those with the token and a name of this service, as at the HTTP ports. A message is in
 * memory before anything is known of it, so only some calls are read at the same time, and the others wait.
 */
import { type Metadata, ServerInterceptingCall, type ServerInterceptor, status } from '@grpc/grpc-js';
import { ServingError } from '../../lib/contract/errors.ts';
import { LIMITS } from '../../lib/contract/limits.ts';
import { isBearer } from '../gateway/caller.ts';
import type { Access } from '../machine/access.ts';
import { isOwnHost } from '../machine/hosts.ts';
import { statusOf } from './status.ts';

/** As many as requests over HTTP. */
export const MAX_CALLS = 1000;
/** Bytes of messages, once while they arrive and once until their calls end. */
export const MAX_HELD_BYTES = 512 * 1024 * 1024;
const MAX_READING = MAX_HELD_BYTES / LIMITS.frameBytes;
/** The time in which a client must send its message, as over HTTP. */
const READ_MS = 30_000;

/** Capacity held by a call. */
interface Place {
  /** Its message is here. */
  readonly read: () => void;
  readonly leave: () => void;
}

export class Admission {
  readonly #access: Access;
  readonly #readMs: number;
  #calls = 0;
  #reading = 0;
  readonly #waiting = new Set<() => void>();

  constructor(access: Access, readMs = READ_MS) {
    this.#access = access;
    this.#readMs = readMs;
  }

  readonly interceptor: ServerInterceptor = (_, call) =>
    new ServerInterceptingCall(call, {
      start: (next) => {
        let place: Place | undefined;
        // A slow client is not an error of the service, so it is not logged.
        const details = `no whole message came within ${this.#readMs} ms`;
        const late = () => call.sendStatus({ code: status.DEADLINE_EXCEEDED, details });
        next({
          onReceiveMetadata: (metadata, read) => {
            try {
              this.#assertCaller(metadata, call.getHost(), call.getConnectionInfo().localAddress);
              place = this.#enter(() => read(metadata), late);
            } catch (error) {
              call.sendStatus(statusOf(error));
            }
          },
          onReceiveHalfClose: (end) => {
            place?.read();
            end();
          },
          // Also called when a call has its answer.
          onCancel: () => place?.leave(),
        });
      },
    });

  /** @throws forbidden, unauthorized */
  #assertCaller(metadata: Metadata, host: string, address: string | undefined): void {
    const { token, allowedHosts } = this.#access;
    if (!isOwnHost(host, allowedHosts, address)) {
      throw new ServingError(
        'forbidden',
        `the host ${JSON.stringify(host)} is not a name of this service; start it with --allow-host <name>`,
      );
    }
    if (token === undefined || isBearer(metadata.get('authorization')[0]?.toString(), token)) return;
    throw new ServingError(
      'unauthorized',
      'this service needs its token: send the metadata "authorization: Bearer <token>"',
    );
  }

  /** @throws rate_limited */
  #enter(read: () => void, late: () => void): Place {
    if (this.#calls >= MAX_CALLS) throw tooMany(`${MAX_CALLS} calls are under way`);
    this.#calls++;
    let timer: NodeJS.Timeout | undefined;
    const begin = () => {
      this.#reading++;
      timer = setTimeout(late, this.#readMs);
      read();
    };
    const end = () => {
      this.#waiting.delete(begin);
      if (timer === undefined) return;
      clearTimeout(timer);
      timer = undefined;
      this.#reading--;
      const [next] = this.#waiting;
      if (next === undefined) return;
      this.#waiting.delete(next);
      next();
    };
    if (this.#reading < MAX_READING) begin();
    else this.#waiting.add(begin);
    return {
      read: end,
      leave: () => {
        end();
        this.#calls--;
      },
    };
  }
}

export function tooMany(what: string): ServingError {
  return new ServingError('rate_limited', `${what}; try again`, { retryAfterSeconds: 1 });
}
