/**
 * GET /ready: 200 when a prediction can work, else what is away, all of it. It asks S3 which model was pushed and the store which ones
 * answer, and loads no model.
 */
import { ServingError } from '../../contract/errors.ts';
import { logError } from '../../contract/log.ts';
import type { ServedVersions } from '../../contract/values.ts';
import type { ShownBudget } from '../../metrics/budget.ts';
import type { ServingVersion } from '../../metrics/fields.ts';
import type { Declaration } from '../../openapi/declaration.ts';
import { COUNT, list, object, TEXT } from '../../openapi/json-schema.ts';
import { answer } from '../../openapi/operation.ts';
import type { Handle } from '../handle.ts';
import { errorResponse, json } from '../response.ts';

export interface ReadyDeps {
  readonly results: {
    /** The versions that environments answered with. @throws results_unavailable */
    serving(): Promise<readonly ServingVersion[]>;
    /** @throws results_unavailable */
    lostCaptures(): Promise<number>;
  };
  /** @throws model_unavailable, with S3's error as its cause where S3 is away */
  readonly versions: () => Promise<ServedVersions>;
  /** Undefined: the job has no budget. @throws results_unavailable */
  readonly budget?: (() => Promise<ShownBudget>) | undefined;
}

/** @throws any error but an absence */
export const handle: Handle<ReadyDeps> = async (_, deps) => {
  const { results, versions, budget } = deps;
  const figures = Promise.all([results.serving(), results.lostCaptures(), budget?.()]);
  const [model, serving] = await Promise.allSettled([versions(), figures]);
  if (model.status === 'fulfilled' && serving.status === 'fulfilled') {
    const [served, lostCaptures, spent] = serving.value;
    const answering = served.map(({ version, atMs }) => ({
      version,
      at: new Date(atMs).toISOString(),
    }));
    return json(200, {
      ready: true,
      ...versionsText(model.value),
      ...(answering.length > 0 ? { serving: answering } : {}),
      ...(lostCaptures > 0 ? { lostCaptures } : {}),
      ...(spent ? { budget: spent } : {}),
    });
  }
  const errors = [serving, model].flatMap((check) =>
    check.status === 'rejected' ? ServingError.from(check.reason) : [],
  );
  const [first = new ServingError('internal', 'not ready'), ...others] = errors;
  const names = errors.map(nameOf);
  for (const other of others) logError(other);
  const error = `not ready: ${names.join(', and ')}; the log says why`;
  return errorResponse(first, logError, ({ code }) => ({ error, code }));
};

function versionsText({ version, canary, shadow }: ServedVersions) {
  return {
    model: version,
    // Without the files of a pointer.
    ...(canary && { canary: { version: canary.version, share: canary.share, since: canary.since } }),
    ...(shadow && { shadow: { version: shadow.version, since: shadow.since } }),
  };
}

/** The part that is unavailable, without a host or a path. @throws any other error */
function nameOf(error: ServingError): string {
  if (error.code === 'results_unavailable') return 'the results cannot be reached';
  if (error.code !== 'model_unavailable') throw error;
  return error.cause === undefined ? 'no model can be served' : 'the model cannot be reached (S3)';
}

export const declaration: Declaration = {
  routes: ['GET /ready', 'HEAD /ready'],
  function: 'status',
  operations: () => {
    const time = { ...TEXT, format: 'date-time' };
    const dollars = { type: 'number', minimum: 0 } as const;
    const period = object({ spent: dollars, limit: dollars }, ['limit']);
    const served = object({ version: TEXT, at: time });
    // `model` was pushed; environments have answered with those of `serving`.
    const ready = object(
      {
        ready: { type: 'boolean', const: true },
        model: TEXT,
        canary: object({ version: TEXT, share: { type: 'number', minimum: 0, maximum: 0.5 }, since: time }),
        shadow: object({ version: TEXT, since: time }),
        serving: list(served),
        lostCaptures: COUNT,
        budget: object({ day: period, month: period, overshoot: dollars, refusesUntil: time }, [
          'refusesUntil',
        ]),
      },
      ['canary', 'shadow', 'serving', 'lostCaptures', 'budget'],
    );
    return [
      {
        id: 'ready',
        tag: 'service',
        summary: 'Whether a prediction can work',
        answers: { 200: answer('It can.', ready) },
        errors: ['model_unavailable', 'results_unavailable'],
      },
    ];
  },
};
