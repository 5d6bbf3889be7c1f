/** `GET /openapi.json` and `GET /docs` of a single machine, made once for each version of the model. */
import { decodeInstances } from '../../lib/codecs/instances.ts';
import { logError } from '../../lib/contract/log.ts';
import type { Model, Runner } from '../../lib/contract/values.ts';
import { page } from '../../lib/http/page.ts';
import { predictionsAnswer } from '../../lib/http/predictions.ts';
import { type HttpResponse, jsonText, respond } from '../../lib/http/response.ts';
import { OPENAPI_PATH, openApiDocument } from '../../lib/openapi/document.ts';
import type { Json, ModelFacts, Security } from '../../lib/openapi/facts.ts';
import { exampleOf } from '../../lib/openapi/inputs.ts';
import { docsPage } from '../../lib/openapi/page.ts';
import type { Filter } from '../../lib/pipeline/answer/postprocess.ts';
import { serveRequest } from '../../lib/pipeline/serve.ts';
import type { GatewayRoute } from '../gateway/routes.ts';

interface Described {
  readonly job: string;
  readonly model: Model;
  readonly filter: Filter | undefined;
  readonly inputAlreadyBatched: boolean;
  readonly security: Security;
  readonly hasControl: boolean;
}

export function descriptionRoutes(described: Described): GatewayRoute[] {
  let latest: { readonly version: string; readonly document: Promise<Json> } | undefined;
  const document = () =>
    described.model.use(async (runner) => {
      const { version } = runner;
      if (latest?.version !== version) latest = { version, document: documentOf(runner, described) };
      return latest.document;
    });
  const route = (path: string, answer: (document: Json, host: string) => HttpResponse): GatewayRoute => ({
    method: 'GET',
    path,
    functionName: 'description',
    handler: ({ headers }) =>
      respond(async () => answer(await document(), headers['host'] ?? 'localhost'), logError),
  });
  return [
    route(OPENAPI_PATH, (made) => jsonText(200, JSON.stringify(made))),
    // The gateway has compared the host with its own names.
    route('/docs', (made, host) => page(docsPage(made, `http://${host}`))),
  ];
}

async function documentOf(runner: Runner, described: Described): Promise<Json> {
  const example = await answeredInstance(runner, described);
  return openApiDocument({
    ...described,
    version: runner.version,
    model: factsOf(runner),
    example,
    url: '/',
    isLocal: true,
  });
}

function factsOf({ inputs = [], outputs = [], names }: Runner): ModelFacts | undefined {
  return inputs.length > 0 ? { inputs, outputs, names } : undefined;
}

/** An instance that POST /predict answers; undefined for a worker, and where none is found. */
export async function answeredInstance(
  runner: Runner,
  { filter, inputAlreadyBatched }: Pick<Described, 'filter' | 'inputAlreadyBatched'>,
): Promise<Json | undefined> {
  const model = factsOf(runner);
  return model && exampleOf(model, inputAlreadyBatched, (instance) => isAnswered(instance, runner, filter));
}

/** True if POST /predict would answer it now. */
async function isAnswered(instance: Json, runner: Runner, filter: Filter | undefined): Promise<boolean> {
  try {
    const records = decodeInstances(JSON.stringify({ instances: [instance] }));
    predictionsAnswer(await serveRequest(records, runner, { isOver: () => false }), filter);
    return true;
  } catch {
    return false;
  }
}
