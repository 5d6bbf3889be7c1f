/**
 * Computes the values that several resources share from the parameters: network, variables, authorization. All
 * variables of a function are built here, because `extensions` in osls would replace them instead of adding one.
 */
import type { RoutedFunction } from '../../lib/http/routes.ts';
import { type Authorizer, accessLogFormat, authorizerOf, type HttpEvent, httpEventsOf } from './http-api.ts';
import { type Deployment, type RedisDeployment, usesVpc } from './parameters.ts';
import { accessRules, redisUser } from './redis-access.ts';

/** A text or a CloudFormation reference. */
export type CfnValue =
  | string
  | { readonly Ref: string }
  | { readonly 'Fn::Sub': string }
  | { readonly 'Fn::ImportValue': string };

/** One, or several in a list that another stack exports. */
type CfnList = readonly CfnValue[] | { readonly 'Fn::Split': readonly [string, CfnValue] };

/** A zone by its name, or by its place in the region's list. */
type Zone = string | { readonly 'Fn::Select': readonly [number, { readonly 'Fn::GetAZs': '' }] };

export type Variables = Readonly<Record<string, CfnValue>>;

/** Who publishes alarms. */
const ALARMS: string | readonly string[] = 'cloudwatch.amazonaws.com';

const FUNCTIONS = [
  'predict',
  'batch',
  'submit',
  'predictions',
  'status',
  'deadLetter',
  'notifier',
  'trials',
  'jobs',
  'throttle',
] as const;

/** Read in serverless.yml and infra/stack/ as ${self:custom.settings.<name>}. */
export interface SettingsOfResources extends ReturnType<typeof settingsOfRedis> {
  readonly functionGroup: CfnValue;
  /** The security group of Redis. */
  readonly redisGroup: CfnValue;
  /** Undefined unless another stack has the Redis. */
  readonly sharedRedis: SharedRedis | undefined;
  readonly redisUser: string;
  /** The rules of the user with redisAuth=iam. */
  readonly redisAccess: string;
  /** For functions that use Redis. Null: they are in no VPC. */
  readonly vpc: {
    readonly securityGroupIds: readonly CfnValue[];
    readonly subnetIds: CfnList;
  } | null;
  /** Resources that must exist before a function in the VPC. */
  readonly vpcDependencies: readonly string[];
  readonly variables: Readonly<Record<(typeof FUNCTIONS)[number], Variables>>;
  /** For osls: null means no authorizer. */
  readonly authorizer: Authorizer | null;
  readonly authorizers: Readonly<Record<string, unknown>>;
  /** The `events` of each function that answers HTTP: its routes, with the authorizer. */
  readonly httpEvents: Readonly<Record<RoutedFunction, readonly HttpEvent[]>>;
  /** One line of JSON for each request to the HTTP API. */
  readonly accessLogFormat: string;
  readonly tracingMode: 'Active' | 'PassThrough';
  readonly provisioned: number;
  readonly bucketDeletionPolicy: 'Retain' | 'Delete';
  /** As in an ARN. */
  readonly redisResource: string;
  /** The snapshot that is made of a serverless cache when it is deleted. */
  readonly redisLastSnapshot: CfnValue;
}

/** The values that the stack of a job needs from another stack: its Redis. */
export interface SharedRedis {
  readonly stack: string;
  /** The job's name in its keys there. */
  readonly keyspace: string;
}

interface Names {
  readonly service: string;
  readonly stage: string;
  readonly jobName: string;
  /** JSON of the job's settings. */
  readonly job: string;
  /** True if the stack takes jobs over files. */
  readonly takesFileJobs: boolean;
  /** The mappings of the queues, with their concurrency. */
  readonly eventSources: CfnValue;
  readonly now: Date;
}

/**
 * The values that infra/stack/redis/node.yml and infra/stack/network/ read, in a stack of a job or of a shared Redis.
 */
