/**
 * The methods of `inference.GRPCInferenceService`. What REST answers as JSON has the names of protobuf's fields, so only
 * inference is different here. All jobs of the service share one port, because a request names its model.
 */
import { randomUUID } from 'node:crypto';
import type { CANARY_KEY } from '../../lib/codecs/attributes.ts';
import { DATATYPES } from '../../lib/codecs/open-inference/tensor.ts';
import { textsLength, writeTexts } from '../../lib/codecs/open-inference/texts.ts';
import { quoteName, quoteNames } from '../../lib/codecs/quote.ts';
import { ServingError } from '../../lib/contract/errors.ts';
import { suggest } from '../../lib/contract/suggest.ts';
import type { TraceHeaders } from '../../lib/contract/trace.ts';
import type { NamedTensor } from '../../lib/contract/values.ts';
import { withModel } from '../../lib/http/named.ts';
import { answered } from '../../lib/http/open-inference/endpoint.ts';
import {
  admitted,
  type InferenceAnswer,
  type InferenceDeps,
  jobOf,
  runInference,
} from '../../lib/http/open-inference/run.ts';
import { modelFor } from '../../lib/http/side.ts';
import { type InvocationClock, requestPolicy } from '../../lib/pipeline/deadline.ts';
import type { Table } from '../../onnx-import/protobuf.ts';
import { tooMany } from './admission.ts';
import { readInfer, readRequest } from './request.ts';
import * as tables from './tables.ts';

/** A job as the service needs it. */
export interface GrpcJob {
  readonly deps: InferenceDeps;
  /** The limit of a request, in ms. */
  readonly timeoutMs: number;
  /** True while a run would be refused. */
  readonly refuses: () => boolean;
  /** Called when a caller has left. */
  readonly onLeave?: () => void;
  /** How long accepted calls may take when the service stops, in ms. */
  readonly stopMs?: number | undefined;
  /** Goes around each inference, as around a request over HTTP. Default: nothing is traced. */
  readonly trace?: <Answer extends { readonly statusCode: number }>(
    request: { readonly headers: TraceHeaders; readonly routeKey: string; readonly clock: InvocationClock },
    work: () => Promise<Answer>,
  ) => Promise<Answer>;
}

export type Jobs = readonly [GrpcJob, ...GrpcJob[]];

/** A call: its message, and the time that it has. */
interface Call {
  readonly bytes: Uint8Array;
  /** Its metadata, which has the trace that it belongs to, and what a canary goes by. */
  readonly headers: TraceHeaders & { readonly [CANARY_KEY]?: unknown };
  /** @param timeoutMs from now, unless the client has less time */
  readonly clock: (timeoutMs: number) => InvocationClock;
}

export interface Method {
  readonly answer: Table;
  /** @throws ServingError */
  readonly run: (jobs: Jobs, call: Call) => Promise<object>;
}

const INFER_NAME = 'ModelInfer';
export const SERVICE_PATH = '/inference.GRPCInferenceService';
const INFER_ROUTE = {
  method: 'POST',
  route: `${SERVICE_PATH}/${INFER_NAME}`,
  functionName: 'predict',
} as const;

export const METHODS: Readonly<Record<string, Method>> = {
  ServerLive: { answer: tables.LIVE, run: async () => ({ live: true }) },
  ServerReady: {
    answer: tables.READY,
    run: async (jobs) => ({
      ready: (await Promise.all(jobs.map(({ deps }) => isReady(deps, '/v2/health/ready')))).every(Boolean),
    }),
  },
  ServerMetadata: { answer: tables.SERVER_METADATA, run: ([{ deps }]) => rest(deps, 'GET', '/v2') },
  ModelReady: {
    answer: tables.READY,
    run: async (jobs, { bytes }) => {
      const { deps, path } = await modelOf(jobs, bytes);
      return { ready: await isReady(deps, `${path}/ready`) };
    },
  },
  ModelMetadata: { answer: tables.MODEL_METADATA, run: (jobs, { bytes }) => ofModel(jobs, bytes, '') },
  ModelConfig: {
    answer: tables.CONFIG,
    run: async (jobs, { bytes }) => ({ config: await ofModel(jobs, bytes, '/config') }),
  },
  ModelStatistics: { answer: tables.STATISTICS, run: statistics },
  RepositoryIndex: {
    answer: tables.INDEX,
    run: async (jobs, { bytes }) => {
      const body = JSON.stringify(readRequest(bytes, tables.INDEX_REQUEST));
      const models = jobs.map(({ deps }) => rest(deps, 'POST', '/v2/repository/index', body));
      return { models: (await Promise.all(models)).flat() };
    },
  },
  [INFER_NAME]: { answer: tables.INFER_RESPONSE, run: infer },
};

/** Methods that are not served, and the alternative to each. */
const SHARED_MEMORY = 'shared memory is not served; send tensors in the messages';
const REPOSITORY = 'models are loaded at the start; `cluster-serving model push` publishes a version';
const SETTINGS = 'these settings are made at the start; the how-to "trace a request" says how spans are sent';
const of = (names: readonly string[], why: string) => Object.fromEntries(names.map((name) => [name, why]));
const MEMORY_CALLS = ['Status', 'Register', 'Unregister'].flatMap((what) => [
  `SystemSharedMemory${what}`,
  `CudaSharedMemory${what}`,
]);
export const REFUSED: Readonly<Record<string, string>> = {
  ModelStreamInfer: 'streams are not served; call ModelInfer for each request, as many at once as you like',
  ...of(['RepositoryModelLoad', 'RepositoryModelUnload'], REPOSITORY),
  ...of(MEMORY_CALLS, SHARED_MEMORY),
  ...of(['TraceSetting', 'LogSettings'], SETTINGS),
};

