/**
 * Server: callers that know nothing of each other. In: Poisson arrivals at a rate. Out: the highest rate at which 99 of
 * 100 requests are answered within 50 ms of the moment they were due, through the local gateway and through peers.
 * Trap: just above its limit a server's queue grows slowly, and a short try would let it pass; so a try lasts more than
 * a second, and its last third must be within the limit by itself.
 */
import type { Scenario } from '../bench.ts';
import type { OpenReport } from '../load/open.ts';
import { RateSearch } from '../load/search.ts';
import { pairwise, quantile, REPEATS, spreadOf } from '../measure.ts';
import { type BenchModel, randomRows } from '../models.ts';
import { answersFor } from '../raw.ts';
import type { Line, Skipped } from '../report.ts';
import {
  bodyOf,
  HTTP_PEERS,
  HttpClient,
  type HttpPeerName,
  type HttpWay,
  type OursWay,
  openOurs,
  openPeer,
  type Requests,
} from '../ways.ts';

const NAME = 'MLP, 64 floats as JSON';
const LIMIT_MS = 50;
const LATE_SHARE = 0.01;
const SECONDS = 1.2;
const CONNECTIONS = 64;
const INPUTS = 16;
const RAW_MS = 120;
const SEED = 1_000;
/** The generator's own lateness from which a rate is doubtful, a tenth of the limit. */
const OWN_DELAY_MS = LIMIT_MS / 10;
/** Where a search begins: the share of what 32 callers got in a closed loop. */
const FIRST_GUESS = 0.85;
const PRECISION = 1.04;
const MAX_TRIES = 10;
/** A machine that did something else for 50 ms makes any rate fail: one that failed is tried again, once. */
const CHANCES = 2;
const BUSY = 'in one repeat no rate at all was sustained: the machine was too busy';
const PEERS: readonly HttpPeerName[] = ['fastify', 'fastapi'];

export const server: Scenario = {
  name: 'server',
  about: 'highest rate of Poisson arrivals with p99 <= 50 ms, through the local gateway and through peers',
  async run(bench) {
    const model = await bench.model('mlp');
    const requests = await requestsOf(model);
    const client = await HttpClient.start();
    const ways: HttpWay[] = [];
    const skipped: Skipped[] = [];
    try {
      const gateway = await openOurs(bench, 'gateway', model);
      ways.push(gateway);
      for (const name of PEERS) {
        const peer = await openPeer(bench, name, model);
        if ('skipped' in peer) skipped.push({ scenario: 'server', name: skippedName(name), ...peer });
        else ways.push(peer);
      }
      for (const way of ways) {
        await client.learn(way, requests);
        await client.warmUp(way, model);
      }
      return [...(await measure(client, gateway, ways, requests)), ...skipped];
    } finally {
      for (const way of ways) await way.close();
      await client.close();
    }
  },
};

function skippedName(name: HttpPeerName): string {
  return `${NAME}, gateway against ${HTTP_PEERS[name]}`;
}

async function requestsOf(model: BenchModel): Promise<Requests> {
  const rows = randomRows(61, model.rowShape, INPUTS);
  const answers = await answersFor(model, rows);
  return {
    rows: rows.map((row) => [row]),
    bodies: rows.map((row) => bodyOf(model, [row])),
    answers: answers.map((answer) => [answer]),
  };
}

/** What is known of one way. */
interface Found {
  readonly way: HttpWay;
  /** One for each repeat. */
  readonly rates: number[];
  /** p99 at that rate. */
  readonly p99s: number[];
  readonly ownDelays: number[];
  open: boolean;
  /** In one repeat no rate was sustained at all. */
  failed: boolean;
}

async function measure(
  client: HttpClient,
  gateway: OursWay,
  ways: readonly HttpWay[],
  requests: Requests,
): Promise<Line[]> {
  const found = ways.map(
    (way): Found => ({ way, rates: [], p99s: [], ownDelays: [], open: false, failed: false }),
  );
  const raws: number[] = [];
  for (let repeat = 0; repeat < REPEATS; repeat++) {
    raws.push(await gateway.rawRate(requests.rows, RAW_MS));
    const searches = new Map<Found, Search>();
    for (const each of found) searches.set(each, new Search(await guessOf(client, each)));
    // One try of each way after the other, so that they share the same seconds.
    for (let step = 0; [...searches.values()].some(({ isOver }) => !isOver); step++) {
      const turn = [...searches];
      for (const [{ way }, search] of step % 2 === 0 ? turn : turn.toReversed()) {
        if (!search.isOver) await search.step(client, way, SEED + repeat * 100 + step);
      }
    }
    for (const [each, search] of searches) {
      const result = search.result();
      each.failed ||= !result;
      if (!result) continue;
      each.rates.push(result.rate);
      each.p99s.push(result.p99Ms);
      each.ownDelays.push(result.ownDelayMs);
      each.open ||= !search.isBracketed;
    }
  }
  return linesOf(found, raws);
}

