/**
 * Starts a Redis for a test and returns its url; it ends after the test. Where the variable TEST_REDIS_CLUSTER holds the
 * address of a cluster (test/lib/redis/suites.system.test.ts), that takes the place of the machine's own, emptied for each test.
 * Also how long a test waits for one.
 */
import type { TestContext } from 'node:test';
import { Cluster, type Redis } from 'ioredis';
import type { RedisConnection } from '../../lib/redis/connection.ts';
import { startRedis } from '../../local/redis/start.ts';
import { type Hooks, temporaryFolder } from './runner.ts';

const CLUSTER = process.env['TEST_REDIS_CLUSTER'];
const JOB = 'job';
/**
 * For connections of tests that are not about timeouts. A function waits a second for Redis and then sends its command
 * again; on a loaded machine the first may have run, and the second finds its result there.
 */
export const PATIENT = { connectTimeoutMs: 60_000, commandTimeoutMs: 60_000 } as const;

export async function redisUrl(t: Hooks, preferEmbedded = false): Promise<string> {
  if (CLUSTER !== undefined && !preferEmbedded) {
    const client = clusterClient(CLUSTER);
    await client.ping();
    await Promise.all(client.nodes('master').map((node) => node.flushall()));
    client.disconnect();
    return CLUSTER;
  }
  const redis = await startRedis({
    dataDir: await temporaryFolder(t),
    port: 0,
    preferEmbedded,
    log: () => undefined,
  });
  t.after(() => redis.close());
  return redis.url;
}

function clusterClient(url: string): Cluster {
  const { hostname, port } = new URL(url);
  const client = new Cluster([{ host: hostname, port: Number(port) }], {
    redisOptions: { tls: { servername: hostname } },
  });
  client.on('error', () => undefined);
  return client;
}

/** A client for the test itself. For a cluster, it knows the keys of `job` by the names that they have elsewhere. */
export function directClient(t: TestContext, connection: RedisConnection): Redis {
  if (!connection.isCluster) return connection.redis;
  const client = clusterClient(CLUSTER ?? '');
  t.after(() => client.disconnect());
  /** The names that were listed, each with the one in the cluster. */
  const listed = new Map<string, string>();
  const inCluster = (name: unknown) =>
    typeof name === 'string'
      ? (listed.get(name) ??
        name.replace(/^(cluster-serving-(?:state|newest)_)job:(.*)$/s, (_, kind: string, uri: string) => {
          return `${kind}${connection.home(JOB, uri)}:${uri}`;
        }))
      : name;
  const keys = async (pattern: string) => {
    const all = await Promise.all(client.nodes('master').map((node) => node.keys('*')));
    const names = all.flat().map((key) => {
      const name = key.replace(/_\{\w+\}job/, '_job');
      listed.set(name, key);
      return name;
    });
    return names.filter((name) => name.startsWith(pattern.replace('*', '')));
  };
  return new Proxy(client as unknown as Redis, {
    get: (target, name) => {
      if (name === 'keys') return keys;
      if (name === 'flushall')
        return () => Promise.all(client.nodes('master').map((node) => node.flushall()));
      const value: unknown = Reflect.get(target, name);
      if (typeof value !== 'function') return value;
      return (...values: unknown[]) => Reflect.apply(value, target, values.map(inCluster)) as unknown;
    },
  });
}
