/**
 * In: the Redis of a template. Out: how results would be lost, seen by others, or refused.
 * Trap: every result has a time to live, so the usual eviction policy (volatile-lru) takes results first.
 */
import { functionsOf, VARIABLES } from './deployment.ts';
import { type Facts, type Finding, isProduction, settingsRule, templateRule } from './rule.ts';
import {
  isTrue,
  listOf,
  namesIn,
  numberOf,
  type Properties,
  propertiesOf,
  recordOf,
  resourcesOf,
  type Template,
  textOf,
} from './template.ts';

const GROUP = 'AWS::ElastiCache::ReplicationGroup';
const SINGLE = 'AWS::ElastiCache::CacheCluster';

const eviction = templateRule({
  id: 'redis-eviction',
  topic: 'Redis',
  looksAt: 'maxmemory-policy of the parameter group that Redis uses',
  why: 'Every result has a time to live, which is what the default volatile-lru throws away first: clients wait for results that were there. With noeviction a full Redis refuses writes, and the records stay in the queue.',
  fix: 'maxmemory-policy: noeviction of RedisParameters in infra/stack/redis.yml, and CacheParameterGroupName: !Ref RedisParameters',
  check: (template) =>
    resourcesOf(template, GROUP, SINGLE).flatMap(([where, properties]): Finding[] => {
      const [group] = namesIn(properties['CacheParameterGroupName']);
      const parameters = propertiesOf(template, group)['Properties'] as Properties | undefined;
      const policy = textOf(parameters?.['maxmemory-policy']) || 'volatile-lru, the default';
      if (policy === 'noeviction') return [];
      const name = textOf(properties['CacheParameterGroupName']);
      if (group === undefined && name !== '' && !name.startsWith('default.')) {
        const found = `parameter group ${name}, which is not in this template`;
        return [{ severity: 'info', where, found, expected: 'maxmemory-policy noeviction in it' }];
      }
      return [{ severity: 'error', where, found: `maxmemory-policy ${policy}`, expected: 'noeviction' }];
    }),
});

const tls = templateRule({
  id: 'redis-tls',
  topic: 'Redis',
  looksAt: 'TransitEncryptionEnabled of Redis, and the scheme of the url that functions get',
  why: 'Results cross the network in plain text; and a url that does not fit the server (rediss:// against redis://) makes every connection time out.',
  fix: 'TransitEncryptionEnabled: true and TransitEncryptionMode: required in infra/stack/redis.yml, rediss:// in serverless.yml',
  check: (template) => {
    const groups = resourcesOf(template, GROUP, SINGLE)
      .filter(([, group]) => !isTrue(group['TransitEncryptionEnabled']))
      .map(([where]) => plain(where, 'TransitEncryptionEnabled is not true', 'true'));
    const optional = resourcesOf(template, GROUP)
      .filter(([, group]) => isTrue(group['TransitEncryptionEnabled']))
      .filter(([, group]) => textOf(group['TransitEncryptionMode']) === 'preferred')
      .map(([where]): Finding => {
        const why = 'Preferred is for a migration: plain connections are still taken.';
        return { ...plain(where, 'TransitEncryptionMode preferred', 'required'), severity: 'warning', why };
      });
    const urls = functionsOf(template)
      .filter(({ variables }) => textOf(variables[VARIABLES.redis]).startsWith('redis://'))
      .map(({ name }) => plain(name, `${VARIABLES.redis} starts with redis://`, 'rediss://'));
    return [...groups, ...optional, ...urls];
  },
});

function plain(where: string, found: string, expected: string): Finding {
  return { severity: 'error', where, found, expected };
}

const access = templateRule({
  id: 'redis-access',
  topic: 'Redis',
  looksAt: 'AuthToken or UserGroupIds of Redis, and who its security group lets in',
  why: 'Whoever reaches Redis reads and writes every result. Without a password or IAM the security group is the only door.',
  fix: '--param redisAuth=iam; and only SourceSecurityGroupId in infra/stack/security-groups.yml',
  check: (template) =>
    resourcesOf(template, GROUP, SINGLE).flatMap(([where, properties]): Finding[] => {
      const expected = 'a user group with IAM, or a door for our functions alone';
      const open = openDoors(template, properties);
      if (open.length > 0) {
        return [{ severity: 'error', where, found: `lets in ${open.join(', ')}`, expected }];
      }
      if (properties['AuthToken'] !== undefined || listOf(properties['UserGroupIds']).length > 0) return [];
      const found = 'neither AuthToken nor UserGroupIds; its security group lets in other groups only';
      return [{ severity: 'info', where, found, expected }];
    }),
});

