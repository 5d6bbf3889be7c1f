/**
 * Moves what clients of the original Cluster Serving write into a Redis stream to the job's queue, so that they work
 * unchanged. An entry is removed from the stream when the queue has its record: a bridge that is killed loses nothing, and
 * what it had read goes to the next one.
 */
import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import { badConfig } from '../../lib/contract/errors.ts';
import { RedisConnection } from '../../lib/redis/connection.ts';
import { StreamConsumer } from '../../lib/redis/stream.ts';
import { Lease } from './lease.ts';
import { BLOCK_MS, Mover } from './mover.ts';
import type { BridgeOptions, Moved } from './options.ts';
import { countOf } from './record.ts';

export interface Bridge {
  /** Resolves when the bridge has ended, rejects when it cannot work. */
  readonly ended: Promise<Moved>;
  /** Finishes what is being sent. */
  close(): Promise<void>;
}

/** The group of all bridges of a stream. Clients of the original create `serving`, which its server reads. */
export const GROUP = 'cluster-serving';
const FORMER_GROUP = 'serving';

const TIMEOUT_MS = 5_000;
const CLAIM_AFTER_MS = 15_000;

/** Opens the stream. @throws results_unavailable when Redis does not answer; bad_config when it is in cluster mode */
export async function startBridge(options: BridgeOptions): Promise<Bridge> {
  const { redisUrl, stream: name, claimAfterMs = CLAIM_AFTER_MS } = options;
  const timeouts = { connectTimeoutMs: TIMEOUT_MS, commandTimeoutMs: TIMEOUT_MS + BLOCK_MS };
  const reading = new RedisConnection(redisUrl, timeouts);
  const connection = new RedisConnection(redisUrl, timeouts);
  const consumer = `${hostname()}-${process.pid}-${randomUUID().slice(0, 8)}`;
  const where = { stream: name, group: GROUP, consumer };
  const [reader, stream] = [new StreamConsumer(reading, where), new StreamConsumer(connection, where)];
  const closeAll = () => Promise.all([reading.close(), connection.close()]);
  const stop = new AbortController();
  try {
    await assertNoCluster(connection, redisUrl);
    await createGroup(stream, options);
  } catch (error) {
    await closeAll();
    throw error;
  }
  const lease = new Lease(stream, options.name ?? consumer, claimAfterMs);
  const ended = new Mover({ reader, stream }, lease, { ...options, claimAfterMs }, stop.signal).run();
  const closed = ended.catch(() => undefined).then(closeAll);
  return {
    ended,
    async close() {
      stop.abort();
      // Not awaited: a Redis that does not answer must not hold the end up longer than the read itself.
      void reader.interrupt(connection);
      await closed;
    },
  };
}

/** The list of dead entries may be on another node than the stream, and clients of the original know no slots. */
async function assertNoCluster(connection: RedisConnection, url: string): Promise<void> {
  // A user may be forbidden to ask.
  const facts = await connection.use((redis) => redis.info('cluster').catch(() => ''), true);
  if (!/^cluster_enabled:1/m.test(facts)) return;
  throw badConfig(
    `Redis at ${new URL(url).host} is in cluster mode, which clients of the original Cluster Serving cannot use: ` +
      'give the bridge the Redis that they write to',
  );
}

/** Begins where the server of the original ended, if it ever read this stream, and else at the first entry. */
async function createGroup(reader: StreamConsumer, { stream, warn }: BridgeOptions): Promise<void> {
  const groups = await reader.groups();
  if (groups.some(({ name }) => name === GROUP)) return;
  const former = groups.find(({ name, consumers }) => name === FORMER_GROUP && consumers > 0);
  if (former && former.pending > 0)
    warn(`stream ${stream}: ${countOf(former.pending)} that a former server read will not be enqueued again`);
  await reader.createGroup(former?.lastId ?? '0');
}
