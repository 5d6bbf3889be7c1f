/**
 * Connections between processes: bytes arrive in their order, after a delay, or not at all. A process that is stopped finds
 * what came meanwhile when it continues; the connections of one that ended are closed by its machine.
 */
import { Duplex } from 'node:stream';
import type { Owner, Scheduler } from './scheduler.ts';

/** The present state of the network. */
export interface Weather {
  /** Ms for the bytes of one write. */
  delayMs(link: string): number;
  /** `refused`: a new connection gets an error. `silent`: nothing arrives, and nothing says so. */
  reach(port: number): 'open' | 'refused' | 'silent';
}

type Listener = (socket: Socket) => void;

interface Side {
  readonly socket: Socket;
  readonly owner: Owner;
}

/** One connection. */
class Link {
  readonly name: string;
  readonly port: number;
  readonly sides: readonly [Side, Side];
  readonly #network: Network;
  readonly #arrives: [number, number] = [0, 0];
  /** Writes that wait until the other side can be reached. */
  readonly held: { readonly to: 0 | 1; readonly bytes: Buffer | undefined }[] = [];
  /** Deliveries that have not happened. */
  pending = 0;
  /** Its machine in between has forgotten it: bytes vanish. */
  isForgotten = false;

  constructor(network: Network, name: string, port: number, sides: readonly [Side, Side]) {
    this.#network = network;
    this.name = name;
    this.port = port;
    this.sides = sides;
  }

  /** @param bytes undefined: the end */
  send(from: Socket, bytes: Buffer | undefined): void {
    const to = from === this.sides[0].socket ? 1 : 0;
    if (this.isForgotten) return;
    if (this.#network.weather.reach(this.port) === 'silent') {
      this.held.push({ to, bytes });
      return;
    }
    const { scheduler, weather } = this.#network;
    const at = Math.max(this.#arrives[to], scheduler.nowMs + weather.delayMs(this.name));
    this.#arrives[to] = at;
    const { socket, owner } = this.sides[to];
    if (bytes) this.pending++;
    scheduler.after(at - scheduler.nowMs, owner, () => {
      if (bytes) this.pending--;
      if (!this.isForgotten) socket.receive(bytes);
    });
  }

  /** Sends what waited. */
  resume(): void {
    for (const { to, bytes } of this.held.splice(0))
      this.send(this.sides[1 - to === 0 ? 0 : 1].socket, bytes);
  }

  /** Both sides get an error. */
  reset(): void {
    this.held.length = 0;
    for (const { socket, owner } of this.sides) {
      this.#network.scheduler.after(this.#network.weather.delayMs(this.name), owner, () =>
        socket.destroy(connectionError('ECONNRESET', 'read ECONNRESET')),
      );
    }
    this.#network.links.delete(this);
  }
}

export function connectionError(code: string, message: string): Error {
  return Object.assign(new Error(message), { code, errno: -1, syscall: message.split(' ')[0] });
}

type Timers = Pick<typeof globalThis, 'setTimeout' | 'clearTimeout'>;

/** The part of net.Socket that ioredis and the embedded Redis use. */
export class Socket extends Duplex {
  connecting = true;
  remoteAddress = '10.0.0.1';
  remotePort = 0;
  link: Link | undefined;
  readonly #timers: Timers;
  #silence: { ms: number; timer: NodeJS.Timeout } | undefined;

  constructor(timers: Timers) {
    super({ allowHalfOpen: false, autoDestroy: true, emitClose: false });
    this.#timers = timers;
  }

  setNoDelay(): this {
    return this;
  }

  setKeepAlive(): this {
    return this;
  }

  ref(): this {
    return this;
  }

  unref(): this {
    return this;
  }

