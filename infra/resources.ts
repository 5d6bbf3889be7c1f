/**
 * Computes the values that several resources share from the parameters: network, variables, authorization. All
 * variables of a function are built here, because `extensions` in osls would replace them instead of adding one.
 */
import { createHash } from 'node:crypto';
import { ROUTES, type RoutedFunction } from '../lib/http/routes.ts';
import type { Deployment } from './parameters.ts';

/** A text or a CloudFormation reference. */
export type CfnValue = string | { readonly Ref: string } | { readonly 'Fn::Sub': string };

/** A zone by its name, or by its place in the region's list. */
type Zone = string | { readonly 'Fn::Select': readonly [number, { readonly 'Fn::GetAZs': '' }] };

export type Variables = Readonly<Record<string, CfnValue>>;

/**
 * What the access log says of a request: what was asked, who answered, and why it was refused. The route stands for the
 * path, which may hold a uri; address, caller and headers are left out, because they are personal data.
 */
const ACCESS_LOG = {
  requestId: '$context.requestId',
  requestTime: '$context.requestTime',
  routeKey: '$context.routeKey',
  status: '$context.status',
  error: '$context.error.message',
  errorType: '$context.error.responseType',
  authorizerError: '$context.authorizer.error',
  integrationStatus: '$context.integration.integrationStatus',
  integrationError: '$context.integration.error',
  integrationLatencyMs: '$context.integrationLatency',
  latencyMs: '$context.responseLatency',
  responseBytes: '$context.responseLength',
} as const;

const FUNCTIONS = ['predict', 'batch', 'submit', 'predictions', 'status', 'deadLetter'] as const;

/** Read in serverless.yml and infra/stack/ as ${self:custom.settings.<name>}. */
export interface SettingsOfResources {
  readonly vpcId: CfnValue;
  readonly subnetIds: readonly CfnValue[];
  /** Of the two subnets of an own VPC. */
  readonly zones: readonly Zone[];
  readonly routeTableIds: readonly string[];
  readonly functionGroup: CfnValue;
  /** For functions that use Redis. Null: they are in no VPC. */
  readonly vpc: {
    readonly securityGroupIds: readonly CfnValue[];
    readonly subnetIds: readonly CfnValue[];
  } | null;
  /** What must be there before a function in the VPC. */
  readonly vpcDependencies: readonly string[];
  readonly variables: Readonly<Record<(typeof FUNCTIONS)[number], Variables>>;
  /** For osls: null means no authorizer. */
  readonly authorizer: Authorizer | null;
  readonly authorizers: Readonly<Record<string, unknown>>;
  /** The `events` of each function that answers HTTP: its routes, with the authorizer. */
  readonly httpEvents: Readonly<Record<RoutedFunction, readonly HttpEvent[]>>;
  /** One line of JSON for each request to the HTTP API. */
  readonly accessLogFormat: string;
  readonly alarmActions: readonly CfnValue[];
  readonly tracingMode: 'Active' | 'PassThrough';
  readonly provisioned: number;
  readonly bucketDeletionPolicy: 'Retain' | 'Delete';
  readonly redisDeletionPolicy: 'Snapshot' | 'Delete';
  /** Number of daily snapshots of Redis to keep; 0 disables them. */
  readonly redisSnapshots: number;
}

type Authorizer = { readonly type: 'aws_iam' } | { readonly name: 'jwt' };

interface HttpEvent {
  readonly httpApi: { readonly method: string; readonly path: string; readonly authorizer?: Authorizer };
}

interface Names {
  readonly service: string;
  readonly stage: string;
  /** JSON of the job's settings. */
  readonly job: string;
}

export function settingsOfResources(deployment: Deployment, names: Names): SettingsOfResources {
  const { vpcId, subnetIds, securityGroup, routeTableIds, provisioned } = deployment;
  const keeps = deployment.keepData === 'on';
  const { authorizer, authorizers } = authorizerOf(deployment);
  const network = {
    subnetIds: vpcId ? subnetIds : [{ Ref: 'SubnetA' }, { Ref: 'SubnetB' }],
    functionGroup: securityGroup || { Ref: 'FunctionSecurityGroup' },
  };
  const isInVpc = deployment.redis !== 'url';
  return {
    ...network,
    vpc: isInVpc ? { securityGroupIds: [network.functionGroup], subnetIds: network.subnetIds } : null,
    vpcDependencies: isInVpc ? ['InterfacesPolicy'] : [],
    vpcId: vpcId || { Ref: 'Vpc' },
    zones: zonesOf(deployment),
    routeTableIds,
    variables: variablesOf(deployment, names),
    authorizer,
    authorizers,
    httpEvents: httpEventsOf(authorizer),
    accessLogFormat: JSON.stringify(ACCESS_LOG),
    alarmActions: alarmActions(deployment),
    tracingMode: deployment.tracing === 'on' ? 'Active' : 'PassThrough',
    provisioned,
    bucketDeletionPolicy: keeps ? 'Retain' : 'Delete',
    redisDeletionPolicy: keeps ? 'Snapshot' : 'Delete',
    redisSnapshots: keeps ? 7 : 0,
  };
}