/** Addresses that the security groups of Redis let in, rather than other groups. */
function openDoors(template: Template, redis: Properties): string[] {
  const groups = listOf(redis['SecurityGroupIds'] ?? redis['VpcSecurityGroupIds']).flatMap(namesIn);
  const inside = groups.flatMap((group) => listOf(propertiesOf(template, group)['SecurityGroupIngress']));
  const own = resourcesOf(template, 'AWS::EC2::SecurityGroupIngress')
    .filter(([, { GroupId }]) => namesIn(GroupId).some((name) => groups.includes(name)))
    .map(([, properties]) => properties);
  return [...inside, ...own].flatMap((rule) => {
    const { CidrIp, CidrIpv6 } = recordOf(rule);
    return [CidrIp, CidrIpv6].filter((address) => address !== undefined).map(textOf);
  });
}

const nodes = settingsRule({
  id: 'redis-single-node',
  topic: 'Redis',
  looksAt: 'number of nodes in a stage whose name begins with prod, prd or live',
  why: 'With one node, its failure or an update of it takes all results and every request that needs them, for minutes.',
  fix: '--param redisNodes=2',
  check: (facts) => {
    if (!isProduction(facts)) return [];
    return nodeCounts(facts)
      .filter(({ count }) => count < 2)
      .map(({ where, count }) => ({
        severity: 'warning',
        where,
        found: `${count} node in stage ${facts.stage}`,
        expected: 'at least 2, one of which takes over',
      }));
  },
});

function nodeCounts({ template, settings }: Facts): { where: string; count: number }[] {
  if (!template) return [{ where: '--param redisNodes', count: settings.redisNodes }];
  return resourcesOf(template, GROUP, SINGLE).map(([where, properties]) => {
    const replicas = numberOf(properties['ReplicasPerNodeGroup']);
    const count = numberOf(properties['NumCacheClusters']) ?? (replicas === undefined ? 1 : replicas + 1);
    return { where, count };
  });
}

const failover = templateRule({
  id: 'redis-failover',
  topic: 'Redis',
  looksAt: 'AutomaticFailoverEnabled and MultiAZEnabled of a Redis with replicas',
  why: 'Replicas that may not take over cost as much as those that may, and help nobody when the primary fails.',
  fix: 'AutomaticFailoverEnabled and MultiAZEnabled: true in infra/stack/redis.yml (redisNodes sets both)',
  check: (template) =>
    resourcesOf(template, GROUP)
      .filter(([, group]) => (numberOf(group['NumCacheClusters']) ?? 1) > 1)
      .flatMap(([where, group]): Finding[] => {
        const off = ['AutomaticFailoverEnabled', 'MultiAZEnabled'].filter((name) => !isTrue(group[name]));
        if (off.length === 0) return [];
        const found = `${textOf(group['NumCacheClusters'])} nodes, without ${off.join(' and ')}`;
        return [{ severity: 'warning', where, found, expected: 'both true' }];
      }),
});

const clusterMode = templateRule({
  id: 'redis-cluster-mode',
  topic: 'Redis',
  looksAt: 'shards of Redis, cluster-enabled, and serverless caches',
  why: 'Our save script touches many keys at once, which cluster mode refuses across shards (CROSSSLOT): no result would ever be stored.',
  fix: 'one shard in infra/stack/redis.yml: NumCacheClusters without NumNodeGroups, no cluster-enabled',
  check: (template) => {
    const shards = resourcesOf(template, GROUP).flatMap(([where, group]): Finding[] => {
      const [parameters] = namesIn(group['CacheParameterGroupName']);
      const own = propertiesOf(template, parameters)['Properties'] as Properties | undefined;
      const isOn = textOf(own?.['cluster-enabled']) === 'yes';
      const count = numberOf(group['NumNodeGroups']) ?? 1;
      if (count <= 1 && !isOn) return [];
      return [plain(where, isOn ? 'cluster-enabled: yes' : `NumNodeGroups ${count}`, 'one shard')];
    });
    const serverless = resourcesOf(template, 'AWS::ElastiCache::ServerlessCache').map(([where]) =>
      plain(
        where,
        'a serverless cache, which is always in cluster mode',
        'a replication group with one shard',
      ),
    );
    return [...shards, ...serverless];
  },
});

const atRest = templateRule({
  id: 'redis-encryption',
  topic: 'Redis',
  looksAt: 'AtRestEncryptionEnabled of Redis',
  why: 'Results lie on disk during a failover and in snapshots; this can be set only when Redis is made.',
  fix: 'AtRestEncryptionEnabled: true in infra/stack/redis.yml',
  check: (template) =>
    resourcesOf(template, GROUP)
      .filter(([, group]) => !isTrue(group['AtRestEncryptionEnabled']))
      .map(([where]) => {
        const found = 'AtRestEncryptionEnabled is not true';
        return { severity: 'warning', where, found, expected: 'true' };
      }),
});

export const REDIS_RULES = [eviction, tls, access, nodes, failover, clusterMode, atRest];
