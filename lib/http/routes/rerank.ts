/** POST /rerank, in the forms of text-embeddings-inference and of Cohere. What answers it is loaded at its first request. */
import { LIMITS } from '../../contract/limits.ts';
import type { Declaration } from '../../openapi/declaration.ts';
import { list, object, TEXT } from '../../openapi/json-schema.ts';
import { answer, RUN_ERRORS } from '../../openapi/operation.ts';
import type { Handle } from '../handle.ts';
import type { InferenceDeps } from '../open-inference/run.ts';

export const handle: Handle<InferenceDeps> = async (request, deps, clock) => {
  const { answerRerank } = await import('../rerank.ts');
  return answerRerank(request, deps, clock);
};

export const declaration: Declaration = {
  routes: ['POST /rerank'],
  function: 'predict',
  operations: ({ model, job }) => {
    const flag = { type: 'boolean' };
    const index = { type: 'integer', minimum: 0 };
    const score = { type: ['number', 'null'] };
    const name = { type: 'string', const: job };
    const isCrossEncoder =
      model?.inputs.some((input) => input.name === 'text_pair') === true &&
      model.outputs[0]?.shape.at(-1) === 1;
    const texts = object(
      {
        query: TEXT,
        texts: list(TEXT, LIMITS.instances),
        raw_scores: flag,
        return_text: flag,
        truncate: flag,
      },
      ['raw_scores', 'return_text', 'truncate'],
    );
    const documents = object(
      {
        query: TEXT,
        documents: list({ anyOf: [TEXT, object({ text: TEXT })] }, LIMITS.instances),
        top_n: { type: 'integer', minimum: 1 },
        return_documents: flag,
        model: name,
      },
      ['top_n', 'return_documents', 'model'],
    );
    const ranked = list(object({ index, score, text: TEXT }, ['text']));
    const result = object({ index, relevance_score: score, document: object({ text: TEXT }) }, ['document']);
    return [
      {
        id: 'rerank',
        tag: 'predict',
        summary: 'Texts in the order in which they answer a query',
        body: {
          'application/json': {
            schema: { anyOf: [texts, documents] },
            ...(isCrossEncoder && { example: { query: 'a question', texts: ['an answer', 'another text'] } }),
          },
        },
        answers: {
          200: answer('The best text first.', { anyOf: [ranked, object({ results: list(result) })] }),
        },
        errors: [...RUN_ERRORS, 'not_found'],
      },
    ];
  },
};
