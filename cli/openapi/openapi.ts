/**
 * `cluster-serving openapi`. A single machine has the document. A deployment has none, because its functions would carry it to
 * every cold start: it is made here, of what `GET /v2/models/{job}` says, with an example that POST /predict has answered.
 */
import { writeFile } from 'node:fs/promises';
import { isObject } from '../../lib/codecs/instances.ts';
import { type ErrorCode, ServingError } from '../../lib/contract/errors.ts';
import { DECLARATIONS } from '../../lib/http/routes/lists/declarations.ts';
import { OPENAPI_PATH, openApiDocument } from '../../lib/openapi/document.ts';
import { type Json, type ModelFacts, modelOfMetadata, type Security } from '../../lib/openapi/facts.ts';
import { exampleOf } from '../../lib/openapi/inputs.ts';
import { type AccessOptions, authorizedFetch } from '../../sdk/access.ts';
import { errorOf, type Fetch, postJson, request, requestBytes } from '../../sdk/fetch.ts';
import { defineCommand, wrongUse } from '../command.ts';
import { EXIT } from '../output.ts';
import { findService, JOB, notRunning, SERVICE_OPTIONS, withServedJob } from '../service.ts';

const TIMEOUT_MS = 35_000;
const MAX_BYTES = 64 * 1024 * 1024;
/** Where an instance is not what the model takes. */
const NOT_ANSWERED: readonly ErrorCode[] = ['bad_request', 'bad_input', 'too_large', 'model_failed'];

export const command = defineCommand({
  name: 'openapi',
  about: `Describes the HTTP API of a service as OpenAPI 3.1, with the inputs of its model, for programs that make clients of it.
A deployment is asked for its model, and runs it up to twenty times to find an example that it answers.`,
  options: {
    out: { value: 'file', about: 'where to write it (default: it is printed)' },
    ...SERVICE_OPTIONS,
    job: JOB,
  },
  async run({ out, ...values }, output) {
    const service = await findService(values);
    if (!service) return notRunning(values, output, '--url or --stack');
    const { http, access } = service;
    if (http === undefined) throw wrongUse('openapi needs the HTTPS API: pass --url or --stack');
    const send = authorizedFetch(http, access);
    const asked = async () => ({
      ...(await withServedJob(service, values)),
      send,
      security: securityOf(http, access),
    });
    const found = (await own(http, send)) ?? (await made(http, await asked()));
    const document = { ...found, servers: [{ url: http }] };
    const text = JSON.stringify(document, undefined, 2);
    if (out === undefined) output.answer(document, text);
    else {
      await writeFile(out, `${text}\n`);
      output.answer({ file: out }, `wrote ${out}`);
    }
    return EXIT.ok;
  },
});

/** The document that the service has; undefined for none. */
async function own(http: string, send: Fetch): Promise<Json | undefined> {
  const url = `${http}${OPENAPI_PATH}`;
  const answer = await requestBytes(url, {}, { timeoutMs: TIMEOUT_MS, send, maxBytes: MAX_BYTES });
  if (answer.status === 404) return undefined;
  if (!answer.ok) throw errorOf(url, answer);
  const document: unknown = JSON.parse(Buffer.from(answer.bytes).toString());
  if (isObject(document) && 'openapi' in document) return document;
  throw notOurs(url);
}

interface Asked {
  readonly job: string;
  readonly send: Fetch;
  readonly security: Security;
}

async function made(http: string, { job, send, security }: Asked): Promise<Json> {
  const url = `${http}/v2/models/${job}`;
  const { body } = await request(url, {}, TIMEOUT_MS, undefined, send);
  const [version] = isObject(body) && Array.isArray(body['versions']) ? body['versions'] : [];
  if (typeof version !== 'string') throw notOurs(url);
  const model = modelOfMetadata(body);
  const facts = { job, version, model, security, url: http };
  // No route says whether the job takes records with their batch dimension; what is answered does.
  for (const inputAlreadyBatched of [false, true]) {
    const example = model && (await answeredInstance(http, send, model, inputAlreadyBatched));
    if (example) return openApiDocument({ ...facts, inputAlreadyBatched, example }, DECLARATIONS);
  }
  return openApiDocument({ ...facts, inputAlreadyBatched: false, example: undefined }, DECLARATIONS);
}

/** An instance that POST /predict of a deployment answers. @throws what says that it answers none now */
export function answeredInstance(http: string, send: Fetch, model: ModelFacts, inputAlreadyBatched: boolean) {
  return exampleOf(model, inputAlreadyBatched, async (instance) => {
    try {
      await postJson(`${http}/predict`, JSON.stringify({ instances: [instance] }), TIMEOUT_MS, send);
      return true;
    } catch (error) {
      if (error instanceof ServingError && NOT_ANSWERED.includes(error.code)) return false;
      throw error;
    }
  });
}

function securityOf(http: string, { auth, token, apiKey }: AccessOptions): Security {
  if (auth !== undefined) return auth;
  if (token !== undefined) return 'jwt';
  if (apiKey !== undefined) return 'api-key';
  return new URL(http).hostname.includes('.execute-api.') ? 'iam' : 'none';
}

function notOurs(url: string): ServingError {
  return wrongUse(`${url} answered, but not as this service does`);
}
