/** The HTTP API of a job with a worker, in front of real processes: the gateway, the predict function and a pool. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { predict } from '../../../../functions/predict.ts';
import { encodeFrame } from '../../../../lib/codecs/values/frame.ts';
import { ValueReader } from '../../../../lib/codecs/values/read-value.ts';
import { decodeFrame } from '../../../../lib/codecs/values/value-frame.ts';
import { ValueWriter } from '../../../../lib/codecs/values/write-value.ts';
import type { ServingError } from '../../../../lib/contract/errors.ts';
import type { Model } from '../../../../lib/contract/values.ts';
import { Batcher, type Clock } from '../../../../lib/pipeline/batch/batcher.ts';
import { FixedScheduler } from '../../../../lib/pipeline/batch/scheduler.ts';
import type { Observer } from '../../../../lib/pipeline/observer.ts';
import { STDERR_LOG } from '../../../../lib/workers/log.ts';
import { Pool } from '../../../../lib/workers/pool.ts';
import { WorkerProcess } from '../../../../lib/workers/process.ts';
import { type WorkerFacts, WorkerRunner } from '../../../../lib/workers/worker-runner.ts';
import { startGateway } from '../../../../local/gateway/gateway.ts';
import { jobRoutes } from '../../../../local/service/job-routes.ts';
import { openServiceParts, type ServiceParts } from '../../../../local/worker/open.ts';
import { ServiceStatistics } from '../../../../local/worker/statistics.ts';
import { COMMANDS, ENVIRONMENT, FILES, type Language, openMessage } from '../../../lib/workers/child.ts';
import { quietObservers } from '../../../support/observers.ts';

export const CONTROL_TOKEN = 'control-token-control-token';

interface ServiceOptions {
  readonly language?: Language;
  /** The worker's code. Without it, the model serves. */
  readonly source?: string;
  readonly model?: Model;
  readonly batchSize?: number;
  readonly batchTimeoutMs?: number;
  readonly transferProto?: 'obj' | 'npy';
  readonly token?: string;
  /** As deployed: without what only a single machine has. */
  readonly isDeployed?: boolean;
}

export interface Service {
  readonly url: string;
  readonly parts: ServiceParts;
  close(): Promise<void>;
}

export const CLOCK: Clock = {
  now: () => performance.now(),
  after: (ms, call) => {
    const timer = setTimeout(call, ms);
    return () => clearTimeout(timer);
  },
};

/** Where a service is. */
type Place = Pick<Service, 'url'>;

export async function startService(options: ServiceOptions): Promise<Service> {
  const folder = await mkdtemp(join(tmpdir(), 'worker-http-'));
  const opened = options.source === undefined ? undefined : await openPool(options, folder);
  const { pool } = opened ?? {};
  const log = (error: ServingError) => console.error(error);
  const statistics = new ServiceStatistics(() => performance.now());
  const parts = openServiceParts({
    statistics,
    ttlMs: 60_000,
    fetch: { allowedHosts: [] },
    page: () => ({ job: 'job<1>', workers: pool?.size ?? 1, batchSize: options.batchSize ?? 4 }),
    facts: () => ({ protocol: options.transferProto ?? 'obj', num_worker: pool?.size ?? 1 }),
    control: { token: CONTROL_TOKEN, verbs: { terminate: async () => ({ success: true }) } },
    log,
  });
  if (pool) statistics.follow({ workers: () => pool.size, busyMs: () => pool.busyMs });
  const observers = quietObservers(...statistics.observers);
  const model = options.model ?? modelOf(opened as OpenPool, options, observers);
  const handler = predict({
    model,
    filter: undefined,
    observers,
    jobName: 'job<1>',
    encode: options.isDeployed ? undefined : parts.encode,
  });
  const absent = async () => ({ statusCode: 501 });
  const routes = jobRoutes(
    { predict: handler, predictions: absent, status: absent },
    { timeoutMs: 20_000, refuses: () => false },
    options.isDeployed ? [] : parts.routes,
  );
  const gateway = await startGateway({
    port: 0,
    log: { info: () => undefined, warn: () => undefined, error: console.error },
    routes,
    observer: observers,
    token: options.token,
  });
  return {
    url: gateway.url,
    parts,
    async close() {
      parts.close();
      await gateway.close();
      await pool?.close();
      await rm(folder, { recursive: true, force: true });
    },
  };
}

