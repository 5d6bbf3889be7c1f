/** Answers GET /ready: 200 when a prediction can work, else what is away, all of it. */
import { ServingError } from '../contract/errors.ts';
import type { ServingVersion } from '../metrics/fields.ts';
import { errorResponse, type HttpResponse, json, type LogError } from './response.ts';

interface Checks {
  /** The version of the model. @throws model_unavailable, with S3's error as its cause where S3 is away */
  readonly model: Promise<string>;
  /** The versions that environments answered with. @throws results_unavailable */
  readonly serving: Promise<readonly ServingVersion[]>;
}

/** @throws any error but an absence */
export async function readyAnswer(checks: Checks, log: LogError): Promise<HttpResponse> {
  const [model, serving] = await Promise.allSettled([checks.model, checks.serving]);
  if (model.status === 'fulfilled' && serving.status === 'fulfilled') {
    const versions = serving.value.map(({ version, atMs }) => ({
      version,
      at: new Date(atMs).toISOString(),
    }));
    return json(200, {
      ready: true,
      model: model.value,
      ...(versions.length > 0 ? { serving: versions } : {}),
    });
  }
  const errors = [serving, model].flatMap((check) =>
    check.status === 'rejected' ? ServingError.from(check.reason) : [],
  );
  const [first = new ServingError('internal', 'not ready'), ...others] = errors;
  const names = errors.map(nameOf);
  for (const other of others) log(other);
  const error = `not ready: ${names.join(', and ')}; the log says why`;
  return errorResponse(first, log, ({ code }) => ({ error, code }));
}

/**
 * The part that is unavailable, without a host or a path.
 * @throws any other error
 */
function nameOf(error: ServingError): string {
  if (error.code === 'results_unavailable') return 'the results cannot be reached';
  if (error.code !== 'model_unavailable') throw error;
  return error.cause === undefined ? 'no model can be served' : 'the model cannot be reached (S3)';
}