  setTimeout(ms: number, onTimeout?: () => void): this {
    if (this.#silence) this.#timers.clearTimeout(this.#silence.timer);
    this.#silence = undefined;
    if (onTimeout && ms > 0) this.once('timeout', onTimeout);
    if (ms > 0) this.#silence = { ms, timer: this.#timers.setTimeout(() => this.emit('timeout'), ms) };
    return this;
  }

  destroySoon(): void {
    this.end(() => this.destroy());
  }

  receive(bytes: Buffer | undefined): void {
    if (this.destroyed) return;
    if (this.#silence) this.setTimeout(this.#silence.ms);
    this.push(bytes ?? null);
  }

  override _read(): void {}

  override _write(bytes: Buffer, _encoding: BufferEncoding, done: (error?: Error | null) => void): void {
    if (this.connecting) this.once('connect', () => this._write(bytes, _encoding, done));
    else {
      this.link?.send(this, bytes);
      done();
    }
  }

  override _final(done: (error?: Error | null) => void): void {
    this.link?.send(this, undefined);
    done();
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    this.setTimeout(0);
    if (this.link && !this.writableEnded) this.link.send(this, undefined);
    done(error);
    // As net.Socket does: it says whether there was an error.
    process.nextTick(() => this.emit('close', Boolean(error)));
  }
}

export class Network {
  readonly scheduler: Scheduler;
  readonly weather: Weather;
  readonly links = new Set<Link>();
  readonly #listeners = new Map<
    number,
    { readonly owner: Owner; readonly timers: Timers; readonly listener: Listener }
  >();
  #connections = 0;

  constructor(scheduler: Scheduler, weather: Weather) {
    this.scheduler = scheduler;
    this.weather = weather;
  }

  listen(owner: Owner, timers: Timers, port: number, listener: Listener): () => void {
    this.#listeners.set(port, { owner, timers, listener });
    return () => void this.#listeners.delete(port);
  }

  connect(owner: Owner, timers: Timers, port: number): Socket {
    const client = new Socket(timers);
    client.remotePort = port;
    const name = `${owner.name}-${port}`;
    this.scheduler.after(this.weather.delayMs(name), undefined, () => {
      const reach = this.weather.reach(port);
      const server = this.#listeners.get(port);
      if (reach === 'silent' || client.destroyed || owner.state === 'ended') return;
      if (reach === 'refused' || !server) {
        const refused = connectionError('ECONNREFUSED', `connect ECONNREFUSED 10.0.0.1:${port}`);
        this.scheduler.after(this.weather.delayMs(name), owner, () => client.destroy(refused));
        return;
      }
      this.#establish(name, port, client, owner, server);
    });
    return client;
  }

  #establish(
    name: string,
    port: number,
    client: Socket,
    owner: Owner,
    server: { readonly owner: Owner; readonly timers: Timers; readonly listener: Listener },
  ): void {
    const accepted = new Socket(server.timers);
    accepted.connecting = false;
    accepted.remotePort = 40_000 + ++this.#connections;
    const sides = [
      { socket: client, owner },
      { socket: accepted, owner: server.owner },
    ] as const;
    const link = new Link(this, name, port, sides);
    client.link = link;
    accepted.link = link;
    this.links.add(link);
    for (const { socket } of sides) socket.once('close', () => this.#forgetClosed(link));
    this.scheduler.after(0, server.owner, () => server.listener(accepted));
    this.scheduler.after(this.weather.delayMs(name), owner, () => {
      client.connecting = false;
      client.emit('connect');
    });
  }

  #forgetClosed(link: Link): void {
    if (link.sides.every(({ socket }) => socket.destroyed)) this.links.delete(link);
  }

  /** The machine of a process that ended closes its connections. */
  closeAll(owner: Owner): void {
    for (const link of this.links) {
      const own = link.sides.find((side) => side.owner === owner);
      if (own) link.send(own.socket, undefined);
    }
  }

  /** Connections of a process on which bytes are under way. */
  underWay(owner: Owner): string[] {
    return [...this.links]
      .filter((link) => link.pending > 0 && link.sides[0].owner === owner)
      .map(({ port }) => `a call to port ${port}`);
  }
}
