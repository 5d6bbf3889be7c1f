/**
 * Which clients still wait. A client that has closed its connection and one that has only ended its sending
 * (`shutdown(SHUT_WR)`) look alike: both have sent FIN. The difference shows when they are sent something, because a closed
 * connection answers with RST. So the characters that every answer begins with are sent one at a time, at growing intervals.
 */
import type { ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import type { Caller } from '../../lib/contract/values.ts';
import { callerIsGone } from '../../lib/pipeline/deadline.ts';
import { newRequestId } from './event.ts';
import type { GatewayRoute } from './routes.ts';
import type { Slot, Slots } from './slots.ts';

/** Node answers requests of HTTP/1.0 with it, too. */
const BEGINNING = 'HTTP/1.1 ';
/** The first pause between two characters; each next one is twice as long. The last comes after about a second. */
const FIRST_PAUSE_MS = 4;
/** A client on this machine that accepts this many characters is there. One far away may still turn out to be gone. */
const TAKEN_CHARACTERS = 3;

/** A request that has no answer yet, and who waits for it. */
export class Served implements Caller {
  readonly response: ServerResponse;
  readonly requestId = newRequestId();
  /** Undefined until it is known, and where there is none. */
  route: GatewayRoute | undefined;
  presence: Caller['presence'] = 'waits';
  /** While its handler runs. */
  #slot: Slot | undefined;
  #onPresence: (() => void) | undefined;
  #left: AbortController | undefined;

  constructor(response: ServerResponse) {
    this.response = response;
  }

  get signal(): AbortSignal {
    this.#left ??= new AbortController();
    if (this.presence === 'gone') this.#left.abort(callerIsGone());
    return this.#left.signal;
  }

  /** @param onPresence called when its presence changes */
  take(slots: Slots, onPresence: (() => void) | undefined): Slot {
    this.#slot = slots.take();
    this.#onPresence = onPresence;
    // It may have left before there was a slot to free.
    if (this.presence !== 'waits') this.#slot.abandon();
    return this.#slot;
  }

  become(presence: Caller['presence']): void {
    if (this.presence === presence || this.presence === 'gone') return;
    this.presence = presence;
    if (presence === 'waits') this.#slot?.resume();
    else this.#slot?.abandon();
    if (presence === 'gone') this.#left?.abort(callerIsGone());
    this.#onPresence?.();
  }
}

/** The requests of each connection that have no answer yet, in their order. */
export class Clients {
  readonly #waiting = new WeakMap<Duplex, Served[]>();

  connected(socket: Duplex): void {
    const waiting: Served[] = [];
    this.#waiting.set(socket, waiting);
    socket.once('end', () => findOut(socket, waiting));
  }

  add(socket: Duplex, served: Served): void {
    this.#waiting.get(socket)?.push(served);
  }

  remove(socket: Duplex, served: Served): void {
    const waiting = this.#waiting.get(socket) ?? [];
    const at = waiting.indexOf(served);
    if (at >= 0) waiting.splice(at, 1);
  }
}

/** Finds out whether a client that sends nothing more still reads. A connection that is closed ends its requests as usual. */
function findOut(socket: Duplex, waiting: readonly Served[]): void {
  const [first] = waiting;
  // An answer that is being written finds out by itself.
  if (!first || first.response.headersSent || !socket.writable) return;
  const become = (presence: Caller['presence']) => {
    for (const served of waiting) served.become(presence);
  };
  become('doubtful');
  const write = socket.write.bind(socket);
  let taken = 0;
  let timer: NodeJS.Timeout | undefined;
  const send = () => {
    if (!socket.writable) return;
    write(BEGINNING.charAt(taken++), 'latin1');
    if (taken === TAKEN_CHARACTERS + 1) become('waits');
    if (taken < BEGINNING.length) timer = setTimeout(send, FIRST_PAUSE_MS * 2 ** (taken - 1));
  };
  send();
  // The first answer goes on where the characters ended.
  socket.write = (chunk: string, ...others: unknown[]) => {
    clearTimeout(timer);
    socket.write = write;
    // Duplex.write has two forms, which differ in what follows the chunk.
    return (write as (...parameters: unknown[]) => boolean)(chunk.slice(taken), ...others);
  };
  socket.once('close', () => clearTimeout(timer));
}
