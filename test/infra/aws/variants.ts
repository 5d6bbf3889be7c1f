/** Deployments that are linted, and those that are deployed into an emulated account. A new kind of Redis belongs into both lists. */

/** Options of `serverless`. */
export type Options = readonly string[];

export const params = (values: Readonly<Record<string, string>>): Options =>
  Object.entries(values).flatMap(([name, value]) => ['--param', `${name}=${value}`]);

/** The stack of a job and, with redis=shared, of its Redis. */
export const STACK = 'cluster-serving-dev';
export const REDIS_STACK = 'shared-redis-dev';
const SHARED = { redis: 'shared', redisStack: REDIS_STACK };
const JOBS = { jobs: 'serving_stream@dev,serving_stream@prod' };

const VPC = {
  vpcId: 'vpc-0123456789abcdef0',
  subnetIds: 'subnet-0123456789abcdef0,subnet-0123456789abcdef1',
};
const CERTIFICATE = 'arn:aws:acm:eu-west-1:123456789012:certificate/12345678-1234-1234-1234-123456789012';
const URL_PARAMETERS = {
  redis: 'url',
  redisUrl: 'rediss://app@results.example.com:6380',
  redisPassword: '/my-job/redis',
};

export interface LintedVariant {
  readonly name: string;
  /** Default: eu-west-1. */
  readonly region?: string;
  readonly stage?: string;
  /** The file of the stack. Default: serverless.yml. */
  readonly service?: string;
  readonly parameters?: Readonly<Record<string, string>>;
  readonly config?: string;
  readonly files?: Readonly<Record<string, string>>;
}

export const LINTED: readonly LintedVariant[] = [
  { name: 'dev' },
  { name: 'prod', stage: 'prod' },
  { name: 'China', region: 'cn-north-1', parameters: { redisAuth: 'iam', respondAsync: 'on' } },
  { name: 'GovCloud', region: 'us-gov-west-1', stage: 'prod', parameters: { respondAsync: 'on' } },
  { name: 'Frankfurt on arm64', region: 'eu-central-1', parameters: { arch: 'arm64', respondAsync: 'on' } },
  { name: 'Redis by its address', parameters: { ...URL_PARAMETERS, respondAsync: 'on' } },
  { name: 'Redis by its address, prod', stage: 'prod', parameters: URL_PARAMETERS },
  { name: 'a serverless Redis', parameters: { redis: 'serverless' } },
  {
    name: 'a serverless Redis, prod',
    stage: 'prod',
    parameters: { redis: 'serverless', redisAuth: 'iam', respondAsync: 'on' },
  },
  { name: 'a public Redis', parameters: { redis: 'public' } },
  {
    name: 'a public Redis, prod',
    stage: 'prod',
    parameters: { redis: 'public', respondAsync: 'on' },
  },
  { name: 'a table of results', parameters: { results: 'dynamodb', respondAsync: 'on' } },
  { name: 'a table of results, prod', stage: 'prod', parameters: { results: 'dynamodb' } },
  { name: 'the Redis of another stack', parameters: SHARED },
  {
    name: 'the Redis of another stack, prod',
    stage: 'prod',
    parameters: { ...SHARED, respondAsync: 'routed' },
  },
  { name: 'a Redis for several jobs', service: 'shared-redis.yml', parameters: JOBS },
  { name: 'a Redis for several jobs, prod', service: 'shared-redis.yml', stage: 'prod', parameters: JOBS },
  {
    name: 'an existing network, tokens, a domain and warm environments',
    parameters: {
      ...VPC,
      routeTableIds: 'rtb-0123456789abcdef0',
      securityGroup: 'sg-0123456789abcdef0',
      respondAsync: 'routed',
      auth: 'jwt',
      jwtIssuer: 'https://issuer.example.com/',
      jwtAudience: 'first,second',
      domain: 'api.example.com',
      certificateArn: CERTIFICATE,
      provisioned: '3',
      redisAuth: 'iam',
      alarmEmail: 'ops@example.com',
    },
  },
  { name: 'an existing network with a way to S3', parameters: { ...VPC, auth: 'none', metrics: 'off' } },
  {
    name: 'a worker in an image',
    config: 'worker: { class: service.Model }\n',
    files: { 'service.py': 'class Model:\n    pass\n' },
    parameters: {
      workerImage: `123456789012.dkr.ecr.eu-west-1.amazonaws.com/worker@sha256:${'0'.repeat(64)}`,
    },
  },
];

export interface DeployedVariant {
  readonly name: string;
  /** Parameters of the stack of shared-redis.yml, which is deployed first. */
  readonly shared?: Readonly<Record<string, string>>;
  /** True if its Redis is in cluster mode. */
  readonly isCluster?: true;
  /** The update's value. */
  readonly respondAsync: 'on' | 'routed';
  /** With this the Redis of the test asks for a password, which Systems Manager keeps. */
  readonly password?: { readonly user: string; readonly parameter: string };
  /** @param redis its host and port */
  parameters(redis: string): Readonly<Record<string, string>>;
}

const OF_SYSTEMS_MANAGER = { user: 'app', parameter: '/my-job/redis' };

export const DEPLOYED: readonly DeployedVariant[] = [
  { name: 'node', respondAsync: 'on', parameters: () => ({}) },
  {
    name: 'url',
    respondAsync: 'on',
    password: OF_SYSTEMS_MANAGER,
    parameters: (redis) => ({
      redis: 'url',
      redisUrl: `rediss://${OF_SYSTEMS_MANAGER.user}@${redis}`,
      redisPassword: OF_SYSTEMS_MANAGER.parameter,
    }),
  },
  // The stack of a job adds no endpoint to the network of another.
  { name: 'shared', shared: JOBS, respondAsync: 'routed', parameters: () => SHARED },
  {
    name: 'serverless',
    isCluster: true,
    respondAsync: 'on',
    parameters: () => ({ redis: 'serverless', redisAuth: 'iam' }),
  },
];
