/** POST /v1/embeddings, in the form of OpenAI's API. What answers it is loaded at its first request. */
import { LIMITS } from '../../contract/limits.ts';
import type { Declaration } from '../../openapi/declaration.ts';
import { list, object, TEXT } from '../../openapi/json-schema.ts';
import { answer, RUN_ERRORS } from '../../openapi/operation.ts';
import { type Handle, withErrors } from '../handle.ts';
import type { InferenceDeps } from '../open-inference/run.ts';
import { openAIError } from '../openai/error.ts';

export const handle: Handle<InferenceDeps> = withErrors(openAIError, async (request, deps, clock) => {
  const { answerEmbeddings } = await import('../embeddings.ts');
  return answerEmbeddings(request, deps, clock);
});

export const declaration: Declaration = {
  routes: ['POST /v1/embeddings'],
  function: 'predict',
  errorForm: 'OpenAIError',
  operations: ({ model, job }) => {
    const tokens = { ...list({ type: 'integer', minimum: 0, maximum: 2 ** 31 - 1 }), minItems: 1 };
    const isEmbedding = model?.inputs[0]?.isText === true && model.outputs[0]?.name === 'embedding';
    const asked = object(
      {
        input: { anyOf: [TEXT, list(TEXT, LIMITS.instances), tokens, list(tokens, LIMITS.instances)] },
        model: { type: 'string', const: job },
        encoding_format: { type: 'string', enum: ['float', 'base64'] },
        dimensions: { type: 'integer', minimum: 1, maximum: 2 ** 31 - 1 },
        prompt_name: TEXT,
      },
      ['encoding_format', 'dimensions', 'prompt_name'],
    );
    const vector = object({
      object: { type: 'string', const: 'embedding' },
      index: { type: 'integer' },
      embedding: { anyOf: [list({ type: 'number' }), TEXT] },
    });
    const answered = object({
      object: { type: 'string', const: 'list' },
      data: list(vector),
      model: TEXT,
      usage: object({ prompt_tokens: { type: 'integer' }, total_tokens: { type: 'integer' } }),
    });
    return [
      {
        id: 'embeddings',
        tag: 'predict',
        summary: "Vectors of texts, in the form of OpenAI's API",
        body: {
          'application/json': {
            schema: asked,
            ...(isEmbedding && { example: { input: 'a text', model: job } }),
          },
        },
        answers: { 200: answer('A vector for each text.', answered) },
        errors: [...RUN_ERRORS, 'not_found'],
      },
    ];
  },
};
