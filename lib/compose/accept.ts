/** The parts that put records into the queue. Nothing is opened before the first record comes. */
import type { AcceptDeps } from '../http/accept.ts';
import { queue } from './queue.ts';
import type { Scope } from './scope.ts';

export function accept(scope: Scope): Pick<AcceptDeps, 'queue' | 'payloads'> {
  return {
    queue: () => scope.get(queue),
    // On demand: S3's client is half of a cold start, and hardly any record is too large for a message.
    payloads: () => import('./s3.ts').then(({ payloads }) => scope.get(payloads)),
  };
}
