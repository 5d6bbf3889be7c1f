/**
 * The highest rate of Poisson arrivals at which 99 % of the requests are answered within 50 ms of the moment they were due.
 * Just above its limit a server's queue grows slowly, so a try lasts more than a second, and its last third must be within
 * the limit by itself.
 */
import { present } from '../../lib/contract/present.ts';
import type { Bench, Scenario } from '../bench.ts';
import type { OpenReport } from '../load/open.ts';
import { RateSearch } from '../load/search.ts';
import { pairwise, quantile, spreadOf } from '../measure.ts';
import type { Line } from '../report.ts';
import {
  HTTP_PEERS,
  type HttpClient,
  type HttpPeerName,
  type HttpWay,
  openGateway,
  openPeer,
  prepare,
  requestsOf,
  startClient,
} from '../ways.ts';

const NAME = 'MLP, 64 floats as JSON';
const LOAD = { seconds: 1.2, connections: 64, limitMs: 50, lateShare: 0.01 };
/** From this lateness of the generator itself a rate is doubtful. */
const OWN_DELAY_MS = LOAD.limitMs / 10;
/** A search begins at this share of what 32 callers got in a closed loop. */
const FIRST_GUESS = 0.85;
const SEARCH = { precision: 1.04, maxTries: 10 };
/** A machine that did something else for 50 ms makes any rate fail, so a rate that failed is tried again, once. */
const CHANCES = 2;
const BUSY = 'in one repeat no rate at all was sustained: the machine was too busy';
const PEERS: readonly HttpPeerName[] = ['fastify', 'fastapi'];

export const server: Scenario = {
  name: 'server',
  about: 'highest rate of Poisson arrivals with p99 <= 50 ms, through the local gateway and through peers',
  async run(bench) {
    const requests = await requestsOf(bench, 'mlp', 16);
    const client = await startClient();
    const skipped: Line[] = [];
    const ways: HttpWay[] = [];
    try {
      ways.push(await openGateway(bench, requests));
      for (const name of PEERS) {
        const peer = await openPeer(bench, name, requests);
        const line = { scenario: 'server', name: `${NAME}, gateway against ${HTTP_PEERS[name]}` };
        if ('skipped' in peer) skipped.push({ ...line, ...peer });
        else ways.push(peer);
      }
      for (const way of ways) await prepare(bench, client, way, requests);
      return [...(await measure(bench, client, ways)), ...skipped];
    } finally {
      for (const way of ways) await way.close();
      await client.close();
    }
  },
};

/** The results for one way; NaN in a repeat without a sustained rate. */
interface Found {
  readonly way: HttpWay;
  readonly rates: number[];
  /** The most that the generator was late. */
  readonly ownDelays: number[];
  isBracketed: boolean;
}

async function measure(bench: Bench, client: HttpClient, ways: readonly HttpWay[]): Promise<Line[]> {
  const found = ways.map((way): Found => ({ way, rates: [], ownDelays: [], isBracketed: true }));
  for (let repeat = 0; repeat < bench.repeats; repeat++) {
    const searches: { readonly each: Found; readonly search: RateSearch }[] = [];
    for (const each of found)
      searches.push({ each, search: new RateSearch({ guess: await guessOf(client, each), ...SEARCH }) });
    // One try of each way after the other, so that they share the same seconds.
    for (let step = 0; searches.some(({ search }) => !search.isOver); step++) {
      const turn = searches.filter(({ search }) => !search.isOver);
      for (const { each, search } of step % 2 === 0 ? turn : turn.toReversed())
        search.report(
          await isSustained(client, each, present(search.next, 'next rate'), 1_000 + repeat * 100 + step),
        );
    }
    for (const { each, search } of searches) {
      each.rates.push(search.best ?? Number.NaN);
      each.isBracketed &&= search.isBracketed;
    }
  }
  return linesOf(found);
}

/** From a closed loop the first time, then from the repeat before. */
async function guessOf(client: HttpClient, { way, rates }: Found): Promise<number> {
  const last = rates.at(-1);
  if (last) return last;
  const load = { connections: 32, warmUpMs: 200, measureMs: 400 };
  const report = await client.call('closed', { id: way.id, port: way.port, ...load });
  return (FIRST_GUESS * report.requests) / report.seconds;
}

async function isSustained(
  client: HttpClient,
  { way, rates, ownDelays }: Found,
  ratePerSecond: number,
  seed: number,
): Promise<boolean> {
  for (let chance = 0; chance < CHANCES; chance++) {
    const load = { ...LOAD, ratePerSecond, seed: seed + chance * 10_000 };
    const report = await client.call('open', { id: way.id, port: way.port, ...load });
    ownDelays[rates.length] = Math.max(ownDelays[rates.length] ?? 0, report.ownDelayMs);
    if (isInTime(report)) return true;
  }
  return false;
}

function isInTime({ stoppedEarly, latencies, lastThird }: OpenReport): boolean {
  const inTime = (times: Float64Array) => quantile(times, 1 - LOAD.lateShare) <= LOAD.limitMs;
  return !stoppedEarly && inTime(latencies) && inTime(lastThird);
}

function linesOf(found: readonly Found[]): Line[] {
  const [ours] = found as [Found];
  const hasFailed = ({ rates }: Found) => rates.some(Number.isNaN);
  const rates = found.map((each): Line => {
    const line = { scenario: 'server', name: `${NAME}, ${each.way.id}` };
    if (hasFailed(each)) return { ...line, skipped: BUSY };
    const value = spreadOf(each.rates);
    const notes = notesOf(each);
    return { ...line, metric: 'highest rate with p99 <= 50 ms', unit: 'requests/s', value, ...notes };
  });
  const times = found.slice(1).map((each): Line => {
    const line = { scenario: 'server', name: `${NAME}, gateway against ${each.way.id}` };
    if (hasFailed(ours) || hasFailed(each)) return { ...line, skipped: BUSY };
    return {
      ...line,
      metric: `times ${each.way.id}`,
      unit: 'x',
      raw: spreadOf(each.rates).median,
      ours: spreadOf(ours.rates).median,
      baseUnit: 'requests/s',
      value: pairwise(ours.rates, each.rates, (a, b) => a / b),
    };
  });
  return [...rates, ...times];
}

function notesOf({ ownDelays, isBracketed }: Found): { readonly note?: string } {
  const ownDelayMs = spreadOf(ownDelays).median;
  const notes = [
    ...(isBracketed ? [] : ['in one repeat the tries ended before the limit was found']),
    ...(ownDelayMs > OWN_DELAY_MS
      ? [`doubtful: the generator itself was ${ownDelayMs.toFixed(0)} ms late`]
      : []),
  ];
  return notes.length > 0 ? { note: notes.join('; ') } : {};
}
