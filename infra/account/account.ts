/**
 * Asks an AWS account what would stop a deployment. Every call only reads. A question that the caller may not ask, or that
 * has no answer in time, is a note, because the deployment may still work.
 */

import { asError, ServingError } from '../../lib/contract/errors.ts';
import type { Targets } from '../../lib/contract/notice.ts';
import { listOf, numberOf, recordOf, resourcesOf, type Template, textOf } from '../doctor/template.ts';
import type { SharedRedis } from '../template/resources.ts';
import { assertSharedRedis } from '../template/shared-redis.ts';
import { type AccountAnswer, type Answered, type Ask, answered } from './answer.ts';
import { assertDeployable, outputsIn, type Planned, templateIn } from './deployed-stack.ts';
import { secretsAnswer } from './secrets.ts';
import { hasAwsTargets, TARGET_RIGHTS, targetsAnswer } from './targets.ts';
import { updateAnswer } from './update.ts';

export interface AccountRequest {
  readonly region: string;
  readonly planned: Planned;
  /** Names of the job's queues. */
  readonly queues: readonly string[];
  /** Undefined unless another stack has the Redis. */
  readonly sharedRedis: SharedRedis | undefined;
  /** For the names in it. Undefined if nothing is packaged. */
  readonly template: Template | undefined;
  /** The zones in the parameter `zones`. */
  readonly zones: readonly string[];
  /** True if the stack makes its own network. */
  readonly ownNetwork: boolean;
  readonly memoryMB: number;
  /** Environments that queues and provisioned concurrency may take at once. */
  readonly environments: number;
  /** Names of the parameters with the secrets of targets. */
  readonly secrets: readonly string[];
  readonly targets: Targets;
}

/** Environments that a new account has instead of 1,000. */
const NEW_ACCOUNT_ENVIRONMENTS = 10;
const NEW_ACCOUNT_MB = 3_008;
/** VPCs that an account may have in a region. EC2 does not say whether AWS raised it. */
const USUAL_VPCS = 5;
const SIGN_IN =
  'name a profile in AWS_PROFILE, or set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY; sign in again if they expired';
const WALK = 'docs/how-to/deploy-troubleshooting.md';
/** Names in one answer. */
const MAX_NAMES = 5;

/** @returns one answer for each question, in their order. Never throws because of an answer of AWS. */
export async function askAccount(ask: Ask, request: AccountRequest): Promise<AccountAnswer[]> {
  const who = await answered('identity', 'sts:GetCallerIdentity', () => identity(ask, request));
  // Without credentials every other question has the same answer.
  if (who.kind !== 'ok') return [{ ...who, kind: 'error', fix: SIGN_IN }];
  const stack = await stackOf(ask, request.planned.stackName).catch((error: unknown) => asError(error));
  const known = stack instanceof Error ? undefined : stack;
  const template = () => ask('cloudformation', 'GetTemplate', { StackName: request.planned.stackName });
  const update = async () => updateAnswer(templateIn(await template()), request.template);
  const others = await Promise.all([
    answered('concurrency', 'lambda:GetAccountSettings', () => concurrency(ask, request)),
    answered('zones', 'ec2:DescribeAvailabilityZones', () => zones(ask, request)),
    ...(request.ownNetwork && !known?.isThere
      ? [answered('vpcs', 'ec2:DescribeVpcs', () => vpcs(ask, request))]
      : []),
    ...(request.secrets.length > 0
      ? [
          answered('secrets', 'ssm:GetParameter', () =>
            secretsAnswer((Name) => ask('ssm', 'GetParameter', { Name }), request.secrets),
          ),
        ]
      : []),
    ...(hasAwsTargets(request.targets)
      ? [answered('targets', TARGET_RIGHTS, () => targetsAnswer(ask, request.targets, request.region))]
      : []),
    answered('stack', 'cloudformation:DescribeStacks and GetTemplate', async () => {
      if (stack instanceof Error) throw stack;
      return stackAnswer(ask, stack, request, template);
    }),
    // The names of a stack that is there are its own.
    ...(known?.isThere
      ? [answered('update', 'cloudformation:GetTemplate', update)]
      : takenQuestions(ask, request)),
  ]);
  return [who, ...others];
}

async function identity(ask: Ask, { region }: AccountRequest): Promise<Answered> {
  const { Account, Arn } = recordOf(await ask('sts', 'GetCallerIdentity'));
  return { kind: 'ok', found: `account ${textOf(Account)}, region ${region}, as ${textOf(Arn)}` };
}