export function settingsOfRedis(deployment: RedisDeployment) {
  const { vpcId, subnetIds, routeTableIds, redisNodes } = deployment;
  const keeps = deployment.keepData === 'on';
  return {
    vpcId: (vpcId || { Ref: 'Vpc' }) as CfnValue,
    subnetIds: (vpcId ? subnetIds : [{ Ref: 'SubnetA' }, { Ref: 'SubnetB' }]) as CfnList,
    /** The zones of the two subnets, if the stack creates its VPC. */
    zones: zonesOf(deployment),
    routeTableIds,
    alarmActions: alarmActions(deployment),
    alarmEmail: deployment.alarmEmail,
    /** Who may publish to a topic of the stack. */
    alarmPublishers: ALARMS,
    redisNodeType: deployment.redisNodeType,
    redisNodes,
    redisFailover: redisNodes > 1,
    redisDeletionPolicy: keeps ? ('Snapshot' as const) : ('Delete' as const),
    /** Number of daily snapshots of Redis to keep; 0 disables them. */
    redisSnapshots: keeps ? 7 : 0,
    /** For osls: null means the credentials of the command. */
    deploymentRole: deployment.deploymentRole || null,
  };
}

/** Refers to the value that the stack `stack` of shared-redis.yml exports under this name. */
function exported(stack: string, name: string) {
  return { 'Fn::ImportValue': `${stack}:${name}` } as const;
}

/** The Redis of this stack, or that of the stack that was named, and the network that it is in. */
function redisOf(deployment: Deployment, { service, stage, jobName }: Names) {
  const { redis, redisStack: stack } = deployment;
  if (redis !== 'shared')
    return {
      ...settingsOfRedis(deployment),
      redisGroup: { Ref: 'RedisSecurityGroup' },
      sharedRedis: undefined,
      redisUser: redisUser(service, stage),
      redisAccess: accessRules(jobName, cacheOf({ redis }) !== undefined).join(' '),
    };
  const keyspace = `${jobName}@${stage}`;
  return {
    ...settingsOfRedis(deployment),
    vpcId: exported(stack, 'Vpc'),
    subnetIds: { 'Fn::Split': [',', exported(stack, 'Subnets')] } as const,
    redisGroup: exported(stack, 'Group'),
    sharedRedis: { stack, keyspace },
    redisUser: redisUser(stack, keyspace),
    redisAccess: '',
  };
}

export function settingsOfResources(deployment: Deployment, names: Names): SettingsOfResources {
  const { authorizer, authorizers } = authorizerOf(deployment);
  const redis = redisOf(deployment, names);
  const functionGroup = deployment.securityGroup || { Ref: 'FunctionSecurityGroup' };
  const isInVpc = usesVpc(deployment);
  return {
    ...redis,
    functionGroup,
    vpc: isInVpc ? { securityGroupIds: [functionGroup], subnetIds: redis.subnetIds } : null,
    vpcDependencies: isInVpc ? ['InterfacesPolicy'] : [],
    variables: variablesOf(deployment, names, redisVariables(deployment, redis)),
    authorizer,
    authorizers,
    httpEvents: httpEventsOf(authorizer, deployment.jwtScopes, names.takesFileJobs),
    accessLogFormat: accessLogFormat(deployment),
    tracingMode: deployment.tracing === 'on' ? 'Active' : 'PassThrough',
    provisioned: deployment.provisioned,
    bucketDeletionPolicy: deployment.keepData === 'on' ? 'Retain' : 'Delete',
    redisResource: cacheOf(deployment)
      ? `serverlesscache:\${${cacheOf(deployment)}}`
      : 'replicationgroup:${Redis}',
    // A name that was used stays taken: by the snapshot of an earlier cache.
    redisLastSnapshot:
      deployment.keepData === 'on'
        ? `${redis.redisUser}-${names.now.toISOString().slice(0, 19).replaceAll(/\D/g, '')}`
        : { Ref: 'AWS::NoValue' },
  };
}

/** Some accounts have zones that Lambda or a node type refuses; infra/account/advice.ts then says so. */
function zonesOf({ zones }: RedisDeployment): readonly Zone[] {
  if (zones.length > 0) return zones;
  return [0, 1].map((place) => ({ 'Fn::Select': [place, { 'Fn::GetAZs': '' }] }) as const);
}

/** The topics that an alarm notifies. */
function alarmActions({ alarmTopic, alarmEmail }: RedisDeployment): readonly CfnValue[] {
  if (alarmTopic === 'own' || alarmEmail !== '') return [{ Ref: 'AlarmTopic' }];
  return alarmTopic === 'none' ? [] : [alarmTopic];
}

