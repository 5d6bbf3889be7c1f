/**
 * Validates the parameters of a deployment (`--param name=value`, with defaults in serverless.yml). osls ignores unknown
 * parameters, so they are refused here: a typo would deploy the default. An empty text means "not given".
 */
import { suggest } from '../../lib/contract/suggest.ts';
import { readConventions } from './convention-parameters.ts';
import type { Checks, Rule } from './parameter-checks.ts';

export const PARAMETER_NAMES = [
  /** "x86_64" or "arm64". */
  'arch',
  /** Who may call the HTTP API: "iam" (signed requests), "jwt" (a bearer token) or "none" (everybody). */
  'auth',
  /** With auth=jwt: the https address whose keys sign the tokens. */
  'jwtIssuer',
  /** With auth=jwt: the accepted audiences, separated by commas. */
  'jwtAudience',
  /** Above this rate the HTTP API answers 429. */
  'requestsPerSecond',
  /** "on": POST /predict may queue requests, through a new SQS endpoint; "routed": through a route of the VPC. */
  'respondAsync',
  /** Where results are: "redis", or "dynamodb": a table, which costs nothing idle, needs no VPC and is read over HTTPS only. */
  'results',
  /**
   * With results=redis, which one: "node" or "serverless" (a Redis of this stack in a VPC), "public" (one of this stack on the internet,
   * by IAM), "shared" (that of another stack) or "url" (one at an address); the last and "public" need no VPC.
   */
  'redis',
  /** With redis=shared: the name of the stack of shared-redis.yml. */
  'redisStack',
  /** With redis=url: its address, as rediss://user@host:6379, without the password. */
  'redisUrl',
  /** With redis=url: the parameter of Systems Manager, a SecureString, that holds the password. */
  'redisPassword',
  /** With redis=serverless or public: the most GB that it stores; 1 to 5,000. */
  'redisMaxGB',
  /** With redis=serverless or public: the most ECPUs (units of work, as ElastiCache counts them) a second; 1,000 to 15,000,000. */
  'redisMaxECPU',
  'redisNodeType',
  /** One node, or a primary with up to 5 replicas that take over. */
  'redisNodes',
  /** "iam": functions sign in with their role; "none": the security group alone restricts access. */
  'redisAuth',
  /** /tmp of predict and batch, which holds the model, and a new version beside it. */
  'tmpMB',
  /** Retention of logs in CloudWatch. */
  'logDays',
  /** "on": the bucket and a final snapshot of Redis are kept when the stack is deleted. */
  'keepData',
  /** "basic": three alarms; "full": every alarm in docs/how-to/runbook.md, and a dashboard. */
  'monitoring',
  /** "on": functions write the metrics of lib/observe/emf.ts. */
  'metrics',
  /** E-mail address that alarms notify. */
  'alarmEmail',
  /** "none", "own" (a topic of this stack) or the ARN of a topic. */
  'alarmTopic',
  /** "on": X-Ray traces requests. */
  'tracing',
  /** Where functions send their spans, in the JSON of OTLP: http(s)://host:port of a receiver that they reach. */
  'otlpEndpoint',
  /** With otlpEndpoint: the share of new traces that are recorded; 0 to 1. */
  'otlpRatio',
  /** Provisioned environments of predict. */
  'provisioned',
  /** Two availability zones of the own VPC, separated by a comma. Empty: the first two of the region. */
  'zones',
  /** An existing VPC. Empty: the stack creates one. */
  'vpcId',
  /** Two or more subnets of it, separated by commas. */
  'subnetIds',
  /** Their route tables, which get a gateway endpoint for S3. Empty: the subnets have a route to S3. */
  'routeTableIds',
  /** An existing security group for the functions. Empty: the stack creates one. */
  'securityGroup',
  /** Custom domain of the API. */
  'domain',
  /** The certificate of the domain in ACM, in the stack's region. */
  'certificateArn',
  /** A role of IAM with which CloudFormation makes changes, so that who deploys needs no rights of its own for them. */
  'deploymentRole',
  /** The ARN of a policy that limits what every role of the stack may do. */
  'permissionsBoundary',
  /** The path of every role, as /team/. */
  'rolePath',
  /** Tags of every resource that can have some: name=value, separated by commas. */
  'tags',
  /** The ARN of a key of KMS for what is stored and logged. */
  'kmsKey',
  /** Replaces /aws at the beginning of the names of log groups. */
  'logPrefix',
  /** "least-most" pollers of the queue that are always there, instead of queue.maximumConcurrency. */
  'pollers',
  /** With auth=jwt: what a token must have, by function: predict=scope,predictions=one two. */
  'jwtScopes',
  /** "on": the access log names address and identity of callers, which are personal data. */
  'callerLog',
  /** The image of a Python worker in ECR, in the stack's region. Empty: a deployment builds it with docker. */
  'workerImage',
] as const;

