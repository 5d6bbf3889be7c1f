/** The part of a stack for the targets that a job notifies, and the targets that no deployment can call. */
import { isIP } from 'node:net';
import { type JobConfig, NOTIFIER_RECEIVES, NOTIFIER_SECONDS } from '../../lib/config/job.ts';
import { type AwsAddress, awsAddressOf } from '../../lib/contract/aws-address.ts';
import { outboxPrefix, pausedPrefix } from '../../lib/contract/names.ts';
import { isLoopbackUrl, type Targets } from '../../lib/contract/notice.ts';
import { isPublicAddress } from '../../lib/notify/public-address.ts';
import { deadLetterQueueName, isQueueOfJob, notifyQueueName } from '../../lib/queue/names.ts';

/** Read in serverless.yml and infra/stack/notify/. @param queue the name of the queue of records */
export function notifySettings(job: JobConfig, queue: string) {
  const name = notifyQueueName(queue);
  return {
    notifyQueueName: name,
    notifyDeadLetterQueueName: deadLetterQueueName(name),
    notifierSeconds: NOTIFIER_SECONDS,
    notifyVisibilitySeconds: 6 * NOTIFIER_SECONDS,
    notifyReceives: NOTIFIER_RECEIVES,
    outboxPrefix: outboxPrefix(job.jobName),
    pausedPrefix: pausedPrefix(job.jobName),
    /** Rights of the notifier's role at the targets. */
    notifyRights: rightsOf(job.notify),
    /** A deployment looks for them in the account. */
    notifyTargets: job.notify,
    /** Names of the parameters with secrets. */
    notifySecretNames: Object.values(job.notify).flatMap(({ secret }) => secret ?? []),
  };
}

type Sub = { readonly 'Fn::Sub': string };

interface Right {
  readonly Sid: string;
  readonly Effect: 'Allow';
  readonly Action: string | readonly string[];
  readonly Resource: readonly Sub[] | Sub;
  readonly Condition?: Readonly<Record<string, Readonly<Record<string, Sub | readonly Sub[]>>>>;
}

/** An ARN in this account and region: other targets are refused. */
function arnHere(service: string, rest: string): Sub {
  return { 'Fn::Sub': `arn:\${AWS::Partition}:${service}:\${AWS::Region}:\${AWS::AccountId}:${rest}` };
}

const KEYS = arnHere('kms', 'key/*');

function decryptionOf(
  sid: string,
  actions: readonly string[],
  service: string,
  context: Readonly<Record<string, readonly Sub[]>>,
): Right {
  const through = { 'kms:ViaService': { 'Fn::Sub': `${service}.\${AWS::Region}.\${AWS::URLSuffix}` } };
  const Condition = { StringEquals: { ...through, ...context } };
  return { Sid: sid, Effect: 'Allow', Action: actions, Resource: KEYS, Condition };
}

/** Statements for the kinds of targets that there are: IAM takes no empty list of resources. */
function rightsOf(notify: Targets): Right[] {
  const targets = Object.values(notify);
  const addresses = targets.flatMap((target) => awsAddressOf(target) ?? []);
  const named = (service: AwsAddress['service'], prefix = '') =>
    addresses.flatMap((one) => (one.service === service ? [arnHere(service, `${prefix}${one.name}`)] : []));
  const secrets = targets.flatMap(({ secret }) =>
    secret === undefined ? [] : [arnHere('ssm', `parameter${secret.startsWith('/') ? '' : '/'}${secret}`)],
  );
  const [buses, topics, queues] = [named('events', 'event-bus/'), named('sns'), named('sqs')];
  const machines = named('states', 'stateMachine:');
  const allow = (Sid: string, Action: string | readonly string[], Resource: readonly Sub[]): Right => ({
    Sid,
    Effect: 'Allow',
    Action,
    Resource,
  });
  // A sender to an encrypted topic or queue uses its key.
  const encrypts = ['kms:Decrypt', 'kms:GenerateDataKey'];
  return [
    ...ifAny(secrets, () => [
      allow('ReadSecrets', 'ssm:GetParameter', secrets),
      decryptionOf('DecryptSecrets', ['kms:Decrypt'], 'ssm', {
        'kms:EncryptionContext:PARAMETER_ARN': secrets,
      }),
    ]),
    ...ifAny(buses, () => [allow('PutEvents', 'events:PutEvents', buses)]),
    ...ifAny(topics, () => [
      allow('PublishToTopics', 'sns:Publish', topics),
      decryptionOf('EncryptForTopics', encrypts, 'sns', { 'kms:EncryptionContext:aws:sns:topicArn': topics }),
    ]),
    ...ifAny(queues, () => [
      allow('SendToQueues', 'sqs:SendMessage', queues),
      decryptionOf('EncryptForQueues', encrypts, 'sqs', { 'kms:EncryptionContext:aws:sqs:arn': queues }),
    ]),
    ...ifAny(machines, () => [
      allow('EndTasks', ['states:SendTaskSuccess', 'states:SendTaskFailure'], machines),
      decryptionOf('EncryptForTasks', encrypts, 'states', {
        'kms:EncryptionContext:aws:states:stateMachineArn': machines,
      }),
    ]),
  ];
}

function ifAny(list: readonly unknown[], statements: () => readonly Right[]): readonly Right[] {
  return list.length === 0 ? [] : statements();
}

/** Why a deployment could not call a target. @param queue the name of the queue of records */
export function notifyProblems({ notify }: Pick<JobConfig, 'notify'>, queue: string): string[] {
  return Object.entries(notify).flatMap(([name, target]) => {
    const { url, secret } = target;
    const problems: string[] = [];
    const address = awsAddressOf(target);
    if (address?.service === 'sqs' && isQueueOfJob(address.name, queue))
      problems.push(`notify.${name}.sqs: ${address.name} is a queue of the job itself`);
    if (url !== undefined && isLoopbackUrl(url))
      problems.push(
        `notify.${name}.url: ${url} is an address of this machine, which a deployment does not call; give the https address of the receiver`,
      );
    else if (url !== undefined && isPrivate(url))
      problems.push(`notify.${name}.url: the address is not public, and is not called`);
    if (url !== undefined && secret === undefined)
      problems.push(
        `notify.${name}: a deployment reads the secret from Systems Manager: add \`secret: <name of a SecureString>\``,
      );
    return problems;
  });
}

function isPrivate(url: string): boolean {
  const host = new URL(url).hostname.replace(/^\[|\]$/g, '');
  return isIP(host) !== 0 && !isPublicAddress(host);
}
