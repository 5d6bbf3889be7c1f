/** Asks a version in S3 its golden requests on this machine, before it may serve again. */
import type { JobConfig } from '../../lib/config/job.ts';
import type { ModelPointer } from '../../lib/registry/download.ts';
import { findModelFile } from '../../lib/registry/onnx-file.ts';
import { type ModelPlace, withVersionCopy } from '../../lib/registry/version-copy.ts';

/** Asks the version its golden requests, in a copy on this machine. @throws bad_model */
export async function assertGoldenHere(
  place: ModelPlace,
  version: ModelPointer,
  job: JobConfig,
): Promise<void> {
  const { assertGolden } = await import('../../release/golden/check.ts');
  await withVersionCopy(place, version, async (directory) => {
    const file = await findModelFile(directory);
    await assertGolden(directory, { file, job, verification: version.verification });
  });
}
