/** The operations on records of the queue and their results. */
import { LIMITS } from '../contract/limits.ts';
import { ref } from './inputs.ts';
import { object, TEXT } from './json-schema.ts';
import { answer, type Operation, type Operations, parameter } from './operation.ts';
import { IDENTITY, URI } from './schemas.ts';

const URI_QUERY = parameter('uri', 'query', URI);
const URI_PATH = parameter(
  'uri',
  'path',
  { ...URI, pattern: '^[A-Za-z0-9_-]+$' },
  'Any other uri goes into the query.',
);
const IDENTITY_QUERY = parameter('identity', 'query', IDENTITY, 'Asks for the result of this enqueue alone.');
const FETCHED = parameter(
  'fetched',
  'query',
  { type: 'string', format: 'uuid', pattern: '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' },
  'The id of a large result that was fetched and may be deleted.',
);
const WAIT = parameter('Prefer', 'header', TEXT, '`wait=10` waits up to so many seconds, at most 20.');
const KEY = parameter(
  'Idempotency-Key',
  'header',
  IDENTITY,
  'Becomes the identity of the record. One key with another body is refused.',
);
const RESULT = answer('The result.', ref('Result'));
const SEE_OTHER = {
  ...answer('A result over 1 MiB: fetch `Location`, without credentials.', ref('Succeeded')),
  headers: { Location: { schema: TEXT } },
};
const READ_ERRORS = ['bad_request', 'not_found', 'too_large', 'results_unavailable'] as const;
const READ = { answers: { 200: RESULT, 303: SEE_OTHER }, errors: READ_ERRORS } as const;
/** Header of an answer to a body of instances. */
export const WARNING = {
  headers: { Warning: { schema: TEXT, description: 'Keys of the body that were ignored: 299 - "…".' } },
};
/** Answers to an enqueue, by status. */
export const ENQUEUED = {
  202: {
    ...answer('The records are in the queue.', {
      anyOf: [ref('Accepted'), ref('AllAccepted'), ref('EachAccepted')],
    }),
    ...WARNING,
  },
  207: { ...answer('A record on a line, or each of them, was refused.', ref('EachAccepted')), ...WARNING },
};

/** Bodies that are files, by media type. */
export const FILES = {
  'text/csv': { schema: { type: 'string', description: 'A table: the first line names the columns.' } },
  'image/*': { schema: { type: 'string', format: 'binary', description: 'An image for the only input.' } },
  'multipart/form-data': {
    schema: { type: 'object', description: 'Inputs by name: files are images, other fields texts.' },
  },
};

const LINES = {
  type: 'string',
  description: `A record on each line, up to ${LIMITS.recordsPerBody}: Records of one instance, or a WireRecord.`,
};

export const QUEUE: Operations = ({ example }) => [
  {
    method: 'post',
    path: '/predictions',
    id: 'enqueue',
    tag: 'queue',
    summary: 'Puts records into the queue',
    parameters: [KEY],
    body: {
      'application/json': {
        schema: { anyOf: [ref('Records'), ref('Values'), ref('Columns'), ref('WireRecord')] },
        ...(example && { example: { instances: [example] } }),
      },
      'application/x-ndjson': { schema: LINES },
      ...FILES,
    },
    answers: ENQUEUED,
    errors: [
      'bad_request',
      'bad_input',
      'too_large',
      'unsupported_media_type',
      'conflict',
      'queue_unavailable',
      'results_unavailable',
    ],
  },
  ...RESULTS,
];

const RESULTS: readonly Operation[] = [
  {
    method: 'get',
    path: '/predictions',
    id: 'getResultByQuery',
    tag: 'queue',
    summary: 'The result of a record, whatever its uri',
    parameters: [{ ...URI_QUERY, required: true }, IDENTITY_QUERY, WAIT],
    ...READ,
  },
  {
    method: 'delete',
    path: '/predictions',
    id: 'takeResults',
    tag: 'queue',
    summary: 'Takes up to 100 results, or that of one uri',
    parameters: [URI_QUERY, IDENTITY_QUERY, FETCHED],
    answers: {
      200: answer('What was deleted.', { anyOf: [ref('Page'), ref('Result')] }),
      303: SEE_OTHER,
    },
    errors: READ_ERRORS,
  },
  ...(['get', 'delete'] as const).map(
    (method): Operation => ({
      method,
      path: '/predictions/{uri}',
      route: '/predictions/{uri+}',
      id: method === 'get' ? 'getResult' : 'takeResult',
      tag: 'queue',
      summary: method === 'get' ? 'The result of a record' : 'The result of a record, and deletes it',
      parameters: [URI_PATH, IDENTITY_QUERY, method === 'get' ? WAIT : FETCHED],
      ...READ,
    }),
  ),
  {
    method: 'get',
    path: '/status',
    id: 'getStatus',
    tag: 'queue',
    summary: 'The state of a record',
    parameters: [{ ...URI_QUERY, required: true }, IDENTITY_QUERY],
    answers: {
      200: answer(
        'Its state.',
        object(
          {
            uri: URI,
            identity: IDENTITY,
            status: {
              type: 'string',
              enum: ['queued', 'running', 'succeeded', 'failed', 'expired', 'cancelled', 'unknown'],
            },
          },
          ['identity'],
        ),
      ),
    },
    errors: ['bad_request', 'results_unavailable'],
  },
  {
    method: 'post',
    path: '/cancel',
    id: 'cancel',
    tag: 'queue',
    summary: 'Cancels a record that has no result',
    parameters: [{ ...URI_QUERY, required: true }],
    answers: {
      200: answer('It is cancelled.', object({ uri: URI, status: { type: 'string', const: 'cancelled' } })),
    },
    errors: ['bad_request', 'conflict', 'results_unavailable'],
  },
  {
    method: 'get',
    path: '/large-results/{name}',
    id: 'getLargeResult',
    tag: 'queue',
    summary: 'The object of a large result',
    isLocal: true,
    parameters: [parameter('name', 'path', { type: 'string', pattern: '^[0-9a-f-]{36}(\\.json)?$' })],
    answers: {
      200: {
        description: 'The result, as JSON or as the bytes of a worker.',
        content: {
          'application/json': { schema: ref('Result') },
          'application/octet-stream': { schema: { type: 'string', format: 'binary' } },
        },
      },
    },
    errors: ['not_found', 'too_large'],
  },
];
