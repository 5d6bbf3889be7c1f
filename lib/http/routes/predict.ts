/**
 * POST /predict: {"instances":[{name: value}, ...]}, or a table as text/csv, becomes {"predictions":["{value=...}", ...]} in the same order;
 * values without names and files become plain JSON. One bad instance fails its request.
 */
import type { Declaration } from '../../openapi/declaration.ts';
import { ref } from '../../openapi/inputs.ts';
import { TEXT } from '../../openapi/json-schema.ts';
import { answer, keyParameter, parameter, RUN_ERRORS } from '../../openapi/operation.ts';
import { ENQUEUED, instancesBody, WARNING } from '../../openapi/records.ts';
import type { Filter } from '../../pipeline/answer/postprocess.ts';
import { requestPolicy } from '../../pipeline/deadline.ts';
import { serveRequest } from '../../pipeline/serve.ts';
import { type AcceptDeps, acceptRecords, prefersAsync } from '../accept.ts';
import type { Handle } from '../handle.ts';
import { readInstances } from '../instances.ts';
import type { InferenceDeps } from '../open-inference/run.ts';
import { predictionsAnswer } from '../predictions.ts';
import { jsonText } from '../response.ts';
import { runHeaders } from '../run-headers.ts';
import type { ReadUpload } from '../uploads.ts';

export interface PredictDeps extends InferenceDeps {
  /** Handles `Prefer: respond-async`; without it the preference is ignored, as RFC 7240 allows. */
  readonly accept?: AcceptDeps | undefined;
  readonly filter: Filter | undefined;
  /** Reads a body that was uploaded; absent where there is no bucket. */
  readonly uploads?: ReadUpload;
}

export const handle: Handle<PredictDeps> = async (request, deps, clock) => {
  const stop = deps.observers.start('request');
  if (deps.limiter) await deps.limiter.acquire(clock?.caller);
  if (deps.accept && prefersAsync(request)) return acceptRecords(request, deps.accept);
  const read = readInstances(request, deps.uploads);
  const { records, inPlace, headers, isPlain } = read instanceof Promise ? await read : read;
  deps.observers.rowsRead?.(records.length);
  const run = deps.observers.start('run');
  const policy = requestPolicy(clock);
  const { outcomes, runner } = await deps.model.use(async (serving) => ({
    outcomes: await serveRequest(records, serving, policy, deps.observers).catch(inPlace),
    runner: serving,
  }));
  run();
  const body = isPlain
    ? (await import('../plain.ts')).plainAnswer(outcomes, deps.filter, runner.version)
    : predictionsAnswer(outcomes, deps.filter);
  stop();
  return jsonText(200, body, { ...runHeaders(runner, outcomes), ...headers });
};

export const declaration: Declaration = {
  routes: ['POST /predict'],
  function: 'predict',
  operations: ({ example }) => [
    {
      id: 'predict',
      tag: 'predict',
      summary: 'Answers instances at once',
      parameters: [
        parameter('Prefer', 'header', TEXT, '`respond-async` enqueues the instances.'),
        keyParameter(),
        parameter('model', 'query', TEXT, 'A further model of the job.'),
        parameter('form', 'query', { type: 'string', const: 'plain' }, 'Answers as PlainPredictions.'),
      ],
      body: instancesBody(example),
      answers: {
        200: {
          ...answer('A prediction for each instance; plain where values have no names, and for files.', {
            anyOf: [ref('Predictions'), ref('PlainPredictions')],
          }),
          ...WARNING,
        },
        ...ENQUEUED,
      },
      errors: [...RUN_ERRORS, 'conflict', 'queue_unavailable'],
    },
  ],
};
