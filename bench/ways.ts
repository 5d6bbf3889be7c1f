/**
 * The HTTP servers that are compared, each in a process of its own on the servers' core, all asked the same by the same
 * client. A server is compared only after the values of each of its answers were, against raw.
 */
import { elementAt } from '../lib/contract/present.ts';
import type { Bench } from './bench.ts';
import type { RequestSpec } from './load/connection.ts';
import { type BenchModel, type ModelName, randomRows } from './models.ts';
import { installedPeer, NOT_INSTALLED, type PeerName } from './peers/installed.ts';
import { startPeer } from './peers/process.ts';
import { type Child, startChild } from './processes/child.ts';
import type { ClientProcess } from './processes/http-client.ts';
import type { ServerProcess } from './processes/http-server.ts';
import { familyMs } from './processor.ts';
import { answersFor, assertSame } from './raw.ts';
import { nestedNumbers, plainValues, predictionOf } from './served.ts';

export const GATEWAY = 'gateway';
const RAW_MS = 120;

/** Requests of one instance each, with the raw answers. */
export interface Requests {
  readonly model: BenchModel;
  readonly rows: readonly Float32Array[];
  readonly answers: readonly Float32Array[];
}

export interface HttpWay {
  readonly id: string;
  readonly port: number;
  requestOf(row: Float32Array): RequestSpec;
  /** The values of an answer. */
  valuesOf(body: string): readonly number[];
  /** Processor time of all its processes so far, ms; undefined where the system does not count it. */
  processorMs(): number | undefined;
  close(): Promise<unknown>;
}

interface Gateway extends HttpWay {
  /** Raw runs a second in the server's process. */
  rawRate(): Promise<number>;
}

export async function requestsOf(bench: Bench, name: ModelName, count: number): Promise<Requests> {
  const model = await bench.model(name);
  const rows = randomRows(11, model.rowShape, count);
  return { model, rows, answers: await answersFor(model, rows) };
}

/** As POST /predict takes it. */
const plainRequest =
  ({ input, rowShape }: BenchModel) =>
  (row: Float32Array): RequestSpec => {
    const body = JSON.stringify({ instances: [{ [input]: nestedNumbers(row, rowShape) }] });
    return { path: '/predict', body };
  };

/** The Open Inference Protocol, which has no instances: one tensor of all rows. */
const v2Request =
  ({ input, rowShape }: BenchModel) =>
  (row: Float32Array): RequestSpec => {
    const data = Array.from(row, (value) => Number(value.toPrecision(9)));
    const tensor = { name: input, shape: [1, ...rowShape], datatype: 'FP32', data };
    // Without an id the server would make a new one for each answer, and no two answers would have the same bytes.
    return { path: '/v2/models/bench/infer', body: JSON.stringify({ id: '1', inputs: [tensor] }) };
  };

const v2Values = (body: string) => (JSON.parse(body) as { outputs: [{ data: number[] }] }).outputs[0].data;

/** Several processes or threads have all cores. */
interface GatewaySettings {
  readonly processes: number;
  readonly threads: number;
}

/** Our handler behind the local gateway; by default with one process of the model, on the servers' core. */
export async function openGateway(
  bench: Bench,
  { model, rows }: Requests,
  settings?: GatewaySettings,
): Promise<Gateway> {
  const { url: redisUrl } = await bench.redis();
  const child = await startChild<ServerProcess>('http-server', settings ? {} : { role: 'server' });
  await child.call('openRaw', model);
  const batches = rows.map((row) => [row]);
  return {
    id: GATEWAY,
    port: await child.call('openGateway', { model, redisUrl, ...settings }),
    requestOf: plainRequest(model),
    valuesOf: predictionOf,
    processorMs: () => familyMs(child.pid),
    rawRate: () => child.call('rawRate', { batches, ms: bench.ms(RAW_MS) }),
    close: () => child.close(),
  };
}

/** Peers that serve HTTP, and their names in a report. */
export const HTTP_PEERS = {
  fastify: 'fastify',
  fastapi: 'FastAPI',
  axum: 'axum',
  bentoml: 'BentoML',
  litserve: 'LitServe',
  mlserver: 'MLServer',
  'ray-serve': 'Ray Serve',
} as const satisfies Partial<Record<PeerName, string>>;

export type HttpPeerName = keyof typeof HTTP_PEERS;

/** @returns the server, or why there is none */
export async function openPeer(
  bench: Bench,
  name: HttpPeerName,
  { model, rows }: Requests,
): Promise<HttpWay | { readonly skipped: string }> {
  const peer = installedPeer(name);
  if (!peer) return { skipped: NOT_INSTALLED };
  const isV2 = name === 'mlserver';
  const requestOf = isV2 ? v2Request(model) : plainRequest(model);
  try {
    const server = await startPeer(peer, model, requestOf(elementAt(rows, 0, 'rows')));
    bench.addPeer(peer);
    return { id: HTTP_PEERS[name], requestOf, valuesOf: isV2 ? v2Values : plainValues, ...server };
  } catch (error) {
    const text = error instanceof Error ? error.message : String(error);
    // The last line of a traceback names the error.
    return { skipped: `it did not start: ${text.trimEnd().split('\n').at(-1)?.slice(0, 200)}` };
  }
}

/**
 * For a small model the server's code is most of a request, and V8 has compiled the last of ours after some 30,000
 * requests; bare node:http is at its best after 10,000.
 */
const WARM_UP_MS = { mlp: 4_000, other: 600 };
const WARM_UP_CONNECTIONS = 32;

export type HttpClient = Child<ClientProcess>;

/** A second process that sends requests and measures. */
export function startClient(): Promise<HttpClient> {
  return startChild<ClientProcess>('http-client', { role: 'client' });
}

/** Compares the answer to each request with raw, then warms the server. @throws when a value is wrong */
export async function prepare(
  bench: Bench,
  client: HttpClient,
  way: HttpWay,
  { model, rows, answers }: Requests,
): Promise<void> {
  const { id, port } = way;
  const requests = rows.map((row) => way.requestOf(row));
  for (const [i, body] of (await client.call('learn', { id, port, requests })).entries())
    assertSame(way.valuesOf(Buffer.from(body).toString()), elementAt(answers, i, 'answers'), id);
  const measureMs = bench.ms(model.name === 'mlp' ? WARM_UP_MS.mlp : WARM_UP_MS.other);
  await client.call('closed', { id, port, warmUpMs: 0, measureMs, connections: WARM_UP_CONNECTIONS });
}
