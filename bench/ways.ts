/**
 * In: a model. Out: the HTTP servers that are compared, each in a process of its own on the servers' core, all asked
 * the same by the same client. Trap: a server is compared only after every one of its answers was: `learn` holds the
 * values of each against raw, and from then on the client holds each answer against the learned bytes.
 */
import type { Bench } from './bench.ts';
import type { RequestSpec } from './load/connection.ts';
import type { BenchModel } from './models.ts';
import { installedPeer, NOT_INSTALLED, type PeerName } from './peers/installed.ts';
import { startPeer } from './peers/process.ts';
import { type Child, startChild } from './processes/child.ts';
import type { HttpAnswers, HttpQuestion } from './processes/http-client.ts';
import type { ServerAnswer, ServerQuestion } from './processes/http-server.ts';
import { processMs } from './processor.ts';
import { assertSame } from './raw.ts';
import { nestedNumbers, predictionsOf } from './served.ts';

/** What requests hold, one entry for each. */
export interface Requests {
  /** Instances of each. */
  readonly rows: readonly (readonly Float32Array[])[];
  /** As POST /predict takes them. */
  readonly bodies: readonly string[];
  /** Raw answers to each row of each. */
  readonly answers: readonly (readonly Float32Array[])[];
}

export interface HttpWay {
  readonly id: string;
  readonly port: number;
  requestOf(requests: Requests, index: number): RequestSpec;
  /** Of an answer, row by row. */
  valuesOf(body: string): readonly (readonly number[])[];
  /** Processor time of all its processes so far, ms; undefined where the system does not tell. */
  processorMs(): number | undefined;
  close(): Promise<unknown>;
}

export interface OursWay extends HttpWay {
  /** Raw runs a second in the server's process. */
  rawRate(batches: readonly (readonly Float32Array[])[], ms: number): Promise<number>;
}

const plain = (requests: Requests, index: number): RequestSpec => ({
  path: '/predict',
  body: requests.bodies[index] as string,
});

const plainValues = (body: string) => (JSON.parse(body) as { predictions: number[][] }).predictions;

/** @param kind our handler behind the local gateway, or a bare node:http server */
export async function openOurs(
  bench: Bench,
  kind: 'gateway' | 'bare',
  model: BenchModel,
  batchSize = 1,
): Promise<OursWay> {
  const { url: redisUrl } = await bench.redis();
  const child = await startChild<ServerQuestion, ServerAnswer>('http-server', { role: 'server' });
  const port = await child.ask(kind === 'bare' ? { kind, model } : { kind, model, redisUrl, batchSize });
  return {
    id: kind === 'bare' ? 'bare node:http' : 'gateway',
    port,
    requestOf: plain,
    valuesOf: kind === 'bare' ? plainValues : predictionsOf,
    processorMs: () => processMs(child.pid),
    rawRate: (batches, ms) => child.ask({ kind: 'raw', batches, ms }),
    close: () => child.close(),
  };
}

/** Peers that serve HTTP, and how a report calls them. */
export const HTTP_PEERS = {
  fastify: 'fastify',
  fastapi: 'FastAPI',
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
  model: BenchModel,
): Promise<HttpWay | { readonly skipped: string }> {
  const peer = installedPeer(name);
  if (!peer) return { skipped: NOT_INSTALLED };
  try {
    const isV2 = name === 'mlserver';
    const requestOf: HttpWay['requestOf'] = isV2
      ? (requests, index) => v2Request(requests, index, model)
      : plain;
    const server = await startPeer(peer, model, requestOf(probeOf(model), 0));
    bench.tellPeer(peer);
    return {
      id: HTTP_PEERS[name],
      port: server.port,
      requestOf,
      valuesOf: isV2 ? v2Values : plainValues,
      processorMs: () => server.processorMs(),
      close: () => server.close(),
    };
  } catch (error) {
    const text = error instanceof Error ? error.message : String(error);
    // Of a traceback the last line; what a process wrote ends with a line break.
    return { skipped: `it did not start: ${text.trimEnd().split('\n').at(-1)?.slice(0, 200)}` };
  }
}

