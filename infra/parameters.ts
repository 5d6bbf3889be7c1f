/**
 * Validates the parameters of a deployment (`--param name=value`, with defaults in serverless.yml). osls ignores unknown
 * parameters, so they are refused here: a typo would deploy the default. An empty text means "not given".
 */
import { suggest } from '../lib/config/suggest.ts';

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
  /** Where results are: "node" or "serverless" (a Redis of this stack in a VPC), or "url" (one at an address, without a VPC). */
  'redis',
  /** With redis=url: its address, as rediss://user@host:6379, without the password. */
  'redisUrl',
  /** With redis=url: the parameter of Systems Manager, a SecureString, that holds the password. */
  'redisPassword',
  /** With redis=serverless: the most GB that it stores; 1 to 5,000. */
  'redisMaxGB',
  /** With redis=serverless: the most ECPUs (units of work, as ElastiCache counts them) a second; 1,000 to 15,000,000. */
  'redisMaxECPU',
  'redisNodeType',
  /** One node, or a primary with up to 5 replicas that take over. */
  'redisNodes',
  /** "iam": functions sign in with their role; "none": the security group alone restricts access. */
  'redisAuth',
  /** "stage": the queue is named after the stack; "job": after the job alone, as earlier versions named it. */
  'queueName',
  /** /tmp of predict and batch, which holds the model, and a new version beside it. */
  'tmpMB',
  /** Retention of logs in CloudWatch. */
  'logDays',
  /** "on": the bucket and a final snapshot of Redis are kept when the stack is deleted. */
  'keepData',
  /** "basic": three alarms; "full": every alarm in docs/how-to/runbook.md, and a dashboard. */
  'monitoring',
  /** "on": functions write the metrics of lib/metrics/emf.ts. */
  'metrics',
  /** E-mail address that alarms notify. */
  'alarmEmail',
  /** "none", "own" (a topic of this stack) or the ARN of a topic. */
  'alarmTopic',
  /** "on": X-Ray traces requests. */
  'tracing',
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
  /** The image of a Python worker in ECR, in the stack's region. Empty: a deployment builds it with docker. */
  'workerImage',
] as const;

/** Texts from the command line; values from serverless.yml may be numbers. */
export type Parameters = Readonly<Record<(typeof PARAMETER_NAMES)[number], string | number>>;

/** Retentions that CloudWatch accepts; any other number fails in the middle of a deployment. */
const RETENTION_DAYS = [
  1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288, 3653,
];

/** Ids of EC2 are a prefix and 8 or 17 hexadecimal digits. */
const idOf = (prefix: string) => new RegExp(`^${prefix}-[0-9a-f]{8,17}$`);
const TOPIC = /^arn:aws[a-z-]*:sns:[a-z0-9-]+:\d{12}:[A-Za-z0-9_-]{1,256}$/;
const CERTIFICATE = /^arn:aws[a-z-]*:acm:[a-z0-9-]+:\d{12}:certificate\/[A-Za-z0-9-]+$/;
const ROLE = /^arn:aws[a-z-]*:iam::\d{12}:role\/[\w+=,.@/-]{1,512}$/;
const ZONE = /^[a-z]{2}(-[a-z]+)+-\d+(-[a-z]+-\d+)?[a-z]$/;
const IMAGE =
  /^\d{12}\.dkr\.ecr\.[a-z0-9-]+\.amazonaws\.com(\.cn)?\/[a-z0-9][a-z0-9._/-]{1,255}@sha256:[0-9a-f]{64}$/;
