/** Composes what puts records into the queue. Nothing is opened before the first record. */
import type { AcceptDeps } from '../http/accept.ts';
import { queue } from './queue.ts';
import type { Scope } from './scope.ts';

export function accept(scope: Scope): Pick<AcceptDeps, 'queue' | 'payloads'> {
  return {
    queue: () => scope.get(queue),
    // Loaded on demand: the S3 client is half of a cold start, and large records are rare.
    payloads: () => import('./s3.ts').then(({ payloads }) => scope.get(payloads)),
  };
}
