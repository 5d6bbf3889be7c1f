/**
 * In: predict requests over sockets from a second process. Out: requests a second through the local gateway, beside a
 * bare node:http server with the shortest handler one could write, the peers, and the raw run, which is 100 %.
 * Trap: client and server share the machine; each has a core of its own, and the client tells when its own is full. It
 * sends prepared bytes and compares bytes, so that its core is not the busy one.
 */
import type { Bench, Scenario } from '../bench.ts';
import { pairwise, REPEATS, spreadOf } from '../measure.ts';
import { answersOf, openRaw } from '../raw.ts';
import type { Line, Row } from '../report.ts';
import {
  HTTP_PEERS,
  HttpClient,
  type HttpPeerName,
  type HttpWay,
  type OursWay,
  openOurs,
  openPeer,
  type Requests,
} from '../ways.ts';
import { type PredictCase, predictCases } from './single.ts';

const CONNECTIONS = [1, 8, 32];
const RAW_MS = 120;
/** From here on the client's core may be what is full. */
const CLIENT_FULL = 0.9;
const GATEWAY = 'gateway';

/** Beside the gateway in every turn. */
const MAIN_PEERS: readonly HttpPeerName[] = ['fastify', 'fastapi'];
/** Each alone beside the gateway: their processes are many and not idle when nobody asks. */
const OTHER_PEERS: readonly HttpPeerName[] = ['bentoml', 'litserve', 'mlserver', 'ray-serve'];
const OTHER_CONNECTIONS = [32];

interface Window {
  readonly warmUpMs: number;
  readonly measureMs: number;
}

const WINDOW: Window = { warmUpMs: 80, measureMs: 300 };
/** The other peers answer some hundred requests a second. */
const SLOW_WINDOW: Window = { warmUpMs: 200, measureMs: 600 };
/** Of a window in which nobody was answered: once more, this many times as long. */
const LONGER = 5;

export const http: Scenario = {
  name: 'http',
  about: 'requests a second through the local gateway and through peers, client in a second process',
  async run(bench) {
    const client = await HttpClient.start();
    try {
      const lines: Line[] = [];
      for (const each of await predictCases(bench)) lines.push(...(await measureCase(bench, each, client)));
      return lines;
    } finally {
      await client.close();
    }
  },
};

async function measureCase(bench: Bench, each: PredictCase, client: HttpClient): Promise<Line[]> {
  const requests = await requestsOf(each);
  const isJson = each.name.includes('as JSON');
  const gateway = await openOurs(bench, 'gateway', each.model);
  const ways: HttpWay[] = [gateway];
  const lines: Line[] = [];
  try {
    if (isJson) {
      // A handler of a few lines can take JSON tensors; with images it would be a second image library.
      ways.push(await openOurs(bench, 'bare', each.model));
      for (const name of MAIN_PEERS) {
        const peer = await openPeer(bench, name, each.model);
        if ('skipped' in peer) lines.push(skippedLine(each, name, peer.skipped));
        else ways.push(peer);
      }
    }
    for (const way of ways) await client.learn(way, requests);
    for (const way of ways) await client.warmUp(way, each.model);
    const rates = await measureWays(gateway, ways, requests, CONNECTIONS, client, WINDOW);
    lines.unshift(...rowsOf(each, ways, rates));
    for (const way of ways.splice(1)) await way.close();
    if (each.model.name === 'mlp') {
      for (const name of OTHER_PEERS)
        lines.push(...(await besideGateway(bench, each, name, gateway, client)));
    }
    return lines;
  } finally {
    for (const way of ways) await way.close();
  }
}

async function requestsOf(each: PredictCase): Promise<Requests> {
  const raw = await openRaw(each.model);
  try {
    const answers = await answersOf(raw, each.rows);
    const one = <T>(values: readonly T[]) => values.map((value) => [value]);
    return { rows: one(each.rows), bodies: each.bodies, answers: one(answers) };
  } finally {
    await raw.close();
  }
}

interface Driven {
  readonly rate: number;
  readonly clientCpu: number;
  /** Processor time of the server for a request, us. */
  readonly serverUs: number | undefined;
}

/** By way and connections, one for each repeat. */
class Rates {
  readonly #driven = new Map<string, Driven[]>();

  add(id: string, connections: number, driven: Driven): void {
    const key = `${id}/${connections}`;
    this.#driven.set(key, [...(this.#driven.get(key) ?? []), driven]);
  }

  #all(id: string, connections: number): readonly Driven[] {
    return this.#driven.get(`${id}/${connections}`) ?? [];
  }

  of(id: string, connections: number): readonly number[] {
    return this.#all(id, connections).map(({ rate }) => rate);
  }

  /** us a request, the median. */
  serverUs(id: string, connections: number): number | undefined {
    const told = this.#all(id, connections).flatMap(({ serverUs }) =>
      serverUs === undefined ? [] : [serverUs],
    );
    return told.length > 0 ? spreadOf(told).median : undefined;
  }

  /** Said of a number that the client may have limited. */
  doubt(id: string, connections: number): string | undefined {
    const cpu = spreadOf(this.#all(id, connections).map(({ clientCpu }) => clientCpu)).median;
    return cpu > CLIENT_FULL ? `the client's core was full: ${(100 * cpu).toFixed(0)} %` : undefined;
  }
}