const DOMAIN = /^(?=.{4,253}$)([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z]{2,63}$/;
/** Encrypted, as it crosses the internet. The password would be readable in the template and in each function. */
const REDIS_URL = /^rediss:\/\/([A-Za-z0-9._~%-]{1,128}@)?[A-Za-z0-9.-]{1,253}(:\d{1,5})?\/?(\?cluster=on)?$/;
const PARAMETER = /^(?!\/(aws|ssm)(\/|$))(\/[A-Za-z0-9_.-]+){1,15}$/i;
const EMAIL = /^[^\s@]+@[^\s@]+\.[^\s@]+$/;

export type Deployment = ReturnType<typeof readValues>;

/** Adds each problem to `problems` and continues. */
export function readDeployment(given: Parameters, problems: string[]): Deployment {
  const read = readValues(new Checks(given, problems));
  problems.push(...contradictions(read));
  return read;
}

function readValues(check: Checks) {
  check.matches('redisNodeType', /^cache\.[a-z0-9]+\.[a-z0-9]+$/, 'a node type, as cache.t4g.micro');
  return {
    arch: check.oneOf('arch', ['x86_64', 'arm64']),
    auth: check.oneOf('auth', ['iam', 'jwt', 'none']),
    jwtIssuer: check.matches('jwtIssuer', /^https:\/\/\S+$/, 'an https address'),
    jwtAudience: check.list('jwtAudience', /^\S+$/, 'names separated by commas'),
    requestsPerSecond: check.whole('requestsPerSecond', 1, 10_000),
    respondAsync: check.oneOf('respondAsync', ['on', 'off', 'routed']),
    redis: check.oneOf('redis', ['node', 'serverless', 'url']),
    redisMaxGB: check.whole('redisMaxGB', 1, 5_000),
    redisMaxECPU: check.whole('redisMaxECPU', 1_000, 15_000_000),
    redisUrl: check.matches(
      'redisUrl',
      REDIS_URL,
      'rediss://host:port or rediss://user@host:port, without a password; with ?cluster=on after it for cluster mode',
    ),
    redisPassword: check.matches('redisPassword', PARAMETER, 'the name of a parameter, as /my-job/redis'),
    redisNodes: check.whole('redisNodes', 1, 6),
    redisAuth: check.oneOf('redisAuth', ['iam', 'none']),
    queueName: check.oneOf('queueName', ['stage', 'job']),
    tmpMB: check.whole('tmpMB', 512, 10_240),
    logDays: check.among('logDays', RETENTION_DAYS),
    keepData: check.oneOf('keepData', ['on', 'off']),
    monitoring: check.oneOf('monitoring', ['basic', 'full']),
    metrics: check.oneOf('metrics', ['on', 'off']),
    alarmEmail: check.matches('alarmEmail', EMAIL, 'an e-mail address'),
    alarmTopic: check.alarmTopic(),
    tracing: check.oneOf('tracing', ['on', 'off']),
    provisioned: check.whole('provisioned', 0, 1_000),
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
    securityGroup: check.matches('securityGroup', idOf('sg'), 'an id, as sg-0123456789abcdef0'),
    domain: check.matches('domain', DOMAIN, 'a name in small letters, as api.example.com'),
    certificateArn: check.matches('certificateArn', CERTIFICATE, 'the ARN of a certificate in ACM'),
    deploymentRole: check.matches('deploymentRole', ROLE, 'the ARN of a role of IAM'),
    workerImage: check.matches(
      'workerImage',
      IMAGE,
      'an image in ECR, as 123456789012.dkr.ecr.us-east-1.amazonaws.com/name@sha256: and 64 digits',
    ),
  };
}

/** Parameters that contradict each other. */
function contradictions(read: Deployment): string[] {
  const { auth, vpcId, subnetIds, redis } = read;
  const jwt = auth === 'jwt';
  const broken: readonly (readonly [boolean, string])[] = [
    [
      jwt && (read.jwtIssuer === '' || read.jwtAudience.length === 0),
      'param auth=jwt needs jwtIssuer and jwtAudience',
    ],
    [
      !jwt && (read.jwtIssuer !== '' || read.jwtAudience.length > 0),
      `params jwtIssuer and jwtAudience belong to auth=jwt, and auth is ${auth}`,
    ],
    [
      redis === 'url' && (read.redisUrl === '' || read.redisPassword === ''),
      'param redis=url needs redisUrl and redisPassword',
    ],
    [
      redis !== 'url' && (read.redisUrl !== '' || read.redisPassword !== ''),
      `params redisUrl and redisPassword belong to redis=url, and redis is ${redis}`,
    ],
    [
      redis === 'url' &&
        (vpcId !== '' || read.zones.length > 0 || read.respondAsync === 'routed' || read.redisAuth === 'iam'),
      'param redis=url uses no VPC and no ElastiCache: leave out vpcId, zones, respondAsync=routed and redisAuth=iam',
    ],
    [
      vpcId !== '' && subnetIds.length < 2,
      'param vpcId needs two or more subnetIds, in different zones of the VPC',
    ],
    [
      vpcId === '' && (subnetIds.length > 0 || read.routeTableIds.length > 0 || read.securityGroup !== ''),
      'params subnetIds, routeTableIds and securityGroup belong to a vpcId',
    ],
    [
      read.zones.length !== 0 && read.zones.length !== 2,
      `param zones ${JSON.stringify(read.zones.join())}: expected two zones, one for each subnet`,
    ],
    [
      vpcId !== '' && read.zones.length > 0,
      'param zones belongs to the VPC of the stack; with a vpcId the subnetIds decide',
    ],
    [
      vpcId === '' && read.respondAsync === 'routed',
      'param respondAsync=routed needs a vpcId: the VPC of this stack has no way to SQS',
    ],
    [
      (read.domain === '') !== (read.certificateArn === ''),
      'params domain and certificateArn belong together',
    ],
    [
      read.monitoring === 'full' && read.metrics === 'off',
      'param monitoring=full needs metrics=on: one of its alarms looks at them',
    ],
    [
      read.alarmEmail !== '' && read.alarmTopic.startsWith('arn:'),
      'params alarmEmail and alarmTopic: with a topic of your own, subscribe the address there',
    ],
  ];
  return broken.filter(([is]) => is).map(([, problem]) => problem);
}

class Checks {
  readonly #given: Parameters;
  readonly #problems: string[];

  constructor(given: Parameters, problems: string[]) {
    this.#given = given;
    this.#problems = problems;
  }

  oneOf<T extends string>(name: keyof Parameters, allowed: readonly T[]): T {
    const found = allowed.find((value) => value === this.#given[name]);
    if (found === undefined) this.#refuse(name, allowed.map((value) => `"${value}"`).join(', '));
    return found ?? (allowed[0] as T);
  }

  whole(name: keyof Parameters, min: number, max: number): number {
    const number = this.#number(name);
    if (!Number.isInteger(number) || number < min || number > max)
      this.#refuse(name, `a whole number from ${min} to ${max}`);
    return number;
  }

  among(name: keyof Parameters, allowed: readonly number[]): number {
    const number = this.#number(name);
    if (!allowed.includes(number)) this.#refuse(name, `one of ${allowed.join(', ')}`);
    return number;
  }

  /** Empty is allowed and means not given. */
  matches(name: keyof Parameters, pattern: RegExp, expected: string): string {
    const text = String(this.#given[name]);
    if (text !== '' && !pattern.test(text)) this.#refuse(name, expected);
    return text;
  }

  list(name: keyof Parameters, pattern: RegExp, expected: string): string[] {
    const text = String(this.#given[name]);
    const parts = text === '' ? [] : text.split(',').map((part) => part.trim());
    if (!parts.every((part) => pattern.test(part)) || new Set(parts).size < parts.length)
      this.#refuse(name, expected);
    return parts;
  }

  alarmTopic(): string {
    const text = String(this.#given.alarmTopic);
    if (text !== 'none' && text !== 'own' && !TOPIC.test(text))
      this.#refuse('alarmTopic', '"none", "own" or the ARN of an SNS topic');
    return text;
  }

  #number(name: keyof Parameters): number {
    const given = this.#given[name];
    return given === '' ? Number.NaN : Number(given);
  }

  #refuse(name: keyof Parameters, expected: string): void {
    this.#problems.push(`param ${name} ${JSON.stringify(this.#given[name])}: expected ${expected}`);
  }
}

/** One problem for each name on the command line that is not a parameter. infra/load.cjs reads `config` and `sample`. */
export function unknownParameters(names: readonly string[]): string[] {
  const known: readonly string[] = ['config', 'sample', ...PARAMETER_NAMES];
  return names
    .filter((name) => !known.includes(name))
    .map((name) => {
      const meant = suggest(name, known);
      return `param ${name}: unknown${meant ? `; did you mean ${meant}?` : ''}`;
    });
}
