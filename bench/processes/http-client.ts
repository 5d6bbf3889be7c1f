/**
 * Sends requests and measures, in a process that is not the server's. The first answer to each request goes to the parent,
 * which compares it with raw; from then on an answer is right when it has the same bytes.
 */
import { type ClosedLoad, driveClosed } from '../load/closed.ts';
import { Connection, type Exchange, type RequestSpec, requestBytes } from '../load/connection.ts';
import { driveOpen, type OpenLoad } from '../load/open.ts';
import { serveParent } from './child.ts';

const learned = new Map<string, Exchange[]>();

function exchangesOf(id: string): Exchange[] {
  const exchanges = learned.get(id);
  if (!exchanges) throw new Error(`nothing was learned of ${id}`);
  return exchanges;
}

const methods = {
  /** @returns the body of each answer */
  async learn({ id, port, requests }: { id: string; port: number; requests: readonly RequestSpec[] }) {
    const connection = new Connection(port);
    const exchanges: Exchange[] = [];
    for (const spec of requests) {
      const request = requestBytes(spec);
      exchanges.push({ request, expected: Buffer.from(await connection.ask(request)) });
    }
    connection.close();
    learned.set(id, exchanges);
    return exchanges.map(({ expected }): Uint8Array => expected);
  },
  closed: ({ id, ...load }: ClosedLoad & { readonly id: string }) => driveClosed(exchangesOf(id), load),
  open: ({ id, ...load }: OpenLoad & { readonly id: string }) => driveOpen(exchangesOf(id), load),
};

export type ClientProcess = typeof methods;

if (import.meta.main) serveParent(methods);
