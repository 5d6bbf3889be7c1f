/**
 * The rights to deploy a stack, as a policy of IAM, from its packaged template: those that CloudFormation uses for each type
 * of resource in it, and those of the command itself. No action has a wildcard; a resource has one where AWS chooses the
 * name. The rights of types are those of the handlers in CloudFormation's registry, and were not tried in an account.
 */
import { ServingError } from '../../lib/contract/errors.ts';
import { resourcesOf, type Template, textOf } from '../doctor/template.ts';
import { RIGHTS_OF_TYPES, type Rights } from './rights-of-types.ts';

/**
 * deployer: creates, updates and removes the stack with its own rights. role: what CloudFormation needs, for the role of
 * `--param deploymentRole`. ci: what is left to who deploys with such a role.
 */
export const POLICY_KINDS = ['deployer', 'role', 'ci'] as const;
export type PolicyKind = (typeof POLICY_KINDS)[number];

export interface PolicyRequest {
  readonly kind: PolicyKind;
  readonly template: Template;
  readonly service: string;
  readonly stage: string;
  readonly queueName: string;
  /** The stack that has the Redis, if it is another. */
  readonly redisStack: string | undefined;
  /** Default any: `*`. */
  readonly account: string | undefined;
  readonly region: string | undefined;
  readonly partition: string;
  /** The ARN in `--param deploymentRole`; `ci` needs it. */
  readonly deploymentRole: string | null;
}

export interface Statement {
  readonly Sid: string;
  readonly Effect: 'Allow';
  readonly Action: readonly string[];
  readonly Resource: readonly string[];
  readonly Condition?: Readonly<Record<string, Readonly<Record<string, unknown>>>>;
}

export interface Policy {
  readonly Version: '2012-10-17';
  readonly Statement: readonly Statement[];
}

/** Characters of a managed policy, white space left out. What is over it goes into another document. */
export const MAX_POLICY_CHARACTERS = 6_144;
/** CloudFormation cuts the stack's name in the names that it makes. */
const NAME_PART = 24;

/**
 * @returns one or more documents, each within the size of a managed policy; a role takes up to ten
 * @throws bad_config for a type of resource whose rights are not known, and for `ci` without a role
 */
export function deployerPolicies(request: PolicyRequest): Policy[] {
  const { kind } = request;
  const own = kind === 'role' ? [] : commandStatements(request);
  const made = kind === 'ci' ? [passRole(request)] : resourceStatements(request);
  const policies: Policy[] = [];
  for (const statement of [...own, ...made]) {
    const last = policies.at(-1);
    const longer = policyOf([...(last?.Statement ?? []), statement]);
    if (last && JSON.stringify(longer).length <= MAX_POLICY_CHARACTERS)
      policies[policies.length - 1] = longer;
    else policies.push(policyOf([statement]));
  }
  return policies;
}

function policyOf(Statement: readonly Statement[]): Policy {
  return { Version: '2012-10-17', Statement };
}

type Scope = Readonly<Record<string, readonly string[]>>;

/** The resources of each statement: as narrow as names are known before the stack is. */
function scopesOf(request: PolicyRequest): Scope {
  const { partition, service, stage, queueName, redisStack = '', region = '*', account = '*' } = request;
  const stack = `${service}-${stage}`;
  const { rolePath, logPrefix, keys } = conventionsOf(request.template);
  const made = stack.slice(0, NAME_PART);
  const arn = (product: string, rest: string, at = region, of = account) =>
    `arn:${partition}:${product}:${at}:${of}:${rest}`;
  return {
    any: ['*'],
    lambda: [arn('lambda', `function:${stack}-*`)],
    roles: [arn('iam', `role${rolePath}${made}*`, '')],
    linked: [arn('iam', 'role/aws-service-role/*', '')],
    queues: [arn('sqs', `${queueName}*`)],
    buckets: [arn('s3', `${made.toLowerCase()}*`, '', '')],
    logs: [
      arn('logs', `log-group:${logPrefix}/lambda/${stack}-*`),
      arn('logs', `log-group:${logPrefix}/http-api/${stack}*`),
    ],
    keys,
    api: ['/apis', '/apis/*', '/domainnames', '/domainnames/*', '/tags/*'].map(
      (path) => `arn:${partition}:apigateway:${region}::${path}`,
    ),
    cache: [arn('elasticache', '*')],
    tables: [arn('dynamodb', `table/${made}*`)],
    alarms: [arn('cloudwatch', `alarm:${made}*`), arn('cloudwatch', `dashboard/${stack}`, '')],
    rules: [arn('events', `rule/${made}*`)],
    topics: [arn('sns', `${made}*`)],
    stack: [arn('cloudformation', `stack/${stack}/*`)],
    redisStack: [arn('cloudformation', `stack/${redisStack}/*`)],
    images: [arn('ecr', `repository/serverless-${stack}`)],
  };
}

