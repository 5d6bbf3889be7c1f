/**
 * In: --to, --bucket, --job, --data-dir, or none of them. Out: the place in S3 whose versions are meant, opened.
 * Trap: nothing said means the service of this folder and its first job, as with the other commands; a bucket that is
 * named is of an account of its own, and nothing of the local service is used for it.
 */
import { DEFAULT_JOB_NAME, modelPrefix } from '../../lib/contract/names.ts';
import type { ModelLocation } from '../../lib/registry/download.ts';
import type { S3Client } from '../../lib/s3/objects.ts';
import { wrongUse } from '../command.ts';
import type { Output } from '../output.ts';
import { findService, notRunning } from '../service.ts';
import { type PlaceValues, placeOf } from './publish.ts';

export interface OpenPlace {
  readonly s3: S3Client;
  readonly location: ModelLocation;
  /** s3://bucket/prefix/ */
  readonly text: string;
}

/** Calls `work` with the place; without one it says so. @throws bad_config for options that do not go together */
export async function withPlace(
  values: PlaceValues,
  output: Output,
  work: (place: OpenPlace) => Promise<number>,
): Promise<number> {
  const place = await findPlace(values);
  if (!place) return notRunning(values, output, '--to or --bucket');
  const { openS3 } = await import('../../lib/s3/objects.ts');
  const s3 = openS3({ endpoint: place.endpoint, region: place.region });
  try {
    return await work({ s3, location: place.location, text: place.text });
  } finally {
    s3.destroy();
  }
}

async function findPlace(values: PlaceValues) {
  const { to, job, bucket, 'data-dir': dataDir } = values;
  if (to !== undefined && (job ?? bucket ?? dataDir) !== undefined) {
    throw wrongUse(
      '--to says bucket and prefix; --job, --bucket and --data-dir are another way to say where',
    );
  }
  if (to !== undefined || bucket !== undefined) {
    return placeOf({ to, bucket, ...(to === undefined ? { job: job ?? DEFAULT_JOB_NAME } : {}) });
  }
  const service = await findService({ job, 'data-dir': dataDir });
  if (service?.bucket === undefined) return undefined;
  const location = { bucket: service.bucket, prefix: modelPrefix(service.job) };
  const text = `s3://${location.bucket}/${location.prefix}`;
  return { location, endpoint: service.endpoint, region: service.region, text };
}