function probeOf(model: BenchModel): Requests {
  const row = new Float32Array(model.rowShape.reduce((product, dim) => product * dim, 1));
  return { rows: [[row]], bodies: [bodyOf(model, [row])], answers: [] };
}

/** As POST /predict takes it. */
export function bodyOf(model: BenchModel, rows: readonly Float32Array[]): string {
  const instances = rows.map((row) => ({ [model.input]: nestedNumbers(row, model.rowShape) }));
  return JSON.stringify({ instances });
}

/** The Open Inference Protocol, which has no instances: one tensor of all rows. */
function v2Request({ rows }: Requests, index: number, { input, rowShape }: BenchModel): RequestSpec {
  const batch = rows[index] as readonly Float32Array[];
  const data = batch.flatMap((row) => Array.from(row, (value) => Number(value.toPrecision(9))));
  const shape = [batch.length, ...rowShape];
  // An id of ours: it would make a new one for each answer, and no two would be the same bytes.
  const body = JSON.stringify({ id: '1', inputs: [{ name: input, shape, datatype: 'FP32', data }] });
  return { path: '/v2/models/bench/infer', body };
}

function v2Values(body: string): number[][] {
  const { outputs } = JSON.parse(body) as { outputs: { shape: number[]; data: number[] }[] };
  const [{ shape, data }] = outputs as [{ shape: number[]; data: number[] }];
  const [rows = 0, width = 0] = shape;
  return Array.from({ length: rows }, (_, i) => data.slice(i * width, (i + 1) * width));
}

/**
 * Of a small model the server's code is most of a request, and V8 has compiled the last of ours after some 30,000; bare
 * node:http is at its best after 10,000.
 */
const WARM_UP_MS = { mlp: 4_000, other: 600 };
const WARM_UP_CONNECTIONS = 32;

/** A second process that sends requests and measures. */
export class HttpClient {
  readonly #child: Child<HttpQuestion, unknown>;

  private constructor(child: Child<HttpQuestion, unknown>) {
    this.#child = child;
  }

  static async start(): Promise<HttpClient> {
    return new HttpClient(await startChild<HttpQuestion, unknown>('http-client', { role: 'client' }));
  }

  /** Asks each request once and holds the answers against raw. @throws when a value is wrong */
  async learn(way: HttpWay, requests: Requests): Promise<void> {
    const specs = requests.bodies.map((_, i) => way.requestOf(requests, i));
    const { id, port } = way;
    const bodies = (await this.#child.ask({
      kind: 'learn',
      id,
      port,
      requests: specs,
    })) as HttpAnswers['learn'];
    for (const [i, body] of bodies.entries()) {
      const expected = requests.answers[i] as readonly Float32Array[];
      const values = way.valuesOf(Buffer.from(body).toString());
      if (values.length !== expected.length) {
        throw new Error(`${id}: expected ${expected.length} predictions, got ${values.length}`);
      }
      for (const [row, answer] of expected.entries()) assertSame(values[row] ?? [], answer, id);
    }
  }

  /** As long as the code of a server needs to be compiled. */
  async warmUp(way: HttpWay, model: BenchModel): Promise<void> {
    const measureMs = model.name === 'mlp' ? WARM_UP_MS.mlp : WARM_UP_MS.other;
    await this.ask('closed', way, { warmUpMs: 0, measureMs, connections: WARM_UP_CONNECTIONS });
  }

  ask<Kind extends 'closed' | 'open'>(
    kind: Kind,
    way: HttpWay,
    load: Omit<Extract<HttpQuestion, { kind: Kind }>, 'kind' | 'id' | 'port'>,
  ): Promise<HttpAnswers[Kind]> {
    const question = { kind, id: way.id, port: way.port, ...load } as unknown as HttpQuestion;
    return this.#child.ask(question) as Promise<HttpAnswers[Kind]>;
  }

  close(): Promise<void> {
    return this.#child.close();
  }
}
