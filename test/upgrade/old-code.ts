/**
 * Commit ae017ae, loaded from a checkout. Its files never change, so the parts in use are typed here by hand. A checkout of
 * `lib` and `functions` alone can do everything except start servers and handle parked messages.
 */
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { S3Client } from '@aws-sdk/client-s3';
import { parkedCommands } from './parked-cli.ts';
import type { Aws, ModelPlace, ModelVersion, Product } from './product.ts';

export const OLD_COMMIT = 'ae017ae';

/** A module of the checkout. @param path relative to its root */
export async function load<T>(root: string, path: string): Promise<T> {
  return (await import(pathToFileURL(join(root, path)).href)) as T;
}

interface Location {
  readonly bucket: string;
  readonly prefix: string;
}

interface Publishing {
  readonly publishModel: (
    s3: S3Client,
    location: Location,
    folder: string,
    options: { readonly activate?: boolean | undefined; readonly now?: () => number },
  ) => Promise<{ readonly version: string }>;
}

interface Versions {
  readonly listVersions: (s3: S3Client, location: Location) => Promise<ModelVersion[]>;
  readonly rollBack: (
    s3: S3Client,
    location: Location,
    version: string | undefined,
  ) => Promise<{ readonly version: string }>;
}

interface Taker {
  putBack(
    taken: readonly {
      readonly fields: Readonly<Record<string, string>>;
      readonly error: undefined;
      readonly wasListed: boolean;
      readonly held: { readonly uri: string; readonly taking: string; readonly leftMs: number };
    }[],
  ): Promise<void>;
}

export interface Connection {
  close(): Promise<void>;
}

export interface Redises {
  readonly RedisConnection: new (url: string) => Connection;
}

interface Cli {
  readonly run: Parameters<typeof parkedCommands>[0];
}

const locationOf = ({ bucket, job }: ModelPlace): Location => ({ bucket, prefix: `models/${job}/` });

/** @param root folder of a checkout of ae017ae */
export async function oldCode(root: string): Promise<Product> {
  const from = <T>(path: string): Promise<T> => load<T>(root, path);
  const { InputQueue, OutputQueue } = await from<Pick<Product, 'InputQueue' | 'OutputQueue'>>('lib/index.ts');
  const { parseConfig } = await from<{ parseConfig: (text: string, name: string) => unknown }>(
    'lib/config/file.ts',
  );
  const parked = async () => parkedCommands((await from<Cli>('cli/main.ts')).run);
  return {
    InputQueue,
    OutputQueue,
    functionFile: (name) => join(root, 'functions', `${name}.ts`),
    functionEnvironment: (config, { aws, bucket, queueUrl, redisUrl }) => ({
      ...aws,
      CLUSTER_SERVING_CONFIG: JSON.stringify(parseConfig(config, 'config.yaml')),
      CLUSTER_SERVING_BUCKET: bucket,
      CLUSTER_SERVING_QUEUE_URL: queueUrl,
      CLUSTER_SERVING_REDIS_URL: redisUrl,
    }),
    async startRedis(dataDir) {
      const { startRedis } = await from<{
        startRedis: (options: object) => Promise<{ readonly url: string; close(): Promise<void> }>;
      }>('local/redis/start.ts');
      return startRedis({ dataDir, port: 0, log: () => undefined });
    },
    async startAws() {
      const { startAws } = await from<{ startAws: (options: object) => Promise<Aws> }>('local/aws.ts');
      const log = { info: () => undefined, warn: () => undefined, error: console.error };
      return startAws({ port: 0, region: 'local', log });
    },
    async publish(model, folder, options = {}) {
      const { publishModel } = await from<Publishing>('lib/model/publish.ts');
      return (await publishModel(model.s3, locationOf(model), folder, options)).version;
    },
    async rollBack(model, version) {
      const { rollBack } = await from<Versions>('lib/model/versions.ts');
      return (await rollBack(model.s3, locationOf(model), version)).version;
    },
    async listVersions(model) {
      const { listVersions } = await from<Versions>('lib/model/versions.ts');
      return listVersions(model.s3, locationOf(model));
    },
    async release(redisUrl, job, { uri, leaseId, leftMs }) {
      const { RedisConnection } = await from<Redises>('lib/results/redis.ts');
      const { ResultTaker } = await from<{
        readonly ResultTaker: new (connection: Connection, job: string) => Taker;
      }>('lib/results/taker.ts');
      const connection = new RedisConnection(redisUrl);
      const held = { uri, taking: leaseId, leftMs };
      await new ResultTaker(connection, job).putBack([
        { fields: {}, error: undefined, wasListed: true, held },
      ]);
      await connection.close();
    },
    archive: 'parked/',
    listParked: async (place) => (await parked()).listParked(place),
    showParked: async (place, id) => (await parked()).showParked(place, id),
    replayParked: async (place) => (await parked()).replayParked(place),
  };
}
