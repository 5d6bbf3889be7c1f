/**
 * TensorFlow Serving's REST API below /v1/models: predict, classify, regress, status and metadata. The model's name is the job's.
 * It has one version, a text, which serves; and one signature, the one that was imported.
 */
import { quoteName } from '../../codecs/quote.ts';
import {
  DEFAULT_SIGNATURE,
  decodeServing,
  methodOf,
  type Verb,
} from '../../codecs/tensorflow-serving/request.ts';
import { badRequest, ServingError } from '../../contract/errors.ts';
import type { DType } from '../../contract/tensor.ts';
import type { Runner, TensorSpec } from '../../contract/values.ts';
import { type InvocationClock, requestPolicy } from '../../pipeline/deadline.ts';
import { meantModel } from '../../pipeline/named-models.ts';
import { serveRequest } from '../../pipeline/serve.ts';
import { type InferenceDeps, jobOf } from '../open-inference/run.ts';
import { assertAnswer } from '../predictions.ts';
import type { HttpRequest } from '../request.ts';
import { type HttpResponse, json, jsonText } from '../response.ts';
import { runHeaders } from '../run-headers.ts';
import { answerText, rowsText } from './answer.ts';
import { batchOf, recordsOf, rowsAnswered } from './records.ts';

const PATH =
  /^\/v1\/models\/(?<name>[^/:]+)(?:\/versions\/(?<version>[^/:]+)|\/labels\/(?<label>[^/:]+))?(?:(?<metadata>\/metadata)|:(?<verb>predict|classify|regress))?$/;

interface Asked {
  readonly job: string;
  /** Names of further models. */
  readonly names: readonly string[];
  readonly name: string;
  readonly version: string | undefined;
}

/** @throws bad_request for an unknown path or label, not_found for an unknown model or version, and any error of the request */
export async function answerServing(
  request: HttpRequest,
  deps: InferenceDeps,
  clock: InvocationClock | undefined,
): Promise<HttpResponse> {
  const { groups } = PATH.exec(request.path) ?? {};
  const isPost = request.method === 'POST';
  if (request.path === '/v1/models' && !isPost) return json(200, await listOf(deps));
  if (!groups?.['name'] || isPost !== (groups['verb'] !== undefined))
    throw badRequest(`Malformed request: ${request.method} ${quoteName(request.path).slice(1, -1)}`);
  const { name, version, label, metadata, verb } = groups;
  if (label !== undefined)
    throw badRequest(
      `Unrecognized servable version label: ${quoteName(label)}; versions have no labels here`,
    );
  const asked: Asked = { job: jobOf(deps), names: deps.names ?? [], name, version };
  if (verb !== undefined) return inferred(request, deps, { ...asked, verb: verb as Verb }, clock);
  if (name !== asked.job) throw notFound(asked);
  // Opening the model shows whether it can serve; otherwise this throws model_unavailable.
  return deps.model.use(async (runner) => {
    assertVersion(asked, runner);
    return json(200, metadata === undefined ? statusOf(runner) : metadataOf(runner, name));
  });
}

/** OpenAI's list of models, beside what TensorFlow Serving answers here. */
async function listOf(deps: InferenceDeps) {
  const named = (await (await deps.further?.())?.list()) ?? [];
  const names = [jobOf(deps), ...named.map(({ name }) => name)];
  const data = names.map((id) => ({ id, object: 'model', created: 0, owned_by: 'cluster-serving' }));
  return { object: 'list', data, error: 'Missing model name in request.' };
}

function notFound({ name, version, job, names }: Asked, serves?: string): ServingError {
  const short = quoteName(name).slice(1, -1);
  const what =
    version === undefined ? `Latest(${short})` : `Specific(${short}, ${quoteName(version).slice(1, -1)})`;
  const known = serves === undefined ? knownText(name, job, names) : `version ${quoteName(serves)} serves`;
  return new ServingError('not_found', `Servable not found for request: ${what}; ${known}`);
}

function knownText(name: string, job: string, names: readonly string[]): string {
  return names.length === 0 ? `the model is ${quoteName(job)}` : meantModel(name, job, names);
}

function assertVersion(asked: Asked, runner: Runner): void {
  if (asked.version !== undefined && asked.version !== runner.version) throw notFound(asked, runner.version);
}

async function inferred(
  request: HttpRequest,
  { model, observers, limiter }: InferenceDeps,
  asked: Asked & { readonly verb: Verb },
  clock: InvocationClock | undefined,
): Promise<HttpResponse> {
  const { verb, name, job } = asked;
  if (name !== job) throw notFound(asked);
  const stop = observers.start('request');
  await limiter?.acquire(clock?.caller);
  const read = decodeServing(request.body(), verb);
  assertSignature(read.signature, verb);
  const run = observers.start('run');
  const { makeText, headers } = await model.use(async (runner) => {
    assertVersion(asked, runner);
    if (!runner.inputs)
      throw new ServingError('not_found', 'a worker serves here, which has no signature; ask POST /predict');
    const records = recordsOf(read, runner);
    observers.rowsRead?.(records.rows);
    const { isWhole, isList, rows } = records;
    const policy = { exactSignature: isWhole, isRow: !isWhole, ...requestPolicy(clock) };
    const outcomes = await serveRequest(records.records, runner, policy, observers);
    const named = runHeaders(runner, outcomes);
    if (verb === 'predict' && isList && !isWhole) {
      const each = rowsAnswered(outcomes, records);
      return { makeText: () => rowsText(each), headers: named };
    }
    const outputs = batchOf(outcomes, records, runner.outputs);
    return { makeText: () => answerText(verb, outputs, rows, isList), headers: named };
  });
  run();
  const text = assertAnswer(makeText());
  stop();
  return jsonText(200, text, headers);
}

/** A model has the signature that was imported, under the default name and that of its method. @throws bad_request */
function assertSignature(signature: string | undefined, verb: Verb): void {
  if (signature === undefined || signature === DEFAULT_SIGNATURE || signature === methodOf(verb)) return;
  throw badRequest(
    `Serving signature name: ${quoteName(signature)} not found in signature def; a model has the one signature that was imported, as "${DEFAULT_SIGNATURE}"`,
  );
}

function statusOf({ version }: Runner) {
  const status = { error_code: 'OK', error_message: '' };
  return { model_version_status: [{ version, state: 'AVAILABLE', status }] };
}

/** TensorFlow names the other dtypes as we do. */
const FLOATS: Readonly<Partial<Record<DType, string>>> = {
  float16: 'HALF',
  float32: 'FLOAT',
  float64: 'DOUBLE',
};

function metadataOf({ version, inputs = [], outputs = [] }: Runner, name: string) {
  const signature = {
    inputs: tensorsOf(inputs),
    outputs: tensorsOf(outputs),
    method_name: methodOf('predict'),
    defaults: {},
  };
  return {
    model_spec: { name, signature_name: '', version },
    metadata: { signature_def: { signature_def: { [DEFAULT_SIGNATURE]: signature } } },
  };
}

/** A shape without dimensions is one that the model does not declare, unless it is known to be a scalar's. */
function tensorsOf(specs: readonly TensorSpec[]) {
  const entries = specs.map(({ name, dtype, shape, isScalar }) => {
    const dim = shape.map((size) => ({ size: typeof size === 'number' ? String(size) : '-1', name: '' }));
    return [
      name,
      {
        dtype: `DT_${FLOATS[dtype] ?? dtype.toUpperCase()}`,
        tensor_shape: { dim, unknown_rank: dim.length === 0 && !isScalar },
        name,
      },
    ] as const;
  });
  return Object.fromEntries(entries);
}
