/** Publishes the further models of a job on this machine: each folder in a folder of models, under its name. */
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { modelLocation, s3Client } from '../../lib/compose/s3.ts';
import type { Scope } from '../../lib/compose/scope.ts';
import { modelsBudget } from '../../lib/config/job.ts';
import { asError, badConfig, ServingError } from '../../lib/contract/errors.ts';
import { assertModelName } from '../../lib/contract/names.ts';
import { readVerification } from '../../lib/contract/verification.ts';
import { publishModel } from '../../lib/registry/publish.ts';
import type { ModelProcess } from '../../onnx-import/process.ts';
import { servedModel } from './model.ts';

/** Folders of models in one folder. More are refused. */
const MOST_FOLDERS = 1_000;

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
  const { job } = scope.environment;
  const names = await namesIn(directory, job.jobName);
  const [{ verifyVersion }, { newModelProcess }] = await Promise.all([
    import('../../release/version.ts'),
    import('../../release/model-process.ts'),
  ]);
  const process = modelProcess ?? newModelProcess();
  try {
    for (const name of names) {
      const folder = join(directory, name);
      try {
        const model = await servedModel(job, folder, join(dataDir, 'named', name));
        const known = readVerification(model.importReport?.verification);
        const { memoryGrowthBytes: memoryBytes } = model.importReport?.measured ?? {};
        const location = modelLocation(scope, name);
        await publishModel(scope.get(s3Client), location, model.directory, {
          dropGolden,
          endsCanary: true,
          memoryBytes,
          named: { name, budgetBytes: modelsBudget(job) },
          verify: (file, stored, kept) =>
            verifyVersion(file, {
              known: stored ?? known,
              kept,
              job,
              gate: stored === undefined,
              readyMs,
              process,
            }),
        });
      } catch (error) {
        const { code, message } = ServingError.from(error);
        throw new ServingError(code, `model ${name}: ${message}`, { cause: error });
      }
    }
  } finally {
    if (!modelProcess) process.close();
  }
  return names.length === 0 ? [`no folder in ${directory}: there are no further models`] : [];
}

async function namesIn(directory: string, job: string): Promise<string[]> {
  const entries = await readdir(directory, { withFileTypes: true }).catch((error: unknown) => {
    throw badConfig(`models.folder: ${directory} cannot be read: ${asError(error).message}`);
  });
  const names = entries.filter((entry) => entry.isDirectory() && !entry.name.startsWith('.'));
  if (names.length > MOST_FOLDERS)
    throw badConfig(`models.folder: ${names.length} folders are over the limit of ${MOST_FOLDERS}`);
  return names.map(({ name }) => assertModelName(name, job)).sort();
}
