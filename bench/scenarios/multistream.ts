/**
 * MultiStream: 8 instances a request, one caller. In: predict requests. Out: what the handler adds to a raw run of a
 * batch of 8, and the latency over HTTP, through the local gateway and through peers.
 * Trap: `times` is theirs over ours, so that more is better for us, as in every other row.
 */
import type { APIGatewayProxyEventV2, APIGatewayProxyStructuredResultV2 } from 'aws-lambda';
import type { Bench, Scenario } from '../bench.ts';
import {
  type Contender,
  interleave,
  type Measured,
  pairwise,
  perRepeat,
  quantile,
  REPEATS,
  spreadOf,
} from '../measure.ts';
import { type BenchModel, type ModelName, randomRows } from '../models.ts';
import { answersFor, assertSame, openRaw, type RawModel } from '../raw.ts';
import type { Line, Row } from '../report.ts';
import { CONTEXT, predictEvent, predictionsOf, serve } from '../served.ts';
import {
  bodyOf,
  HTTP_PEERS,
  HttpClient,
  type HttpPeerName,
  type HttpWay,
  openOurs,
  openPeer,
  type Requests,
} from '../ways.ts';

const INSTANCES = 8;
/** Different requests that take turns. */
const REQUESTS = 4;
const REPEAT_MS = 300;
const WARM_UP_MS = 100;
const MEASURE_MS = 350;
const PEERS: readonly HttpPeerName[] = ['fastify', 'fastapi'];

interface MultiCase {
  readonly name: string;
  readonly model: ModelName;
}

const CASES: readonly MultiCase[] = [
  { name: 'MLP, 8 x 64 floats as JSON', model: 'mlp' },
  { name: 'convnet, 8 tensors as JSON', model: 'convnet' },
];

export const multistream: Scenario = {
  name: 'multistream',
  about: '8 instances a request: latency that the handler adds to raw, and over HTTP beside peers',
  async run(bench) {
    const client = await HttpClient.start();
    try {
      const lines: Line[] = [];
      for (const each of CASES.filter(({ name }) => bench.wants(name))) {
        const model = await bench.model(each.model);
        const requests = await requestsOf(model);
        lines.push(...(await addedRows(bench, each, model, requests)));
        lines.push(...(await httpRows(bench, each, model, requests, client)));
      }
      return lines;
    } finally {
      await client.close();
    }
  },
};

async function requestsOf(model: BenchModel): Promise<Requests> {
  const all = randomRows(71, model.rowShape, INSTANCES * REQUESTS);
  const groups = <T>(values: readonly T[]) =>
    Array.from({ length: REQUESTS }, (_, i) => values.slice(i * INSTANCES, (i + 1) * INSTANCES));
  const rows = groups(all);
  const answers = groups(await answersFor(model, all));
  return { rows, bodies: rows.map((batch) => bodyOf(model, batch)), answers };
}

function assertRows(values: readonly ArrayLike<number>[], expected: readonly Float32Array[], what: string) {
  if (values.length !== expected.length) throw new Error(`${what}: ${values.length} predictions`);
  for (const [row, answer] of expected.entries()) assertSame(values[row] ?? [], answer, what);
}

function rawOfEight(raw: RawModel, { rows, answers }: Requests): Contender<Float32Array> {
  const feeds = rows.map((batch) => raw.feed(batch));
  return {
    name: 'raw',
    call: (index) => raw.run(feeds[index % REQUESTS] as (typeof feeds)[number]),
    verify: (given) => {
      for (const [i, values] of given.entries()) {
        const width = values.length / INSTANCES;
        const split = Array.from({ length: INSTANCES }, (_, row) =>
          values.subarray(row * width, (row + 1) * width),
        );
        assertRows(split, answers[i % REQUESTS] as readonly Float32Array[], 'raw batch of 8');
      }
    },
  };
}

