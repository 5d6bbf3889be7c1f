/**
 * Runs a decoded Open Inference request, whichever protocol it came by: one record of tensors with the model's exact
 * signature becomes named tensors.
 */
import type { InferenceInput, InferenceRequest } from '../../codecs/open-inference/request.ts';
import { quoteName, quoteNames } from '../../codecs/quote.ts';
import { badInput, badRequest, ServingError } from '../../contract/errors.ts';
import { DEFAULT_JOB_NAME } from '../../contract/names.ts';
import { allocate, elementCount, formatShape, type Tensor } from '../../contract/tensor.ts';
import type {
  Caller,
  Inputs,
  Model,
  NamedTensor,
  Outcome,
  Runner,
  TensorSpec,
  Value,
} from '../../contract/values.ts';
import { mayMiss } from '../../pipeline/bind/columns.ts';
import { jsonTensor } from '../../pipeline/bind/numbers.ts';
import type { requestPolicy } from '../../pipeline/deadline.ts';
import { type NamedModels, unknownModel } from '../../pipeline/named-models.ts';
import type { Observers } from '../../pipeline/observer.ts';
import { serveRequest } from '../../pipeline/serve.ts';
import { type RunHeaders, runHeaders } from '../run-headers.ts';
import { assertClassified, classified } from './classification.ts';
import { Phases } from './phases.ts';

export interface Limiter {
  /** Takes one token. @throws rate_limited with the time to retry after; cancelled when the caller leaves */
  acquire(caller?: Caller): Promise<void>;
}

export interface InferenceDeps {
  readonly model: Model;
  /** Undefined for no limit. */
  readonly limiter?: Limiter | undefined;
  readonly observers: Observers;
  /** The model's name under /v2. Default "serving_stream". */
  readonly jobName?: string;
  /** Counts of its inferences, in the form of Triton's statistics extension. Default: nothing is counted. */
  readonly statistics?: { of(version: string, name: string): object };
  /** The filter of the job's other answers, for those who read these; those of /v2 have none. Default: none. */
  readonly postProcessing?: string;
  /** Further models, each under its name. Default: there are none. */
  readonly further?: (() => Promise<NamedModels>) | undefined;
  /** Names of further models, for a request that names another one. */
  readonly names?: readonly string[];
  /** Rows that may share a run. Default 32. */
  readonly batchSize?: number;
}

export interface AnsweredOutput {
  readonly tensor: NamedTensor;
  /** The form that the request wants for this output. */
  readonly binary: boolean;
}

export interface InferenceAnswer {
  readonly model: string;
  /** The version that answered. */
  readonly version: string;
  readonly headers: RunHeaders;
  /** The id of the request. */
  readonly id: string | undefined;
  /** In the order of the request, or all of the model's. */
  readonly outputs: readonly AnsweredOutput[];
}

export function jobOf({ jobName = DEFAULT_JOB_NAME }: InferenceDeps): string {
  return jobName;
}

/** @param names of further models. @throws not_found */
export function assertModel(name: string, job: string, names?: readonly string[]): void {
  if (name !== job) throw unknownModel(name, job, names);
}

/** @throws not_found */
export function assertVersion(version: string | undefined, runner: Runner, job: string): void {
  if (version === undefined || version === runner.version) return;
  throw new ServingError(
    'not_found',
    `no version ${quoteName(version)} of ${quoteName(job)}; version ${quoteName(runner.version)} serves`,
  );
}

/**
 * Reads, runs and answers a request of the model of this name (undefined: the job's) within the job's limit of requests
 * and its timers, and counts it.
 * @param answer ends the phases up to the run's
 * @throws not_found, rate_limited, and any error of `answer`
 */
export async function admitted<T>(
  name: string | undefined,
  deps: InferenceDeps,
  caller: Caller | undefined,
  answer: (phases: Phases) => Promise<T>,
): Promise<T> {
  const { observers, limiter } = deps;
  const model = jobOf(deps);
  assertModel(name ?? model, model, deps.names);
  const stop = observers.start('request');
  const phases = new Phases(observers.now);
  await limiter?.acquire(caller);
  phases.end('queue');
  const answered = await answer(phases).catch((error: unknown) => {
    phases.tell(observers, true);
    throw error;
  });
  phases.tell(observers, false);
  stop();
  return answered;
}

interface Run {
  /** The version that is asked for; undefined for the one that serves. */
  readonly version: string | undefined;
  readonly policy: ReturnType<typeof requestPolicy>;
  readonly phases: Phases;
}

/**
 * @param asked the request, or what makes it where that takes the model's inputs
 * @returns tensors that may be views of the request's
 * @throws not_found, bad_request, bad_input, and any error of the model
 */
export async function runInference(
  asked: InferenceRequest | ((runner: Runner) => InferenceRequest),
  deps: InferenceDeps,
  { version, policy, phases }: Run,
): Promise<InferenceAnswer> {
  const model = jobOf(deps);
  phases.end('compute_input');
  const run = deps.observers.start('run');
  const answer = await deps.model.use(async (runner) => {
    phases.end('queue');
    assertVersion(version, runner, model);
    const request = typeof asked === 'function' ? asked(runner) : asked;
    const pictures = picturesOf(request.inputs, runner);
    const record = pictures?.[0] ?? recordOf(request.inputs, runner);
    assertOutputs(request, runner.outputs);
    const rows = pictures?.length ?? rowsOf(record, runner.inputs);
    deps.observers.rowsRead?.(rows);
    phases.reaches(runner.version, rows);
    phases.end('compute_input');
    const isOver = () => policy.isOver() || phases.ms > (request.timeoutMs ?? Number.POSITIVE_INFINITY);
    const outcomes = await serveRequest(
      pictures ?? [record],
      runner,
      { ...policy, exactSignature: pictures === undefined, isOver },
      deps.observers,
    );
    phases.end('compute_infer');
    const [outputs = []] = outcomes.map(outputsOf);
    return {
      model,
      version: runner.version,
      headers: runHeaders(runner, outcomes),
      id: request.id,
      outputs: chosen(request, pictures ? await stacked(outcomes, runner) : outputs, runner.outputs),
    };
  });
  run();
  return answer;
}

