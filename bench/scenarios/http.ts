/**
 * In: predict requests over sockets from a second process. Out: requests a second through the local gateway, beside
 * a bare node:http server with the shortest handler one could write, and the raw run, which is 100 %.
 * Trap: client and server share the machine's cores; a client that needs more than one core would measure itself. It
 * sends prepared bytes and compares bytes, so that its core is not the busy one.
 */
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { startGateway } from '../../local/gateway.ts';
import type { Bench, Scenario } from '../bench.ts';
import { pairwise, REPEATS, spreadOf } from '../measure.ts';
import { type Child, startChild } from '../processes/child.ts';
import type { HttpAnswer, HttpQuestion } from '../processes/http-client.ts';
import { answersOf, assertSame, openRaw, type RawModel } from '../raw.ts';
import type { Line, Row } from '../report.ts';
import { CONTEXT, predictEvent, predictionOf, serve } from '../served.ts';
import { type PredictCase, predictCases } from './single.ts';

const CONNECTIONS = [1, 8, 32];
const WARM_UP_MS = 100;
const MEASURE_MS = 350;
const RAW_MS = 150;
const BARE = 'bare node:http';

type Client = Child<HttpQuestion, HttpAnswer | undefined>;

export const http: Scenario = {
  name: 'http',
  about: 'requests a second through the local gateway, client in a second process',
  async run(bench) {
    const client = await startChild<HttpQuestion, HttpAnswer | undefined>('http-client');
    try {
      const lines: Line[] = [];
      for (const each of await predictCases(bench)) lines.push(...(await measureCase(bench, each, client)));
      lines.push({
        scenario: 'http',
        name: 'MLP as JSON against FastAPI (target >= 4 x)',
        skipped: 'that peer is not part of this bench yet',
      });
      return lines;
    } finally {
      await client.close();
    }
  },
};

/** One server under test. */
interface Way {
  readonly id: string;
  readonly port: number;
  /** Exact answers, each checked against raw. */
  readonly expected: readonly string[];
  close(): Promise<unknown>;
}

async function measureCase(bench: Bench, each: PredictCase, client: Client): Promise<Row[]> {
  const raw = await openRaw(each.model);
  const ways: Way[] = [];
  try {
    const answers = await answersOf(raw, each.rows);
    ways.push(await openGateway(bench, each, answers));
    // A handler of a few lines can take JSON tensors; with images it would be a second image library.
    if (each.name.includes('as JSON')) ways.push(await openBare(each, answers));
    for (const { id, expected } of ways)
      await client.ask({ kind: 'load', id, bodies: each.bodies, expected });
    return await measureWays(each, raw, ways, client);
  } finally {
    for (const way of ways) await way.close();
    await raw.close();
  }
}

async function measureWays(each: PredictCase, raw: RawModel, ways: readonly Way[], client: Client) {
  const rates = new Map<string, number[]>();
  const add = (key: string, rate: number) => rates.set(key, [...(rates.get(key) ?? []), rate]);
  for (let repeat = 0; repeat < REPEATS; repeat++) {
    for (const connections of CONNECTIONS) {
      add(`raw/${connections}`, await rawRate(raw, each.rows));
      for (const { id, port } of repeat % 2 === 0 ? ways : ways.toReversed()) {
        const drive = {
          kind: 'drive',
          id,
          port,
          connections,
          warmUpMs: WARM_UP_MS,
          measureMs: MEASURE_MS,
        } as const;
        const answer = await client.ask(drive);
        if (!answer || answer.requests === 0) throw new Error(`${each.name}: no request was answered`);
        add(`${id}/${connections}`, answer.requests / answer.seconds);
      }
    }
  }
  const of = (id: string, connections: number) => rates.get(`${id}/${connections}`) ?? [];
  return ways.flatMap(({ id }) =>
    CONNECTIONS.map((connections): Row => {
      const raws = of('raw', connections);
      const ours = of(id, connections);
      const bare = of(BARE, connections);
      const toBare = id === BARE || bare.length === 0 ? undefined : pairwise(ours, bare, (a, b) => a / b);
      return {
        scenario: 'http',
        name: `${each.name}, ${id}, ${connections} connection${connections > 1 ? 's' : ''}`,
        metric: 'share of raw',
        unit: '%',
        raw: spreadOf(raws).median,
        ours: spreadOf(ours).median,
        baseUnit: 'requests/s',
        value: pairwise(ours, raws, (a, b) => (100 * a) / b),
        ...(toBare ? { note: `${toBare.median.toFixed(2)} x ${BARE}` } : {}),
      };
    }),
  );
}

/** Runs a second on this thread, while the client is idle. */
async function rawRate(raw: RawModel, rows: readonly Float32Array[]): Promise<number> {
  const feeds = rows.map((row) => raw.feed([row]));
  const begin = performance.now();
  let runs = 0;
  let spentMs = 0;
  for (; spentMs < RAW_MS; spentMs = performance.now() - begin) {
    await raw.run(feeds[runs++ % feeds.length] as (typeof feeds)[number]);
  }
  return (runs * 1000) / spentMs;
}

async function openGateway(bench: Bench, each: PredictCase, answers: readonly Float32Array[]): Promise<Way> {
  const served = serve(each.model, (await bench.redis()).url, 1);
  const expected: string[] = [];
  for (const [i, body] of each.bodies.entries()) {
    const response = await served.predict(predictEvent(body), CONTEXT);
    assertSame(predictionOf(response.body), answers[i] as Float32Array, each.name);
    expected.push(response.body as string);
  }
  const silent = () => undefined;
  const gateway = await startGateway({
    port: 0,
    routes: [{ method: 'POST', path: '/predict', functionName: 'predict', handler: served.predict }],
    log: { info: silent, warn: console.error, error: console.error },
  });
  const close = async () => {
    await gateway.close();
    await served.close();
  };
  return { id: 'gateway', port: gateway.port, expected, close };
}

/** What a person writes in ten lines: no limits, no checks, no errors, no shapes. */
async function openBare(each: PredictCase, answers: readonly Float32Array[]): Promise<Way> {
  const raw = await openRaw(each.model);
  const predict = async (body: string) => {
    const { instances } = JSON.parse(body) as { instances: Record<string, number[]>[] };
    const row = Float32Array.from((instances[0]?.[each.model.input] ?? []).flat(Number.POSITIVE_INFINITY));
    return JSON.stringify({ predictions: [Array.from(await raw.run(raw.feed([row])))] });
  };
  const expected: string[] = [];
  for (const [i, body] of each.bodies.entries()) {
    const answer = await predict(body);
    const { predictions } = JSON.parse(answer) as { predictions: number[][] };
    assertSame(predictions[0] ?? [], answers[i] as Float32Array, `${each.name}, bare server`);
    expected.push(answer);
  }
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      predict(Buffer.concat(chunks).toString()).then(
        (text) =>
          response
            .writeHead(200, { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) })
            .end(text),
        (error: unknown) => response.destroy(error as Error),
      );
    });
  });
  const port = await listen(server);
  const close = async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
    await raw.close();
  };
  return { id: BARE, port, expected, close };
}

function listen(server: Server): Promise<number> {
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen({ port: 0, host: '127.0.0.1' }, () => resolve((server.address() as AddressInfo).port));
  });
}
