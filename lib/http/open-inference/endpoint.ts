/**
 * The Open Inference Protocol (KServe V2 over REST, with the binary tensor extension) under /v2: health, metadata and
 * inference. Shapes always include the batch dimension, whatever the job sets for POST /predict: a request is one
 * record that runs as a whole. The model's name is the job's, its version the one that serves.
 */
import {
  decodeInference,
  type InferenceInput,
  type InferenceRequest,
  JSON_LENGTH_HEADER,
  jsonLengthOf,
} from '../../codecs/open-inference/request.ts';
import { DATATYPES } from '../../codecs/open-inference/tensor.ts';
import { quoteName, quoteNames } from '../../codecs/quote.ts';
import { badInput, badRequest, ServingError } from '../../contract/errors.ts';
import { DEFAULT_JOB_NAME, SERVER_VERSION } from '../../contract/names.ts';
import { elementCount, formatShape, type Tensor } from '../../contract/tensor.ts';
import type { Inputs, Model, ModelNames, Runner, TensorSpec, Value } from '../../contract/values.ts';
import { measure } from '../../metrics/emf.ts';
import type { Reporter } from '../../metrics/reporter.ts';
import { type Scratch, withScratch } from '../../pipeline/buffer-pool.ts';
import { mayMiss } from '../../pipeline/columns.ts';
import { type InvocationClock, requestDeadline } from '../../pipeline/deadline.ts';
import { nestedTensor } from '../../pipeline/nested.ts';
import { serveRequest } from '../../pipeline/serve.ts';
import type { HttpRequest } from '../request.ts';
import { type HttpResponse, json } from '../response.ts';
import { type AnsweredOutput, inferenceAnswer } from './answer.ts';
import { rawInput } from './raw.ts';

export interface Limiter {
  /** Takes one token. @throws rate_limited with the time to retry after */
  acquire(): Promise<void>;
}

export interface InferenceDeps {
  readonly model: Model;
  /** Undefined for no limit. */
  readonly limiter?: Limiter | undefined;
  readonly reporter: Reporter;
  /** The model's name under /v2. Default "serving_stream". */
  readonly jobName?: string;
}

const PATH =
  /^\/v2(?:\/health\/(?<health>live|ready)|\/models\/(?<name>[^/]+)(?:\/versions\/(?<version>[^/]+))?(?:\/(?<what>ready|infer))?)?$/;

export function isInferencePath(path: string): boolean {
  return path === '/v2' || path.startsWith('/v2/');
}

/** @throws not_found for an unknown path, model or version, and any error of the request */
export async function answerInference(
  request: HttpRequest,
  deps: InferenceDeps,
  clock: InvocationClock | undefined,
): Promise<HttpResponse> {
  const { groups } = PATH.exec(request.path) ?? {};
  if (!groups || (request.method === 'POST') !== (groups['what'] === 'infer')) {
    throw new ServingError('not_found', `no such path: ${request.method} ${quoteName(request.path)}`);
  }
  const { health, name, version, what } = groups;
  if (what === 'infer') return inferred(request, deps, { name, version }, clock);
  if (health === 'live') return json(200, { live: true });
  if (health === undefined && name === undefined) {
    return json(200, {
      name: 'cluster-serving',
      version: SERVER_VERSION,
      extensions: ['binary_tensor_data'],
    });
  }
  const job = jobOf(deps);
  assertModel(name ?? job, job);
  // Opening the model shows whether it can serve; otherwise this throws model_unavailable.
  return deps.model.use(async (runner) => {
    assertVersion(version, runner, job);
    if (health === 'ready') return json(200, { ready: true });
    return json(200, what === 'ready' ? { name: job, ready: true } : metadata(runner, job));
  });
}

export function jobOf({ jobName = DEFAULT_JOB_NAME }: InferenceDeps): string {
  return jobName;
}

/** @throws not_found */
export function assertModel(name: string, job: string): void {
  if (name === job) return;
  throw new ServingError(
    'not_found',
    `no model ${quoteName(name)}; the model of this job is ${quoteName(job)}`,
  );
}

function assertVersion(version: string | undefined, runner: Runner, job: string): void {
  if (version === undefined || version === runner.version) return;
  throw new ServingError(
    'not_found',
    `no version ${quoteName(version)} of ${quoteName(job)}; version ${quoteName(runner.version)} serves`,
  );
}

function metadata({ version, inputs = [], outputs = [], names }: Runner, job: string) {
  const tensors = (specs: readonly TensorSpec[], namesOf: ModelNames['labels'] = {}) =>
    specs.map((spec) => ({
      name: spec.name,
      datatype: DATATYPES[spec.dtype],
      shape: spec.shape.map((dim) => (typeof dim === 'number' ? dim : -1)),
      ...parametersOf(spec, namesOf),
    }));
  return {
    name: job,
    versions: [version],
    platform: 'onnxruntime_onnx',
    inputs: tensors(inputs, names?.columns),
    outputs: tensors(outputs, names?.labels),
  };
}

/** What else is known of a tensor, for those who describe the model; nothing for most. */
function parametersOf({ name, batchAxis = 0, isText, optional }: TensorSpec, names: ModelNames['labels']) {
  const parameters = {
    ...(batchAxis !== 0 && { batch_axis: batchAxis }),
    ...(isText && { text: true }),
    ...(optional && { optional: true }),
    ...(Object.hasOwn(names, name) && { names: names[name] }),
  };
  return Object.keys(parameters).length > 0 ? { parameters } : {};
}