/** The job of this name, or the first that has a further model of this name. @throws not_found, model_unavailable */
async function jobNamed(jobs: Jobs, name: string): Promise<GrpcJob> {
  const found = jobs.find(({ deps }) => jobOf(deps) === name);
  if (found) return found;
  const known = jobs.map(({ deps }) => jobOf(deps));
  for (const job of jobs) {
    const { deps } = job;
    const chosen = await withModel(deps, { name, isInPath: true });
    if (jobOf(chosen) === name) return { ...job, deps: chosen };
    known.push(...(chosen.names ?? []));
  }
  const meant = suggest(name, known);
  const advice = meant === undefined ? `there is ${quoteNames(known)}` : `did you mean ${quoteName(meant)}?`;
  throw new ServingError('not_found', `no model ${quoteName(name)}; ${advice}`);
}

/** The model that a message names, and its path in REST. */
async function modelOf(
  jobs: Jobs,
  bytes: Uint8Array,
): Promise<{ readonly deps: InferenceDeps; readonly path: string }> {
  const { name = '', version = '' } = readRequest(bytes, tables.MODEL) as Readonly<Record<string, string>>;
  const { deps } = await jobNamed(jobs, name);
  if (version === '') return { deps, path: `/v2/models/${name}` };
  const model = modelFor(deps.model, { headers: {}, version, requestId: randomUUID });
  return {
    deps: { ...deps, model },
    path: `/v2/models/${name}/versions/${encodeURIComponent(version)}`,
  };
}

async function ofModel(jobs: Jobs, bytes: Uint8Array, what: string): Promise<object> {
  const { deps, path } = await modelOf(jobs, bytes);
  return rest(deps, 'GET', `${path}${what}`);
}

/** Statistics of all models, if the request names none. */
async function statistics(jobs: Jobs, { bytes }: Call): Promise<object> {
  const { name } = readRequest(bytes, tables.MODEL);
  if (name) return ofModel(jobs, bytes, '/stats');
  const all = await Promise.all(jobs.map(({ deps }) => rest(deps, 'GET', '/v2/models/stats')));
  return { model_stats: all.flatMap((one) => (one as { model_stats: object[] }).model_stats) };
}

/**
 * The response that REST gives.
 * @throws the errors of REST
 */
async function rest(deps: InferenceDeps, method: 'GET' | 'POST', path: string, body = ''): Promise<object> {
  const answer = await answered({ method, path, headers: {}, body: () => body }, deps, undefined);
  return JSON.parse(answer.body as string) as object;
}

async function isReady(deps: InferenceDeps, path: string): Promise<boolean> {
  try {
    await rest(deps, 'GET', path);
    return true;
  } catch (error) {
    if (ServingError.from(error).code === 'model_unavailable') return false;
    throw error;
  }
}

async function infer(jobs: Jobs, { bytes, headers, clock }: Call): Promise<object> {
  const { model, version, request } = readInfer(bytes);
  const { deps, timeoutMs, refuses, trace = untraced } = await jobNamed(jobs, model);
  const startedMs = performance.now();
  const within = clock(timeoutMs);
  deps.observers.requestArrived?.(INFER_ROUTE);
  const routeKey = `${INFER_ROUTE.method} ${INFER_ROUTE.route}`;
  const side = () =>
    modelFor(deps.model, {
      headers,
      version: version || undefined,
      requestId: () => within.awsRequestId ?? randomUUID(),
    });
  const outcome = await trace({ headers, routeKey, clock: within }, async () => {
    try {
      if (refuses()) throw tooMany('more requests than this machine can serve');
      const policy = requestPolicy(within);
      const answer = await admitted(model, deps, within.caller, async (phases) =>
        answerOf(await runInference(request, { ...deps, model: side() }, { version, policy, phases })),
      );
      return { statusCode: 200, headers: { 'model-version': answer.model_version }, answer };
    } catch (error) {
      return { statusCode: ServingError.from(error).status, error };
    }
  });
  const status = within.caller?.presence === 'gone' ? undefined : outcome.statusCode;
  deps.observers.requestAnswered?.({ ...INFER_ROUTE, status, tookMs: performance.now() - startedMs });
  if (!('answer' in outcome)) throw outcome.error;
  return outcome.answer;
}

const untraced: NonNullable<GrpcJob['trace']> = (_, work) => work();

/** All outputs as bytes, for inputs of any form. */
function answerOf({ model, version, id, outputs }: InferenceAnswer) {
  return {
    model_name: model,
    model_version: version,
    id,
    outputs: outputs.map(({ tensor }) => ({ ...tensor, datatype: DATATYPES[tensor.dtype] })),
    raw_output_contents: outputs.map(({ tensor }) => rawBytes(tensor)),
  };
}

function rawBytes({ dtype, data }: NamedTensor): Uint8Array {
  if (dtype === 'string') {
    const texts = data;
    const bytes = Buffer.allocUnsafe(textsLength(texts));
    writeTexts(texts, bytes, 0);
    return bytes;
  }
  const { buffer, byteOffset, byteLength } = data;
  return new Uint8Array(buffer, byteOffset, byteLength);
}
