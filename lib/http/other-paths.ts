/** The paths of the predict function that few deployments ask: what answers them is loaded at its first request. */
import type { InvocationClock } from '../pipeline/deadline.ts';
import type { answerInference as AnswerInference } from './open-inference/endpoint.ts';
import type { HttpRequest } from './request.ts';
import type { ErrorBody, HttpResponse } from './response.ts';
import type { WorkerDeps } from './worker/endpoint.ts';
import { errorEnvelope, isWorkerPath } from './worker/paths.ts';

const EMBEDDINGS_PATH = '/v1/embeddings';
const SERVING_PATHS = /^\/v1\/models(?:\/|$)/;

/** Kept once it is loaded: an import of a loaded module still waits for a turn of the event loop. */
let answerInference: typeof AnswerInference | undefined;

/** Undefined for other paths. */
export async function answerOther(
  request: HttpRequest,
  deps: WorkerDeps,
  clock: InvocationClock | undefined,
): Promise<HttpResponse | undefined> {
  if (/^\/v2(?:\/|$)/.test(request.path)) {
    answerInference ??= (await import('./open-inference/endpoint.ts')).answerInference;
    return answerInference(request, deps, clock);
  }
  if (request.path === EMBEDDINGS_PATH) {
    const { answerEmbeddings } = await import('./embeddings.ts');
    return answerEmbeddings(request, deps, clock);
  }
  if (SERVING_PATHS.test(request.path)) {
    const { answerServing } = await import('./tensorflow-serving/endpoint.ts');
    return answerServing(request, deps, clock);
  }
  if (!isWorkerPath(request.path)) return undefined;
  const { answerWorker } = await import('./worker/endpoint.ts');
  return answerWorker(request, deps, clock);
}

/** As OpenAI's API answers; `code` is ours. */
const openAiError: ErrorBody = ({ status, publicMessage, code }) => ({
  error: {
    message: publicMessage,
    type: status === 429 ? 'rate_limit_error' : status < 500 ? 'invalid_request_error' : 'server_error',
    param: null,
    code,
  },
});

/** As TensorFlow Serving answers. */
const servingError: ErrorBody = ({ publicMessage }) => ({ error: publicMessage });

/** How errors are answered on a path; undefined: in our own form. */
export function errorForm(path: string): ErrorBody | undefined {
  if (path === EMBEDDINGS_PATH) return openAiError;
  if (SERVING_PATHS.test(path)) return servingError;
  return isWorkerPath(path) ? errorEnvelope : undefined;
}
