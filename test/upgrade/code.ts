/**
 * The parts of one version that the upgrade tests use. keep.ts bundles this file with all its imports, so a landed
 * version keeps this file as it was: when code moves, change the imports and leave the exports.
 */
import { fileURLToPath } from 'node:url';
import type { S3Client } from '@aws-sdk/client-s3';
import { modelPrefix } from '../../lib/contract/names.ts';
import { publishModel } from '../../lib/registry/publish.ts';
import * as versions from '../../lib/registry/versions.ts';
import { parseConfig } from '../support/config.ts';

export { InputQueue, OutputQueue } from '../../sdk/index.ts';

export const FUNCTIONS = ['batch', 'dead-letter', 'predict', 'predictions', 'status'] as const;
export type FunctionName = (typeof FUNCTIONS)[number];

/** Where a job's functions find what they need. */
interface Places {
  readonly aws: Readonly<Record<string, string>>;
  readonly bucket: string;
  readonly queueUrl: string;
  readonly redisUrl: string;
}

/** A job's model in S3. */
interface Model {
  readonly s3: S3Client;
  readonly bucket: string;
  readonly job: string;
}

const isSource = import.meta.url.endsWith('.ts');

/** Path of the module that exports a function's `handler`. */
export function functionFile(name: FunctionName): string {
  return fileURLToPath(new URL(isSource ? `../../functions/${name}.ts` : `./${name}.mjs`, import.meta.url));
}

/** The environment variables of a job's functions. @param config text of a config.yaml */
export function functionEnvironment(config: string, places: Places): Record<string, string> {
  return {
    ...places.aws,
    CLUSTER_SERVING_CONFIG: JSON.stringify(parseConfig(config, 'config.yaml')),
    CLUSTER_SERVING_BUCKET: places.bucket,
    CLUSTER_SERVING_QUEUE_URL: places.queueUrl,
    CLUSTER_SERVING_REDIS_URL: places.redisUrl,
  };
}

const locationOf = ({ bucket, job }: Model) => ({ bucket, prefix: modelPrefix(job) });

/** Uploads a folder with a model and makes it the version that serves, unless `activate` is false. */
export async function publish(
  model: Model,
  folder: string,
  options: { readonly activate?: boolean; readonly now?: () => number } = {},
): Promise<string> {
  return (await publishModel(model.s3, locationOf(model), folder, options)).version;
}

/** @returns the version that serves now */
export async function rollBack(model: Model): Promise<string> {
  return (await versions.rollBack(model.s3, locationOf(model), undefined)).version;
}

export function listVersions(model: Model) {
  return versions.listVersions(model.s3, locationOf(model));
}