/** The first time from a closed loop, then from the repeat before. */
async function guessOf(client: HttpClient, { way, rates }: Found): Promise<number> {
  const last = rates.at(-1);
  if (last !== undefined) return last;
  const report = await client.ask('closed', way, { connections: 32, warmUpMs: 200, measureMs: 400 });
  return (FIRST_GUESS * report.requests) / report.seconds;
}

/** The highest rate of one way in one repeat. */
class Search {
  readonly #search: RateSearch;
  #p99Ms = Number.NaN;
  #ownDelayMs = 0;

  constructor(guess: number) {
    this.#search = new RateSearch({ guess, precision: PRECISION, maxTries: MAX_TRIES });
  }

  get isOver(): boolean {
    return this.#search.isOver;
  }

  get isBracketed(): boolean {
    return this.#search.isBracketed;
  }

  async step(client: HttpClient, way: HttpWay, seed: number): Promise<void> {
    const ratePerSecond = this.#search.next as number;
    for (let chance = 0; chance < CHANCES; chance++) {
      const report = await client.ask('open', way, {
        ratePerSecond,
        seconds: SECONDS,
        seed: seed + chance * 10_000,
        connections: CONNECTIONS,
        limitMs: LIMIT_MS,
        lateShare: LATE_SHARE,
      });
      this.#ownDelayMs = Math.max(this.#ownDelayMs, report.ownDelayMs);
      if (!isSustained(report)) continue;
      if (ratePerSecond >= (this.#search.best ?? 0)) {
        this.#p99Ms = quantile(report.latencies, 1 - LATE_SHARE);
      }
      this.#search.tell(true);
      return;
    }
    this.#search.tell(false);
  }

  /** Undefined when no rate was sustained. */
  result(): { rate: number; p99Ms: number; ownDelayMs: number } | undefined {
    const rate = this.#search.best;
    return rate === undefined ? undefined : { rate, p99Ms: this.#p99Ms, ownDelayMs: this.#ownDelayMs };
  }
}

function isSustained({ stoppedEarly, latencies, lastThird }: OpenReport): boolean {
  if (stoppedEarly) return false;
  return [latencies, lastThird].every((times) => quantile(times, 1 - LATE_SHARE) <= LIMIT_MS);
}

function linesOf(found: readonly Found[], raws: readonly number[]): Line[] {
  const [ours] = found as [Found];
  const rates = found.map((each): Line => {
    const name = `${NAME}, ${each.way.id}`;
    const base = { scenario: 'server', name };
    if (each.failed) return { ...base, skipped: BUSY };
    const notes = notesOf(each);
    return {
      ...base,
      metric: 'highest rate with p99 <= 50 ms',
      unit: 'requests/s',
      raw: spreadOf(raws).median,
      ours: spreadOf(each.rates).median,
      baseUnit: 'requests/s',
      value: spreadOf(each.rates),
      ...(notes.length > 0 ? { note: notes.join('; ') } : {}),
    };
  });
  const times = found.slice(1).map((each): Line => {
    const base = { scenario: 'server', name: `${NAME}, gateway against ${each.way.id}` };
    if (ours.failed || each.failed) return { ...base, skipped: BUSY };
    return {
      ...base,
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

function notesOf({ p99s, ownDelays, open }: Found): string[] {
  const ownDelayMs = spreadOf(ownDelays).median;
  return [
    `p99 there ${spreadOf(p99s).median.toFixed(1)} ms`,
    ...(open ? ['in one repeat the tries ended before a rate failed or passed on both sides'] : []),
    ...(ownDelayMs > OWN_DELAY_MS
      ? [`doubtful: the generator itself was ${ownDelayMs.toFixed(0)} ms late`]
      : []),
  ];
}
