/**
 * Golden requests outlive the version that brought them: a new version without them would serve unguarded. They are copied
 * from the serving version, asked of the new one, and stored with it.
 */
import type { S3Client } from '../s3/objects.ts';
import type { ModelLocation } from './download.ts';
import { isGolden } from './golden.ts';
import type { VersionFile } from './pointer.ts';
import { withVersionCopy } from './version-copy.ts';
import { pointerOf, readManifest } from './versions.ts';

export interface KeptGolden {
  /** The serving version. */
  readonly version: string;
  /** A copy of the requests on this machine, laid out like a model directory. */
  readonly directory: string;
  readonly files: readonly VersionFile[];
}

/**
 * Calls `work` with the golden requests of the serving version that have no successor of the same name in `paths`; with
 * undefined where there are none.
 * @throws model_unavailable when S3 fails
 */
export async function withKeptGolden<T>(
  s3: S3Client,
  location: ModelLocation,
  version: string | undefined,
  paths: readonly string[],
  work: (kept: KeptGolden | undefined) => Promise<T>,
): Promise<T> {
  const manifest = version === undefined ? undefined : await readManifest(s3, location, version);
  const files = (manifest?.files ?? []).filter(({ path }) => isGolden(path) && !paths.includes(path));
  if (version === undefined || files.length === 0) return work(undefined);
  const requests = pointerOf({ version, files }, location);
  return withVersionCopy({ s3, location }, requests, (directory) => work({ version, directory, files }));
}
