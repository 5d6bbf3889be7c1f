/** Composes what puts records into the queue. Nothing is opened before the first record. */
import type { SQSClient } from '@aws-sdk/client-sqs';
import type { AcceptDeps } from '../http/accept.ts';
import type { Sender } from '../pipeline/submit.ts';
import { highQueueName } from '../queue/names.ts';
import { openSqs, QueueSender } from '../queue/sender.ts';
import { observers } from './observers.ts';
import type { Scope } from './scope.ts';

export function sqsClient({ environment }: Scope): SQSClient {
  return openSqs(environment.aws);
}

function queue(scope: Scope): Sender {
  return senderTo(scope, scope.environment.queueUrl);
}

function highQueue(scope: Scope): Sender {
  return senderTo(scope, highQueueName(scope.environment.queueUrl));
}

function senderTo(scope: Scope, queueUrl: string): Sender {
  const sender = new QueueSender(scope.get(sqsClient), { queueUrl, limitMs: () => scope.limitMs() });
  return scope.own.tracing?.sender(sender, queueUrl, scope.get(observers)) ?? sender;
}

export function accept(
  scope: Scope,
): Pick<AcceptDeps, 'queue' | 'payloads' | 'settings'> & Required<Pick<AcceptDeps, 'uploads'>> {
  return {
    settings: scope.environment.job,
    queue: (priority) => scope.get(priority === 'high' ? highQueue : queue),
    // Loaded on demand: the S3 client is half of a cold start, and large records are rare.
    payloads: () => import('./s3.ts').then(({ payloads }) => scope.get(payloads)),
    uploads: (...upload) => import('./s3.ts').then(({ uploads }) => scope.get(uploads)(...upload)),
  };
}
