/** Looks for the buses, topics, queues and state machines that a job notifies: they must be of the account and the region of the stack, and there. */
import { type AwsAddress, arnOf, awsAddressOf } from '../../lib/contract/aws-address.ts';
import { asError, ServingError } from '../../lib/contract/errors.ts';
import type { Targets } from '../../lib/contract/notice.ts';
import { recordOf, textOf } from '../doctor/template.ts';
import type { Answered, Ask } from './answer.ts';
import { clientsOf } from './clients.ts';
import { refuseMissing } from './secrets.ts';

export interface Place {
  readonly region: string;
  /** Undefined until it was asked for. */
  readonly account: string | undefined;
}

/** The rights to look for them. */
export const TARGET_RIGHTS =
  'sqs:GetQueueUrl, sns:GetTopicAttributes, events:DescribeEventBus or states:DescribeStateMachine';
const CREATE = 'create it first, or correct `notify` in config.yaml';

function addressesOf(notify: Targets) {
  return Object.entries(notify).flatMap(([name, target]) => {
    const address = awsAddressOf(target);
    return address ? [{ name, address }] : [];
  });
}

export function hasAwsTargets(notify: Targets): boolean {
  return addressesOf(notify).length > 0;
}

/** @returns what is of another region or account */
export function placeProblems(notify: Targets, here: Place): string[] {
  return addressesOf(notify).flatMap(({ name, address: { place } }) => {
    if (place === undefined) return [];
    const { region, account } = place;
    if (region !== here.region)
      return [
        `notify.${name}: it is in ${region}, and the stack in ${here.region}; name one of the stack's region`,
      ];
    return here.account === undefined || account === here.account
      ? []
      : [
          `notify.${name}: it is of the account ${account}, and the stack of ${here.account}; let a rule or a subscription of your own send it on`,
        ];
  });
}

function lookFor(address: AwsAddress): Parameters<Ask> {
  const { service, name, place } = address;
  if (service === 'sqs') return ['sqs', 'GetQueueUrl', { QueueName: name }];
  if (service === 'events') return ['eventbridge', 'DescribeEventBus', { Name: name }];
  const { region = '', account = '' } = place ?? {};
  const arn = arnOf(address, region, account);
  if (service === 'states') return ['sfn', 'DescribeStateMachine', { stateMachineArn: arn }];
  return ['sns', 'GetTopicAttributes', { TopicArn: arn }];
}

/** @returns what is not there. @throws other errors of AWS */
async function absentTargets(ask: Ask, notify: Targets): Promise<string[]> {
  const problems: string[] = [];
  for (const { name, address } of addressesOf(notify)) {
    try {
      await ask(...lookFor(address));
    } catch (error) {
      const { name: code, message } = asError(error);
      if (!/NonExistentQueue|QueueDoesNotExist|StateMachineDoesNotExist|NotFound/.test(`${code} ${message}`))
        throw error;
      problems.push(`notify.${name}: there is no ${WHAT[address.service]} ${address.name}; ${CREATE}`);
    }
  }
  return problems;
}

const WHAT = { events: 'event bus', sns: 'topic', sqs: 'queue', states: 'state machine' } as const;

/** An answer of doctor. @throws errors of AWS */
export async function targetsAnswer(ask: Ask, notify: Targets, region: string): Promise<Answered> {
  const problems = await targetProblems(ask, notify, region);
  if (problems.length > 0)
    return { kind: 'error', found: problems.join('; '), fix: '`notify` in config.yaml' };
  return { kind: 'ok', found: `${addressesOf(notify).length} of this account and region` };
}

async function targetProblems(ask: Ask, notify: Targets, region: string): Promise<string[]> {
  const account = textOf(recordOf(await ask('sts', 'GetCallerIdentity'))['Account']) || undefined;
  const problems = placeProblems(notify, { region, account });
  return problems.length > 0 ? problems : absentTargets(ask, notify);
}

/** Before a deployment. @returns a note where the caller may not ask. @throws bad_config */
export async function assertTargets(ask: Ask, notify: Targets, region: string): Promise<string | undefined> {
  if (!hasAwsTargets(notify)) return undefined;
  let problems: readonly string[];
  try {
    problems = await targetProblems(ask, notify, region);
  } catch (error) {
    return `the targets of notify could not be looked for: ${asError(error).message}`;
  }
  if (problems.length === 0) return undefined;
  throw new ServingError('bad_config', `${problems.join('\n')}\nNothing was changed.`);
}

/** The part that packaging can check. @throws bad_config for a target of another region */
export function assertRegion({ notifyTargets }: { readonly notifyTargets: Targets }, region: string): void {
  const problems = placeProblems(notifyTargets, { region, account: undefined });
  if (problems.length > 0) throw new ServingError('bad_config', problems.join('\n'));
}

interface Provider {
  getAwsSdkV3Config(): Promise<object>;
  getRegion(): string;
}

/** Secrets, buses, topics, queues and state machines of `notify`, before a deployment. @param load imports modules of osls. @throws bad_config */
export async function assertNotified(
  provider: Provider,
  settings: { readonly notifyTargets: Targets; readonly notifySecretNames: readonly string[] },
  load: Parameters<typeof clientsOf>[0],
  log: { warning(text: string): void },
): Promise<void> {
  const { notifyTargets: targets, notifySecretNames: secrets } = settings;
  if (Object.keys(targets).length === 0) return;
  const region = provider.getRegion();
  const { ask, close } = clientsOf(load, { ...(await provider.getAwsSdkV3Config()), region });
  try {
    const notes = [
      await refuseMissing((Name) => ask('ssm', 'GetParameter', { Name }), secrets),
      await assertTargets(ask, targets, region),
    ];
    for (const note of notes) if (note !== undefined) log.warning(note);
  } finally {
    close();
  }
}
