/** The part of a stack for the targets that a job notifies, and the targets that no deployment can call. */
import { isIP } from 'node:net';
import { hasTargets, type JobConfig, NOTIFIER_RECEIVES, NOTIFIER_SECONDS } from '../../lib/config/job.ts';
import { outboxPrefix, pausedPrefix } from '../../lib/contract/names.ts';
import { isLoopbackUrl } from '../../lib/contract/notice.ts';
import { isPublicAddress } from '../../lib/notify/public-address.ts';
import { deadLetterQueueName, notifyQueueName } from '../../lib/queue/names.ts';

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
    notifySecrets: Object.values(job.notify).flatMap(({ secret }) =>
      secret === undefined ? [] : [arnOf(secret)],
    ),
    /** Their names. */
    notifySecretNames: Object.values(job.notify).flatMap(({ secret }) => secret ?? []),
    /** Functions of serverless.yml that this stack does not have. */
    absentFunctions: hasTargets(job) ? [] : ['notifier'],
  };
}

function arnOf(parameter: string) {
  const name = parameter.startsWith('/') ? parameter : `/${parameter}`;
  return {
    'Fn::Sub': `arn:\${AWS::Partition}:ssm:\${AWS::Region}:\${AWS::AccountId}:parameter${name}`,
  };
}

/** Why a deployment could not call a target. */
export function notifyProblems({ notify }: Pick<JobConfig, 'notify'>): string[] {
  return Object.entries(notify).flatMap(([name, { url, secret }]) => {
    const problems: string[] = [];
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
