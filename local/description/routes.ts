/** `GET /openapi.json` and `GET /docs` of a single machine, made once for each version of the model. */
import { decodeInstances } from '../../lib/codecs/instances.ts';
import { logError } from '../../lib/contract/log.ts';
import type { Model, Runner } from '../../lib/contract/values.ts';
import { page } from '../../lib/http/page.ts';
import { predictionsAnswer } from '../../lib/http/predictions.ts';
import { type HttpResponse, jsonText, respond } from '../../lib/http/response.ts';
import type { Declaration } from '../../lib/openapi/declaration.ts';
import { OPENAPI_PATH, openApiDocument } from '../../lib/openapi/document.ts';
import type { Json, ModelFacts, Security } from '../../lib/openapi/facts.ts';
import { exampleOf } from '../../lib/openapi/inputs.ts';
import { TEXT } from '../../lib/openapi/json-schema.ts';
import { answer } from '../../lib/openapi/operation.ts';
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
  /** Of all routes of this service. */
  readonly declarations: readonly Declaration[];
}

const DOCS_PATH = '/docs';

export const DESCRIPTION: Declaration = {
  routes: [`GET ${OPENAPI_PATH}`, `GET ${DOCS_PATH}`],
  operations: () => [
    {
      id: 'openapi',
      tag: 'service',
      summary: 'This document',
      answers: { 200: answer('OpenAPI 3.1.', { type: 'object' }) },
      errors: ['model_unavailable'],
    },
    {
      path: DOCS_PATH,
      id: 'docs',
      tag: 'service',
      summary: 'This document as a page',
      answers: { 200: answer('HTML without scripts.', TEXT, 'text/html') },
      errors: ['model_unavailable'],
    },
  ],
};

export function descriptionRoutes(described: Described): GatewayRoute[] {
  let latest: { readonly version: string; readonly document: Promise<Json> } | undefined;
  const document = () =>
    described.model.use(async (runner) => {
      const { version } = runner;
      if (latest?.version !== version) latest = { version, document: documentOf(runner, described) };
      return latest.document;
    });
  const route = (path: string, write: (document: Json, host: string) => HttpResponse): GatewayRoute => ({
    method: 'GET',
    path,
    functionName: 'description',
    handler: ({ headers }) =>
      respond(async () => write(await document(), headers['host'] ?? 'localhost'), logError),
  });
  return [
    route(OPENAPI_PATH, (made) => jsonText(200, JSON.stringify(made))),
    // The gateway has compared the host with its own names.
    route(DOCS_PATH, (made, host) => page(docsPage(made, `http://${host}`))),
  ];
}

async function documentOf(runner: Runner, described: Described): Promise<Json> {
  const example = await answeredInstance(runner, described);
  const facts = { ...described, version: runner.version, model: factsOf(runner), example, url: '/' };
  return openApiDocument(facts, described.declarations);
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

/** Whether POST /predict would answer it. */
async function isAnswered(instance: Json, runner: Runner, filter: Filter | undefined): Promise<boolean> {
  try {
    const records = decodeInstances(JSON.stringify({ instances: [instance] }));
    predictionsAnswer(await serveRequest(records, runner, { isOver: () => false }), filter);
    return true;
  } catch {
    return false;
  }
}
