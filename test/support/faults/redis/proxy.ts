/**
 * A proxy in front of Redis that injects a fault into chosen commands. It parses commands rather than chunks of
 * bytes: a pipeline is one chunk, and a fault "in the middle" of it needs to know where a command ends.
 */
import net from 'node:net';
import type { Hooks } from '../../runner.ts';

export interface SeenCommand {
  /** In upper case. */
  readonly name: string;
  /** Counted from 0 over all connections of this proxy. */
  readonly index: number;
  /** The raw command with its arguments. */
  readonly bytes: Buffer;
}

export type CommandFate =
  | { readonly kind: 'pass' }
  /** The server never sees it; this is answered in its place. */
  | { readonly kind: 'reply'; readonly text: string }
  /** Its first bytes reach the server, then both sides are reset. */
  | { readonly kind: 'cut'; readonly bytes: number; readonly after?: () => void }
  /** The server runs it; of the answer so many bytes come back, then both sides are reset. */
  | { readonly kind: 'cutReply'; readonly bytes: number; readonly after?: () => void }
  /** The server runs it, the answer never comes back, the connection stays. */
  | { readonly kind: 'mute'; readonly after?: () => void }
  /** Nothing reaches the server from here on, the connection stays. */
  | { readonly kind: 'hold'; readonly after?: () => void };

export const PASS = { kind: 'pass' } as const;

/** What ioredis says before anything of ours. */
export const OPENING: ReadonlySet<string> = new Set(['HELLO', 'INFO', 'CLIENT', 'AUTH', 'SELECT']);

export interface RedisProxy {
  readonly url: string;
  readonly port: number;
  /** Where new connections lead; changed, it is a name that got another address. */
  target: number;
  /** What goes to the server at most; unlimited by default. */
  bytesPerMs: number;
  /** Asked for every command; PASS by default. */
  onCommand: (command: SeenCommand) => CommandFate;
  /** Asked for every connection. `reset` ends it at once, `silent` takes it and never answers. */
  onConnect: () => 'pass' | 'reset' | 'silent';
  /** Names of the commands so far. */
  readonly seen: readonly string[];
  connections: number;
  /** Replies of the server so far, in pieces as they came. */
  readonly replies: number;
  /** Ends every connection there is. */
  resetAll(): void;
}

export async function startRedisProxy(t: Hooks, targetUrl: string): Promise<RedisProxy> {
  const sockets = new Set<net.Socket>();
  const seen: string[] = [];
  let replies = 0;
  const server = net.createServer((client) => {
    proxy.connections++;
    track(client);
    const word = proxy.onConnect();
    if (word === 'reset') return reset(client);
    if (word === 'silent') return void client.resume();
    const upstream = track(net.connect(proxy.target, '127.0.0.1'));
    upstream.on('data', () => replies++);
    const ask = (name: string, bytes: Buffer) => proxy.onCommand({ name, index: seen.push(name) - 1, bytes });
    join(client, upstream, ask, proxy.bytesPerMs);
  });
  const track = (socket: net.Socket): net.Socket => {
    sockets.add(socket);
    socket.setNoDelay(true);
    socket.on('error', () => undefined);
    socket.on('close', () => sockets.delete(socket));
    return socket;
  };
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as net.AddressInfo;
  const proxy: RedisProxy = {
    url: `redis://127.0.0.1:${port}`,
    port,
    target: Number(new URL(targetUrl).port),
    bytesPerMs: Number.POSITIVE_INFINITY,
    onCommand: () => PASS,
    onConnect: () => 'pass',
    seen,
    connections: 0,
    get replies() {
      return replies;
    },
    resetAll: () => {
      for (const socket of sockets) reset(socket);
    },
  };
  t.after(async () => {
    for (const socket of sockets) socket.destroy();
    await new Promise((resolve) => server.close(resolve));
  });
  return proxy;
}