async function addedRows(
  bench: Bench,
  each: MultiCase,
  model: BenchModel,
  requests: Requests,
): Promise<Row[]> {
  const raw = await openRaw(model);
  const served = serve(model, (await bench.redis()).url, INSTANCES);
  const events = requests.bodies.map(predictEvent);
  const handler: Contender<APIGatewayProxyStructuredResultV2> = {
    name: 'handler',
    call: (index) => served.predict(events[index % REQUESTS] as APIGatewayProxyEventV2, CONTEXT),
    verify: (responses) => {
      for (const [i, { statusCode, body = '' }] of responses.entries()) {
        if (statusCode !== 200) throw new Error(`${each.name}: ${statusCode} ${body}`);
        assertRows(predictionsOf(body), requests.answers[i % REQUESTS] as readonly Float32Array[], each.name);
      }
    },
  };
  try {
    const contenders = [rawOfEight(raw, requests), handler] as Contender[];
    const [rawTimes, ours] = (await interleave(contenders, { repeatMs: REPEAT_MS })) as [Measured, Measured];
    return [0.5, 0.9].map((share): Row => {
      const at = (measured: Measured) => perRepeat(measured, (sorted) => quantile(sorted, share));
      return {
        scenario: 'multistream',
        name: `${each.name}, handler`,
        metric: `added p${share * 100}`,
        unit: 'ms',
        raw: spreadOf(at(rawTimes)).median,
        ours: spreadOf(at(ours)).median,
        baseUnit: 'ms',
        value: pairwise(at(ours), at(rawTimes), (a, b) => a - b),
      };
    });
  } finally {
    await raw.close();
    await served.close();
  }
}

async function httpRows(
  bench: Bench,
  each: MultiCase,
  model: BenchModel,
  requests: Requests,
  client: HttpClient,
): Promise<Line[]> {
  const ways: HttpWay[] = [await openOurs(bench, 'gateway', model, INSTANCES)];
  const lines: Line[] = [];
  try {
    for (const name of PEERS) {
      const peer = await openPeer(bench, name, model);
      if ('skipped' in peer) {
        const skipped = { name: `${each.name}, gateway against ${HTTP_PEERS[name]}`, ...peer };
        lines.push({ scenario: 'multistream', ...skipped });
      } else ways.push(peer);
    }
    for (const way of ways) {
      await client.learn(way, requests);
      await client.warmUp(way, model);
    }
    const latencies = ways.map((): Float64Array[] => []);
    for (let repeat = 0; repeat < REPEATS; repeat++) {
      const turn = [...ways.entries()];
      for (const [i, way] of repeat % 2 === 0 ? turn : turn.toReversed()) {
        const load = { connections: 1, warmUpMs: WARM_UP_MS, measureMs: MEASURE_MS };
        const report = await client.ask('closed', way, load);
        if (report.requests === 0) throw new Error(`${way.id}: no request was answered`);
        latencies[i]?.push(report.latencies);
      }
    }
    const [ours, ...others] = latencies as [Float64Array[], ...Float64Array[][]];
    const times = others.flatMap((theirs, i) => timesRows(each, ways[i + 1] as HttpWay, ours, theirs));
    return [...times, ...lines];
  } finally {
    for (const way of ways) await way.close();
  }
}

function timesRows(
  each: MultiCase,
  { id }: HttpWay,
  ours: readonly Float64Array[],
  theirs: readonly Float64Array[],
): Row[] {
  return [0.5, 0.9].map((share): Row => {
    const at = (repeats: readonly Float64Array[]) => repeats.map((sorted) => quantile(sorted, share));
    return {
      scenario: 'multistream',
      name: `${each.name}, gateway against ${id}, 1 connection`,
      metric: `p${share * 100}, theirs / ours`,
      unit: 'x',
      raw: spreadOf(at(theirs)).median,
      ours: spreadOf(at(ours)).median,
      baseUnit: 'ms',
      value: pairwise(at(theirs), at(ours), (a, b) => a / b),
    };
  });
}
