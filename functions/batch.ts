/** Serves the events of the queue (lib/pipeline/event.ts), from which SQS takes what it should deliver again. */
import { composeBatch } from '../lib/compose/batch.ts';
import { lambdaHandler } from '../lib/compose/handler.ts';
import { serveEvent } from '../lib/pipeline/event.ts';

export const handler = lambdaHandler('sqs', serveEvent, composeBatch);
