/** The process of a worker in TypeScript: frames on the descriptors 3 and 4. */
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { registerHooks } from 'node:module';
import { join, resolve } from 'node:path';
import { ProtocolError } from '../codecs/values/frame.ts';
import { endWithParent } from '../inference/end-with-parent.ts';
import { Connection } from './connection.ts';
import { type BatchFunction, takeSamples, type WKRHardWorker } from './hard-worker.ts';
import { loadWorker } from './load.ts';
import {
  cut,
  type FromWorker,
  faultOf,
  MESSAGE_LIMITS,
  type Open,
  PROTOCOL,
  type Run,
  type RunFailed,
  type StartPhase,
  type Statistics,
  type WorkerOutcome,
} from './messages.ts';
import { rowsOf } from './rows.ts';

const VERSION = '0.1.0';
const MAX_SAMPLE_NAMES = 64;
const OTHER_PROTOCOL = 3;

class StartError extends Error {
  readonly phase: StartPhase;

  constructor(phase: StartPhase, cause: unknown) {
    super(phase, { cause });
    this.phase = phase;
  }
}

class BatchError extends Error {
  readonly failed: RunFailed['failed'];

  constructor(kind: RunFailed['failed']['kind'], error: unknown) {
    super(kind);
    this.failed = { kind, ...faultOf(error) };
  }
}

/** A worker that is loaded, and its model. */
interface Job {
  readonly worker: WKRHardWorker;
  readonly model: unknown;
  readonly preprocess: BatchFunction;
  readonly postprocess: BatchFunction;
  readonly tmpDir: string;
}

const RUNTIME = 'onnxruntime-node';

/** A project without onnxruntime-node gets the service's, which the package of the command line contains. */
function lendRuntime(): void {
  registerHooks({
    resolve(name, context, next) {
      if (name !== RUNTIME) return next(name, context);
      try {
        return next(name, context);
      } catch {
        return next(name, { ...context, parentURL: import.meta.url });
      }
    },
  });
}

async function main(): Promise<void> {
  // Before hello, which the service answers: it still ran when its end began to be watched for.
  endWithParent();
  // The service retires its workers. Without a listener, the terminal's Ctrl-C would end them before that.
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => undefined);
  lendRuntime();
  const connection = new Connection();
  const runtime = process.versions.node;
  await connection.send({
    type: 'hello',
    protocol: PROTOCOL,
    language: 'typescript',
    runtime,
    version: VERSION,
  });
  const job = await start(connection);
  const { retryAlone, imageAs } = job.worker;
  if (imageAs === 'bytes') connection.image = (bytes) => bytes;
  await connection.send({ type: 'ready', retryAlone, imageAs });
  for (;;) {
    const message = await connection.receive();
    if (message.type === 'open') throw new ProtocolError('malformed message: open is not expected');
    if (message.type === 'retire') break;
    await connection.send(await run(job, message));
  }
  await retire(job);
  await connection.send({ type: 'retired' });
  process.exit(0);
}

async function start(connection: Connection): Promise<Job> {
  const message = await connection.receive();
  if (message.type !== 'open') throw new ProtocolError('malformed message: open is expected first');
  try {
    if (message.protocol !== PROTOCOL) {
      const text = `this worker speaks protocol ${PROTOCOL}, the service ${message.protocol}`;
      throw new StartError('hello', new ProtocolError(text));
    }
    return await open(message);
  } catch (error) {
    if (!(error instanceof StartError)) throw error;
    console.error(error.cause);
    const traceback = error.cause instanceof Error ? (error.cause.stack ?? '') : '';
    const fault = { ...faultOf(error.cause), traceback: cut(traceback, MESSAGE_LIMITS.tracebackBytes) };
    await connection.send({ type: 'failed', phase: error.phase, error: fault });
    process.exit(error.phase === 'hello' ? OTHER_PROTOCOL : 1);
  }
}

