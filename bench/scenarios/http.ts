/**
 * Requests a second through the local gateway, beside peers and raw runs, which are 100 %. Client and server have a core of
 * their own; the client sends prepared bytes, compares bytes, and reports when its own core was full.
 */
import type { Bench, Scenario } from '../bench.ts';
import { pairwise, spreadOf } from '../measure.ts';
import type { Line, Row } from '../report.ts';
import {
  GATEWAY,
  HTTP_PEERS,
  type HttpClient,
  type HttpPeerName,
  type HttpWay,
  openGateway,
  openPeer,
  prepare,
  type Requests,
  requestsOf,
  startClient,
} from '../ways.ts';

/** From here on the client's core may be the limit. */
const CLIENT_FULL = 0.9;

/** Peers that take turns with the gateway. */
interface Group {
  readonly peers: readonly HttpPeerName[];
  readonly warmUpMs: number;
  readonly measureMs: number;
}

const MAIN: Group = { peers: ['fastify', 'fastapi', 'axum'], warmUpMs: 80, measureMs: 300 };
/** Each alone beside the gateway: they are several processes, which are not idle when nothing is asked. */
const OTHERS = (['bentoml', 'litserve', 'mlserver', 'ray-serve'] as const).map(
  (peer): Group => ({ peers: [peer], warmUpMs: 200, measureMs: 600 }),
);

const NAME = 'MLP, 64 floats as JSON';
const CONNECTIONS = 32;

export const http: Scenario = {
  name: 'http',
  about: 'requests a second through the local gateway and through peers, client in a second process',
  async run(bench) {
    const client = await startClient();
    const lines: Line[] = [];
    try {
      const requests = await requestsOf(bench, 'mlp', 16);
      const gateway = await openGateway(bench, requests);
      try {
        await prepare(bench, client, gateway, requests);
        for (const group of [MAIN, ...OTHERS])
          lines.push(...(await measureGroup({ bench, client, gateway, requests }, group)));
      } finally {
        await gateway.close();
      }
      return lines;
    } finally {
      await client.close();
    }
  },
};

interface Driven {
  /** Requests a second. */
  readonly rate: number;
  /** Processor time of the server for a request, us; NaN where the system does not count it. */
  readonly serverUs?: number;
  /** Share of the client's core. */
  readonly clientCpu?: number;
}

/** By scenario: the repeats, in order. */
type Results = ReadonlyMap<string, Driven[]>;

/** The ways to compare. */
interface Setup {
  readonly bench: Bench;
  readonly client: HttpClient;
  readonly gateway: Awaited<ReturnType<typeof openGateway>>;
  readonly requests: Requests;
}

async function measureGroup(setup: Setup, group: Group): Promise<Line[]> {
  const { bench, client, requests } = setup;
  const peers: HttpWay[] = [];
  const lines: Line[] = [];
  const skip = (id: HttpPeerName, skipped: string) =>
    lines.push({ scenario: 'http', name: `${NAME}, gateway against ${HTTP_PEERS[id]}`, skipped });
  try {
    for (const id of group.peers) {
      const peer = await openPeer(bench, id, requests);
      if ('skipped' in peer) skip(id, peer.skipped);
      else peers.push(peer);
    }
    if (group !== MAIN && peers.length === 0) return lines;
    for (const peer of peers) await prepare(bench, client, peer, requests);
    lines.push(...rowsOf(await measure(setup, group, peers), group === MAIN));
  } catch (error) {
    // The others were measured before: what fails is the peer, and it alone goes without a number.
    const [alone] = group === MAIN ? [] : group.peers;
    if (!alone) throw error;
    skip(alone, `it failed: ${String(error).split('\n')[0]}`);
  } finally {
    for (const peer of peers) await peer.close();
  }
  return lines;
}

async function measure(
  { bench, client, gateway }: Setup,
  group: Group,
  peers: readonly HttpWay[],
): Promise<Results> {
  const ways = [gateway, ...peers];
  const results: Results = new Map(['raw', ...ways.map(({ id }) => id)].map((id) => [id, []]));
  for (let repeat = 0; repeat < bench.repeats; repeat++) {
    results.get('raw')?.push({ rate: await gateway.rawRate() });
    for (const way of repeat % 2 === 0 ? ways : ways.toReversed())
      results.get(way.id)?.push(await drive(client, way, group));
  }
  return results;
}

async function drive(client: HttpClient, way: HttpWay, { warmUpMs, measureMs }: Group): Promise<Driven> {
  const before = way.processorMs();
  const load = { connections: CONNECTIONS, warmUpMs, measureMs };
  const report = await client.call('closed', { id: way.id, port: way.port, ...load });
  const cpuMs = (way.processorMs() ?? Number.NaN) - (before ?? Number.NaN);
  const { requests, seconds, answered, clientCpu } = report;
  if (requests === 0) throw new Error(`${way.id}: no request was answered in ${measureMs} ms`);
  return { rate: requests / seconds, serverUs: (cpuMs * 1000) / answered, clientCpu };
}

/** The gateway as a multiple of each peer; in the main group also everything as a share of raw. */
function rowsOf(results: Results, isMain: boolean): Row[] {
  const rowOf = (what: string, metric: string, unit: string, of: string, by: string): Row => {
    const [ours, theirs] = [results.get(of) ?? [], results.get(by) ?? []];
    const rates = (driven: readonly Driven[]) => driven.map(({ rate }) => rate);
    return {
      scenario: 'http',
      name: `${NAME}, ${what}, ${CONNECTIONS} connections`,
      metric,
      unit,
      raw: spreadOf(rates(theirs)).median,
      ours: spreadOf(rates(ours)).median,
      baseUnit: 'requests/s',
      value: pairwise(rates(ours), rates(theirs), (a, b) => ((unit === '%' ? 100 : 1) * a) / b),
      ...noteOf(ours, theirs),
    };
  };
  const [, ...ways] = results.keys();
  const peers = ways.filter((id) => id !== GATEWAY);
  return [
    ...(isMain ? ways : []).map((id) => rowOf(id, 'share of raw', '%', id, 'raw')),
    ...peers.map((id) => rowOf(`gateway against ${id}`, `times ${id}`, 'x', GATEWAY, id)),
  ];
}

/** Processor time a request, and whether the client may have been the limit. */
function noteOf(ours: readonly Driven[], theirs: readonly Driven[]): Pick<Row, 'note'> {
  const median = (driven: readonly Driven[], key: 'serverUs' | 'clientCpu') =>
    spreadOf(driven.map((each) => each[key] ?? Number.NaN)).median;
  const [us, theirUs] = [median(ours, 'serverUs'), median(theirs, 'serverUs')];
  const clientCpu = Math.max(...[...ours, ...theirs].map((each) => each.clientCpu ?? 0));
  const notes: string[] = [];
  if (us > 0 && theirUs > 0) notes.push(`by processor time ${(theirUs / us).toFixed(2)} x`);
  else if (us > 0) notes.push(`${us.toFixed(0)} us of processor time a request`);
  if (clientCpu > CLIENT_FULL) notes.push(`the client's core was full: ${(100 * clientCpu).toFixed(0)} %`);
  return notes.length > 0 ? { note: notes.join('; ') } : {};
}
