/**
 * Archives a message that was received too often in S3, and stores a failed result for its record. Archiving comes
 * first: if the function stops in between, the message is delivered again and both steps are repeated with the same
 * outcome. This function is in the VPC with Redis, where S3 is reachable for free.
 */
import type { SQSBatchItemFailure, SQSBatchResponse, SQSEvent, SQSRecord } from 'aws-lambda';
import { enqueueOf } from '../lib/codecs/attributes.ts';
import { encodeDeadLetter, uriOf } from '../lib/codecs/dead-letter.ts';
import { composeDeadLetter } from '../lib/compose/dead-letter.ts';
import { lambdaHandler } from '../lib/compose/handler.ts';
import { ServingError } from '../lib/contract/errors.ts';
import { logError } from '../lib/contract/log.ts';
import { measure } from '../lib/metrics/emf.ts';
import type { Sink } from '../lib/pipeline/serve.ts';

interface DeadLetterDeps {
  readonly sink: Sink;
  /** Stores one message under its id. */
  readonly archive: (messageId: string, message: string) => Promise<void>;
  /** The deliveries before a record arrives here. */
  readonly attempts: number;
}

export const deadLetter =
  (deps: DeadLetterDeps) =>
  async (event: SQSEvent): Promise<SQSBatchResponse> => {
    const batchItemFailures: SQSBatchItemFailure[] = [];
    for (const record of event.Records) {
      try {
        const unsaved = await deadLetterRecord(record, deps);
        batchItemFailures.push(...unsaved.map((itemIdentifier) => ({ itemIdentifier })));
      } catch (error) {
        logError(error, { messageId: record.messageId, trace_id: enqueueOf(record).trace?.traceId });
        batchItemFailures.push({ itemIdentifier: record.messageId });
      }
    }
    return { batchItemFailures };
  };

/** @returns its id when its result could not be saved */
async function deadLetterRecord(
  record: SQSRecord,
  { sink, archive, attempts }: DeadLetterDeps,
): Promise<readonly string[]> {
  const { messageId, body } = record;
  const enqueue = enqueueOf(record);
  const sentAt = enqueue.sentAt || undefined;
  const { MessageGroupId: groupId } = record.attributes;
  await archive(messageId, encodeDeadLetter({ messageId, ...enqueue, sentAt, attempts, groupId, body }));
  measure('DeadLettered', 1);
  const uri = uriOf(body);
  // There is no uri to store a failure under; the archived message can still be inspected.
  if (uri === undefined) return [];
  const message = `the record failed ${attempts} times and was archived as ${messageId}`;
  const error = new ServingError('max_receives_exceeded', message);
  return sink.save([{ id: messageId, enqueue, uri, outcome: { ok: false, error } }], '');
}

export const handler = lambdaHandler('sqs', deadLetter, composeDeadLetter);
