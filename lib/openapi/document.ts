/**
 * Describes a service as OpenAPI 3.1: the operations that its routes declare, with the inputs of its own model. The statuses of errors
 * are those of their codes (lib/contract/errors.ts).
 */
import { ERRORS, type ErrorCode } from '../contract/errors.ts';
import { SERVER_VERSION } from '../contract/names.ts';
import { type Declaration, type DescribedOperation, operationsOf } from './declaration.ts';
import type { Json, Security, ServiceFacts } from './facts.ts';
import { ref } from './inputs.ts';
import { schemasOf } from './schemas.ts';

export const OPENAPI_PATH = '/openapi.json';

/** Where the gateway may answer before the service does, and says so in its own form. */
const GATEWAY_STATUSES: ReadonlySet<number> = new Set([400, 401, 403, 404, 413, 429, 500, 503]);
/** Errors that any request may meet. */
const ALWAYS: readonly ErrorCode[] = [
  'bad_request',
  'unauthorized',
  'forbidden',
  'rate_limited',
  'too_large',
  'internal',
  'timeout',
];

/** In which order readers get the operations of a job. */
const MODEL_TAGS: readonly string[] = ['predict', 'queue', 'batch', 'v2', 'v1', 'service', 'worker'];
const WORKER_TAGS: readonly string[] = ['worker', 'queue', 'service', 'predict', 'batch', 'v2', 'v1'];

const SCHEMES: Readonly<Record<Exclude<Security, 'none'>, Json>> = {
  token: { type: 'http', scheme: 'bearer', description: 'The token of --token-file.' },
  jwt: { type: 'http', scheme: 'bearer', bearerFormat: 'JWT' },
  iam: {
    type: 'apiKey',
    name: 'Authorization',
    in: 'header',
    description: 'AWS Signature Version 4 of the service execute-api.',
    'x-amazon-apigateway-authtype': 'awsSigv4',
  },
  'api-key': { type: 'apiKey', name: 'x-api-key', in: 'header' },
};

export function openApiDocument(facts: ServiceFacts, declarations: readonly Declaration[]): Json {
  const { job, version, security, url } = facts;
  const paths: Record<string, Record<string, Json>> = {};
  const tags = facts.model ? MODEL_TAGS : WORKER_TAGS;
  const rank = ({ tag }: DescribedOperation) => tags.indexOf(tag);
  for (const operation of operationsOf(facts, declarations).toSorted((a, b) => rank(a) - rank(b))) {
    (paths[operation.path] ??= {})[operation.method] = operationText(operation, security);
  }
  return {
    openapi: '3.1.0',
    info: {
      title: `Cluster Serving: ${job}`,
      version: SERVER_VERSION,
      description: `Version ${version} of the model serves. HEAD answers as GET does, without a body. A body may be compressed as gzip or deflate.`,
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
    },
    servers: [{ url }],
    ...(security === 'none' ? {} : { security: [{ [security]: [] }] }),
    paths,
    components: {
      schemas: schemasOf(facts),
      ...(security === 'none' ? {} : { securitySchemes: { [security]: SCHEMES[security] } }),
    },
  };
}

function operationText(operation: DescribedOperation, security: Security): Json {
  const { id, tag, summary, parameters = [], body, isBodyOptional, answers } = operation;
  return {
    operationId: id,
    tags: [tag],
    summary,
    ...(parameters.length > 0 && { parameters }),
    ...(body && { requestBody: { required: !isBodyOptional, content: body } }),
    responses: { ...answers, ...errorAnswers(operation, security) },
  };
}

/** By status; a 429 and a 503 say when to try again. */
function errorAnswers({ errorForm: form, errors }: DescribedOperation, security: Security): Json {
  const codes = new Map<number, ErrorCode[]>();
  for (const code of new Set([...ALWAYS, ...errors])) {
    const { status } = ERRORS[code];
    codes.set(status, [...(codes.get(status) ?? []), code]);
  }
  if (security === 'none') codes.delete(401);
  // An address that the caller may not use has the same code as a caller who is not known.
  codes.set(403, [...(codes.get(403) ?? []), 'unauthorized']);
  for (const status of [431, 503]) if (!codes.has(status)) codes.set(status, []);
  return Object.fromEntries(
    [...codes].map(([status, known]) => {
      const isOnlyGateway = known.length === 0;
      const gateway = GATEWAY_STATUSES.has(status) || isOnlyGateway ? [ref('GatewayError')] : [];
      // Refusals of callers come before the route is looked at.
      const plain = [401, 403].includes(status) && form !== 'Error' ? [ref('Error')] : [];
      const forms = [...(isOnlyGateway ? [] : [ref(form)]), ...plain, ...gateway];
      const schema = forms.length === 1 ? forms[0] : { anyOf: forms };
      const waits = status === 429 || status === 503;
      return [
        status,
        {
          description: isOnlyGateway ? 'The gateway refused.' : known.map((code) => `\`${code}\``).join(', '),
          ...(waits && { headers: { 'Retry-After': { schema: { type: 'integer' } } } }),
          content: { 'application/json': { schema } },
        },
      ];
    }),
  );
}
