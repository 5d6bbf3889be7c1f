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

/** JSON that this version adds to answers: which enqueue an answer belongs to. */
export const ADDED: readonly RegExp[] = [/,"identity":"[\w-]+"/g, /,"identities":\[[^\]]*\]/g];

const accepted = (message: string) => ({ outcome: 'accepted', sent: [message] });

/**
 * Answers that this version changed on purpose, by question: of several enqueues of a uri the last counts, where ae017ae
 * refused all but the first payload, and kept the first result that was made.
 */
export const CHANGED: Readonly<Record<string, Readonly<Record<string, unknown>>>> = {
  claims: {
    'queued, another payload': accepted('208 characters, 28b796af572f2a66'),
    'running, another payload': accepted('209 characters, 5c81f5e8f0a38c2c'),
    'dense, another payload': accepted('207 characters, 10260edc63d982ea'),
    'dense, the same': accepted('207 characters, 9102546c0eec1697'),
    'cancelled, another payload': accepted('211 characters, 56a03e7ff10ab108'),
    'cancelled, the same': accepted('211 characters, 536b1385d8a1effa'),
    'expired, another payload': accepted('209 characters, 3befa433661c2055'),
    'unclaimed, another payload': accepted('211 characters, 43a0dd759b8be808'),
    'unclaimed, the same': accepted('211 characters, 53a61dd7ec0ab307'),
    'new, the same': accepted('205 characters, 57d3ae89df8a0bf1'),
  },
  batch: {
    // Sent in the same millisecond: the message with the greater id counts.
    'line: twice': {
      failures: [],
      results: {
        twice: {
          stored: {
            status: 'succeeded',
            value: '696 characters, b45fb890894f57a8',
            outputs: '["y"]',
            exact: '',
            model: '7ab768b63ff4',
          },
          read: { y: 'float32 [3,2,2] 28 28 28 28 28 28 28 28 28 28 28 28' },
        },
      },
    },
  },
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