function outputsOf(outcome: Outcome): readonly NamedTensor[] {
  if (!outcome.ok) throw outcome.error;
  if (outcome.value === undefined) return outcome.outputs;
  throw new ServingError('model_failed', 'the worker returned no arrays; ask POST /predict for its value');
}

/** The outputs of records of one image each, as one batch. */
async function stacked(outcomes: readonly Outcome[], { outputs }: Runner): Promise<NamedTensor[]> {
  // Loaded on demand: few requests have images.
  const { batchOf } = await import('../tensorflow-serving/records.ts');
  const asked = { records: [], isWhole: false, isList: true, rows: outcomes.length, isSqueezed: false };
  return batchOf(outcomes, asked, outputs);
}

/** A record for each image; undefined for a request of tensors. @throws bad_input */
function picturesOf(inputs: readonly InferenceInput[], { inputs: specs = [] }: Runner): Inputs[] | undefined {
  const input = inputs.find((one) => 'pictures' in one);
  if (!input || !('pictures' in input)) return undefined;
  const where = `input ${quoteName(input.name)}`;
  const spec = specs.find(({ name }) => name === input.name);
  if (spec?.dtype === 'string') throw badInput(`${where}: BYTES element 0 is no UTF-8 text, but an image`);
  if (!spec || inputs.length > 1 || specs.length > 1)
    throw badInput(
      `${where}: images go to the only input of a model, which has ${quoteNames(specs.map(({ name }) => name))}`,
    );
  return input.pictures.map((bytes) => new Map([[input.name, { kind: 'image', bytes }]]));
}

function recordOf(inputs: readonly InferenceInput[], { inputs: specs = [], names }: Runner): Inputs {
  const record = new Map<string, Value>();
  for (const input of inputs) {
    const spec = specs.find(({ name }) => name === input.name);
    const tensor = withoutPadding(tensorOf(input, spec !== undefined && mayMiss(spec, names)));
    record.set(input.name, { kind: 'tensor', tensor });
  }
  return record;
}

/**
 * Clients in C fill texts up with NUL, which Triton takes for their end. One within a text is refused, where Triton drops what
 * follows, and so is a text of NUL alone, as by every other endpoint.
 */
function withoutPadding(tensor: Tensor): Tensor {
  if (tensor.dtype !== 'string' || !tensor.data.some((text) => text.endsWith('\0'))) return tensor;
  return { ...tensor, data: tensor.data.map((text) => text.slice(0, endOf(text))) };
}

function endOf(text: string): number {
  let end = text.length;
  while (text[end - 1] === '\0') end -= 1;
  return end === 0 ? text.length : end;
}

/** Nested lists of these sizes, one of which is 0, or none at all. */
function isEmptyNest(data: unknown, [size, ...inner]: readonly number[]): boolean {
  if (!Array.isArray(data)) return false;
  return data.length === 0 || (data.length === size && data.every((one) => isEmptyNest(one, inner)));
}

function tensorOf(input: InferenceInput, isTable: boolean): Tensor {
  if ('tensor' in input) return input.tensor;
  if ('pictures' in input) throw badInput('images and tensors do not mix');
  const { name, dtype, shape, data } = input;
  try {
    const count = elementCount(shape);
    if (count === 0 && isEmptyNest(data, shape))
      return dtype === 'string' ? { dtype, shape, data: [] } : { dtype, shape, data: allocate(dtype, 0) };
    const given = jsonTensor(data, dtype, isTable);
    const isFlat = given.shape.length === 1 && given.shape[0] === count;
    if (!isFlat && formatShape(given.shape) !== formatShape(shape)) {
      throw badInput(
        `"data" is of shape ${formatShape(given.shape)}; expected ${count} elements flat, or nested as ${formatShape(shape)}`,
      );
    }
    return { ...given, shape };
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
function assertOutputs({ outputs = [] }: InferenceRequest, known: readonly TensorSpec[] | undefined): void {
  for (const { name, classes } of outputs) {
    const spec = known?.find((output) => output.name === name);
    if (known && !spec) throw noOutput(name, known);
    if (classes !== undefined) assertClassified(name, spec);
  }
}

function noOutput(name: string, known: readonly { readonly name: string }[]): ServingError {
  return badRequest(`output ${quoteName(name)}: the model has ${quoteNames(known.map((one) => one.name))}`);
}

/** The requested outputs in their order, or all of them. */
function chosen(
  asked: InferenceRequest,
  tensors: readonly NamedTensor[],
  specs: readonly TensorSpec[] = [],
): AnsweredOutput[] {
  if (!asked.outputs) return tensors.map((tensor) => ({ tensor, binary: asked.binary }));
  return asked.outputs.map(({ name, binary, classes }) => {
    const tensor = tensors.find((output) => output.name === name);
    if (!tensor) throw noOutput(name, tensors);
    const spec = specs.find((output) => output.name === name);
    return { tensor: classes && spec ? classified(tensor, spec, classes) : tensor, binary };
  });
}
