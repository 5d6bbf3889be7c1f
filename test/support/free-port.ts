/**
 * A port for a program that must be told its port beforehand. It is below those that systems give to a program that asks for any,
 * so that no other test gets it between this look and the start of the program.
 */
import { once } from 'node:events';
import { createServer } from 'node:net';

const [LOWEST, COUNT] = [10_000, 20_000];

export async function freePort(): Promise<number> {
  for (;;) {
    const port = LOWEST + Math.floor(Math.random() * COUNT);
    const server = createServer();
    // An error, which rejects, is a port that is taken.
    const isFree = await once(server.listen(port, '127.0.0.1'), 'listening').then(
      () => true,
      () => false,
    );
    if (!isFree) continue;
    server.close();
    await once(server, 'close');
    return port;
  }
}
