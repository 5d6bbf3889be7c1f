/**
 * Archives a message that was received too often in S3, and stores a failed result for its record. Archiving comes
 * first: if the function stops in between, the message is delivered again and both steps are repeated with the same
 * outcome. The batch function ends records by itself; here arrives what it could not end in 1,000 deliveries.
 */
import type { SQSBatchResponse, SQSEvent, SQSRecord } from 'aws-lambda';
import { enqueueOf } from '../lib/codecs/attributes.ts';
import { uriOf } from '../lib/codecs/dead-letter.ts';
import { composeDeadLetter } from '../lib/compose/dead-letter.ts';
import { lambdaHandler } from '../lib/compose/handler.ts';
import { logError } from '../lib/contract/log.ts';
import { type Archive, archiveDead, exceeded, MOST_DELIVERIES } from '../lib/pipeline/dead-letters.ts';
import type { Observer } from '../lib/pipeline/observer.ts';
import type { Sink } from '../lib/pipeline/serve.ts';

interface DeadLetterDeps {
  readonly sink: Sink;
  readonly archive: Archive;
  readonly observers: Observer;
  /** The deliveries before a record arrives here from a queue that gives up earlier. */
  readonly attempts: number;
}

export const deadLetter =
  ({ attempts, sink, ...deps }: DeadLetterDeps) =>
  async ({ Records }: SQSEvent): Promise<SQSBatchResponse> => {
    const deliveriesOf = ({ attributes }: SQSRecord) =>
      Number(attributes.ApproximateReceiveCount) > MOST_DELIVERIES ? MOST_DELIVERIES : attempts;
    const dead = Records.map((record) => ({ id: record.messageId, attempts: deliveriesOf(record) }));
    const again = new Set(await archiveDead(Records, dead, deps));
    for (const record of Records.filter(({ messageId }) => !again.has(messageId))) {
      const { messageId: id, body } = record;
      const uri = uriOf(body);
      // There is no uri to store a failure under; the archived message can still be inspected.
      if (uri === undefined) continue;
      const enqueue = enqueueOf(record);
      const error = exceeded(id, deliveriesOf(record));
      try {
        const failed = { id, enqueue, uri, outcome: { ok: false, error } } as const;
        const unsaved = await sink.save([failed], '');
        for (const unsavedId of unsaved) again.add(unsavedId);
      } catch (failure) {
        logError(failure, { messageId: id, trace_id: enqueue.trace?.traceId });
        again.add(id);
      }
    }
    return { batchItemFailures: [...again].map((itemIdentifier) => ({ itemIdentifier })) };
  };

export const handler = lambdaHandler('sqs', deadLetter, composeDeadLetter);
