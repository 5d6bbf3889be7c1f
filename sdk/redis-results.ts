/** Reads results from Redis, and those that are too large for it from S3. Loaded with the first call that needs it. */
import type { EnqueueQuery } from '../lib/contract/enqueue.ts';
import type { LargePointer, RecordStatus, Result } from '../lib/contract/result.ts';
import { openRedis } from '../lib/redis/cluster/connection.ts';
import type { RedisConnection } from '../lib/redis/connection.ts';
import { RecordStates } from '../lib/redis/record-states.ts';
import { ResultStore } from '../lib/redis/results.ts';
import { withContent } from '../lib/results/fields.ts';
import type { S3Client } from '../lib/s3/objects.ts';
import { DOWNLOAD_MS } from './http/redirect.ts';
import type { ResultSource } from './http/source.ts';
import { awsAgent } from './proxy.ts';

/** Longer than in the service, because a client may be far from Redis. */
const CLIENT_TIMEOUTS = { connectTimeoutMs: 5_000, commandTimeoutMs: 5_000 };

export interface S3Options {
  /** The AWS endpoint. Default: the AWS SDK's own (AWS_ENDPOINT_URL). */
  readonly endpoint?: string | undefined;
  /** Of the bucket. Default: the AWS SDK's own (AWS_REGION). */
  readonly region?: string | undefined;
}

/** Of the usual chain of AWS, for the address of a public cache. */
async function credentials() {
  const { credentialsOf, openS3 } = await import('../lib/s3/client.ts');
  return credentialsOf(openS3(awsAgent()));
}

/** @throws bad_config */
export function openResults(url: string, job: string, options: S3Options): ResultSource {
  return new RedisResults(openRedis(url, { ...CLIENT_TIMEOUTS, credentials }), job, options);
}

/** Where records are announced. */
export interface Announcing {
  readonly connection: RedisConnection;
  readonly states: RecordStates;
}

/** @throws bad_config */
export function openStates(url: string, job: string): Announcing {
  const connection = openRedis(url, { ...CLIENT_TIMEOUTS, credentials });
  return { connection, states: new RecordStates(connection, { job, now: Date.now }) };
}

class RedisResults extends ResultStore implements ResultSource {
  readonly #states: RecordStates;
  readonly #options: S3Options;
  #s3: S3Client | undefined;

  constructor(connection: RedisConnection, job: string, { endpoint, region }: S3Options) {
    // A reader never writes a result, so its time to live does not matter.
    super(connection, { job, ttlSeconds: 1, now: Date.now });
    this.#states = new RecordStates(connection, { job, now: Date.now });
    this.#options = { endpoint, region };
  }

  status(uri: string, query: EnqueueQuery): Promise<RecordStatus> {
    return this.#states.status(uri, query);
  }

  cancel(uri: string): Promise<boolean> {
    return this.#states.cancel(uri);
  }

  /** @throws results_unavailable, which says where the result is */
  async whole(result: Result, large: LargePointer, signal?: AbortSignal): Promise<Result> {
    const { openS3 } = await import('../lib/s3/client.ts');
    const { readLarge } = await import('../lib/s3/large-results.ts');
    this.#s3 ??= openS3({ ...this.#options, ...awsAgent(), anyRegion: true });
    const bytes = await readLarge(this.#s3, large, { limitMs: DOWNLOAD_MS, signal });
    return withContent(result, large.form, bytes);
  }

  override async close(): Promise<void> {
    this.#s3?.destroy();
    await super.close();
  }
}
