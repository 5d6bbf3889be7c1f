/**
 * The code of this repository, and the only file of the upgrade tests that imports it. When code moves or is renamed,
 * change the imports here and nothing in the tests.
 */
import { fileURLToPath } from 'node:url';
import { run } from '../../cli/main.ts';
import { modelPrefix } from '../../lib/contract/names.ts';
import { RedisConnection } from '../../lib/redis/connection.ts';
import { ResultLeases } from '../../lib/redis/leases.ts';
import { publishModel } from '../../lib/registry/publish.ts';
import { listVersions, rollBack } from '../../lib/registry/versions.ts';
import { startAws } from '../../local/aws/aws.ts';
import { startRedis } from '../../local/redis/start.ts';
import { InputQueue, OutputQueue } from '../../sdk/index.ts';
import { parseConfig } from '../support/config.ts';
import { parkedCommands } from './parked-cli.ts';
import type { ModelPlace, Product } from './product.ts';

/**
 * Error codes, statuses and JSON keys of ae017ae's answers that this version has renamed, old to new. Renaming them is
 * allowed in answers only: what ae017ae stored must still be read.
 */
export const RENAMED: Readonly<Record<string, string>> = {
  out_of_tries: 'max_receives_exceeded',
};

const locationOf = ({ bucket, job }: ModelPlace) => ({ bucket, prefix: modelPrefix(job) });

export const newCode: Product = {
  InputQueue,
  OutputQueue,
  functionFile: (name) => fileURLToPath(new URL(`../../functions/${name}.ts`, import.meta.url)),
  functionEnvironment: (config, { aws, bucket, queueUrl, redisUrl }) => ({
    ...aws,
    CLUSTER_SERVING_CONFIG: JSON.stringify(parseConfig(config, 'config.yaml')),
    CLUSTER_SERVING_BUCKET: bucket,
    CLUSTER_SERVING_QUEUE_URL: queueUrl,
    CLUSTER_SERVING_REDIS_URL: redisUrl,
  }),
  startRedis: (dataDir) => startRedis({ dataDir, port: 0, log: () => undefined }),
  startAws: () => {
    const log = { info: () => undefined, warn: () => undefined, error: console.error };
    return startAws({ port: 0, region: 'local', log });
  },
  publish: async (model, folder, options) =>
    (await publishModel(model.s3, locationOf(model), folder, options)).version,
  rollBack: async (model, version) => (await rollBack(model.s3, locationOf(model), version)).version,
  listVersions: (model) => listVersions(model.s3, locationOf(model)),
  async release(redisUrl, job, { uri, leaseId, leftMs }) {
    const connection = new RedisConnection(redisUrl);
    const lease = { uri, leaseId, leftMs };
    await new ResultLeases(connection, job).release([
      { fields: {}, error: undefined, wasListed: true, lease },
    ]);
    await connection.close();
  },
  archive: 'dead-letters/',
  ...parkedCommands(run),
};
