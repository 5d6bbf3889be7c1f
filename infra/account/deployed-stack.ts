/**
 * Finds what a deployment would destroy or leave without use, before it creates anything. It reads the deployed stack,
 * if there is one.
 */
import { asError, ServingError } from '../../lib/contract/errors.ts';
import { listOf, recordOf, type Template, textOf } from '../doctor/template.ts';

/** Outputs of the stack by name. Undefined if there is no stack, or one that was never completed. */
export type DeployedOutputs = Readonly<Record<string, string>>;

export interface Planned {
  readonly stackName: string;
  readonly jobName: string;
  /** The model directory; undefined if it is there, or nothing needs one. */
  readonly missingModel: string | undefined;
  /** Undefined unless the stack has a Redis. */
  readonly network: Network | undefined;
}

/** As infra/template/resources.ts writes it into the template. */
export interface Network {
  readonly redis: 'node' | 'serverless';
  readonly vpcId: unknown;
  readonly subnetIds: unknown;
  readonly zones: readonly unknown[];
}

export interface Questions {
  /** @returns the answer of GetTemplate */
  readonly template: () => Promise<unknown>;
}

interface Commands {
  readonly DescribeStacksCommand: new (input: { readonly StackName: string }) => unknown;
}

/** @param send of the CloudFormation client of osls, whose modules `load` imports. @throws errors of AWS */
export async function outputsOf(
  send: (command: unknown) => Promise<unknown>,
  StackName: string,
  load: (module: string) => Commands,
): Promise<DeployedOutputs | undefined> {
  const { DescribeStacksCommand } = load('@aws-sdk/client-cloudformation');
  try {
    return outputsIn(await send(new DescribeStacksCommand({ StackName })));
  } catch (error) {
    if (asError(error).message.includes('does not exist')) return undefined;
    throw error;
  }
}

/** @param answer of DescribeStacks */
export function outputsIn(answer: unknown): DeployedOutputs {
  const outputs = listOf(recordOf(listOf(recordOf(answer)['Stacks'])[0])['Outputs']).map(recordOf);
  return Object.fromEntries(outputs.map((one) => [textOf(one['OutputKey']), textOf(one['OutputValue'])]));
}

/** @throws bad_config, model_unavailable for a deployment that must not begin */
export async function assertDeployable(
  deployed: DeployedOutputs | undefined,
  planned: Planned,
  { template }: Questions,
): Promise<void> {
  const { QueueUrl, ModelLocation } = deployed ?? {};
  if (QueueUrl === undefined) return assertModel(planned);
  assertJob(ModelLocation, planned);
  if (planned.network) assertNetwork(await template(), planned.stackName, planned.network);
}

function assertModel({ missingModel }: Planned): void {
  if (missingModel === undefined) return;
  throw new ServingError(
    'model_unavailable',
    `there is no model: ${missingModel} is not a directory, and the stack would answer 503. Nothing was created. Put a model there, name its directory as modelPath in config.yaml, or deploy the sample: --param sample=on`,
  );
}

/** A job `a` in the stage `b-c` and a job `a-b` in the stage `c` have stacks of the same name. */
function assertJob(modelLocation: string | undefined, { stackName, jobName }: Planned): void {
  const [, job] = /^s3:\/\/[^/]+\/models\/([^/]+)\/$/.exec(modelLocation ?? '') ?? [];
  if (job === undefined || job === jobName) return;
  throw refusal(
    `${stackName} is the stack of the job ${job}, and this deployment is of the job ${jobName}: choose another --stage or jobName`,
  );
}

/** @param answer of GetTemplate, which osls wrote as JSON */
export function templateIn(answer: unknown): Template {
  const { Resources = {} }: Partial<Template> = JSON.parse(textOf(recordOf(answer)['TemplateBody']) || '{}');
  return { Resources };
}

/**
 * CloudFormation makes a new subnet before it deletes the old one, which has the addresses still, and a serverless cache
 * before the old one, which has the name. A Redis of nodes stays in its VPC.
 */
function assertNetwork(
  answer: unknown,
  stackName: string,
  { redis, vpcId, subnetIds, zones }: Network,
): void {
  const { Resources } = templateIn(answer);
  const deployed = (name: string, property: string) => Resources[name]?.Properties?.[property];
  const cache = redis === 'node' ? 'Redis' : 'RedisServerless';
  const isOwn = typeof vpcId !== 'string';
  const compared = [
    ['zones', isOwn && ['SubnetA', 'SubnetB'].map((name) => deployed(name, 'AvailabilityZone')), zones],
    ['vpcId', cache in Resources && [deployed('RedisSecurityGroup', 'VpcId')], [vpcId]],
    ['subnetIds', deployed('RedisServerless', 'SubnetIds'), redis === 'serverless' ? subnetIds : undefined],
  ] as const;
  for (const [name, before, after] of compared) {
    const values = listOf(before || undefined);
    if (after === undefined || values.includes(undefined) || values.length === 0) continue;
    if (JSON.stringify(values) === JSON.stringify(after)) continue;
    const named = values.filter((value) => typeof value === 'string');
    const where =
      named.join(' and ') ||
      (name === 'zones' ? 'the first two zones of the region' : 'the network of the stack');
    const keep = named.length > 0 ? `Keep --param ${name}=${named.join()}` : `Leave out ${name}`;
    throw refusal(
      `${stackName} is in ${where}, and CloudFormation cannot move it (${name}). ${keep}, or deploy another --stage there. Nothing was changed`,
    );
  }
}

function refusal(message: string): ServingError {
  return new ServingError('bad_config', message);
}