async function concurrency(ask: Ask, { environments, memoryMB }: AccountRequest): Promise<Answered> {
  const { AccountLimit } = recordOf(await ask('lambda', 'GetAccountSettings'));
  const { ConcurrentExecutions, UnreservedConcurrentExecutions } = recordOf(AccountLimit);
  const all = numberOf(ConcurrentExecutions);
  const free = numberOf(UnreservedConcurrentExecutions) ?? all;
  if (all === undefined || free === undefined) throw new Error('Lambda answered without its limits');
  const found = `${all} concurrent executions, ${free} of them unreserved; queues and provisioned environments may take ${environments}`;
  const ofNew = `of a new account: ask Service Quotas for more "Concurrent executions"`;
  if (environments >= free)
    return {
      kind: 'warning',
      found: `${found}, so POST /predict may get none`,
      fix: `queue.maximumConcurrency: 2 in config.yaml${all <= NEW_ACCOUNT_ENVIRONMENTS ? `; ${all} is the limit ${ofNew}` : ''}`,
    };
  // Lambda does not say how much memory a function may have.
  if (all <= NEW_ACCOUNT_ENVIRONMENTS && memoryMB > NEW_ACCOUNT_MB)
    return {
      kind: 'warning',
      found: `${found}; a new account, in which functions often have at most ${NEW_ACCOUNT_MB} MB, and function.memoryMB is ${memoryMB}`,
      fix: `function.memoryMB: ${NEW_ACCOUNT_MB} in config.yaml, or ask AWS Support for more`,
    };
  return { kind: 'ok', found };
}

async function zones(ask: Ask, { zones: named, ownNetwork, region }: AccountRequest): Promise<Answered> {
  const { AvailabilityZones } = recordOf(await ask('ec2', 'DescribeAvailabilityZones'));
  const available = listOf(AvailabilityZones)
    .map(recordOf)
    .filter(
      ({ State, ZoneType }) =>
        State === 'available' && (ZoneType ?? 'availability-zone') === 'availability-zone',
    )
    .map(({ ZoneName }) => textOf(ZoneName))
    .sort();
  const list = available.join(', ') || 'none';
  if (!ownNetwork) return { kind: 'ok', found: `${list}; the subnets of the existing network decide` };
  const missing = named.filter((zone) => !available.includes(zone));
  if (missing.length > 0)
    return {
      kind: 'error',
      found: `${region} has ${list} for this account, and not ${missing.join(', ')}`,
      fix: `--param zones=${available.slice(0, 2).join()}`,
    };
  if (available.length < 2)
    return {
      kind: 'error',
      found: `${region} has ${list} for this account`,
      fix: 'another --region: a stack needs two zones',
    };
  const used = named.length > 0 ? named : available.slice(0, 2);
  return { kind: 'ok', found: `${list}; subnets in ${used.join(' and ')}` };
}

async function vpcs(ask: Ask, { region }: AccountRequest): Promise<Answered> {
  const count = listOf(recordOf(await ask('ec2', 'DescribeVpcs'))['Vpcs']).length;
  const found = `${region} has ${count}, and the stack makes one more`;
  if (count < USUAL_VPCS) return { kind: 'ok', found };
  return {
    kind: 'warning',
    found: `${found}; the quota is ${USUAL_VPCS} unless AWS raised it`,
    fix: 'ask Service Quotas for more "VPCs per Region", or use one that is there: --param vpcId and subnetIds',
  };
}

interface StackState {
  readonly isThere: boolean;
  readonly status: string;
  readonly outputs: Readonly<Record<string, string>>;
}

async function stackOf(ask: Ask, StackName: string): Promise<StackState> {
  try {
    const answer = await ask('cloudformation', 'DescribeStacks', { StackName });
    const { StackStatus } = recordOf(listOf(recordOf(answer)['Stacks'])[0]);
    return { isThere: true, status: textOf(StackStatus), outputs: outputsIn(answer) };
  } catch (error) {
    if (asError(error).message.includes('does not exist')) return { isThere: false, status: '', outputs: {} };
    throw error;
  }
}