/** Some accounts have zones that Lambda or a node type refuses; infra/advice.ts then says so. */
function zonesOf({ zones }: Deployment): readonly Zone[] {
  if (zones.length > 0) return zones;
  return [0, 1].map((place) => ({ 'Fn::Select': [place, { 'Fn::GetAZs': '' }] }) as const);
}

/** The topics that an alarm notifies. */
export function alarmActions({ alarmTopic, alarmEmail }: Deployment): readonly CfnValue[] {
  if (alarmTopic === 'own' || alarmEmail !== '') return [{ Ref: 'AlarmTopic' }];
  return alarmTopic === 'none' ? [] : [alarmTopic];
}

/** Unique in the account; ElastiCache accepts 40 lower case letters, digits and "-". */
export function redisUser(service: string, stage: string): string {
  const digest = createHash('sha256').update(`${service}/${stage}`).digest('hex');
  return `cluster-serving-${digest.slice(0, 12)}`;
}

function variablesOf(deployment: Deployment, names: Names) {
  const { respondAsync, metrics } = deployment;
  const config: Variables = {
    CLUSTER_SERVING_CONFIG: names.job,
    ...(metrics === 'off' ? { CLUSTER_SERVING_METRICS: 'off' } : {}),
  };
  const bucket = { CLUSTER_SERVING_BUCKET: { Ref: 'Bucket' } };
  const queue = { CLUSTER_SERVING_QUEUE_URL: { Ref: 'Queue' } };
  const redis = redisVariables(deployment, names);
  return {
    predict: { ...config, ...bucket, ...redis, ...(respondAsync === 'off' ? {} : queue) },
    batch: { ...config, ...bucket, ...redis },
    submit: { ...config, ...bucket, ...queue },
    predictions: { ...config, ...bucket, ...redis },
    status: { ...config, ...bucket, ...redis },
    deadLetter: { ...config, ...bucket, ...redis },
  };
}

function redisVariables({ redis, redisAuth, redisUrl, redisPassword }: Deployment, names: Names): Variables {
  if (redis === 'url')
    return {
      CLUSTER_SERVING_REDIS_URL: withoutUser(redisUrl),
      ...(userOf(redisUrl) === '' ? {} : { CLUSTER_SERVING_REDIS_USER: userOf(redisUrl) }),
      CLUSTER_SERVING_REDIS_PASSWORD_PARAMETER: redisPassword,
    };
  const address = {
    CLUSTER_SERVING_REDIS_URL: {
      'Fn::Sub': 'rediss://${Redis.PrimaryEndPoint.Address}:${Redis.PrimaryEndPoint.Port}',
    },
  };
  if (redisAuth === 'none') return address;
  return {
    ...address,
    CLUSTER_SERVING_REDIS_USER: redisUser(names.service, names.stage),
    CLUSTER_SERVING_REDIS_CACHE: { Ref: 'Redis' },
  };
}

function userOf(url: string): string {
  return decodeURIComponent(new URL(url).username);
}

function withoutUser(url: string): string {
  return url.replace(/\/\/[^@/]*@/, '//');
}

function httpEventsOf(authorizer: Authorizer | null): SettingsOfResources['httpEvents'] {
  const of = (name: RoutedFunction): readonly HttpEvent[] =>
    ROUTES.filter((route) => route.function === name).map(({ method, path }) => ({
      httpApi: { method, path, ...(authorizer && { authorizer }) },
    }));
  return {
    predict: of('predict'),
    submit: of('submit'),
    predictions: of('predictions'),
    status: of('status'),
  };
}

function authorizerOf({ auth, jwtIssuer, jwtAudience }: Deployment) {
  if (auth === 'iam') return { authorizer: { type: 'aws_iam' }, authorizers: {} } as const;
  if (auth === 'none') return { authorizer: null, authorizers: {} };
  const jwt = {
    type: 'jwt',
    identitySource: '$request.header.Authorization',
    issuerUrl: jwtIssuer,
    audience: jwtAudience,
  };
  return { authorizer: { name: 'jwt' }, authorizers: { jwt } } as const;
}
