/** Publishes the further models of a job on this machine. */
import { join } from 'node:path';
import type { JobConfig } from '../../lib/config/job.ts';
import type { S3Client } from '../../lib/s3/objects.ts';
import type { ModelProcess } from '../../onnx-import/process.ts';
import { servedModel } from './model.ts';

interface NamedOptions {
  readonly job: JobConfig;
  readonly dataDir: string;
  readonly dropGolden?: boolean | undefined;
  readonly readyMs?: number | undefined;
  readonly modelProcess?: ModelProcess | undefined;
}

interface Place {
  readonly s3: S3Client;
  readonly bucket: string;
}

/**
 * @param activate false: they pass everything that a start asks of them, and are only stored
 * @returns notes for the user. @throws bad_config, and bad_model naming the folder
 */
export async function publishNamed(
  directory: string,
  { job, dataDir, dropGolden, readyMs, modelProcess }: NamedOptions,
  { s3, bucket }: Place,
  activate = true,
): Promise<string[]> {
  const [{ modelFolders, publishFurther }, { newModelProcess }] = await Promise.all([
    import('../../release/further-models.ts'),
    import('../../release/model-process.ts'),
  ]);
  const models = await modelFolders(directory, job.jobName);
  if (models.length === 0) return [`no folder in ${directory}: there are no further models`];
  const process = modelProcess ?? newModelProcess();
  try {
    return await publishFurther(models, {
      s3,
      bucket,
      job,
      activate,
      dropGolden,
      endsCanary: true,
      served: ({ name, folder }) => servedModel(job, folder, join(dataDir, 'named', name)),
      verifying: (isStored) => ({ gate: !isStored || !activate, readyMs, process }),
    });
  } finally {
    if (!modelProcess) process.close();
  }
}
