/**
 * A model in two processes against one, 16 callers, one thread a run; beside it one process whose runs have two threads. The
 * client takes processor time of the same cores: with two, the rate is that of the time it left.
 */
import type { Bench, Scenario } from '../bench.ts';
import { pairwise, spreadOf } from '../measure.ts';
import type { Row } from '../report.ts';
import { type HttpClient, openGateway, prepare, requestsOf, startClient } from '../ways.ts';

const CORES = 2;
const LOAD = { connections: 16, warmUpMs: 500, measureMs: 2_500 };
const INPUTS = 8;

const ONE = { id: 'one process', processes: 1, threads: 1 };
const OTHERS = [
  { id: 'two processes', processes: 2, threads: 1 },
  { id: 'one process, two threads', processes: 1, threads: 2 },
] as const;

export const processes: Scenario = {
  name: 'processes',
  about: 'requests a second of a model in two processes, against one, through the local gateway',
  async run(bench) {
    const requests = await requestsOf(bench, 'convnet-20ms', INPUTS);
    const client = await startClient();
    const gateways: Gateway[] = [];
    try {
      for (const { id, ...settings } of [ONE, ...OTHERS]) {
        const gateway = { ...(await openGateway(bench, requests, settings)), id };
        gateways.push(gateway);
        await prepare(bench, client, gateway, requests);
      }
      return rowsOf(await measure(bench, client, gateways));
    } finally {
      for (const gateway of gateways) await gateway.close();
      await client.close();
    }
  },
};

type Gateway = Awaited<ReturnType<typeof openGateway>>;

/** Requests a second of each repeat, as if the client had taken nothing of the cores. */
async function measure(bench: Bench, client: HttpClient, gateways: readonly Gateway[]) {
  const rates = new Map<string, number[]>(gateways.map(({ id }) => [id, []]));
  for (let repeat = 0; repeat < bench.repeats; repeat++) {
    for (const { id, port } of repeat % 2 === 0 ? gateways : gateways.toReversed()) {
      const { requests, seconds, clientCpu } = await client.call('closed', { id, port, ...LOAD });
      // One process with one thread leaves a core to the client.
      const share = id === ONE.id ? 1 : CORES / (CORES - clientCpu);
      rates.get(id)?.push((requests / seconds) * share);
    }
  }
  return rates;
}

function rowsOf(rates: ReadonlyMap<string, readonly number[]>): Row[] {
  const one = rates.get(ONE.id) ?? [];
  return OTHERS.map(({ id }) => {
    const ours = rates.get(id) ?? [];
    return {
      scenario: 'processes',
      name: `convnet of 20 ms, ${id} against one, ${LOAD.connections} connections`,
      metric: 'times one',
      unit: 'x',
      raw: spreadOf(one).median,
      ours: spreadOf(ours).median,
      baseUnit: 'requests/s',
      value: pairwise(ours, one, (a, b) => a / b),
    };
  });
}