function variablesOf(deployment: Deployment, names: Names, redis: Variables) {
  const { redis: kind, respondAsync, metrics, otlpEndpoint } = deployment;
  const isAnnounced = kind === 'public' || kind === 'dynamodb';
  const untraced: Variables = {
    CLUSTER_SERVING_CONFIG: names.job,
    ...(metrics === 'off' ? { CLUSTER_SERVING_METRICS: 'off' } : {}),
  };
  const traced = {
    OTEL_EXPORTER_OTLP_ENDPOINT: otlpEndpoint,
    OTEL_TRACES_SAMPLER: 'parentbased_traceidratio',
    OTEL_TRACES_SAMPLER_ARG: deployment.otlpRatio,
  };
  const config = otlpEndpoint === '' ? untraced : { ...untraced, ...traced };
  const bucket = { CLUSTER_SERVING_BUCKET: { Ref: 'Bucket' } };
  const queue = { CLUSTER_SERVING_QUEUE_URL: { Ref: 'Queue' } };
  return {
    predict: { ...config, ...bucket, ...redis, ...(respondAsync === 'off' ? {} : queue) },
    batch: { ...config, ...bucket, ...redis },
    // A public Redis and a table are reached without a VPC: there a record is announced, and refused when Redis is nearly full.
    submit: { ...config, ...bucket, ...queue, ...(isAnnounced ? redis : {}) },
    predictions: { ...config, ...bucket, ...redis },
    // Most of its requests ask whether the service is well.
    status: { ...untraced, ...bucket, ...redis },
    deadLetter: { ...config, ...bucket, ...redis },
    trials: { ...untraced, ...bucket, ...redis },
    notifier: {
      ...untraced,
      ...bucket,
      CLUSTER_SERVING_NOTIFY_QUEUE_URL: { Ref: 'NotifyQueue' },
      CLUSTER_SERVING_NOTIFY_DEAD_LETTER_URL: { Ref: 'NotifyDeadLetterQueue' },
    },
    throttle: { ...untraced, ...bucket, CLUSTER_SERVING_EVENT_SOURCES: names.eventSources },
    // Its results are objects of S3, so it needs no Redis.
    jobs: { ...config, ...bucket, CLUSTER_SERVING_JOBS_QUEUE_URL: { Ref: 'JobsQueue' } },
  };
}

function redisVariables(
  { redis, redisAuth, redisUrl, redisPassword, redisMaxGB }: Deployment,
  { sharedRedis, redisUser: user }: ReturnType<typeof redisOf>,
): Variables {
  if (sharedRedis)
    return {
      CLUSTER_SERVING_REDIS_URL: exported(sharedRedis.stack, 'Url'),
      CLUSTER_SERVING_REDIS_USER: user,
      CLUSTER_SERVING_REDIS_CACHE: exported(sharedRedis.stack, 'Cache'),
      CLUSTER_SERVING_REDIS_KEYSPACE: sharedRedis.keyspace,
    };
  if (redis === 'dynamodb') return { CLUSTER_SERVING_TABLE: { Ref: 'ResultTable' } };
  if (redis === 'url')
    return {
      CLUSTER_SERVING_REDIS_URL: withoutUser(redisUrl),
      ...(userOf(redisUrl) === '' ? {} : { CLUSTER_SERVING_REDIS_USER: userOf(redisUrl) }),
      CLUSTER_SERVING_REDIS_PASSWORD_PARAMETER: redisPassword,
    };
  const cache = cacheOf({ redis });
  const address = {
    CLUSTER_SERVING_REDIS_URL: {
      'Fn::Sub': cache
        ? `rediss://\${${cache}.Endpoint.Address}:\${${cache}.Endpoint.Port}?cluster=on`
        : 'rediss://${Redis.PrimaryEndPoint.Address}:${Redis.PrimaryEndPoint.Port}',
    },
  };
  if (redisAuth === 'none' && redis !== 'public') return address;
  return {
    ...address,
    CLUSTER_SERVING_REDIS_USER: user,
    CLUSTER_SERVING_REDIS_CACHE: { Ref: cache ?? 'Redis' },
    ...(redis === 'public' ? { CLUSTER_SERVING_REDIS_MAX_GB: String(redisMaxGB) } : {}),
  };
}

/** The logical names of caches of ElastiCache Serverless, which are in cluster mode. */
const CACHES = { serverless: 'RedisServerless', public: 'RedisPublic' } as const;

function cacheOf({ redis }: Pick<Deployment, 'redis'>): string | undefined {
  return redis === 'serverless' || redis === 'public' ? CACHES[redis] : undefined;
}

function userOf(url: string): string {
  return decodeURIComponent(new URL(url).username);
}

function withoutUser(url: string): string {
  return url.replace(/\/\/[^@/]*@/, '//');
}
