/**
 * A request that the page fills its form with: a golden request of the version, because a person chose it; else what the caller
 * knows, such as the sample of the verification or an instance that was found by asking.
 */
import type { Example, Part } from '../../console/api.ts';
import { versionKey } from '../../lib/registry/download.ts';
import { isGolden } from '../../lib/registry/golden.ts';
import type { ModelPlace } from '../../lib/registry/version-copy.ts';
import { readManifest } from '../../lib/registry/versions.ts';
import { getText } from '../../lib/s3/objects.ts';

/** A longer one is not a useful example. */
const MOST_BYTES = 1_000_000;
const NONE =
  'No example is known that this model answers. `cluster-serving model golden` stores one beside it.';

/** @param otherwise a body of POST /predict; undefined: none was answered */
export async function exampleOfVersion(
  place: ModelPlace | undefined,
  version: string,
  otherwise: () => Promise<string | undefined>,
): Promise<Part<Example>> {
  const stored = place && (await goldenRequest(place, version));
  if (stored !== undefined) return { body: stored, isGolden: true };
  const body = await otherwise();
  return body === undefined ? { unavailable: NONE } : { body, isGolden: false };
}

async function goldenRequest({ s3, location }: ModelPlace, version: string): Promise<string | undefined> {
  const { files = [] } = (await readManifest(s3, location, version)) ?? {};
  const paths = files.flatMap(({ path, bytes }) => (isGolden(path) && bytes <= MOST_BYTES ? [path] : []));
  const [path] = paths.sort();
  if (path === undefined) return undefined;
  return getText(s3, { bucket: location.bucket, key: versionKey(location, version, path) });
}