async function open(message: Open): Promise<Job> {
  const { worker, tmpDir } = await inPhase('load', () => load(message));
  try {
    const envs = await inPhase('get_env', () => worker.getEnv(worker.deviceId, tmpDir));
    const preprocess = await inPhase('get_preprocess', async () =>
      functionOf(await worker.getPreprocess(envs)),
    );
    const postprocess = await inPhase('get_postprocess', async () =>
      functionOf(await worker.getPostprocess(envs)),
    );
    const model = await inPhase('get_model', () =>
      worker.getModel(envs, worker.modelDir, worker.modelName, tmpDir),
    );
    return { worker, model, preprocess, postprocess, tmpDir };
  } catch (error) {
    // The service may start it again and again.
    await rm(tmpDir, { recursive: true, force: true });
    throw error;
  }
}

async function load(message: Open): Promise<{ worker: WKRHardWorker; tmpDir: string }> {
  const directory = resolve(message.directory);
  process.chdir(directory);
  const worker = await loadWorker(directory, message.worker);
  const { workerId, deviceId, transferProto, tmpFolder, modelDir, modelName, batchSize } = message;
  const { gpuMemoryFraction, verbose, logName } = message;
  Object.assign(worker, { workerId, deviceId, transferProto, tmpFolder, modelDir, modelName, batchSize });
  Object.assign(worker, { gpuMemoryFraction, verbose, logName });
  const forms: readonly unknown[] = ['rgb', 'bytes'];
  if (!forms.includes(worker.imageAs)) throw new TypeError(`imageAs is ${worker.imageAs}, not rgb or bytes`);
  await mkdir(tmpFolder, { recursive: true });
  return { worker, tmpDir: await mkdtemp(join(tmpFolder, `worker-${workerId}-`)) };
}

async function inPhase<T>(name: StartPhase, work: () => T | Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw new StartError(name, error);
  }
}

function functionOf(value: unknown): BatchFunction {
  if (typeof value !== 'function') throw new TypeError(`it returned a ${typeof value}, not a function`);
  return value as BatchFunction;
}

async function run(job: Job, { id, items }: Run): Promise<FromWorker> {
  try {
    const results = await predict(job, items);
    const outcomes = results.map(
      (value): WorkerOutcome => (value instanceof Error ? { error: faultOf(value) } : { value }),
    );
    return { type: 'result', id, outcomes, statistics: statisticsOf(job.worker) };
  } catch (error) {
    if (!(error instanceof BatchError)) console.error(error);
    const { failed } = error instanceof BatchError ? error : new BatchError('raised', error);
    return { type: 'result', id, failed, statistics: statisticsOf(job.worker) };
  }
}

async function predict(job: Job, items: Run['items']): Promise<readonly unknown[]> {
  const { worker, model, preprocess, postprocess } = job;
  // The message was read from a frame.
  const given = await preprocess(await worker.batching(items as Parameters<WKRHardWorker['batching']>[0]));
  const result = await worker.predict(model, given);
  assertLength(result, items);
  return assertLength(await postprocess(result), items);
}

function assertLength(result: unknown, { length }: Run['items']): readonly unknown[] {
  const rows = rowsOf(result);
  if (!rows) {
    const kind = result === null ? 'null' : (Object(result).constructor?.name ?? typeof result);
    throw new BatchError('shape', new TypeError(`the result is a ${kind}, not an array or a tensor`));
  }
  if (rows.length === length) return rows;
  throw new BatchError('length', new RangeError(`${rows.length} results for ${length} items`));
}

function statisticsOf(worker: WKRHardWorker): Statistics {
  const samples = new Map<string, number[]>();
  for (const [name, sample] of takeSamples(worker)) {
    const key = cut(name, MESSAGE_LIMITS.typeBytes);
    const known = samples.get(key);
    if (known) known.push(sample);
    else if (samples.size < MAX_SAMPLE_NAMES) samples.set(key, [sample]);
  }
  return Object.fromEntries(samples);
}

async function retire({ worker, model, tmpDir }: Job): Promise<void> {
  try {
    await worker.offModel(model);
  } catch (error) {
    console.error(error);
  }
  await rm(tmpDir, { recursive: true, force: true });
}

main().catch((error: unknown) => {
  console.error(error);
  process.exit(1);
});