async function measureWays(
  gateway: OursWay,
  ways: readonly HttpWay[],
  requests: Requests,
  levels: readonly number[],
  client: HttpClient,
  window: Window,
): Promise<Rates> {
  const rates = new Rates();
  for (let repeat = 0; repeat < REPEATS; repeat++) {
    for (const connections of levels) {
      const rate = await gateway.rawRate(requests.rows, RAW_MS);
      rates.add('raw', connections, { rate, clientCpu: 0, serverUs: undefined });
      for (const way of repeat % 2 === 0 ? ways : ways.toReversed()) {
        rates.add(way.id, connections, await drive(client, way, { connections, ...window }));
      }
    }
  }
  return rates;
}

async function drive(
  client: HttpClient,
  way: HttpWay,
  load: Window & { readonly connections: number },
): Promise<Driven> {
  const ask = async (measureMs: number) => {
    const before = way.processorMs();
    const report = await client.ask('closed', way, { ...load, measureMs });
    const after = way.processorMs();
    return { ...report, cpuMs: before !== undefined && after !== undefined ? after - before : undefined };
  };
  let report = await ask(load.measureMs);
  if (report.requests === 0) report = await ask(LONGER * load.measureMs);
  if (report.requests === 0) throw new Error(`${way.id}: no request was answered`);
  const { requests, seconds, answered, clientCpu, cpuMs } = report;
  const serverUs = cpuMs === undefined ? undefined : (cpuMs * 1000) / answered;
  return { rate: requests / seconds, clientCpu, serverUs };
}

function rowsOf(each: PredictCase, ways: readonly HttpWay[], rates: Rates): Row[] {
  const shares = ways.flatMap(({ id }) =>
    CONNECTIONS.map((connections): Row => {
      const raws = rates.of('raw', connections);
      const ours = rates.of(id, connections);
      const notes = [processorNote(rates.serverUs(id, connections)), rates.doubt(id, connections)];
      return {
        scenario: 'http',
        name: `${each.name}, ${id}, ${connectionsText(connections)}`,
        metric: 'share of raw',
        unit: '%',
        raw: spreadOf(raws).median,
        ours: spreadOf(ours).median,
        baseUnit: 'requests/s',
        value: pairwise(ours, raws, (a, b) => (100 * a) / b),
        ...noted(notes),
      };
    }),
  );
  const others = ways.filter(({ id }) => id !== GATEWAY);
  return [...shares, ...others.flatMap(({ id }) => timesRows(each, id, CONNECTIONS, rates))];
}

/** The gateway against another way, at each number of connections. */
function timesRows(each: PredictCase, id: string, levels: readonly number[], rates: Rates): Row[] {
  const isTarget = id === HTTP_PEERS.fastapi && each.model.name === 'mlp';
  return levels.map((connections) => {
    const ours = rates.of(GATEWAY, connections);
    const theirs = rates.of(id, connections);
    const [ourUs, theirUs] = [rates.serverUs(GATEWAY, connections), rates.serverUs(id, connections)];
    const byTime = ourUs && theirUs ? `by processor time ${(theirUs / ourUs).toFixed(2)} x` : undefined;
    const notes = [byTime, rates.doubt(GATEWAY, connections) ?? rates.doubt(id, connections)];
    return {
      scenario: 'http',
      name: `${each.name}, gateway against ${id}, ${connectionsText(connections)}`,
      metric: `times ${id}`,
      unit: 'x',
      raw: spreadOf(theirs).median,
      ours: spreadOf(ours).median,
      baseUnit: 'requests/s',
      value: pairwise(ours, theirs, (a, b) => a / b),
      ...(isTarget && connections === CONNECTIONS.at(-1) ? { target: { atLeast: 4 } } : {}),
      ...noted(notes),
    };
  });
}

function processorNote(us: number | undefined): string | undefined {
  return us === undefined ? undefined : `${us.toFixed(0)} us of processor time a request`;
}

function noted(notes: readonly (string | undefined)[]): { note?: string } {
  const told = notes.filter((note) => note !== undefined);
  return told.length > 0 ? { note: told.join('; ') } : {};
}

async function besideGateway(
  bench: Bench,
  each: PredictCase,
  name: HttpPeerName,
  gateway: OursWay,
  client: HttpClient,
): Promise<Line[]> {
  const peer = await openPeer(bench, name, each.model);
  if ('skipped' in peer) return [skippedLine(each, name, peer.skipped)];
  try {
    const requests = await requestsOf(each);
    await client.learn(peer, requests);
    await client.warmUp(peer, each.model);
    const rates = await measureWays(
      gateway,
      [gateway, peer],
      requests,
      OTHER_CONNECTIONS,
      client,
      SLOW_WINDOW,
    );
    return timesRows(each, peer.id, OTHER_CONNECTIONS, rates);
  } catch (error) {
    // Ours was measured before; what fails here is the peer, and it alone goes without a number.
    const text = error instanceof Error ? error.message : String(error);
    return [skippedLine(each, name, `it failed: ${text.split('\n')[0]}`)];
  } finally {
    await peer.close();
  }
}

function skippedLine(each: PredictCase, name: HttpPeerName, skipped: string): Line {
  return { scenario: 'http', name: `${each.name}, gateway against ${HTTP_PEERS[name]}`, skipped };
}

function connectionsText(connections: number): string {
  return `${connections} connection${connections > 1 ? 's' : ''}`;
}
