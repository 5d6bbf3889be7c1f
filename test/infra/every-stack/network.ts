/** What every packaged stack promises about Redis and the network; see every-stack/tests.ts. */
import assert from 'node:assert/strict';
import {
  importsOf,
  propertiesOf,
  referencesOf,
  resourcesOf,
  roleStatements,
  type Template,
} from '../../support/template.ts';
import {
  type Check,
  functionsOf,
  mappingsOf,
  mostAtOnce,
  ownRedis,
  type Properties,
  single,
  VARIABLES,
} from './parts.ts';

/** 80 % of what the smallest node type accepts. */
const MAX_CONNECTIONS = 16_000;
/** All environments of an account, unless AWS raised the limit. */
const ACCOUNT_CONCURRENCY = 1_000;

/** The parameter group, of this template, that Redis uses. */
function redisParameters(template: Template): Properties {
  const [group] = referencesOf(propertiesOf(template, 'Redis')['CacheParameterGroupName']) as [string];
  return propertiesOf(template, group)['Properties'] as Properties;
}

/** Of a stack with a Redis of its own. */
const OWN_REDIS: readonly Check[] = [
  [
    'Redis is one shard that never evicts, encrypted at rest and on the wire',
    (template) => {
      const [, redis] = single(template, 'AWS::ElastiCache::ReplicationGroup');
      assert.deepEqual(resourcesOf(template, 'AWS::ElastiCache::ServerlessCache'), []);
      assert.deepEqual(resourcesOf(template, 'AWS::ElastiCache::CacheCluster'), []);
      assert.equal(redis['NumNodeGroups'], undefined);
      const parameters = redisParameters(template);
      assert.deepEqual(
        [parameters['maxmemory-policy'], parameters['cluster-enabled']],
        ['noeviction', undefined],
      );
      assert.deepEqual(
        [redis['AtRestEncryptionEnabled'], redis['TransitEncryptionEnabled'], redis['TransitEncryptionMode']],
        [true, true, 'required'],
      );
      for (const { name, variables } of functionsOf(template)) {
        if (Object.hasOwn(variables, VARIABLES.redis))
          assert.match(
            String((variables[VARIABLES.redis] as Properties)['Fn::Sub']),
            /^rediss:\/\/\$\{Redis\./,
            name,
          );
      }
    },
  ],
  [
    'a replica of Redis takes over when the primary fails',
    (template) => {
      const redis = propertiesOf(template, 'Redis');
      const hasReplicas = Number(redis['NumCacheClusters']) > 1;
      assert.deepEqual(
        [redis['AutomaticFailoverEnabled'], redis['MultiAZEnabled']],
        [hasReplicas, hasReplicas],
      );
    },
  ],
  [
    'Redis lets in the security group of every function with its address, and no IP addresses',
    (template) => {
      const redis = propertiesOf(template, 'Redis');
      const [own, ...others] = referencesOf(redis['SecurityGroupIds']) as [string];
      assert.deepEqual(others, []);
      const rules = [
        ...((propertiesOf(template, own)['SecurityGroupIngress'] ?? []) as Properties[]),
        ...resourcesOf(template, 'AWS::EC2::SecurityGroupIngress')
          .map(([, rule]) => rule)
          .filter(({ GroupId }) => referencesOf(GroupId).includes(own)),
      ];
      for (const { CidrIp, CidrIpv6, FromPort, ToPort } of rules)
        assert.deepEqual(
          [CidrIp, CidrIpv6, FromPort, ToPort],
          [undefined, undefined, redis['Port'], redis['Port']],
        );
      const admitted = rules.map(({ SourceSecurityGroupId }) => JSON.stringify(SourceSecurityGroupId));
      for (const { name, properties, variables } of functionsOf(template)) {
        if (!Object.hasOwn(variables, VARIABLES.redis)) continue;
        const groups = (properties['VpcConfig'] as Properties | undefined)?.['SecurityGroupIds'];
        assert.ok(Array.isArray(groups), `${name} is outside the VPC`);
        assert.ok(
          groups.some((group) => admitted.includes(JSON.stringify(group))),
          name,
        );
      }
    },
  ],
];

const REDIS: readonly Check[] = [
  ...OWN_REDIS.map(([title, check]): Check => {
    return [title, (template) => (Object.hasOwn(template.Resources, 'Redis') ? check(template) : undefined)];
  }),
  [
    'a function reaches the Redis of this or of another stack from its VPC, or one on the internet with a password that it may read',
    (template) => {
      const own = ownRedis(template);
      const isPublic = own === 'RedisPublic';
      const hasOwn = own !== undefined;
      const allowed = roleStatements(template).filter(
        ({ statement }) => statement.Effect === 'Allow' && statement.Action === 'ssm:GetParameter',
      );
      for (const { name, properties, variables, subnets } of functionsOf(template)) {
        const address = variables[VARIABLES.redis];
        if (address === undefined) continue;
        const isShared = importsOf(address).length > 0;
        assert.equal(subnets.length > 0, (hasOwn && !isPublic) || isShared, name);
        const parameter = variables[VARIABLES.redisPassword];
        assert.equal(parameter === undefined, hasOwn || isShared, name);
        if (isShared) assert.equal(importsOf(variables[VARIABLES.redisCache]).length, 1, name);
        if (isPublic) assert.deepEqual(variables[VARIABLES.redisCache], { Ref: own }, name);
        if (hasOwn || isShared) continue;
        assert.match(address as string, /^rediss:\/\/[^@]+$/, name);
        const [role] = referencesOf(properties['Role']);
        const readable = allowed
          .filter((one) => one.role === role)
          .map(({ statement }) => statement.Resource);
        const region = 'arn:${AWS::Partition}:ssm:${AWS::Region}:${AWS::AccountId}';
        assert.deepEqual(readable, [{ 'Fn::Sub': `${region}:parameter${String(parameter)}` }], name);
      }
    },
  ],
  [
    'Redis accepts more connections than all functions of an account can open',
    (template) => {
      for (const { name, properties } of functionsOf(template))
        assert.equal(properties['ReservedConcurrentExecutions'], undefined, name);
      // Functions behind a route share the account's environments, with two connections each; the others have one.
      const queued = mappingsOf(template).map(({ mapping }) => mostAtOnce(mapping));
      const total = queued.reduce((sum, count) => sum + count, 2 * ACCOUNT_CONCURRENCY);
      assert.ok(total <= MAX_CONNECTIONS, String(total));
    },
  ],
];

const NETWORK: readonly Check[] = [
  [
    'there is no NAT gateway, and functions lie in two zones',
    (template) => {
      assert.deepEqual(resourcesOf(template, 'AWS::EC2::NatGateway'), []);
      for (const { name, subnets } of functionsOf(template)) {
        // Those of another stack are not in this template.
        if (subnets.length === 0 || importsOf(subnets).length > 0) continue;
        const zones = subnets.map((subnet) => {
          const [own] = referencesOf(subnet);
          return JSON.stringify(own === undefined ? subnet : propertiesOf(template, own)['AvailabilityZone']);
        });
        assert.ok(new Set(zones).size > 1, name);
      }
    },
  ],
  [
    'every subnet of this stack with a function that reads the bucket has a route to S3',
    (template) => {
      const tables = resourcesOf(template, 'AWS::EC2::VPCEndpoint')
        .filter(([, { ServiceName }]) => JSON.stringify(ServiceName).endsWith('.s3"}'))
        .filter(([, { VpcEndpointType }]) => VpcEndpointType === 'Gateway')
        .flatMap(([, { RouteTableIds }]) => referencesOf(RouteTableIds));
      const routed = resourcesOf(template, 'AWS::EC2::SubnetRouteTableAssociation')
        .filter(([, { RouteTableId }]) => referencesOf(RouteTableId).some((name) => tables.includes(name)))
        .flatMap(([, { SubnetId }]) => referencesOf(SubnetId));
      for (const { name, subnets, variables } of functionsOf(template)) {
        if (!Object.hasOwn(variables, VARIABLES.bucket)) continue;
        for (const subnet of subnets.flatMap(referencesOf)) assert.ok(routed.includes(subnet), name);
      }
    },
  ],
  [
    'a function that sends to the queue from a VPC of this stack has an endpoint for SQS',
    (template) => {
      const endpoints = resourcesOf(template, 'AWS::EC2::VPCEndpoint')
        .map(([, endpoint]) => endpoint)
        .filter(({ ServiceName }) => JSON.stringify(ServiceName).includes('.sqs"}'));
      for (const { name, subnets, variables } of functionsOf(template)) {
        const isInOwnVpc = subnets.flatMap(referencesOf).length > 0;
        if (!isInOwnVpc || !Object.hasOwn(variables, VARIABLES.queue)) continue;
        assert.ok(
          endpoints.some(
            (one) => one['VpcEndpointType'] === 'Interface' && one['PrivateDnsEnabled'] === true,
          ),
          name,
        );
      }
    },
  ],
];

export const NETWORK_CHECKS = [...REDIS, ...NETWORK];