async function stackAnswer(
  ask: Ask,
  { isThere, status, outputs }: StackState,
  { planned, sharedRedis }: AccountRequest,
  template: () => Promise<unknown>,
): Promise<Answered> {
  const { stackName } = planned;
  if (status === 'ROLLBACK_COMPLETE' || status === 'ROLLBACK_FAILED' || status === 'DELETE_FAILED')
    return {
      kind: 'error',
      found: `${stackName} is in ${status}`,
      fix: `npx serverless remove, then deploy again; ${WALK}`,
    };
  if (status === 'UPDATE_ROLLBACK_FAILED')
    return {
      kind: 'error',
      found: `${stackName} is in ${status}`,
      fix: `aws cloudformation continue-update-rollback; ${WALK}`,
    };
  if (status.endsWith('_IN_PROGRESS') && status !== 'REVIEW_IN_PROGRESS')
    return { kind: 'error', found: `${stackName} is in ${status}`, fix: 'wait until it has ended' };
  try {
    if (sharedRedis) assertSharedRedis((await stackOf(ask, sharedRedis.stack)).outputs, sharedRedis);
    await assertDeployable(isThere ? outputs : undefined, planned, { template });
  } catch (error) {
    if (!(error instanceof ServingError)) throw error;
    return { kind: 'error', found: error.message, fix: 'as it says' };
  }
  return { kind: 'ok', found: isThere ? `${stackName} is in ${status}` : `no stack ${stackName} yet` };
}

/** Names of the template that another stack, or what was left of one, may have. */
function takenQuestions(ask: Ask, { queues, template }: AccountRequest): Promise<AccountAnswer>[] {
  const named = (type: string, key: string) =>
    (template ? resourcesOf(template, type) : []).flatMap(([, properties]) =>
      typeof properties[key] === 'string' ? [properties[key]] : [],
    );
  const buckets = named('AWS::S3::Bucket', 'BucketName');
  const logs = named('AWS::Logs::LogGroup', 'LogGroupName');
  return [
    answered('queues', 'sqs:GetQueueUrl', () => takenAnswer('queue', queues, (name) => hasQueue(ask, name))),
    ...(buckets.length === 0
      ? []
      : [
          answered('buckets', 's3:ListBucket', () =>
            takenAnswer('bucket', buckets, (name) => hasBucket(ask, name)),
          ),
        ]),
    ...(logs.length === 0
      ? []
      : [
          answered('log-groups', 'logs:DescribeLogGroups', () =>
            takenAnswer('log group', logs, (name) => hasLog(ask, name)),
          ),
        ]),
  ];
}

async function takenAnswer(
  what: string,
  names: readonly string[],
  isTaken: (name: string) => Promise<boolean>,
): Promise<Answered> {
  const taken: string[] = [];
  for (const name of names) if (await isTaken(name)) taken.push(name);
  if (taken.length === 0)
    return { kind: 'ok', found: `no ${what} has one of the ${names.length} names of this stack` };
  const shown = taken.slice(0, MAX_NAMES).join(', ');
  const more = taken.length > MAX_NAMES ? ` and ${taken.length - MAX_NAMES} more` : '';
  return {
    kind: 'error',
    found: `there is a ${what} ${shown}${more} already, and no such stack`,
    fix: `delete it if it was left of a stack, or choose another --stage or jobName; ${WALK}#something-of-that-name-already-exists`,
  };
}

async function hasQueue(ask: Ask, QueueName: string): Promise<boolean> {
  return isFound(() => ask('sqs', 'GetQueueUrl', { QueueName }), /NonExistentQueue|QueueDoesNotExist/);
}

/** A bucket of another account answers 403, and its name is taken as well. */
async function hasBucket(ask: Ask, Bucket: string): Promise<boolean> {
  try {
    return await isFound(() => ask('s3', 'HeadBucket', { Bucket }), /NotFound|NoSuchBucket/);
  } catch (error) {
    if (recordOf(recordOf(error)['$metadata'])['httpStatusCode'] === 403) return true;
    throw error;
  }
}

async function hasLog(ask: Ask, name: string): Promise<boolean> {
  const answer = await ask('logs', 'DescribeLogGroups', { logGroupNamePrefix: name });
  return listOf(recordOf(answer)['logGroups']).some((group) => recordOf(group)['logGroupName'] === name);
}

async function isFound(work: () => Promise<unknown>, absent: RegExp): Promise<boolean> {
  try {
    await work();
    return true;
  } catch (error) {
    if (absent.test(`${asError(error).name} ${asError(error).message}`)) return false;
    throw error;
  }
}
