/**
 * In: --to, or --job with --bucket. Out: the imported model in S3, serving.
 * Trap: a place that cannot be is refused before the import, which may take a while; and a local service's endpoint and
 * credentials are used only when its job was named, never for a bucket of a real account.
 */
import type { Imported } from '../../convert/import.ts';
import { assertJobName, modelPrefix } from '../../lib/contract/names.ts';
import { variables } from '../../lib/contract/variables.ts';
import type { ModelLocation } from '../../lib/registry/download.ts';
import { wrongUse } from '../command.ts';
import { findService } from '../service.ts';

export interface PlaceValues {
  readonly to?: string | undefined;
  readonly job?: string | undefined;
  readonly bucket?: string | undefined;
  readonly 'data-dir'?: string | undefined;
}

export interface Place {
  readonly location: ModelLocation;
  readonly endpoint: string | undefined;
  readonly region: string | undefined;
  /** s3://bucket/prefix/ */
  readonly text: string;
}

/** @throws bad_config for options that do not go together */
export function assertPlace({ to, job, bucket, 'data-dir': dataDir }: PlaceValues): void {
  if (to !== undefined && (job ?? bucket) !== undefined) {
    throw wrongUse('--to says bucket and prefix; --job and --bucket are another way to say where');
  }
  if (job === undefined && (bucket ?? dataDir) !== undefined) {
    throw wrongUse(`--${bucket === undefined ? 'data-dir' : 'bucket'} goes with --job`);
  }
}

/** @returns undefined when the model stays on this machine. @throws bad_config */
export async function placeOf({
  to,
  job,
  bucket,
  'data-dir': dataDir,
}: PlaceValues): Promise<Place | undefined> {
  if (to !== undefined) {
    const [, name, prefix = ''] = /^s3:\/\/([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])(?:\/(.*))?$/.exec(to) ?? [];
    if (name === undefined || prefix.startsWith('/')) {
      throw wrongUse(`--to: expected s3://bucket/prefix, got ${JSON.stringify(to)}`);
    }
    const folder = prefix === '' || prefix.endsWith('/') ? prefix : `${prefix}/`;
    return place({ bucket: name, prefix: folder }, variables['AWS_ENDPOINT_URL'], undefined);
  }
  if (job === undefined) return undefined;
  const prefix = modelPrefix(assertJobName(job));
  if (bucket !== undefined) return place({ bucket, prefix }, variables['AWS_ENDPOINT_URL'], undefined);
  const service = await findService({ job, 'data-dir': dataDir });
  if (service?.bucket === undefined) {
    throw wrongUse(`--job ${job}: no local service runs here; --bucket names that of a deployed one`);
  }
  return place({ bucket: service.bucket, prefix }, service.endpoint, service.region);
}

function place(location: ModelLocation, endpoint: string | undefined, region: string | undefined): Place {
  return { location, endpoint, region, text: `s3://${location.bucket}/${location.prefix}` };
}

/** @returns the version that serves now. @throws what S3 says */
export async function publishTo(
  { location, endpoint, region }: Place,
  { directory, passport }: Pick<Imported, 'directory' | 'passport'>,
  signal?: AbortSignal,
): Promise<string> {
  const [{ publishModel }, { openS3 }] = await Promise.all([
    import('../../lib/registry/publish.ts'),
    import('../../lib/s3/objects.ts'),
  ]);
  const s3 = openS3({ endpoint, region });
  try {
    return (await publishModel(s3, location, directory, { source: passport.source, signal })).version;
  } finally {
    s3.destroy();
  }
}
