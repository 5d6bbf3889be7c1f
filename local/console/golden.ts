/** Asks a version in S3 its golden requests on this machine, before it may serve again. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { JobConfig } from '../../lib/config/job.ts';
import { withPathAs } from '../../lib/contract/errors.ts';
import type { ModelLocation, ModelPointer } from '../../lib/registry/download.ts';
import { findModelFile } from '../../lib/registry/onnx-file.ts';
import type { S3Client } from '../../lib/s3/objects.ts';

/** Asks the version its golden requests, in a copy on this machine. @throws bad_model */
export async function assertGoldenHere(
  { s3, location }: { readonly s3: S3Client; readonly location: ModelLocation },
  version: ModelPointer,
  job: JobConfig,
): Promise<void> {
  const { assertGolden } = await import('../../release/golden/check.ts');
  const { downloadModel } = await import('../../lib/registry/download.ts');
  const folder = await mkdtemp(join(tmpdir(), 'cluster-serving-rollback-'));
  try {
    const directory = await downloadModel(s3, location, version, folder);
    const file = await findModelFile(directory);
    await assertGolden(directory, { file, job, verification: version.verification });
  } catch (error) {
    throw withPathAs(error, join(folder, version.version), `version ${version.version}`);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}
