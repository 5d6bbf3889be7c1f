/**
 * In: a function's environment. Out: what it needs to put records into the queue.
 * Trap: nothing is made before the first record comes; the same bundle may be deployed where it has no queue.
 */
import type { Environment } from '../config/environment.ts';
import type { AcceptDeps } from '../http/accept.ts';
import type { QueueSender } from '../queue/sender.ts';
import { liveQueue } from './live-queue.ts';

export function liveAccept(environment: Environment): Pick<AcceptDeps, 'queue' | 'payloads'> {
  let queue: QueueSender | undefined;
  let payloads: ReturnType<AcceptDeps['payloads']> | undefined;
  return {
    queue: () => (queue ??= liveQueue(environment)),
    payloads: () => {
      payloads ??= import('./live-s3.ts').then(({ livePayloads }) => livePayloads(environment));
      return payloads;
    },
  };
}
