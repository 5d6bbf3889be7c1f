/** The endpoints whose requests may be lines of a batch, as they answer over HTTPS. */
import { readEmbeddings } from '../http/embeddings.ts';
import { readInstances } from '../http/instances.ts';
import { openAIError } from '../http/openai/error.ts';
import { plainAnswer } from '../http/plain.ts';
import { predictionsAnswer } from '../http/predictions.ts';
import { ownBody } from '../http/response.ts';
import type { JobDeps } from '../jobs/serve.ts';
import type { Filter } from '../pipeline/answer/postprocess.ts';

export function endpoints(job: string, filter: Filter | undefined): JobDeps['endpoint'] {
  const embeddings = { read: (body: string) => readEmbeddings(body, job), errorBody: openAIError };
  const predict = (parameters: { readonly form?: string }) => ({
    read(body: string) {
      const headers = { 'content-type': 'application/json' };
      const read = readInstances({ headers, parameters, path: '/predict', body: () => body });
      if (read instanceof Promise) throw new TypeError('JSON is read at once');
      const { records, isPlain } = read;
      return {
        records,
        answer: (outcomes: Parameters<typeof plainAnswer>[0], { version }: { readonly version: string }) =>
          isPlain ? plainAnswer(outcomes, filter, version) : predictionsAnswer(outcomes, filter),
      };
    },
    errorBody: ownBody,
  });
  const all = {
    '/v1/embeddings': embeddings,
    '/predict': predict({}),
    '/predict?form=plain': predict({ form: 'plain' }),
  };
  return (name) => all[name];
}
