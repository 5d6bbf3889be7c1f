/**
 * A Redis Cluster of redis-servers on this machine that speak TLS only, as ElastiCache Serverless does. They end with this
 * process. Without an installed redis-server or openssl there is no cluster, and its tests are skipped.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { type AddressInfo, createServer, Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { getCACertificates, setDefaultCACertificates } from 'node:tls';
import { Cluster, Redis } from 'ioredis';
import { isInstalled } from '../../local/redis/installed.ts';
import { makeCertificate } from './tls.ts';
import { until } from './until.ts';

const SLOTS = 16_384;
/** How often nodes are started on other ports, because another process took one in between. */
const STARTS = 5;
/** `$$` is the shell that becomes redis-server; it ends when the pipe to this process closes. */
const SCRIPT = '{ read -r _ <&3 || kill -9 "$$"; } >/dev/null 2>&1 & exec "$@" 3<&-';

export interface ClusterNode {
  readonly port: number;
  readonly id: string;
  /** A client of this node alone. */
  readonly redis: Redis;
  /** SIGKILL; resolves when it has ended. */
  kill(): Promise<void>;
}

export interface RedisCluster {
  /** Address of the first node, for openRedis. */
  readonly url: string;
  /** The file with the certificate of every node, which this process trusts. */
  readonly certificate: string;
  /** Three nodes with a third of the slots each, then the replica of the third, if it was asked for. */
  readonly nodes: readonly ClusterNode[];
  /** A client of all nodes that is not ours. */
  readonly client: Cluster;
  /** Deletes every key. */
  clear(): Promise<void>;
  close(): Promise<void>;
}

/** Undefined where redis-server or openssl is missing. */
export async function startRedisCluster({ replica = false } = {}): Promise<RedisCluster | undefined> {
  if (!(await isInstalled('redis-server', () => undefined))) return undefined;
  const folder = await mkdtemp(join(tmpdir(), 'redis-cluster-'));
  const files = makeCertificate(folder);
  if (!files) return undefined;
  setDefaultCACertificates([...getCACertificates('default'), await readFile(files.certificate, 'utf8')]);
  const nodes: ClusterNode[] = [];
  for (let i = 0; i < (replica ? 4 : 3); i++) nodes.push(await startNode(folder, files, i));
  await join3(nodes);
  const startup = nodes.map(({ port }) => ({ host: '127.0.0.1', port }));
  const client = new Cluster(startup, { redisOptions: { tls: { servername: 'localhost' } } });
  client.on('error', () => undefined);
  return {
    certificate: files.certificate,
    url: `rediss://localhost:${nodes[0]?.port}?cluster=on`,
    nodes,
    client,
    clear: async () => void (await Promise.all(nodes.slice(0, 3).map(({ redis }) => redis.flushall()))),
    close: async () => {
      client.disconnect();
      await Promise.all(nodes.map((node) => node.kill()));
      await rm(folder, { recursive: true, force: true });
    },
  };
}

/** Gives the first three nodes their slots and waits until each knows all of it. */
async function join3(nodes: readonly ClusterNode[]): Promise<void> {
  const [first, ...others] = nodes as [ClusterNode, ...ClusterNode[]];
  for (const [i, { redis }] of nodes.slice(0, 3).entries()) {
    const [from, to] = [i, i + 1].map((part) => Math.floor((part * SLOTS) / 3)) as [number, number];
    await redis.cluster('ADDSLOTSRANGE', from, to - 1);
  }
  for (const { port } of others) {
    const bus = nodes.find((node) => node.port === port);
    await first.redis.cluster('MEET', '127.0.0.1', port, busPorts.get(bus as ClusterNode) as number);
  }
  const knows = async ({ redis }: ClusterNode) => {
    const info = await redis.cluster('INFO');
    return info.includes('cluster_state:ok') && info.includes(`cluster_known_nodes:${nodes.length}`);
  };
  const allKnow = async () => (await Promise.all(nodes.slice(0, 3).map(knows))).every(Boolean);
  await until(allKnow);
  const [, , third, copy] = nodes;
  if (!third || !copy) return;
  await until(async () => ((await copy.redis.cluster('NODES')) as string).includes(third.id));
  await copy.redis.cluster('REPLICATE', third.id);
  await until(async () => (await copy.redis.info('replication')).includes('master_link_status:up'));
}

/** A node's port for other nodes. */
const busPorts = new WeakMap<ClusterNode, number>();

async function startNode(
  folder: string,
  { certificate, key }: { certificate: string; key: string },
  i: number,
): Promise<ClusterNode> {
  for (let start = 1; ; start++) {
    const [port, bus] = await freePorts();
    const settings = {
      port: '0',
      'tls-port': String(port),
      'cluster-port': String(bus),
      bind: '127.0.0.1',
      dir: folder,
      'cluster-enabled': 'yes',
      'cluster-config-file': `nodes-${i}-${start}.conf`,
      // Only the test decides which node is lost.
      'cluster-node-timeout': '600000',
      'cluster-require-full-coverage': 'no',
      'tls-cluster': 'yes',
      'tls-replication': 'yes',
      'tls-auth-clients': 'no',
      'tls-cert-file': certificate,
      'tls-key-file': key,
      'tls-ca-cert-file': certificate,
      save: '',
      loglevel: 'warning',
    };
    const args = Object.entries(settings).flatMap(([name, value]) => [`--${name}`, value]);
    const child = spawn('sh', ['-c', SCRIPT, 'sh', 'redis-server', ...args], {
      detached: true,
      stdio: ['ignore', 'ignore', 'ignore', 'pipe'],
    });
    const ended = once(child, 'exit');
    const redis = new Redis(port, '127.0.0.1', { tls: { servername: 'localhost' }, lazyConnect: true });
    redis.on('error', () => undefined);
    const isReady = () =>
      redis.ping().then(
        () => true,
        () => child.exitCode !== null,
      );
    await until(isReady);
    if (child.exitCode !== null && start < STARTS) {
      redis.disconnect();
      continue;
    }
    const node = {
      port,
      id: await redis.cluster('MYID'),
      redis,
      kill: () => kill(child, redis, ended),
    };
    busPorts.set(node, bus);
    return node;
  }
}

async function kill(child: ChildProcess, redis: Redis, ended: Promise<unknown>): Promise<void> {
  redis.disconnect();
  child.kill('SIGKILL');
  await ended;
  const pipe = child.stdio[3];
  if (pipe instanceof Socket) pipe.end('ended\n');
}

async function freePorts(): Promise<[number, number]> {
  const servers = [createServer(), createServer()] as const;
  for (const server of servers) {
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
  }
  const ports = servers.map((server) => (server.address() as AddressInfo).port) as [number, number];
  for (const server of servers) {
    server.close();
    await once(server, 'close');
  }
  return ports;
}
