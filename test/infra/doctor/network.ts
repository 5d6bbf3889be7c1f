/** In: nothing. Out: what can be wrong with Redis, the network and the HTTP API, and what only looks so; for doctor.test.ts. */
import type { Case, QuietCase } from './draft.ts';

const GROUP = 'AWS::EC2::SecurityGroupIngress';
const ROUTE = 'HttpApiRoutePostPredict';

export const NETWORK_CASES: readonly Case[] = [
  {
    rule: 'redis-connections',
    name: 'more environments than a node takes',
    severity: 'error',
    found: /^up to 3\d,\d{3} connections \(.*predict 15,000 x 2.*to a cache\.t4g\.micro$/,
    change: (draft) => draft.set('PredictLambdaFunction', 'ReservedConcurrentExecutions', 15_000),
  },
  {
    rule: 'redis-connections',
    name: 'nearly as many as a node takes',
    severity: 'warning',
    found: /^up to 1\d,\d{3} connections/,
    change: (draft) => draft.set('PredictLambdaFunction', 'ReservedConcurrentExecutions', 7_500),
  },
  {
    rule: 'redis-eviction',
    name: 'the policy that takes results first',
    severity: 'error',
    found: /maxmemory-policy allkeys-lru/,
    change: (draft) => draft.set('RedisParameters', 'Properties.maxmemory-policy', 'allkeys-lru'),
  },
  {
    rule: 'redis-eviction',
    name: 'a parameter group that Redis does not use',
    severity: 'error',
    found: /volatile-lru, the default/,
    change: (draft) => draft.set('Redis', 'CacheParameterGroupName', 'default.valkey8'),
  },
  {
    rule: 'redis-eviction',
    name: 'a parameter group of another stack, of which nothing is known',
    severity: 'info',
    found: /^parameter group mine, which is not in this template$/,
    change: (draft) => draft.set('Redis', 'CacheParameterGroupName', 'mine'),
  },
  {
    rule: 'redis-tls',
    name: 'plain connections',
    severity: 'error',
    found: /TransitEncryptionEnabled is not true/,
    change: (draft) => draft.set('Redis', 'TransitEncryptionEnabled', false),
  },
  {
    rule: 'redis-tls',
    name: 'plain connections beside encrypted ones',
    severity: 'warning',
    found: /preferred/,
    change: (draft) => draft.set('Redis', 'TransitEncryptionMode', 'preferred'),
  },
  {
    rule: 'redis-tls',
    name: 'a url without TLS',
    severity: 'error',
    found: /starts with redis:\/\//,
    change: (draft) =>
      draft.variable('StatusLambdaFunction', 'CLUSTER_SERVING_REDIS_URL', {
        'Fn::Sub': 'redis://${Redis.PrimaryEndPoint.Address}:6379',
      }),
  },
  {
    rule: 'redis-access',
    name: 'a security group that lets in addresses',
    severity: 'error',
    found: /lets in 10\.0\.0\.0\/8/,
    change: (draft) =>
      draft.add('Door', GROUP, { GroupId: { Ref: 'RedisSecurityGroup' }, CidrIp: '10.0.0.0/8' }),
  },
  {
    rule: 'redis-access',
    name: 'addresses inside the group itself',
    severity: 'error',
    found: /lets in ::\/0/,
    change: (draft) => draft.set('RedisSecurityGroup', 'SecurityGroupIngress', [{ CidrIpv6: '::/0' }]),
  },
  {
    rule: 'redis-single-node',
    name: 'one node in prod',
    severity: 'warning',
    stage: 'prod',
    found: /^1 node in stage prod$/,
    change: (draft) => draft.set('Redis', 'NumCacheClusters', 1),
  },
  {
    rule: 'redis-single-node',
    name: 'one node in prod, without a template',
    severity: 'warning',
    stage: 'prod',
    found: /^1 node in stage prod$/,
    change: (draft) => {
      draft.withoutTemplate();
      draft.facts.settings = { ...draft.facts.settings, redisNodes: 1 };
    },
  },
  {
    rule: 'redis-failover',
    name: 'replicas that may not take over',
    severity: 'warning',
    stage: 'prod',
    found: /^2 nodes, without AutomaticFailoverEnabled$/,
    change: (draft) => draft.set('Redis', 'AutomaticFailoverEnabled', false),
  },
  {
    rule: 'redis-cluster-mode',
    name: 'three shards',
    severity: 'error',
    found: /NumNodeGroups 3/,
    change: (draft) => draft.set('Redis', 'NumNodeGroups', 3),
  },
  {
    rule: 'redis-cluster-mode',
    name: 'a parameter group with cluster mode',
    severity: 'error',
    found: /cluster-enabled: yes/,
    change: (draft) => draft.set('RedisParameters', 'Properties.cluster-enabled', 'yes'),
  },
  {
    rule: 'redis-cluster-mode',
    name: 'a serverless cache',
    severity: 'error',
    found: /serverless cache/,
    change: (draft) => draft.add('Cache', 'AWS::ElastiCache::ServerlessCache', { Engine: 'valkey' }),
  },
  {
    rule: 'redis-encryption',
    name: 'results in plain text on disk',
    severity: 'warning',
    found: /AtRestEncryptionEnabled/,
    change: (draft) => draft.set('Redis', 'AtRestEncryptionEnabled', undefined),
  },
  {
    rule: 'network-nat',
    name: 'a NAT gateway',
    severity: 'warning',
    found: /a NAT gateway, 730 hours/,
    change: (draft) => draft.add('Nat', 'AWS::EC2::NatGateway', { SubnetId: { Ref: 'SubnetA' } }),
  },
  {
    rule: 'network-sqs-endpoint',
    name: 'predict sends from inside the VPC',
    severity: 'error',
    found: /no endpoint for SQS$/,
    change: (draft) => draft.variable('PredictLambdaFunction', 'CLUSTER_SERVING_QUEUE_URL', { Ref: 'Queue' }),
  },
  {
    rule: 'network-sqs-endpoint',
    name: 'an endpoint that the usual name does not lead to',
    severity: 'error',
    found: /without PrivateDnsEnabled/,
    change: (draft) => {
      draft.variable('PredictLambdaFunction', 'CLUSTER_SERVING_QUEUE_URL', { Ref: 'Queue' });
      draft.add('Way', 'AWS::EC2::VPCEndpoint', sqsEndpoint({}));
    },
  },
  {
    rule: 'network-s3-endpoint',
    name: 'no endpoint',
    severity: 'error',
    found: /no way to S3 from SubnetA, SubnetB/,
    change: (draft) => draft.remove('S3Endpoint'),
  },
  {
    rule: 'network-s3-endpoint',
    name: 'a subnet that is on no route table',
    severity: 'error',
    found: /no way to S3 from SubnetB/,
    change: (draft) => draft.remove('SubnetBRoutes'),
  },
  {
    rule: 'network-s3-endpoint',
    name: 'subnets of another stack, of which nothing is known',
    severity: 'info',
    found: /no way to S3 from subnet-1, subnet-2 in this template/,
    change: (draft) => {
      draft.remove('S3Endpoint');
      draft.set('BatchLambdaFunction', 'VpcConfig.SubnetIds', ['subnet-1', 'subnet-2']);
    },
  },
  {
    rule: 'network-redis-outside',
    name: 'submit asks Redis',
    severity: 'error',
    found: /CLUSTER_SERVING_REDIS_URL outside the VPC/,
    change: (draft) => draft.variable('SubmitLambdaFunction', 'CLUSTER_SERVING_REDIS_URL', 'rediss://r:6379'),
  },
  {
    rule: 'network-redis-door',
    name: 'no rule that lets the functions in',
    severity: 'error',
    found: /^its group \$\{FunctionSecurityGroup\}, and Redis lets in nobody$/,
    change: (draft) => draft.remove('RedisFromFunction'),
  },
  {
    rule: 'network-redis-door',
    name: 'a rule for another port',
    severity: 'error',
    found: /lets in nobody/,
    change: (draft) => {
      draft.set('RedisFromFunction', 'FromPort', 6380);
      draft.set('RedisFromFunction', 'ToPort', 6380);
    },
  },
  {
    rule: 'network-redis-door',
    name: 'a function with a group of its own',
    severity: 'error',
    found: /^its group sg-1, and Redis lets in \$\{FunctionSecurityGroup\}$/,
    change: (draft) => draft.set('StatusLambdaFunction', 'VpcConfig.SecurityGroupIds', ['sg-1']),
  },
  {
    rule: 'network-zones',
    name: 'one subnet',
    severity: 'warning',
    found: /^1 subnet in one zone$/,
    change: (draft) => draft.set('StatusLambdaFunction', 'VpcConfig.SubnetIds', [{ Ref: 'SubnetA' }]),
  },
  {
    rule: 'network-zones',
    name: 'two subnets in the same zone',
    severity: 'warning',
    found: /^2 subnets in one zone$/,
    change: (draft) => draft.set('SubnetB', 'AvailabilityZone', { 'Fn::Select': [0, { 'Fn::GetAZs': '' }] }),
  },
  {
    rule: 'api-auth',
    name: 'an open route in dev',
    severity: 'warning',
    found: /no authorization for POST \/predict in stage dev/,
    change: (draft) => draft.set(ROUTE, 'AuthorizationType', undefined),
  },
  {
    rule: 'api-auth',
    name: 'an open route in prod',
    severity: 'error',
    stage: 'prod',
    found: /no authorization for POST \/predict in stage prod/,
    change: (draft) => draft.set(ROUTE, 'AuthorizationType', 'NONE'),
  },
  {
    rule: 'api-auth',
    name: 'auth=none, without a template',
    severity: 'warning',
    found: /every route/,
    change: (draft) => {
      draft.withoutTemplate();
      draft.facts.settings = { ...draft.facts.settings, authorizer: null };
    },
  },
  {
    rule: 'api-throttling',
    name: 'no limit of the rate',
    severity: 'warning',
    found: /^no ThrottlingRateLimit$/,
    change: (draft) => draft.set('HttpApiStage', 'DefaultRouteSettings.ThrottlingRateLimit', undefined),
  },
  {
    rule: 'api-cors',
    name: 'every origin and no authorization',
    severity: 'warning',
    found: /every origin/,
    change: (draft) => {
      draft.set('HttpApi', 'CorsConfiguration', { AllowOrigins: ['*'] });
      draft.set(ROUTE, 'AuthorizationType', 'NONE');
    },
  },
];

export const NETWORK_QUIET: readonly QuietCase[] = [
  {
    rule: 'network-redis-door',
    name: 'a rule that names the group by GetAtt, inside the group of Redis',
    change: (draft) => {
      draft.remove('RedisFromFunction');
      const SourceSecurityGroupId = { 'Fn::GetAtt': ['FunctionSecurityGroup', 'GroupId'] };
      draft.set('RedisSecurityGroup', 'SecurityGroupIngress', [{ SourceSecurityGroupId, IpProtocol: '-1' }]);
    },
  },
  {
    rule: 'redis-connections',
    name: 'a larger node',
    change: (draft) => {
      draft.set('PredictLambdaFunction', 'ReservedConcurrentExecutions', 15_000);
      draft.set('Redis', 'CacheNodeType', 'cache.r7g.large');
    },
  },
  {
    rule: 'network-sqs-endpoint',
    name: 'predict sends over an endpoint',
    change: (draft) => {
      draft.variable('PredictLambdaFunction', 'CLUSTER_SERVING_QUEUE_URL', { Ref: 'Queue' });
      draft.add('Way', 'AWS::EC2::VPCEndpoint', sqsEndpoint({ PrivateDnsEnabled: true }));
    },
  },
  {
    rule: 'api-cors',
    name: 'every origin, with signed requests',
    change: (draft) => draft.set('HttpApi', 'CorsConfiguration', { AllowOrigins: ['*'] }),
  },
];

function sqsEndpoint(more: Readonly<Record<string, unknown>>) {
  return {
    VpcEndpointType: 'Interface',
    ServiceName: { 'Fn::Sub': 'com.amazonaws.${AWS::Region}.sqs' },
    VpcId: { Ref: 'Vpc' },
    ...more,
  };
}