interface OpenPool {
  readonly pool: Pool<WorkerProcess>;
  readonly facts: () => WorkerFacts;
}

async function openPool(
  { language = 'python', source = '', transferProto = 'obj' }: ServiceOptions,
  folder: string,
): Promise<OpenPool> {
  await writeFile(join(folder, FILES[language]), source);
  let known: WorkerFacts | undefined;
  const pool = new Pool<WorkerProcess>({
    size: 1,
    start: () =>
      new WorkerProcess({
        command: COMMANDS[language],
        environment: ENVIRONMENT,
        directory: folder,
        log: STDERR_LOG,
        source: { name: 'WKRServer worker 0', worker: 0 },
      }),
    ready: async (process) => {
      const { retryAlone, imageAs } = await process.open(openMessage(folder, { transferProto }));
      known = { retryAlone, imageAs, transferProto };
    },
    startTimeoutMs: 20_000,
    maxBatches: 0,
    clock: CLOCK,
    onCrash: () => undefined,
  });
  await pool.open();
  return { pool, facts: () => known as WorkerFacts };
}

function modelOf(
  { pool, facts }: OpenPool,
  { batchSize = 4, batchTimeoutMs = 0 }: ServiceOptions,
  observer: Observer,
): Model {
  const runner = new WorkerRunner({
    version: 'v1',
    pool,
    facts,
    predictTimeoutMs: 10_000,
    clock: CLOCK,
    runEnded: (run) => observer.runEnded?.(run),
  });
  const batcher = new Batcher(runner, {
    scheduler: new FixedScheduler(batchSize),
    timeoutMs: batchTimeoutMs,
    clock: CLOCK,
  });
  return { use: (work) => work(batcher) };
}

export interface Envelope {
  readonly error_code: number;
  readonly error_message: string;
  readonly data: unknown;
  readonly code?: string;
}

export async function envelopeOf(response: Response): Promise<Envelope> {
  return (await response.json()) as Envelope;
}

export function encodeJson(service: Place, item: unknown): Promise<Envelope> {
  return encodeText(service, JSON.stringify(item));
}

export async function encodeText(service: Place, body: string): Promise<Envelope> {
  const response = await fetch(`${service.url}/encode_json`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body,
  });
  return envelopeOf(response);
}

/** The bytes of the frame of one item. */
export function itemFrame(value: unknown, { id = '1', identity = 'client-1' } = {}): Buffer {
  const writer = new ValueWriter();
  const header = { type: 'encode', identity, id, value: writer.write(value, 'value') };
  return Buffer.concat(encodeFrame(header, writer.blocks));
}

export function sendFrame(
  service: Place,
  frame: Uint8Array,
  headers: Record<string, string> = {},
): Promise<Response> {
  return fetch(`${service.url}/encode`, {
    method: 'POST',
    headers: { 'content-type': 'application/x-wkr', accept: 'application/x-wkr', ...headers },
    body: new Uint8Array(frame),
  });
}

interface ReadOutcome {
  readonly id: unknown;
  readonly value?: unknown;
  readonly error?: unknown;
}

/** The outcomes of an answer, with their values, and the other fields of its frame. */
export async function readFrame(response: Response): Promise<{
  readonly header: Readonly<Record<string, unknown>>;
  readonly outcomes: readonly ReadOutcome[];
}> {
  if (response.status !== 200) throw new Error(`${response.status} ${await response.text()}`);
  const { header, blocks } = decodeFrame(Buffer.from(await response.arrayBuffer()));
  const reader = new ValueReader(blocks);
  const results = header['type'] === 'results' ? header['results'] : [header];
  const outcomes = (results as { id: unknown; outcome: Record<string, unknown> }[]).map(({ id, outcome }) =>
    'value' in outcome ? { id, value: reader.read(outcome['value']) } : { id, error: outcome['error'] },
  );
  reader.end();
  return { header, outcomes };
}
