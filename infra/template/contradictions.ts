/** Reads the parameters of a deployment, and refuses those that contradict each other or the settings of the job. */
import type { JobConfig } from '../../lib/config/job.ts';
import { conventionRules } from './convention-parameters.ts';
import { broken, Checks } from './parameter-checks.ts';
import { type Deployment, type Parameters, readValues, stackRules, usesVpc } from './parameters.ts';

/** The limit of requests is one item of the table (lib/table/limiter.ts). */
const TABLE_TOKENS = 1_000;

/** Adds each problem to `problems` and continues. */
export function readDeployment(given: Parameters, problems: string[]): Deployment {
  const read = readValues(new Checks(given, problems));
  problems.push(...contradictions(read), ...tableProblems(read, given));
  return read;
}

/** Settings of config.yaml that the parameters do not allow. */
export function jobProblems({ redis }: Deployment, { http }: JobConfig): string[] {
  if (redis !== 'dynamodb' || !http.tokenBucketEnabled || http.tokensPerSecond <= TABLE_TOKENS) return [];
  const problem = `http.tokensPerSecond ${http.tokensPerSecond}: results=dynamodb counts ${TABLE_TOKENS} requests a second at most`;
  return [`${problem}; lower it, use requestsPerSecond, which API Gateway counts, or leave results=redis`];
}

/** Problems with parameters of a Redis, a VPC or a key, which a table does not have. */
function tableProblems(
  { redis, redisAuth, vpcId, zones, respondAsync, kmsKey }: Deployment,
  given: Parameters,
): string[] {
  if (redis !== 'dynamodb') return [];
  const hasVpc = vpcId !== '' || zones.length > 0 || respondAsync === 'routed';
  return broken([
    [
      given.redis !== 'node' || redisAuth === 'iam',
      'param results=dynamodb has no Redis: leave out redis and redisAuth',
    ],
    [hasVpc, 'param results=dynamodb uses no VPC: leave out vpcId, zones and respondAsync=routed'],
    [
      kmsKey !== '',
      'param results=dynamodb: the table is encrypted with a key of AWS, and takes no kmsKey; with one, leave results=redis',
    ],
  ]);
}

function contradictions(read: Deployment): string[] {
  const { auth, vpcId, zones, redis, respondAsync } = read;
  const jwt = auth === 'jwt';
  return broken([
    ...stackRules(read),
    ...conventionRules(read, auth),
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
        (vpcId !== '' || zones.length > 0 || respondAsync === 'routed' || read.redisAuth === 'iam'),
      'param redis=url uses no VPC and no ElastiCache: leave out vpcId, zones, respondAsync=routed and redisAuth=iam',
    ],
    [
      redis === 'public' && (vpcId !== '' || zones.length > 0 || respondAsync === 'routed'),
      'param redis=public uses no VPC: leave out vpcId, zones and respondAsync=routed',
    ],
    [
      (redis === 'shared') !== (read.redisStack !== ''),
      'params redis=shared and redisStack belong together: redisStack names the stack of shared-redis.yml',
    ],
    [
      redis === 'shared' && (vpcId !== '' || zones.length > 0 || respondAsync === 'on'),
      'param redis=shared uses the network of redisStack: leave out vpcId, zones and respondAsync=on',
    ],
    [
      read.otlpEndpoint !== '' && usesVpc(read) && read.securityGroup === '',
      'param otlpEndpoint: functions in a VPC reach a receiver only with a vpcId and securityGroup of your own that let them; redis=url, redis=public and results=dynamodb need no VPC, and tracing=on (X-Ray) no way out',
    ],
    [vpcId === '' && read.securityGroup !== '', 'param securityGroup belongs to a vpcId'],
    [
      redis !== 'shared' && vpcId === '' && respondAsync === 'routed',
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
  ]);
}
