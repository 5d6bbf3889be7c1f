/**
 * Computes what shared-redis.yml reads: a Redis of several jobs and stages, with a user for each. The stacks of jobs take
 * its network, its address and their user from its exports, so CloudFormation keeps them as long as they are in use.
 */
import { asError, ServingError } from '../../lib/contract/errors.ts';
import { present } from '../../lib/contract/present.ts';
import { assertKeyspace, assertStage } from '../../lib/queue/names.ts';
import type { DeployedOutputs } from '../account/deployed-stack.ts';
import { filesOfRedis } from './files.ts';
import { redisMonitoring } from './monitoring.ts';
import { broken, Checks, type Rule, type Values } from './parameter-checks.ts';
import { readRedis, stackRules, unknownParameters } from './parameters.ts';
import { accessRules, redisUser } from './redis-access.ts';
import { type SharedRedis, settingsOfRedis } from './resources.ts';
import type { Resource } from './watched.ts';

export const SHARED_PARAMETER_NAMES = [
  /** The jobs and stages that may use this Redis, as `images@dev`, separated by commas. */
  'jobs',
  'redisNodeType',
  'redisNodes',
  'keepData',
  'monitoring',
  'alarmEmail',
  'alarmTopic',
  'zones',
  'vpcId',
  'subnetIds',
  'routeTableIds',
  'deploymentRole',
] as const;

/** Never the start of a job's service. */
const SERVICE = 'shared-redis';
/** A security group has up to 60 rules, and each job has one in that of Redis. A user group has up to 100 users. */
const MAX_JOBS = 60;
/** Outputs that begin so each name a job with its stage. */
const JOB_OUTPUT = 'Job';
/** Stands for the job in the output `Access`. */
const ANY_JOB = 'JOB@STAGE';

interface Request {
  readonly stage: string;
  readonly parameters: Values;
  /** Names after `--param` on the command line. */
  readonly named: readonly string[];
  /** True if jobs must be named. */
  readonly needsJobs: boolean;
}

export type SharedRedisSettings = ReturnType<typeof readSharedRedis>;

/** @throws bad_config with every problem, one a line */
export function readSharedRedis({ stage, parameters, named, needsJobs }: Request) {
  const problems = unknownParameters(named, SHARED_PARAMETER_NAMES);
  const check = new Checks(parameters, problems);
  const deployment = readRedis(check);
  const jobs = check.list('jobs', /@/, 'jobs with their stages, as images@dev,images@prod');
  const rules: readonly Rule[] = [
    ...stackRules(deployment),
    [
      needsJobs && jobs.length === 0,
      'param jobs is empty: name the jobs with their stages, as images@dev,images@prod',
    ],
    [jobs.length > MAX_JOBS, `param jobs: ${jobs.length} are over the limit of ${MAX_JOBS}`],
  ];
  problems.push(...broken(rules));
  for (const assert of [() => assertStage(stage), ...jobs.map((job) => () => assertKeyspace(job))])
    try {
      assert();
    } catch (error) {
      problems.push(asError(error).message);
    }
  if (problems.length > 0) throw new ServingError('bad_config', problems.join('\n'));
  const settings = settingsOfRedis(deployment);
  const { redisNodes, redisNodeType, alarmActions } = settings;
  const files = filesOfRedis(deployment);
  const monitoring =
    deployment.monitoring === 'full'
      ? redisMonitoring({ redisNodes, redisNodeType, alarmActions }).Resources
      : {};
  return {
    ...settings,
    files,
    access: accessRules(ANY_JOB).join(' '),
    parts: partsOf(`${SERVICE}-${stage}`, jobs, monitoring, files.network === 'own'),
  };
}

/** An entry of `resources` in osls. */
interface Parts {
  readonly Resources: Readonly<Record<string, Resource>>;
  readonly Outputs: Readonly<
    Record<string, { readonly Value: unknown; readonly Export?: { readonly Name: string } }>
  >;
  readonly extensions: Readonly<Record<string, Pick<Resource, 'Properties'>>>;
}

