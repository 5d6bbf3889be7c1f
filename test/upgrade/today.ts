/** The parts of this version alone that the upgrade tests use: its servers, its command line, and leases. */
import { run } from '../../cli/main.ts';
import type { Output } from '../../cli/output.ts';
import { RedisConnection } from '../../lib/redis/connection.ts';
import { ResultLeases } from '../../lib/redis/leases.ts';
import { startAws } from '../../local/aws/aws.ts';
import { startRedis } from '../../local/redis/start.ts';

/** A Redis on a free port. @param dataDir holds its data */
export const openRedisServer = (dataDir: string) => startRedis({ dataDir, port: 0, log: () => undefined });

/** SQS and S3 in this process. */
export function openAws() {
  const log = { info: () => undefined, warn: () => undefined, error: console.error };
  return startAws({ port: 0, region: 'local', log });
}

/** Puts a taken result back under its uri, so that it can be taken again. */
export async function release(
  redisUrl: string,
  job: string,
  lease: { readonly uri: string; readonly leaseId: string; readonly leftMs: number },
): Promise<void> {
  const connection = new RedisConnection(redisUrl);
  await new ResultLeases(connection, job).release([{ fields: {}, error: undefined, wasListed: true, lease }]);
  await connection.close();
}

/** Where a job's dead letters are. */
export interface DeadLetterPlace {
  readonly bucket: string;
  /** Path of the job's config.yaml. */
  readonly configFile: string;
  readonly redisUrl: string;
}

/** Runs `cluster-serving dlq --json` and returns what it prints. @throws its error */
export async function dlq(place: DeadLetterPlace, ...args: string[]): Promise<unknown> {
  const { bucket, configFile, redisUrl } = place;
  const where = ['--bucket', bucket, '-c', configFile, '--redis-url', redisUrl];
  let text = '';
  let failed: unknown;
  const output: Output = {
    json: true,
    answer: (document) => {
      text += JSON.stringify(document);
    },
    piece: (piece) => {
      text += piece;
    },
    note: () => undefined,
    failure: (error) => {
      failed = error;
    },
  };
  await run(['dlq', ...args, ...where], output);
  if (failed) throw failed;
  return JSON.parse(text) as unknown;
}
