/**
 * Drives connections in a closed loop: each sends its next request when it has the answer to the last. That hides how long
 * requests would have queued, so it shows throughput; open.ts shows latency under a load.
 */
import { elementAt } from '../../lib/contract/present.ts';
import { assertExpected, Connection, type Exchange } from './connection.ts';

export interface ClosedLoad {
  readonly port: number;
  readonly connections: number;
  readonly warmUpMs: number;
  readonly measureMs: number;
}

export interface ClosedReport {
  /** Finished within the measured time, all of them right. */
  readonly requests: number;
  readonly seconds: number;
  /** All that were answered, also outside of the measured time. */
  readonly answered: number;
  /** Ascending, ms. */
  readonly latencies: Float64Array;
  /** Share of one core that this process used; near 1, the client and not the server may be the limit. */
  readonly clientCpu: number;
}

export async function driveClosed(
  exchanges: readonly Exchange[],
  { port, connections, warmUpMs, measureMs }: ClosedLoad,
): Promise<ClosedReport> {
  const begin = performance.now() + warmUpMs;
  const end = begin + measureMs;
  const cpuBegin = process.cpuUsage();
  const latencies: number[] = [];
  let next = 0;
  let answered = 0;
  const work = async (connection: Connection) => {
    for (let now = performance.now(); now < end; ) {
      const exchange = elementAt(exchanges, next++ % exchanges.length, 'exchanges');
      const body = await connection.ask(exchange.request);
      const after = performance.now();
      assertExpected(body, exchange);
      answered++;
      if (after >= begin && after < end) latencies.push(after - now);
      now = after;
    }
  };
  const open = Array.from({ length: connections }, () => new Connection(port));
  try {
    await Promise.all(open.map(work));
  } finally {
    for (const connection of open) connection.close();
  }
  const { user, system } = process.cpuUsage(cpuBegin);
  return {
    requests: latencies.length,
    seconds: measureMs / 1000,
    answered,
    latencies: Float64Array.from(latencies).sort(),
    clientCpu: (user + system) / 1000 / (performance.now() - begin + warmUpMs),
  };
}
