/** A line with a limited rate in front of a server: all connections share it, and can be reset together. */
import net from 'node:net';
import type { TestContext } from 'node:test';

export interface Throttle {
  readonly url: string;
  /** What the server has sent to its clients. */
  readonly bytes: number;
  /** Of all connections together. */
  bytesPerMs: number;
  resetAll(): void;
}

/** The rest of a chunk waits for this. */
const TICK_MS = 10;

export async function startThrottle(
  t: TestContext,
  targetUrl: string,
  bytesPerMs: number,
): Promise<Throttle> {
  const target = new URL(targetUrl);
  const clients = new Set<net.Socket>();
  let passed = 0;
  let allowedAt = 0;
  const server = net.createServer((client) => {
    clients.add(client);
    const upstream = net.connect(Number(target.port), '127.0.0.1');
    for (const socket of [client, upstream]) socket.setNoDelay(true).on('error', () => undefined);
    client.on('close', () => upstream.destroy()).on('close', () => clients.delete(client));
    upstream.on('close', () => client.destroySoon());
    client.on('data', (chunk) => upstream.write(chunk));
    upstream.on('data', (chunk) => {
      passed += chunk.length;
      client.write(chunk);
      allowedAt = Math.max(allowedAt, performance.now()) + chunk.length / throttle.bytesPerMs;
      const waitMs = allowedAt - performance.now();
      if (waitMs < TICK_MS) return;
      upstream.pause();
      setTimeout(() => upstream.resume(), waitMs);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const throttle = {
    url: `http://127.0.0.1:${(server.address() as net.AddressInfo).port}`,
    get bytes() {
      return passed;
    },
    bytesPerMs,
    resetAll() {
      for (const client of clients) client.resetAndDestroy();
    },
  };
  t.after(async () => {
    for (const client of clients) client.destroy();
    await new Promise((resolve) => server.close(resolve));
  });
  return throttle;
}