/** One connection: parses the client's commands, asks for the fault of each, and applies it. */
function join(
  client: net.Socket,
  upstream: net.Socket,
  ask: (name: string, bytes: Buffer) => CommandFate,
  bytesPerMs: number,
): void {
  const reader = commandReader();
  let held = false;
  /** What becomes of the server's next bytes. */
  let onReply: ((bytes: Buffer) => void) | undefined;
  const resetBoth = () => {
    reset(client);
    reset(upstream);
  };
  const act = (bytes: Buffer, fate: CommandFate): void => {
    switch (fate.kind) {
      case 'pass':
        upstream.write(bytes);
        return;
      case 'reply':
        client.write(fate.text);
        return;
      case 'cut':
        held = true;
        upstream.end(bytes.subarray(0, fate.bytes), () => {
          fate.after?.();
          reset(client);
        });
        return;
      case 'cutReply':
        upstream.write(bytes);
        onReply = (reply) => {
          client.end(reply.subarray(0, fate.bytes), () => {
            fate.after?.();
            resetBoth();
          });
          onReply = () => undefined;
        };
        return;
      case 'mute':
        upstream.write(bytes);
        onReply = () => {
          onReply = () => undefined;
          fate.after?.();
        };
        return;
      case 'hold':
        held = true;
        fate.after?.();
    }
  };
  client.on('data', (chunk: Buffer) => {
    slowDown(client, chunk.length / bytesPerMs);
    for (const command of reader(chunk)) if (!held) act(command.bytes, ask(command.name, command.bytes));
  });
  upstream.on('data', (chunk: Buffer) => {
    if (onReply) onReply(chunk);
    else client.write(chunk);
  });
  client.on('close', () => upstream.destroy());
  upstream.on('close', () => client.destroy());
}

/**
 * Ends a connection with RST. One that is already ending cannot be reset any more: Node would keep its handle and,
 * at its own end, wait for it forever with a busy thread.
 */
function reset(socket: net.Socket): void {
  if (socket.writableEnded || socket.readableEnded) socket.destroy();
  else socket.resetAndDestroy();
}

/** Takes nothing more from the socket for a while: the sender feels a slow line. */
function slowDown(socket: net.Socket, pauseMs: number): void {
  if (pauseMs === 0) return;
  socket.pause();
  setTimeout(() => socket.resume(), pauseMs);
}

interface Command {
  readonly name: string;
  readonly bytes: Buffer;
}

/** Cuts what comes into whole commands; chunks are joined when one is whole, for a result can be many megabytes. */
function commandReader(): (chunk: Buffer) => Command[] {
  let chunks: Buffer[] = [];
  let bytes = 0;
  let wanted = 0;
  return (chunk) => {
    chunks.push(chunk);
    bytes += chunk.length;
    if (bytes < wanted) return [];
    let rest = Buffer.concat(chunks);
    const commands: Command[] = [];
    let next = firstCommand(rest);
    while (next.name !== undefined) {
      commands.push({ name: next.name, bytes: rest.subarray(0, next.length) });
      rest = rest.subarray(next.length);
      next = firstCommand(rest);
    }
    chunks = [rest];
    bytes = rest.length;
    wanted = next.length;
    return commands;
  };
}

/** The first command, an array of bulk strings as every client sends it; without a name while bytes are missing. */
function firstCommand(bytes: Buffer): { readonly name?: string; readonly length: number } {
  const line = (at: number) => {
    const end = bytes.indexOf('\r\n', at);
    return { value: Number(bytes.toString('latin1', at + 1, end)), next: end === -1 ? -1 : end + 2 };
  };
  const head = line(0);
  if (head.next === -1) return { length: bytes.length + 1 };
  let at = head.next;
  let name = '';
  for (let i = 0; i < head.value; i++) {
    const size = line(at);
    if (size.next === -1) return { length: bytes.length + 1 };
    if (i === 0) name = bytes.toString('latin1', size.next, size.next + size.value).toUpperCase();
    at = size.next + size.value + 2;
    if (at > bytes.length) return { length: at };
  }
  return { name, length: at };
}
