/**
 * From the spawn of a process, the client of Lambda's Runtime API and a function in it, to its first answer; beside it a
 * process that only opens the model file and runs it, and the functions that one would write instead. The first spawn of
 * each reads the disk and the others its cache, so it is not counted. S3 and SQS answer from this very process: on a busy
 * machine, waiting for it is part of the number.
 */

import { MB_PER_VCPU, memoryForPeak, msAt, predictCost } from '../../cli/tune/cost.ts';
import { present } from '../../lib/contract/present.ts';
import type { Scenario } from '../bench.ts';
import { type LambdaWay, lambdaWays, PEER_FUNCTIONS } from '../lambda-ways.ts';
import { pairwise, shuffled, spreadOf } from '../measure.ts';
import { randomNumbers } from '../models.ts';
import type { Cold } from '../processes/cold.ts';
import { type Line, type Row, short } from '../report.ts';
import { requestsOf } from '../ways.ts';

const SPAWNS = 11;
const LARGE_MODELS = ['mlp-100mb', 'mlp-400mb'] as const;
const LARGE_SPAWNS = 7;
/** The share of requests that find no environment: an example, as the prices are. */
const REQUESTS_A_START = 100;
/** GB-seconds of Lambda; what it takes for requests is the same for all. */
const SETTINGS = [
  { cost: 'cost with one vCPU', memoryOf: () => MB_PER_VCPU },
  { cost: 'cost with the least memory', memoryOf: memoryForPeak },
] as const;

export const cold: Scenario = {
  name: 'cold',
  about:
    'functions under the client of Lambda’s Runtime API, and those of peers: first answer, warm, memory, cost',
  async run(bench) {
    const asked = await requestsOf(bench, 'mlp-5mb', 1);
    const { ways, skipped } = await lambdaWays(bench, asked, 'cold');
    const wanted = ways.filter(({ name, isRaw }) => isRaw || bench.wants(name));
    const measured = await inTurns(wanted, bench.quick ? 2 : SPAWNS);
    return [...firstAnswers(measured, 'cold'), ...warmRows(measured), ...costLines(measured), ...skipped];
  },
};

/** Measures models of the size that people have, whose weights take most of the time. */
export const coldLarge: Scenario = {
  name: 'cold-large',
  about: 'the first answer of predict with models of 100 and 400 MB, and of peers',
  async run(bench) {
    const lines: Line[] = [];
    for (const name of LARGE_MODELS) {
      const asked = await requestsOf(bench, name, 1);
      const { ways, skipped } = await lambdaWays(bench, asked, 'cold-large', 0);
      const measured = await inTurns(ways, bench.quick ? 1 : LARGE_SPAWNS);
      lines.push(
        ...firstAnswers(measured, 'cold-large'),
        ...startRatios(measured, 'cold-large', `, ${asked.model.name}`),
        ...skipped,
      );
    }
    return lines;
  },
};

interface Measured {
  readonly way: LambdaWay;
  readonly colds: Partial<Cold>[];
}

/** In another order every time. */
async function inTurns(ways: readonly LambdaWay[], spawns: number): Promise<Measured[]> {
  const random = randomNumbers(11);
  const measured = ways.map((way): Measured => ({ way, colds: [] }));
  for (let turn = -1; turn < spawns; turn++) {
    for (const { way, colds } of shuffled(measured, random)) {
      const taken = await way.start();
      way.check(taken.answer);
      if (turn >= 0) colds.push(taken);
    }
  }
  return measured;
}

const numbersOf = ({ colds }: Measured, key: Exclude<keyof Cold, 'answer'>) =>
  colds.map((each) => each[key] ?? Number.NaN);
const medianOf = (of: Measured, key: Parameters<typeof numbersOf>[1]) => spreadOf(numbersOf(of, key)).median;

function rawOf(measured: readonly Measured[]): Measured {
  return present(
    measured.find(({ way }) => way.isRaw),
    'fitting element of measured',
  );
}

/** Predict, and the peers that were measured beside it; undefined without predict. */
function predictAndPeers(measured: readonly Measured[]) {
  const find = (id: string) => measured.find(({ way }) => way.name.startsWith(id));
  const ours = find('predict');
  return ours && { ours, peers: PEER_FUNCTIONS.flatMap(({ name }) => find(name) ?? []) };
}

function firstAnswers(measured: readonly Measured[], scenario: string): Row[] {
  const raw = rawOf(measured);
  return measured.map((of) => {
    const value = spreadOf(numbersOf(of, 'ms'));
    const base = { raw: medianOf(raw, 'ms'), ours: value.median, baseUnit: 'ms' };
    const note = `processor time ${medianOf(of, 'cpuMs').toFixed(0)} ms`;
    return {
      scenario,
      name: of.way.name,
      metric: 'spawn to first answer',
      unit: 'ms',
      ...base,
      value,
      note,
    };
  });
}

