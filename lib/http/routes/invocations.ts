/**
 * POST /invocations, where SageMaker and MLflow send requests: bodies as of POST /predict, tables of MLflow among them. The answer is
 * `{"predictions":[…]}`, with the value of the only output for each instance, or an object of all outputs.
 */
import type { Declaration } from '../../openapi/declaration.ts';
import { list, object } from '../../openapi/json-schema.ts';
import { answer, RUN_ERRORS } from '../../openapi/operation.ts';
import { instancesBody, WARNING } from '../../openapi/records.ts';
import { answerRecords } from '../answer-records.ts';
import type { Handle } from '../handle.ts';
import { readInstances } from '../instances.ts';
import type { PredictDeps } from './predict.ts';

type Deps = Pick<PredictDeps, 'observers' | 'limiter' | 'model' | 'filter'>;

export const handle: Handle<Deps> = (request, deps, clock) =>
  answerRecords(deps, clock, {
    read: () => readInstances(request),
    answer: async (outcomes) => (await import('../plain.ts')).listAnswer(outcomes, deps.filter),
  });

export const declaration: Declaration = {
  routes: ['POST /invocations'],
  function: 'predict',
  operations: ({ example }) => [
    {
      id: 'invocations',
      tag: 'predict',
      summary: 'Answers instances as SageMaker and MLflow ask for it',
      body: instancesBody(example),
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
