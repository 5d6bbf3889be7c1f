/**
 * The routes of the worker service (`POST /encode…`): each body is one item. A job with a model takes them too, as one
 * record. Their answers have an envelope of their own, `{error_code, error_message, data}`.
 */
import { instancesOf, readJson } from '../../codecs/instances.ts';
import { parseExactly } from '../../codecs/json.ts';
import { quoteName } from '../../codecs/quote.ts';
import { decodeUtf8 } from '../../codecs/utf8.ts';
import { badRequest, ServingError } from '../../contract/errors.ts';
import { LIMITS, overLimit } from '../../contract/limits.ts';
import { SERVER_VERSION } from '../../contract/names.ts';
import type { Inputs, Outcome, Runner, RunPolicy, Value } from '../../contract/values.ts';
import { valueText } from '../../pipeline/answer/value-text.ts';
import { type InvocationClock, requestPolicy } from '../../pipeline/deadline.ts';
import { serveRequest } from '../../pipeline/serve.ts';
import type { InferenceDeps } from '../open-inference/run.ts';
import { assertAnswer } from '../predictions.ts';
import { type HttpRequest, mediaType } from '../request.ts';
import { type HttpResponse, json, jsonText } from '../response.ts';
import { runHeaders } from '../run-headers.ts';
import { readForm } from './form.ts';
import { FRAME_TYPE, type Later, runFrame } from './frames.ts';
import { imageItem, rgbImage } from './image.ts';
import { asItem, valueOf } from './item.ts';

/** Routes that only the single machine has. */
export interface EncodeDeps {
  /** Fetches an image from an allowed host. @throws forbidden, bad_request, too_large, timeout */
  readonly fetchImage: (url: string) => Promise<Uint8Array>;
  readonly later: Later;
}

export interface WorkerDeps extends InferenceDeps {
  /** Undefined when deployed. */
  readonly encode?: EncodeDeps | undefined;
}

/** The version of the frames of clients. */
export const WIRE_VERSION = 1;

type Success = Outcome & { readonly ok: true };

/** The item of a request, for a runner: a model's inputs have names. */
type Item = (runner: Runner) => Inputs;

/** @throws any error of the request or of its item */
export async function answerWorker(
  request: HttpRequest,
  deps: WorkerDeps,
  clock: InvocationClock | undefined,
): Promise<HttpResponse> {
  if (request.method === 'GET') return deployedStatus(deps);
  const { observers, limiter } = deps;
  const stop = observers.start('request');
  await limiter?.acquire(clock?.caller);
  const response = await answerItem(request, deps, requestPolicy(clock));
  observers.rowsRead?.(1);
  stop();
  return response;
}

async function answerItem(request: HttpRequest, deps: WorkerDeps, policy: RunPolicy): Promise<HttpResponse> {
  if (request.path === '/encode' && mediaType(request) === FRAME_TYPE) {
    const later = deps.encode?.later;
    return runFrame(request, { ...deps, later, policy });
  }
  const item = await readItem(request, deps);
  return deps.model.use(async (runner) => {
    const outcomes = await serveRequest([item(runner)], runner, policy, deps.observers);
    const [outcome] = outcomes;
    const text = valueText(valueOf(outcome as Success, runner));
    const body = assertAnswer(`{"error_code":0,"error_message":"Success.","data":${text}}`);
    return jsonText(200, body, runHeaders(runner, outcomes));
  });
}

/** The status that a client checks before its first item. The single machine adds its statistics (local/worker). */
function deployedStatus({ jobName }: WorkerDeps): HttpResponse {
  return json(200, { server_version: SERVER_VERSION, wkr_protocol: WIRE_VERSION, job: jobName });
}

async function readItem(request: HttpRequest, { encode }: WorkerDeps): Promise<Item> {
  switch (request.path) {
    case '/encode_json':
      return jsonItem(request);
    case '/encode_img_bytes':
      return named('img_bytes', imageItem(uploaded(request)));
    case '/v1/encode_img_bytes': {
      const bytes = uploaded(request);
      assertSmall(bytes);
      return named('img_bytes', imageItem(await rgbImage(bytes)));
    }
    case '/encode_img_url': {
      const url = urlField(request);
      if (!encode)
        throw new ServingError('forbidden', 'a deployed service fetches no images; send the image');
      return named('img_url', imageItem(await encode.fetchImage(url)));
    }
    default:
      return named('img_url', { kind: 'json', value: urlField(request) });
  }
}

/** For a worker the whole body is the item; a model takes it as the inputs by name. */
function jsonItem(request: HttpRequest): Item {
  const { text, parsed } = readJson(request.body(), 'any JSON', parseExactly);
  const value = asItem(parsed);
  return (runner) => {
    if (!runner.inputs) return new Map<string, Value>([['item', { kind: 'json', value }]]);
    const [record] = instancesOf({ instances: [parsed] }, `{"instances":[${text}]}`);
    return record as Inputs;
  };
}

/** The item has no name of its own, so a model takes it as its first input. */
function named(name: string, value: Value): Item {
  return ({ inputs }) => new Map([[inputs?.[0]?.name ?? name, value]]);
}

/** The file of a form. */
function uploaded(request: HttpRequest): Uint8Array {
  if (mediaType(request) !== 'multipart/form-data') throw wrongType(request, 'multipart/form-data');
  const bytes = readForm(request).get('img_bytes');
  if (!(bytes instanceof Uint8Array))
    throw badRequest('no "img_bytes" in the form; expected the file of an image under this name');
  return bytes;
}

function assertSmall({ byteLength }: Uint8Array): void {
  if (byteLength <= LIMITS.smallImageBytes) return;
  throw overLimit('smallImageBytes', `the image is ${byteLength} bytes,`, 'bytes');
}

const FORMS: readonly string[] = ['application/x-www-form-urlencoded', 'multipart/form-data'];

function urlField(request: HttpRequest): string {
  const type = mediaType(request);
  const isForm = FORMS.includes(type);
  if (!isForm && type !== 'application/json') {
    throw wrongType(
      request,
      `a form, application/json${request.path === '/encode' ? ` or ${FRAME_TYPE}` : ''}`,
    );
  }
  const fields = isForm ? readForm(request) : jsonFields(request);
  if (fields.has('proxy')) throw badRequest('"proxy" is not served; the service fetches the image itself');
  const url = fields.get('img_url');
  const text = url instanceof Uint8Array ? decodeUtf8(url) : url;
  if (typeof text === 'string') return text;
  throw badRequest('no "img_url"; expected the address of an image as text');
}

function jsonFields(request: HttpRequest): ReadonlyMap<string, unknown> {
  const { parsed } = readJson(request.body(), '{"img_url":"https://…"}');
  const isObject = typeof parsed === 'object' && parsed !== null && !Array.isArray(parsed);
  return new Map(isObject ? Object.entries(parsed) : []);
}

function wrongType(request: HttpRequest, expected: string): ServingError {
  const got = quoteName(mediaType(request));
  return new ServingError('unsupported_media_type', `content-type ${got}: expected ${expected}`);
}
