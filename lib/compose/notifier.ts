/** Composes the dependencies of the notifier, which runs outside the VPC. */
import { parameterValue } from '../aws/parameter.ts';
import type { Environment } from '../config/environment.ts';
import { badConfig } from '../contract/errors.ts';
import { type AwsSenderOptions, awsSender } from '../notify/aws.ts';
import { deliverer } from '../notify/deliver.ts';
import type { NotifierDeps } from '../notify/notifier.ts';
import { type WebhookOptions, Webhooks } from '../notify/webhook.ts';
import { QueueSender } from '../queue/sender.ts';
import { OutboxReader } from '../s3/outbox-reader.ts';
import { PausedTargets } from '../s3/pauses.ts';
import { sqsClient } from './accept.ts';
import { CLOCK } from './clock.ts';
import { observers } from './observers.ts';
import { s3Client } from './s3.ts';
import type { Scope } from './scope.ts';

/** @param own what only a single machine may do */
export async function composeNotifier(
  scope: Scope,
  { queueUrl, ...own }: Pick<WebhookOptions, 'allowsLoopback'> & Pick<AwsSenderOptions, 'queueUrl'> = {},
): Promise<NotifierDeps> {
  const { environment } = scope;
  const { bucket, job, notifyQueueUrl, notifyDeadLetterUrl } = environment;
  const s3 = scope.get(s3Client);
  const sender = (url: string) =>
    new QueueSender(scope.get(sqsClient), { queueUrl: url, limitMs: () => scope.limitMs() });
  const [queue, deadLetters] = [sender(notifyQueueUrl), sender(notifyDeadLetterUrl)];
  return {
    outbox: new OutboxReader(s3, bucket, job.jobName),
    pauses: new PausedTargets(s3, { bucket, job: job.jobName, now: CLOCK.now }),
    deliver: deliverer({
      targets: job.notify,
      webhooks: new Webhooks({ ...own, now: Date.now }),
      sendToAws: awsSender({
        place: () => ({ ...environment.role, endpoint: environment.aws.endpoint }),
        queueUrl,
      }),
      readSecret: async (name, { secret }) => secretText(environment, name, secret),
      now: CLOCK.now,
    }),
    sendLater: (message, delaySeconds) => queue.send(message, {}, undefined, delaySeconds),
    giveUp: (message) => deadLetters.send(message),
    onDropped: (target) => scope.get(observers).noticeDropped?.(target),
    now: Date.now,
    random: Math.random,
  };
}

/** @throws why it cannot be read */
async function secretText(
  environment: Environment,
  name: string,
  parameter: string | undefined,
): Promise<string> {
  const text = environment.notifySecret(name);
  if (text !== undefined) return text;
  if (parameter === undefined) throw badConfig(`the target ${name} has no secret`);
  const { role, aws } = environment;
  return parameterValue({ ...role, endpoint: aws.endpoint }, parameter);
}
