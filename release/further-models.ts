/** Publishes the further models of a folder: each folder in it is a model under its name. */
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { type JobConfig, modelsBudget } from '../lib/config/job.ts';
import { asError, badConfig, ServingError } from '../lib/contract/errors.ts';
import { assertModelName, modelPrefix } from '../lib/contract/names.ts';
import { readVerification } from '../lib/contract/verification.ts';
import { keptGoldenNotes } from '../lib/contract/verification-text.ts';
import { type PublishOptions, publishModel } from '../lib/registry/publish.ts';
import type { S3Client } from '../lib/s3/objects.ts';
import type { OnTheWay } from './cache.ts';
import { type VersionOptions, verifyVersion } from './version.ts';

/** Folders of models in one folder. More are refused. */
const MOST_FOLDERS = 1_000;

export interface ModelFolder {
  readonly name: string;
  readonly folder: string;
}

interface FurtherOptions extends Pick<PublishOptions, 'activate' | 'dropGolden' | 'endsCanary'> {
  readonly s3: S3Client;
  readonly bucket: string;
  readonly job: JobConfig;
  /** Returns the directory to publish: the folder, or an import of it. */
  readonly served: (model: ModelFolder) => Promise<Pick<OnTheWay, 'directory' | 'importReport'>>;
  /** @param isStored true for a version that was verified before */
  readonly verifying: (
    isStored: boolean,
  ) => Partial<Pick<VersionOptions, 'gate' | 'isDeployed' | 'readyMs' | 'process'>>;
}

/** In the order of their names. @throws bad_config for a folder that cannot be read, and a name that no model can have */
export async function modelFolders(directory: string, job: string): Promise<ModelFolder[]> {
  const entries = await readdir(directory, { withFileTypes: true }).catch((error: unknown) => {
    throw badConfig(`models.folder: ${directory} cannot be read: ${asError(error).message}`);
  });
  const names = entries.filter((entry) => entry.isDirectory() && !entry.name.startsWith('.'));
  if (names.length > MOST_FOLDERS)
    throw badConfig(`models.folder: ${names.length} folders are over the limit of ${MOST_FOLDERS}`);
  const sorted = names.map(({ name }) => assertModelName(name, job)).sort();
  return sorted.map((name) => ({ name, folder: join(directory, name) }));
}

/** One after the other, each as the job's own model. @returns notes for the user. @throws the errors of publishModel, naming the model */
export async function publishFurther(
  models: readonly ModelFolder[],
  { s3, bucket, job, served, verifying, ...options }: FurtherOptions,
): Promise<string[]> {
  const notes: string[] = [];
  for (const model of models)
    await naming(model, async () => {
      const { directory, importReport } = await served(model);
      const known = readVerification(importReport?.verification);
      const location = { bucket, prefix: modelPrefix(job.jobName, model.name) };
      const { keptGolden } = await publishModel(s3, location, directory, {
        ...options,
        memoryBytes: importReport?.measured.memoryGrowthBytes,
        named: { name: model.name, budgetBytes: modelsBudget(job) },
        verify: (file, stored, kept) =>
          verifyVersion(file, { ...verifying(stored !== undefined), known: stored ?? known, kept, job }),
      });
      notes.push(...keptGoldenNotes(keptGolden).map((note) => `model ${model.name}: ${note}`));
    });
  return notes;
}

/** An error of `work` names the model. */
export async function naming<T>({ name }: ModelFolder, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    const { code, message } = ServingError.from(error);
    throw new ServingError(code, `model ${name}: ${message}`, { cause: error });
  }
}
