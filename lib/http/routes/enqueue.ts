/** POST /predictions puts records into the queue and answers 202 with uri and Location. */
import { LIMITS } from '../../contract/limits.ts';
import type { Declaration } from '../../openapi/declaration.ts';
import { ref } from '../../openapi/inputs.ts';
import { DELAY_SECONDS, EXPIRES_AFTER, PRIORITY, TARGET } from '../../openapi/json-schema.ts';
import { keyParameter, parameter } from '../../openapi/operation.ts';
import { ENQUEUED, FILES } from '../../openapi/records.ts';
import { IDENTITY } from '../../openapi/schemas.ts';
import { type AcceptDeps, acceptRecords } from '../accept.ts';
import type { Handle } from '../handle.ts';

export const handle: Handle<AcceptDeps> = acceptRecords;

export const declaration: Declaration = {
  routes: ['POST /predictions'],
  function: 'submit',
  operations: ({ example }) => [
    {
      id: 'enqueue',
      tag: 'queue',
      summary: 'Puts records into the queue',
      parameters: [
        parameter(
          'Idempotency-Key',
          'header',
          IDENTITY,
          'Becomes the identity of the record. One key with another body is refused.',
        ),
        keyParameter(),
        parameter(
          'notify',
          'query',
          TARGET,
          'The target of config.yaml that is notified when the records are done, where the body has no place for it.',
        ),
        parameter(
          'expiresAfter',
          'query',
          EXPIRES_AFTER,
          'Seconds after which a record that still waits is not run, and fails with `record_expired`.',
        ),
        parameter('delaySeconds', 'query', DELAY_SECONDS, 'Seconds before which no record runs.'),
        parameter('priority', 'query', PRIORITY, '`high` needs `queue.highShare` in config.yaml.'),
      ],
      body: {
        'application/json': {
          schema: {
            anyOf: [ref('Records'), ref('Values'), ref('Columns'), ref('Dataframe'), ref('WireRecord')],
          },
          ...(example && { example: { instances: [example] } }),
        },
        'application/x-ndjson': {
          schema: {
            type: 'string',
            description: `A record on each line, up to ${LIMITS.recordsPerBody}: Records of one instance, or a WireRecord.`,
          },
        },
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
  ],
};