/** The memory of a process that has only answered once exists only for the one outside Lambda. */
function warmRows(measured: readonly Measured[]): Row[] {
  const raw = medianOf(rawOf(measured), 'peakMB');
  return measured
    .filter(({ way }) => way.calls > 0 || way.isRaw)
    .flatMap((of) => {
      const row = { scenario: 'cold', name: of.way.name };
      const value = spreadOf(numbersOf(of, 'peakMB'));
      const base = { raw, ours: value.median, baseUnit: 'MB' };
      const memory = { ...row, metric: 'memory', unit: 'MB', ...base, value };
      if (of.way.isRaw) return [memory];
      return [{ ...row, metric: 'warm p50', unit: 'ms', value: spreadOf(numbersOf(of, 'warmMs')) }, memory];
    });
}

/** The cost of each, and ours beside each peer's. */
function costLines(measured: readonly Measured[]): Line[] {
  const found = predictAndPeers(measured);
  if (!found) return [];
  const { ours, peers } = found;
  const costs = [ours, ...peers].flatMap((of) =>
    SETTINGS.map(({ cost, memoryOf }): Row => {
      const memoryMB = memoryOf(medianOf(of, 'peakMB'));
      const [init, first, warm] = (['initMs', 'firstMs', 'billedMs'] as const).map((key) =>
        medianOf(of, key),
      );
      const note = `${memoryMB} MB; with a vCPU INIT ${short(init ?? 0)} ms, first ${short(first ?? 0)}, others ${short(warm ?? 0)}`;
      const value = spreadOf(dollars(of, memoryOf));
      return {
        scenario: 'cold',
        name: of.way.name,
        metric: `a million, ${cost}`,
        unit: 'dollars',
        value,
        note,
      };
    }),
  );
  const ratios = peers.flatMap((peer) => {
    const row = (metric: string, unit: string, numbers: (of: Measured) => readonly number[]) =>
      ratioRow(
        { scenario: 'cold', name: `predict against ${peer.way.name}`, metric },
        [ours, peer],
        unit,
        numbers,
      );
    return [
      row('warm p50', 'ms', (of) => numbersOf(of, 'warmMs')),
      row('memory', 'MB', (of) => numbersOf(of, 'peakMB')),
      ...SETTINGS.map(({ cost, memoryOf }) => row(cost, 'dollars', (of) => dollars(of, memoryOf))),
    ];
  });
  return [...costs, ...startRatios(measured, 'cold'), ...ratios];
}

/** Our cold start as a multiple of each peer's. @param more about the model, behind the name */
function startRatios(measured: readonly Measured[], scenario: string, more = ''): Row[] {
  const found = predictAndPeers(measured);
  if (!found) return [];
  const { ours, peers } = found;
  return peers.map((peer) => {
    const about = { scenario, name: `predict against ${peer.way.name}${more}`, metric: 'cold start' };
    const row = ratioRow(about, [ours, peer], 'ms', (of) => numbersOf(of, 'ms'));
    return { ...row, note: byProcessor(ours, peer) };
  });
}

function ratioRow(
  about: Pick<Row, 'scenario' | 'name' | 'metric'>,
  [ours, peer]: readonly [Measured, Measured],
  baseUnit: string,
  numbers: (of: Measured) => readonly number[],
): Row {
  const [our, their] = [numbers(ours), numbers(peer)];
  const base = { raw: spreadOf(their).median, ours: spreadOf(our).median, baseUnit };
  return { ...about, unit: 'x', ...base, value: pairwise(our, their, (a, b) => a / b) };
}

/** Other processes hardly touch it. */
function byProcessor(ours: Measured, peer: Measured): string {
  return `by processor time ${(medianOf(ours, 'cpuMs') / medianOf(peer, 'cpuMs')).toFixed(2)} x`;
}

/** As `tune` calculates. INIT has whole vCPUs at any memory setting, and a run has the share that the memory buys. */
function dollars({ colds }: Measured, memoryOf: (peakMB: number) => number): number[] {
  return (colds as Cold[]).map(({ peakMB, initMs, firstMs, billedMs }) => {
    const memoryMB = memoryOf(peakMB);
    const starts = { share: 1 / REQUESTS_A_START, ms: initMs + msAt(firstMs, memoryMB) };
    return predictCost(msAt(billedMs, memoryMB), memoryMB, 0, 'x86_64', starts).time;
  });
}