/** Resources, outputs and extensions that depend on the jobs. */
function partsOf(
  stack: string,
  jobs: readonly string[],
  monitoring: Readonly<Record<string, Resource>>,
  ownNetwork: boolean,
): Parts {
  const users = jobs.map((job) => {
    const id = redisUser(stack, job);
    return { job, id, digest: id.slice(id.lastIndexOf('-') + 1) };
  });
  const resources = users.map(({ job, id, digest }) => [
    `User${digest}`,
    {
      Type: 'AWS::ElastiCache::User',
      Properties: {
        Engine: 'valkey',
        UserId: id,
        UserName: id,
        AuthenticationMode: { Type: 'iam' },
        AccessString: accessRules(job).join(' '),
      },
    },
  ]);
  const outputs = users.flatMap(({ job, id, digest }) => [
    [`${JOB_OUTPUT}${digest}`, { Value: job }],
    [
      `User${digest}`,
      { Value: { 'Fn::GetAtt': [`User${digest}`, 'Arn'] }, Export: { Name: `${stack}:${id}` } },
    ],
  ]);
  const group = {
    Type: 'AWS::ElastiCache::UserGroup',
    Properties: {
      Engine: 'valkey',
      UserGroupId: redisUser(SERVICE, stack),
      UserIds: users.map(({ digest }) => ({ Ref: `User${digest}` })),
    },
  };
  return {
    Resources: { ...Object.fromEntries(resources), RedisUserGroup: group, ...monitoring },
    Outputs: Object.fromEntries(outputs),
    extensions: {
      Redis: { Properties: { UserGroupIds: [{ Ref: 'RedisUserGroup' }] } },
      ...(ownNetwork ? { S3Endpoint: { Properties: { PolicyDocument: BUCKETS_OF_JOBS } } } : {}),
    },
  };
}

/** The names of their buckets are not known here; the roles decide which function may use which. */
const BUCKETS_OF_JOBS = {
  Version: '2012-10-17',
  Statement: [
    {
      Sid: 'BucketsOfThisAccount',
      Effect: 'Allow',
      Principal: '*',
      Action: ['s3:GetObject', 's3:PutObject', 's3:ListBucket'],
      Resource: { 'Fn::Sub': 'arn:${AWS::Partition}:s3:::cluster-serving*' },
      Condition: { StringEquals: { 'aws:ResourceAccount': { Ref: 'AWS::AccountId' } } },
    },
  ],
};

/**
 * @param outputs of the stack; undefined if there is none
 * @throws bad_config with the command to run first
 */
export function assertSharedRedis(outputs: DeployedOutputs | undefined, shared: SharedRedis): void {
  const { stack, keyspace } = shared;
  const { Access, ...others } = outputs ?? {};
  const jobs = Object.keys(others)
    .filter((name) => name.startsWith(JOB_OUTPUT))
    .map((name) => present(others[name], name));
  const command = (...names: string[]) =>
    `npx serverless deploy --config shared-redis.yml --stage ${stack.slice(SERVICE.length + 1)} --param jobs=${names.join()}`;
  if (Access === undefined)
    throw refusal(`there is no stack ${stack} with a Redis yet. Create it first: ${command(keyspace)}`);
  if (!jobs.includes(keyspace))
    throw refusal(
      `${keyspace} is not one of the jobs of ${stack} (${jobs.join(', ')}). Add it first: ${command(...jobs, keyspace)}`,
    );
  const allowed = Access.split(' ');
  const lacking = accessRules(ANY_JOB).filter((rule) => !allowed.includes(rule));
  if (lacking.length > 0)
    throw refusal(
      `${stack} was deployed by another version, which does not give ${lacking.join(' ')}. Deploy it first: ${command(...jobs)}`,
    );
}

function refusal(message: string): ServingError {
  return new ServingError('bad_config', `${message}. Nothing was changed`);
}
