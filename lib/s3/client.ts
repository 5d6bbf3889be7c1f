/**
 * The AWS SDK's client of S3, with limits of its waits, and the commands of lib/s3/objects.ts. Loading them takes a third
 * of a cold start, so a function imports this file at its first call.
 */
import type { Agent } from 'node:https';
import { S3Client } from '@aws-sdk/client-s3';

export {
  GetObjectCommand,
  HeadObjectCommand,
  ListObjectsV2Command,
  PutObjectCommand,
} from '@aws-sdk/client-s3';

/**
 * An idle connection is closed after this time. Large writes from far away may take longer as long as they progress.
 */
const IDLE_MS = 10_000;
const CONNECT_MS = 3_000;

/** The AWS SDK determines what is undefined. */
interface AwsOptions {
  endpoint?: string | undefined;
  region?: string | undefined;
  credentials?: { accessKeyId: string; secretAccessKey: string } | undefined;
  /** Goes through a proxy. */
  httpsAgent?: Agent;
}

/** @param options `anyRegion`: follows S3 to the region of a bucket */
export function openS3(options: AwsOptions & { idleMs?: number; anyRegion?: boolean } = {}): S3Client {
  return new S3Client({
    maxAttempts: 4,
    requestHandler: {
      connectionTimeout: CONNECT_MS,
      socketTimeout: options.idleMs ?? IDLE_MS,
      ...(options.httpsAgent ? { httpsAgent: options.httpsAgent } : {}),
    },
    followRegionRedirects: options.anyRegion ?? false,
    ...(options.region ? { region: options.region } : {}),
    ...(options.credentials ? { credentials: options.credentials } : {}),
    // A custom endpoint (an emulator, MinIO) rarely supports bucket.host names.
    ...(options.endpoint ? { endpoint: options.endpoint, forcePathStyle: true } : {}),
  });
}

/** Those that the AWS SDK finds, and renews. */
export async function credentialsOf(client: S3Client) {
  const { accessKeyId, secretAccessKey, sessionToken } = await client.config.credentials();
  return { accessKeyId, secretAccessKey, sessionToken };
}