interface Asked {
  readonly name: string | undefined;
  readonly version: string | undefined;
}

async function inferred(
  request: HttpRequest,
  deps: InferenceDeps,
  { name, version }: Asked,
  clock: InvocationClock | undefined,
): Promise<HttpResponse> {
  const model = jobOf(deps);
  assertModel(name ?? model, model);
  const { reporter, limiter } = deps;
  const stop = reporter.start('zoo.serving.request.overall');
  await limiter?.acquire();
  // The tensors are views of the body; the response keeps no reference to either.
  const response = await withScratch((scratch) =>
    runRequest(request, deps, { model, version, clock, scratch }),
  );
  stop();
  await reporter.flushWhenDue();
  return response;
}

interface Run {
  readonly model: string;
  readonly version: string | undefined;
  readonly clock: InvocationClock | undefined;
  readonly scratch: Scratch;
}

async function runRequest(
  request: HttpRequest,
  { model: host, reporter }: InferenceDeps,
  { model, version, clock, scratch }: Run,
): Promise<HttpResponse> {
  const allocate = (bytes: number) => scratch.take(bytes);
  const jsonLength = jsonLengthOf(request.headers[JSON_LENGTH_HEADER]);
  const body = request.body({ alignedAt: jsonLength, allocate });
  const read = jsonLength === 0 ? undefined : decodeInference(body, jsonLength);
  const run = reporter.start('zoo.serving.request.predict');
  const policy = { exactSignature: true, isOver: requestDeadline(clock) };
  const answer = await host.use(async (runner) => {
    assertVersion(version, runner, model);
    const asked = read ?? rawRequest(body, runner);
    const record = recordOf(asked.inputs, runner);
    assertOutputs(asked, runner.outputs);
    measure('Rows', rowsOf(record, runner.inputs));
    const [outcome] = await serveRequest([record], runner, policy);
    if (!outcome?.ok) throw outcome?.error ?? new Error('the model gave no outcome');
    if (outcome.value !== undefined)
      throw new ServingError(
        'model_failed',
        'the worker returned no arrays; ask POST /predict for its value',
      );
    const outputs = chosen(asked, outcome.outputs);
    return { model, version: runner.version, id: asked.id, outputs };
  });
  run();
  return inferenceAnswer(answer, allocate);
}

/** A body without JSON, for which all outputs are binary. */
function rawRequest(body: Uint8Array | string, { inputs = [] }: Runner): InferenceRequest {
  return { id: undefined, inputs: [rawInput(body, inputs)], outputs: undefined, binary: true };
}

function recordOf(inputs: readonly InferenceInput[], { inputs: specs = [], names }: Runner): Inputs {
  const record = new Map<string, Value>();
  for (const input of inputs) {
    const spec = specs.find(({ name }) => name === input.name);
    const tensor = tensorOf(input, spec !== undefined && mayMiss(spec, names));
    record.set(input.name, { kind: 'tensor', tensor });
  }
  return record;
}

function tensorOf(input: InferenceInput, isTable: boolean): Tensor {
  if ('tensor' in input) return input.tensor;
  const { name, dtype, shape, data } = input;
  try {
    const count = elementCount(shape);
    const given = nestedTensor(data, dtype, isTable);
    const isFlat = given.shape.length === 1 && given.shape[0] === count;
    if (!isFlat && formatShape(given.shape) !== formatShape(shape)) {
      throw badInput(
        `"data" is of shape ${formatShape(given.shape)}; expected ${count} elements flat, or nested as ${formatShape(shape)}`,
      );
    }
    return { dtype, shape, data: given.data };
  } catch (error) {
    const { code, message } = ServingError.from(error);
    throw new ServingError(code, `input ${quoteName(name)}: ${message}`, { cause: error });
  }
}

function rowsOf(record: Inputs, specs: readonly TensorSpec[] = []): number {
  for (const [name, value] of record) {
    const axis = specs.find((spec) => spec.name === name)?.batchAxis ?? 0;
    const rows = value.kind === 'tensor' && axis !== 'none' ? value.tensor.shape[axis] : undefined;
    if (rows !== undefined) return rows;
  }
  return 1;
}

/** Checked before the run if the model declares its outputs, so that a typo does not cost a run. */
function assertOutputs({ outputs }: InferenceRequest, known: readonly { name: string }[] | undefined): void {
  const unknown = known && outputs?.find(({ name }) => !known.some((output) => output.name === name));
  if (!unknown) return;
  throw badRequest(
    `output ${quoteName(unknown.name)}: the model has ${quoteNames(known.map(({ name }) => name))}`,
  );
}

/** The requested outputs in their order, or all of them. */
function chosen(asked: InferenceRequest, tensors: readonly AnsweredOutput['tensor'][]): AnsweredOutput[] {
  if (!asked.outputs) return tensors.map((tensor) => ({ tensor, binary: asked.binary }));
  assertOutputs(asked, tensors);
  return asked.outputs.flatMap(({ name, binary }) =>
    tensors.filter((tensor) => tensor.name === name).map((tensor) => ({ tensor, binary })),
  );
}
