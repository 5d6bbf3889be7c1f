/**
 * POST /invocations, where SageMaker and MLflow send requests: bodies as of POST /predict, tables of MLflow among them. The answer is
 * `{"predictions":[…]}`, with the value of the only output for each instance, or an object of all outputs.
 */
import type { Declaration } from '../../openapi/declaration.ts';
import { ref } from '../../openapi/inputs.ts';
import { list, object } from '../../openapi/json-schema.ts';
import { answer, RUN_ERRORS } from '../../openapi/operation.ts';
import { FILES, WARNING } from '../../openapi/records.ts';
import { requestPolicy } from '../../pipeline/deadline.ts';
import { serveRequest } from '../../pipeline/serve.ts';
import type { Handle } from '../handle.ts';
import { readInstances } from '../instances.ts';
import { jsonText } from '../response.ts';
import type { PredictDeps } from './predict.ts';

type Deps = Pick<PredictDeps, 'observers' | 'limiter' | 'model' | 'filter'>;

export const handle: Handle<Deps> = async (request, { observers, limiter, model, filter }, clock) => {
  const stop = observers.start('request');
  await limiter?.acquire(clock?.caller);
  const { instances, inPlace, headers } = await readInstances(request);
  observers.rowsRead?.(instances.length);
  const run = observers.start('run');
  const { outcomes, version } = await model.use(async (runner) => ({
    outcomes: await serveRequest(instances, runner, requestPolicy(clock), observers).catch(inPlace),
    version: runner.version,
  }));
  run();
  const { listAnswer } = await import('../plain.ts');
  const body = listAnswer(outcomes, filter);
  stop();
  return jsonText(200, body, { 'model-version': version, ...headers });
};

export const declaration: Declaration = {
  routes: ['POST /invocations'],
  function: 'predict',
  operations: ({ example }) => [
    {
      id: 'invocations',
      tag: 'predict',
      summary: 'Answers instances as SageMaker and MLflow ask for it',
      body: {
        'application/json': {
          schema: { anyOf: [ref('Instances'), ref('Values'), ref('Columns'), ref('Dataframe')] },
          ...(example && { example: { instances: [example] } }),
        },
        ...FILES,
      },
      answers: {
        200: {
          ...answer(
            'For each instance its value, or an object of all outputs.',
            object({ predictions: list({}) }),
          ),
          ...WARNING,
        },
      },
      errors: RUN_ERRORS,
    },
  ],
};