/** Reads the conventions that conventions.ts applied to the template. */
function conventionsOf(template: Template) {
  const roles = resourcesOf(template, 'AWS::IAM::Role').map(([, role]) => role);
  const logs = resourcesOf(template, 'AWS::Logs::LogGroup').map(([, group]) => group);
  const [, logPrefix = '/aws'] =
    /^(.+?)\/(?:lambda|http-api)\//.exec(textOf(logs[0]?.['LogGroupName'])) ?? [];
  return {
    rolePath: textOf(roles[0]?.['Path']) || '/',
    hasBoundary: roles.some((role) => role['PermissionsBoundary'] !== undefined),
    keys: [...new Set(logs.map((group) => textOf(group['KmsKeyId'])).filter((key) => key !== ''))],
    logPrefix,
  };
}

const OF_BOUNDARIES: Rights = {
  service: 'iam',
  on: 'roles',
  actions: 'DeleteRolePermissionsBoundary PutRolePermissionsBoundary',
};

const OF_KEYS: readonly Rights[] = [
  { service: 'kms', on: 'keys', actions: 'CreateGrant Decrypt DescribeKey GenerateDataKey' },
  { service: 'logs', on: 'logs', actions: 'AssociateKmsKey DisassociateKmsKey' },
];

function resourceStatements(request: PolicyRequest): Statement[] {
  const types = new Set(Object.values(request.template.Resources).map(({ Type }) => Type));
  const unknown = [...types].filter((type) => RIGHTS_OF_TYPES[type] === undefined);
  if (unknown.length > 0)
    throw wrong(
      `no rights are known for ${unknown.join(', ')}: add them to the policy of another type by hand`,
    );
  const rights = [...types].flatMap((type) => RIGHTS_OF_TYPES[type] ?? []);
  const { keys, hasBoundary } = conventionsOf(request.template);
  if (keys.length > 0) rights.push(...OF_KEYS);
  if (hasBoundary) rights.push(OF_BOUNDARIES);
  return statementsOf(rights, request);
}

/** One statement for each scope and condition, with the actions of all. */
function statementsOf(rights: readonly Rights[], request: PolicyRequest): Statement[] {
  const scopes = scopesOf(request);
  const groups = new Map<string, { readonly right: Rights; readonly actions: Set<string> }>();
  for (const right of rights) {
    const key = JSON.stringify([right.on, right.condition]);
    const group = groups.get(key) ?? { right, actions: new Set() };
    for (const action of right.actions.split(' ')) group.actions.add(`${right.service}:${action}`);
    groups.set(key, group);
  }
  return [...groups.values()].map(({ right: { on, condition }, actions }, i) => ({
    Sid: `${on[0]?.toUpperCase()}${on.slice(1)}${i}`,
    Effect: 'Allow',
    Action: [...actions].sort(),
    Resource: scopes[on] ?? [],
    ...(condition === undefined ? {} : { Condition: condition }),
  }));
}

/** The calls of `serverless deploy`, `publish`, `info` and `remove` themselves. */
function commandStatements(request: PolicyRequest): Statement[] {
  const isImage = resourcesOf(request.template, 'AWS::Lambda::Function').some(
    ([, { PackageType }]) => textOf(PackageType) === 'Image',
  );
  const ofRedis = request.redisStack === undefined ? [] : [OF_SHARED_REDIS];
  return statementsOf([...OF_COMMAND, ...ofRedis, ...(isImage ? OF_IMAGES : [])], request);
}

const OF_COMMAND: readonly Rights[] = [
  { service: 'sts', on: 'any', actions: 'GetCallerIdentity' },
  { service: 'cloudformation', on: 'any', actions: 'ValidateTemplate' },
  {
    service: 'cloudformation',
    on: 'stack',
    actions:
      'CreateChangeSet CreateStack DeleteChangeSet DeleteStack DescribeChangeSet DescribeStackEvents DescribeStackResource DescribeStacks ExecuteChangeSet GetTemplate ListStackResources UpdateStack',
  },
  {
    service: 's3',
    on: 'buckets',
    actions:
      'AbortMultipartUpload DeleteObject GetBucketLocation GetObject ListBucket ListBucketVersions PutObject',
  },
  { service: 'lambda', on: 'lambda', actions: 'GetFunction' },
  { service: 'sqs', on: 'queues', actions: 'GetQueueAttributes' },
];

const OF_SHARED_REDIS: Rights = {
  service: 'cloudformation',
  on: 'redisStack',
  actions: 'DescribeStacks',
};

const OF_IMAGES: readonly Rights[] = [
  { service: 'ecr', on: 'any', actions: 'GetAuthorizationToken' },
  {
    service: 'ecr',
    on: 'images',
    actions:
      'BatchCheckLayerAvailability BatchGetImage CompleteLayerUpload CreateRepository DeleteRepository DescribeImages DescribeRepositories GetDownloadUrlForLayer GetRepositoryPolicy InitiateLayerUpload PutImage PutLifecyclePolicy SetRepositoryPolicy UploadLayerPart',
  },
];

function passRole({ deploymentRole }: PolicyRequest): Statement {
  if (deploymentRole === null)
    throw wrong(
      'a policy for ci needs the role that CloudFormation uses: --param deploymentRole=arn:aws:iam::…',
    );
  return {
    Sid: 'PassRole',
    Effect: 'Allow',
    Action: ['iam:PassRole'],
    Resource: [deploymentRole],
    Condition: { StringEquals: { 'iam:PassedToService': 'cloudformation.amazonaws.com' } },
  };
}

function wrong(message: string): ServingError {
  return new ServingError('bad_config', message);
}
