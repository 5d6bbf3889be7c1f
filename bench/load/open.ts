/**
 * Drives an open loop: the latency of a request counts from the moment it was due, including its wait for a connection,
 * regardless of the requests before it. A client that waits for slow answers before it sends the next request would
 * measure only the fast ones (coordinated omission). The generator's own lateness is reported too.
 */
import { elementAt } from '../../lib/contract/present.ts';
import { quantile } from '../measure.ts';
import { assertExpected, Connection, type Exchange } from './connection.ts';
import { type Arrivals, poissonArrivals } from './poisson.ts';

export interface OpenLoad extends Arrivals {
  readonly port: number;
  readonly connections: number;
  /** Stops early when more than `lateShare` of all requests took longer than this: the rate is not sustained. */
  readonly limitMs: number;
  readonly lateShare: number;
}

export interface OpenReport {
  readonly planned: number;
  /** Ascending, ms; of all planned requests unless it stopped early. */
  readonly latencies: Float64Array;
  /** The same of the last third of the arrivals: where a queue that grows is longest. */
  readonly lastThird: Float64Array;
  readonly stoppedEarly: boolean;
  /** p99 of how long after its time the generator got to a request, ms. */
  readonly ownDelayMs: number;
}

/** Nearer than that, the loop turns instead of sleeping: timers are no finer than 1 ms. */
const SLEEP_FROM_MS = 2;

export async function driveOpen(exchanges: readonly Exchange[], load: OpenLoad): Promise<OpenReport> {
  const pool = Array.from({ length: load.connections }, () => new Connection(load.port));
  try {
    for (const [i, connection] of pool.entries()) {
      const exchange = elementAt(exchanges, i % exchanges.length, 'exchanges');
      assertExpected(await connection.ask(exchange.request), exchange);
    }
    return await new OpenRun(exchanges, load, pool).run();
  } finally {
    for (const connection of pool) connection.close();
  }
}

function answered(latencies: Float64Array): Float64Array {
  return latencies.filter((ms) => !Number.isNaN(ms)).sort();
}

class OpenRun {
  readonly #exchanges: readonly Exchange[];
  readonly #load: OpenLoad;
  readonly #due: Float64Array;
  readonly #free: Connection[];
  /** By request; NaN while there is no answer. */
  readonly #latencies: Float64Array;
  readonly #ownDelays: number[] = [];
  #startMs = 0;
  /** The next to become due, and the next to be sent. */
  #arrived = 0;
  #sent = 0;
  #answered = 0;
  #late = 0;
  #error: Error | undefined;

  constructor(exchanges: readonly Exchange[], load: OpenLoad, pool: readonly Connection[]) {
    this.#exchanges = exchanges;
    this.#load = load;
    this.#due = poissonArrivals(load);
    this.#latencies = new Float64Array(this.#due.length).fill(Number.NaN);
    this.#free = [...pool];
  }

  async run(): Promise<OpenReport> {
    const planned = this.#due.length;
    // Not before: drawing the arrivals takes some ms.
    this.#startMs = performance.now();
    let stoppedEarly = false;
    while (this.#answered < planned && !stoppedEarly) {
      this.#arrive();
      if (this.#error) throw this.#error;
      stoppedEarly = this.#late > this.#load.lateShare * planned || this.#backlogIsLate();
      await this.#pause();
    }
    // Pending requests end before the next measurement begins.
    while (this.#answered < this.#sent) {
      if (this.#error) throw this.#error;
      await new Promise((resolve) => setTimeout(resolve, 1));
    }
    return {
      planned,
      latencies: answered(this.#latencies),
      lastThird: answered(this.#latencies.subarray(Math.floor((2 * planned) / 3))),
      stoppedEarly,
      ownDelayMs: this.#ownDelays.length > 0 ? quantile(Float64Array.from(this.#ownDelays).sort(), 0.99) : 0,
    };
  }

  #elapsed(): number {
    return performance.now() - this.#startMs;
  }

  /** Takes what has become due; sends it where a connection is free. */
  #arrive(): void {
    const now = this.#elapsed();
    while (this.#arrived < this.#due.length && elementAt(this.#due, this.#arrived, 'due') <= now) {
      this.#ownDelays.push(now - elementAt(this.#due, this.#arrived++, 'due'));
    }
    while (this.#sent < this.#arrived) {
      const connection = this.#free.shift();
      if (!connection) return;
      this.#send(connection);
    }
  }

  #send(connection: Connection): void {
    const index = this.#sent++;
    const exchange = elementAt(this.#exchanges, index % this.#exchanges.length, 'exchanges');
    const onBody = (body: Buffer) => {
      const tookMs = this.#elapsed() - elementAt(this.#due, index, 'due');
      this.#latencies[index] = tookMs;
      this.#answered++;
      if (tookMs > this.#load.limitMs) this.#late++;
      try {
        assertExpected(body, exchange);
      } catch (error) {
        this.#error ??= error as Error;
      }
      if (this.#sent < this.#arrived) this.#send(connection);
      else this.#free.push(connection);
    };
    connection.send(exchange.request, onBody, (error) => {
      this.#error ??= error;
    });
  }

  /** Requests that have waited too long without being sent are late already. */
  #backlogIsLate(): boolean {
    const allowed = this.#load.lateShare * this.#due.length;
    const at = this.#sent + Math.ceil(allowed);
    return at < this.#arrived && this.#elapsed() - elementAt(this.#due, at, 'due') > this.#load.limitMs;
  }

  #pause(): Promise<void> {
    const next = this.#due[this.#arrived];
    const waitMs = next === undefined ? SLEEP_FROM_MS : next - this.#elapsed();
    return new Promise((resolve) => {
      if (waitMs >= SLEEP_FROM_MS) setTimeout(resolve, waitMs - 1);
      else setImmediate(resolve);
    });
  }
}
