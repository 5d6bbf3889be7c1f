/** Publishes the further models of a job on this machine. */
import { join } from 'node:path';
import { s3Client } from '../../lib/compose/s3.ts';
import type { Scope } from '../../lib/compose/scope.ts';
import type { ModelProcess } from '../../onnx-import/process.ts';
import { servedModel } from './model.ts';

interface NamedOptions {
  readonly dataDir: string;
  readonly dropGolden?: boolean | undefined;
  readonly readyMs?: number | undefined;
  readonly modelProcess?: ModelProcess | undefined;
}

/** @returns notes for the user. @throws bad_config, and bad_model naming the folder */
export async function publishNamed(
  directory: string,
  { dataDir, dropGolden, readyMs, modelProcess }: NamedOptions,
  scope: Scope,
): Promise<string[]> {
  const { job, bucket } = scope.environment;
  const [{ modelFolders, publishFurther }, { newModelProcess }] = await Promise.all([
    import('../../release/further-models.ts'),
    import('../../release/model-process.ts'),
  ]);
  const models = await modelFolders(directory, job.jobName);
  if (models.length === 0) return [`no folder in ${directory}: there are no further models`];
  const process = modelProcess ?? newModelProcess();
  try {
    return await publishFurther(models, {
      s3: scope.get(s3Client),
      bucket,
      job,
      dropGolden,
      endsCanary: true,
      served: ({ name, folder }) => servedModel(job, folder, join(dataDir, 'named', name)),
      verifying: (isStored) => ({ gate: !isStored, readyMs, process }),
    });
  } finally {
    if (!modelProcess) process.close();
  }
}
