/** Sends the notices of the outbox to their targets (lib/notify/notifier.ts). */
import { lambdaHandler } from '../lib/compose/handler.ts';
import { composeNotifier } from '../lib/compose/notifier.ts';
import { notifyTargets } from '../lib/notify/notifier.ts';

export const handler = lambdaHandler('sqs', notifyTargets, composeNotifier);
