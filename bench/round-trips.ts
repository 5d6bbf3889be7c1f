/**
 * A proxy that counts round trips: how often the client spoke after the server had. A command of 100 kB passes in several
 * chunks and a pipeline holds several commands; neither is a round trip more.
 */
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';

interface CountingProxy {
  readonly port: number;
  /** Counts the round trips of all connections since the start. */
  roundTrips(): number;
  close(): Promise<void>;
}

export async function startCountingProxy(target: { host: string; port: number }): Promise<CountingProxy> {
  let roundTrips = 0;
  const sockets = new Set<Socket>();
  const server = createServer({ noDelay: true }, (client) => {
    const upstream = connect({ ...target, noDelay: true });
    let clientSpeaks = false;
    client.on('data', () => {
      if (!clientSpeaks) roundTrips++;
      clientSpeaks = true;
    });
    upstream.on('data', () => {
      clientSpeaks = false;
    });
    client.pipe(upstream).pipe(client);
    for (const socket of [client, upstream]) {
      sockets.add(socket);
      socket.on('error', () => socket.destroy());
      socket.on('close', () => sockets.delete(socket));
    }
  });
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen({ port: 0, host: '127.0.0.1' }, resolve);
  });
  return {
    port: (server.address() as AddressInfo).port,
    roundTrips: () => roundTrips,
    async close() {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
