/**
 * In: a function's environment. Out: the sender of its job's queue.
 * Trap: the client is made on first use: a deployment of the same bundle that only reads has no queue url.
 */
import type { Environment } from '../config/environment.ts';
import { openSqs, QueueSender } from '../queue/sender.ts';

export function liveQueue(environment: Environment): QueueSender {
  return new QueueSender(openSqs({ endpoint: environment.endpoint }), { queueUrl: environment.queueUrl });
}
