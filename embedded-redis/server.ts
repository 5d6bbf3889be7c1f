/**
 * Serves connections on the loopback interface, without a password: for local use only. The replies to one received
 * chunk leave in one write, after all its commands are run and logged.
 */
import fs from 'node:fs';
import net from 'node:net';
import { ServingError } from '../lib/contract/errors.ts';
import type { Session } from './command.ts';
import { CommandReader, ProtocolError } from './command-reader.ts';
import { SERVER_VERSION } from './commands/server.ts';
import { type EngineOptions, newSession, RedisEngine } from './engine.ts';
import { type Bytes, encodeReply, type Reply } from './replies.ts';

interface EmbeddedOptions extends EngineOptions {
  /** A loopback address. */
  readonly host: string;
  /** 0 takes any free port. */
  readonly port: number;
}

export interface EmbeddedRedis {
  readonly port: number;
  readonly version: string;
  close(): Promise<void>;
}

const CONNECTIONS = 1_000;
/**
 * Limits for unread replies: beyond the first a client is not read from; beyond the second a subscriber is
 * disconnected.
 */
const UNREAD_BYTES = 16 * 1024 * 1024;
const UNREAD_PUSH_BYTES = 64 * 1024 * 1024;
/** Replies are written when they reach this size, even if more commands wait. */
const WRITE_BYTES = 256 * 1024;
/** First words of HTTP lines that are not commands of Redis. */
const HTTP_WORD = /^(?:post|put|patch|delete|head|options|connect|trace|[\w-]+:)$/;
const SCRIPT_COMMANDS = new Set(['eval', 'evalsha', 'script']);

class Connection {
  readonly session: Session;
  readonly #socket: net.Socket;
  readonly #engine: RedisEngine;
  readonly #reader = new CommandReader();
  #out: Bytes = '';
  #isRunning = false;
  /** True while waiting for Lua, or for the client to read. */
  #isHeld = false;

  constructor(id: number, socket: net.Socket, engine: RedisEngine) {
    this.#socket = socket;
    this.#engine = engine;
    this.session = newSession(id, `${socket.remoteAddress}:${socket.remotePort}`, (reply) =>
      this.#send(reply),
    );
    socket.on('data', (piece) => {
      this.#reader.push(piece);
      this.#work();
    });
    socket.on('drain', () => this.#release());
    // Ignored: 'close' follows a lost connection and cleans up.
    socket.on('error', () => {});
  }

  #work(): void {
    if (this.#isRunning) return;
    this.#isRunning = true;
    try {
      while (!this.#isHeld && !this.session.closing) {
        const args = this.#reader.next();
        if (args === undefined) break;
        this.#handle(args);
        if (this.#out.length > WRITE_BYTES) this.#write();
      }
    } catch (error) {
      if (!(error instanceof ProtocolError)) throw error;
      this.session.closing = true;
      this.#send({ error: error.message });
    } finally {
      this.#isRunning = false;
    }
    this.#write();
    if (this.session.closing) this.#socket.destroySoon();
  }

  #handle(args: Bytes[]): void {
    const name = args[0]?.toLowerCase() ?? '';
    if (isHttp(name, args)) {
      // A web page may send a form or a text to this port; nothing in its body may run.
      this.session.closing = true;
    } else if (SCRIPT_COMMANDS.has(name) && !this.#engine.scripts.isReady) {
      this.#hold();
      void this.#afterLua(args);
    } else this.#send(this.#engine.run(this.session, args));
  }

  async #afterLua(args: Bytes[]): Promise<void> {
    await this.#engine.scripts.prepare();
    if (this.#socket.destroyed) return;
    this.#send(this.#engine.run(this.session, args));
    this.#release();
  }

  #send(reply: Reply): void {
    this.#out += encodeReply(reply, this.session.protocol);
    if (!this.#isRunning) this.#write();
  }

  #write(): void {
    if (this.#out === '' || this.#socket.destroyed) return;
    this.#engine.flush();
    this.#socket.write(this.#out, 'latin1');
    this.#out = '';
    const unread = this.#socket.writableLength;
    const { channels, patterns } = this.session;
    if (channels.size + patterns.size > 0 && unread > UNREAD_PUSH_BYTES) this.#socket.destroy();
    else if (unread > UNREAD_BYTES) this.#hold();
  }

  #hold(): void {
    this.#isHeld = true;
    this.#socket.pause();
  }

  #release(): void {
    if (!this.#isHeld) return;
    this.#isHeld = false;
    this.#socket.resume();
    this.#work();
  }
}

/** True if a command is a line of an HTTP request: `GET / HTTP/1.1` or a header. */
function isHttp(name: string, args: readonly Bytes[]): boolean {
  return HTTP_WORD.test(name) || (name === 'get' && /^HTTP\/\d/.test(args[2] ?? ''));
}

/** Returns the address. @throws bad_config for one that other machines could reach */
export function loopbackHost(host: string): string {
  const address = host === 'localhost' ? '127.0.0.1' : host;
  if (address === '::1' || (net.isIPv4(address) && address.startsWith('127.'))) return address;
  throw new ServingError(
    'bad_config',
    `The local Redis has no password and is for this machine only: expected 127.0.0.1, ::1 or localhost, got ${host}`,
  );
}

/** @throws bad_config when the address is not loopback, the port is in use, or the folder is unusable */
export async function startEmbedded(options: EmbeddedOptions): Promise<EmbeddedRedis> {
  const host = loopbackHost(options.host);
  const sockets = new Set<net.Socket>();
  let engine: RedisEngine | undefined;
  let lastId = 0;
  const server = net.createServer({ noDelay: true }, (socket) => {
    if (engine === undefined) {
      socket.destroy();
      return;
    }
    lastId += 1;
    const { sessions, store } = engine;
    const { session } = new Connection(lastId, socket, engine);
    sessions.add(session);
    sockets.add(socket);
    socket.on('close', () => {
      sessions.delete(session);
      sockets.delete(socket);
      store.unwatch(session.watch);
    });
  });
  server.maxConnections = CONNECTIONS;
  const port = await listen(server, host, options.port);
  try {
    fs.mkdirSync(options.dataDir, { recursive: true });
    engine = new RedisEngine(options);
  } catch (error) {
    server.close();
    if (error instanceof ServingError) throw error;
    throw new ServingError('bad_config', `Redis cannot use ${options.dataDir}: ${String(error)}`, {
      cause: error,
    });
  }
  engine.port = port;
  const running = engine;
  let closed: Promise<void> | undefined;
  const close = async (): Promise<void> => {
    const ended = new Promise<void>((resolve) => {
      server.close(() => resolve());
    });
    for (const socket of sockets) socket.destroy();
    await ended;
    await running.close();
  };
  return {
    port,
    version: `embedded (speaks Redis ${SERVER_VERSION})`,
    close: () => {
      closed ??= close();
      return closed;
    },
  };
}

/** @returns the port. @throws bad_config */
export async function listen(server: net.Server, host: string, port: number): Promise<number> {
  await new Promise<void>((resolve, reject) => {
    server.once('error', (error: NodeJS.ErrnoException) => {
      const why =
        error.code === 'EADDRINUSE'
          ? 'the port is in use: stop what listens there or choose another'
          : error.message;
      reject(
        new ServingError('bad_config', `Redis cannot listen on ${host}:${port}: ${why}`, { cause: error }),
      );
    });
    server.listen(port, host, resolve);
  });
  const address = server.address();
  return typeof address === 'object' && address !== null ? address.port : port;
}