export type Parameters = Readonly<Record<(typeof PARAMETER_NAMES)[number], string | number>>;

/** Retentions that CloudWatch accepts; any other number fails in the middle of a deployment. */
const RETENTION_DAYS = [
  1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288, 3653,
];

/** Ids of EC2 are a prefix and 8 or 17 hexadecimal digits. */
const idOf = (prefix: string) => new RegExp(`^${prefix}-[0-9a-f]{8,17}$`);
const CERTIFICATE = /^arn:aws[a-z-]*:acm:[a-z0-9-]+:\d{12}:certificate\/[A-Za-z0-9-]+$/;
const NODE_TYPE = /^cache\.[a-z0-9]+\.[a-z0-9]+$/;
const ROLE = /^arn:aws[a-z-]*:iam::\d{12}:role\/[\w+=,.@/-]{1,512}$/;
const ZONE = /^[a-z]{2}(-[a-z]+)+-\d+(-[a-z]+-\d+)?[a-z]$/;
const IMAGE =
  /^\d{12}\.dkr\.ecr\.[a-z0-9-]+\.amazonaws\.com(\.cn)?\/[a-z0-9][a-z0-9._/-]{1,255}@sha256:[0-9a-f]{64}$/;
const DOMAIN = /^(?=.{4,253}$)([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z]{2,63}$/;
/** Encrypted, as it crosses the internet. The password would be readable in the template and in each function. */
const REDIS_URL = /^rediss:\/\/([A-Za-z0-9._~%-]{1,128}@)?[A-Za-z0-9.-]{1,253}(:\d{1,5})?\/?(\?cluster=on)?$/;
const PARAMETER = /^(?!\/(aws|ssm)(\/|$))(\/[A-Za-z0-9_.-]+){1,15}$/i;
/** Matches the stack of shared-redis.yml: its service and its stage. */
const REDIS_STACK = /^shared-redis-[A-Za-z0-9-]{1,15}$/;
const RECEIVER = /^https?:\/\/[A-Za-z0-9.-]{1,253}(:\d{1,5})?(\/[\w./-]{0,128})?$/;
const EMAIL = /^[^\s@]+@[^\s@]+\.[^\s@]+$/;

export type Deployment = ReturnType<typeof readValues>;

export type RedisDeployment = ReturnType<typeof readRedis>;

/** Parameters of a stack with a Redis, whether or not other stacks use it. */
export function readRedis(check: Checks) {
  return {
    redisNodeType: check.matches('redisNodeType', NODE_TYPE, 'a node type, as cache.t4g.micro'),
    redisNodes: check.whole('redisNodes', 1, 6),
    keepData: check.oneOf('keepData', ['on', 'off']),
    monitoring: check.oneOf('monitoring', ['basic', 'full']),
    alarmEmail: check.matches('alarmEmail', EMAIL, 'an e-mail address'),
    alarmTopic: check.alarmTopic(),
    zones: check.list('zones', ZONE, 'two zones of the region, as us-east-1a,us-east-1c'),
    vpcId: check.matches('vpcId', idOf('vpc'), 'an id, as vpc-0123456789abcdef0'),
    subnetIds: check.list(
      'subnetIds',
      idOf('subnet'),
      'ids separated by commas, as subnet-0123456789abcdef0',
    ),
    routeTableIds: check.list(
      'routeTableIds',
      idOf('rtb'),
      'ids separated by commas, as rtb-0123456789abcdef0',
    ),
    deploymentRole: check.matches('deploymentRole', ROLE, 'the ARN of a role of IAM'),
  };
}

export function readValues(check: Checks) {
  return {
    ...readRedis(check),
    arch: check.oneOf('arch', ['x86_64', 'arm64']),
    auth: check.oneOf('auth', ['iam', 'jwt', 'none']),
    jwtIssuer: check.matches('jwtIssuer', /^https:\/\/\S+$/, 'an https address'),
    jwtAudience: check.list('jwtAudience', /^\S+$/, 'names separated by commas'),
    // The account has a quota, which AWS raises; more does not fit into the type of the template.
    requestsPerSecond: check.whole('requestsPerSecond', 1, 2 ** 31 - 1),
    respondAsync: check.oneOf('respondAsync', ['on', 'off', 'routed']),
    ...readStore(check),
    redisMaxGB: check.whole('redisMaxGB', 1, 5_000),
    redisMaxECPU: check.whole('redisMaxECPU', 1_000, 15_000_000),
    redisStack: check.matches('redisStack', REDIS_STACK, 'the name of a stack, as shared-redis-dev'),
    redisUrl: check.matches(
      'redisUrl',
      REDIS_URL,
      'rediss://host:port or rediss://user@host:port, without a password; with ?cluster=on after it for cluster mode',
    ),
    redisPassword: check.matches('redisPassword', PARAMETER, 'the name of a parameter, as /my-job/redis'),
    redisAuth: check.oneOf('redisAuth', ['iam', 'none']),
    tmpMB: check.whole('tmpMB', 512, 10_240),
    logDays: check.among('logDays', RETENTION_DAYS),
    metrics: check.oneOf('metrics', ['on', 'off']),
    tracing: check.oneOf('tracing', ['on', 'off']),
    otlpEndpoint: check.matches('otlpEndpoint', RECEIVER, 'http(s)://host:port'),
    otlpRatio: check.matches('otlpRatio', /^(0|1|0?\.\d{1,9})$/, 'a number from 0 to 1'),
    provisioned: check.whole('provisioned', 0, 1_000),
    securityGroup: check.matches('securityGroup', idOf('sg'), 'an id, as sg-0123456789abcdef0'),
    ...readConventions(check),
    domain: check.matches('domain', DOMAIN, 'a name in small letters, as api.example.com'),
    certificateArn: check.matches('certificateArn', CERTIFICATE, 'the ARN of a certificate in ACM'),
    workerImage: check.matches(
      'workerImage',
      IMAGE,
      'an image in ECR, as 123456789012.dkr.ecr.us-east-1.amazonaws.com/name@sha256: and 64 digits',
    ),
  };
}

const REDIS_KINDS = ['node', 'serverless', 'public', 'shared', 'url'] as const;
type StoreKind = (typeof REDIS_KINDS)[number] | 'dynamodb';

function readStore(check: Checks) {
  const results = check.oneOf('results', ['redis', 'dynamodb']);
  const kind = check.oneOf('redis', REDIS_KINDS);
  /** The kind of Redis, or `dynamodb`. */
  const redis: StoreKind = results === 'dynamodb' ? results : kind;
  return { results, redis };
}

export function stackRules({ vpcId, subnetIds, zones, ...read }: RedisDeployment): Rule[] {
  return [
    [
      vpcId !== '' && subnetIds.length < 2,
      'param vpcId needs two or more subnetIds, in different zones of the VPC',
    ],
    [
      vpcId === '' && (subnetIds.length > 0 || read.routeTableIds.length > 0),
      'params subnetIds and routeTableIds belong to a vpcId',
    ],
    [
      zones.length !== 0 && zones.length !== 2,
      `param zones ${JSON.stringify(zones.join())}: expected two zones, one for each subnet`,
    ],
    [
      vpcId !== '' && zones.length > 0,
      'param zones belongs to the VPC of the stack; with a vpcId the subnetIds decide',
    ],
    [
      read.alarmEmail !== '' && read.alarmTopic.startsWith('arn:'),
      'params alarmEmail and alarmTopic: with a topic of your own, subscribe the address there',
    ],
  ];
}

/** True if functions that use results are in a VPC. */
export function usesVpc({ redis }: Pick<Deployment, 'redis'>): boolean {
  return redis !== 'url' && redis !== 'public' && redis !== 'dynamodb';
}

/** One problem for each name on the command line that is not a parameter. infra/load.cjs reads `config` and `sample`. */
export function unknownParameters(
  names: readonly string[],
  known: readonly string[] = ['config', 'sample', ...PARAMETER_NAMES],
): string[] {
  return names
    .filter((name) => !known.includes(name))
    .map((name) => {
      const meant = suggest(name, known);
      return `param ${name}: unknown${meant ? `; did you mean ${meant}?` : ''}`;
    });
}
