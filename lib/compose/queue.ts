/** Composes what uses SQS. */
import type { SQSClient } from '@aws-sdk/client-sqs';
import { openSqs, QueueSender } from '../queue/sender.ts';
import type { Scope } from './scope.ts';

export function sqsClient({ environment }: Scope): SQSClient {
  return openSqs(environment.aws);
}

export function queue(scope: Scope): QueueSender {
  return new QueueSender(scope.get(sqsClient), { queueUrl: scope.environment.queueUrl });
}
