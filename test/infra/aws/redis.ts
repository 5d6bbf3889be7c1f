/** The Redis of a stack in an emulated account: a real one behind TLS, as a single server or as a cluster. */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { startRedis } from '../../../local/redis/start.ts';
import { startRedisCluster } from '../../support/redis-cluster.ts';
import type { Hooks } from '../../support/runner.ts';
import { startTlsProxy } from '../../support/tls.ts';

export interface TestRedis {
  readonly port: number;
  /** The file with the certificate of `localhost`. */
  readonly certificate: string;
  /** Makes a user with these words of ACL SETUSER. From the first one on nobody else gets in. */
  allow(user: string, ...rules: readonly string[]): Promise<void>;
}

export async function startServer(t: Hooks, folder: string): Promise<TestRedis> {
  const server = await startRedis({ dataDir: join(folder, 'redis'), port: 0, log: () => undefined });
  t.after(() => server.close());
  assert.equal(server.kind, 'redis-server');
  const proxy = await startTlsProxy(Number(new URL(server.url).port), folder);
  assert.ok(proxy, 'the certificate of Redis needs the openssl command');
  t.after(() => proxy.close());
  const administrator = new Redis(server.url);
  t.after(async () => administrator.disconnect());
  return { port: proxy.port, certificate: proxy.certificate, allow: allowOn([administrator]) };
}

export async function startCluster(t: Hooks): Promise<TestRedis> {
  const cluster = await startRedisCluster();
  assert.ok(cluster, 'a cluster needs the redis-server and openssl commands');
  t.after(() => cluster.close());
  const { nodes, certificate, url } = cluster;
  return { port: Number(new URL(url).port), certificate, allow: allowOn(nodes.map(({ redis }) => redis)) };
}

/** @param administrators connections of the default user, one of each node; they stay signed in */
function allowOn(administrators: readonly Redis[]): TestRedis['allow'] {
  return async (user, ...rules) => {
    for (const administrator of administrators) {
      await administrator.call('ACL', 'SETUSER', user, 'reset', 'on', ...rules);
      await administrator.call('ACL', 'SETUSER', 'default', 'off');
    }
  };
}
