/** The operations of /v1/files and /v1/batches, in the form of OpenAI's API. */
import type { DeclaredOperation } from './declaration.ts';
import type { Json } from './facts.ts';
import { COUNT, list, OBJECT, object, TEXT } from './json-schema.ts';
import { answer, parameter } from './operation.ts';

const TIME = { type: ['integer', 'null'] };
const NAME = { type: ['string', 'null'] };
const constant = (value: string): Json => ({ type: 'string', const: value });
const choice = (...values: readonly string[]): Json => ({ type: 'string', enum: values });
const listed = (item: Json) =>
  object({
    object: constant('list'),
    data: list(item),
    first_id: NAME,
    last_id: NAME,
    has_more: { type: 'boolean' },
  });

const FILE = object({
  id: TEXT,
  object: constant('file'),
  bytes: COUNT,
  created_at: COUNT,
  filename: TEXT,
  purpose: choice('batch', 'batch_output'),
  status: constant('processed'),
});
const PROBLEM = object({ code: TEXT, message: TEXT, param: NAME, line: TIME });
const BATCH = object({
  id: TEXT,
  object: constant('batch'),
  endpoint: TEXT,
  errors: { anyOf: [{ type: 'null' }, object({ object: constant('list'), data: list(PROBLEM) })] },
  input_file_id: TEXT,
  completion_window: constant('24h'),
  status: choice(
    'validating',
    'failed',
    'in_progress',
    'finalizing',
    'completed',
    'expired',
    'cancelling',
    'cancelled',
  ),
  output_file_id: NAME,
  error_file_id: NAME,
  created_at: COUNT,
  in_progress_at: TIME,
  expires_at: COUNT,
  finalizing_at: TIME,
  completed_at: TIME,
  failed_at: TIME,
  expired_at: TIME,
  cancelling_at: TIME,
  cancelled_at: TIME,
  request_counts: object({ total: COUNT, completed: COUNT, failed: COUNT }),
  metadata: { type: ['object', 'null'] },
});
const DELETED = object({ id: TEXT, object: constant('file'), deleted: { type: 'boolean' } });
const BYTES = { type: 'string', format: 'binary' };
const UPLOAD = object({ purpose: constant('batch'), file: BYTES });
const ASKED = object(
  {
    input_file_id: TEXT,
    endpoint: choice('/v1/embeddings', '/predict', '/predict?form=plain'),
    completion_window: constant('24h'),
    metadata: { ...OBJECT, additionalProperties: TEXT },
  },
  ['metadata'],
);

const ID = parameter('id', 'path', TEXT);
const PAGE = [
  parameter('limit', 'query', { type: 'integer', minimum: 1 }, 'At most 100 are listed.'),
  parameter('after', 'query', TEXT, 'The last id of the page before.'),
];

export function fileOperations(): readonly DeclaredOperation[] {
  const one = { tag: 'batch', path: '/v1/files/{id}', parameters: [ID], errors: ['not_found'] } as const;
  const purpose = parameter('purpose', 'query', choice('batch', 'batch_output'));
  const content = {
    200: answer('Its bytes.', BYTES, 'application/octet-stream'),
    303: { description: 'A file over 4 MiB: fetch `Location`, without credentials.' },
  };
  return [
    {
      id: 'uploadFile',
      tag: 'batch',
      summary: 'Uploads the requests of a batch, a line each',
      body: { 'multipart/form-data': { schema: UPLOAD } },
      answers: { 200: answer('The file.', FILE) },
      errors: [],
    },
    {
      method: 'get',
      id: 'listFiles',
      tag: 'batch',
      summary: 'The files, the newest first',
      parameters: [...PAGE, purpose],
      answers: { 200: answer('The files.', listed(FILE)) },
      errors: [],
    },
    { ...one, method: 'get', id: 'getFile', summary: 'A file', answers: { 200: answer('The file.', FILE) } },
    {
      ...one,
      method: 'delete',
      id: 'deleteFile',
      summary: 'Deletes a file',
      answers: { 200: answer('It is deleted.', DELETED) },
    },
    {
      ...one,
      method: 'get',
      path: '/v1/files/{id}/content',
      id: 'getFileContent',
      summary: 'The bytes of a file',
      answers: content,
      errors: ['not_found', 'conflict'],
    },
  ];
}

export function batchOperations(): readonly DeclaredOperation[] {
  const answers = { 200: answer('The batch.', BATCH) };
  const all = { tag: 'batch', path: '/v1/batches', answers, errors: ['not_found'] } as const;
  const one = { ...all, path: '/v1/batches/{id}', parameters: [ID] } as const;
  return [
    {
      ...all,
      method: 'post',
      id: 'createBatch',
      summary: 'Begins a batch of the requests of a file',
      body: { 'application/json': { schema: ASKED } },
    },
    {
      ...all,
      method: 'get',
      id: 'listBatches',
      summary: 'The batches of the last 29 days, the newest first',
      parameters: PAGE,
      answers: { 200: answer('The batches.', listed(BATCH)) },
      errors: [],
    },
    { ...one, method: 'get', id: 'getBatch', summary: 'A batch' },
    {
      ...one,
      method: 'post',
      path: '/v1/batches/{id}/cancel',
      id: 'cancelBatch',
      summary: 'Ends a batch; requests that have not run say so in its file of errors',
      errors: ['not_found', 'conflict'],
    },
  ];
}
