/**
 * Returns the directory that a job serves from: its own, or an import of it. The converters are loaded only if
 * needed, so serving ONNX does not wait for them.
 */
import { join } from 'node:path';
import type { ImportReport } from '../convert/import-report.ts';
import type { JobConfig } from '../lib/config/job.ts';
import { ServingError } from '../lib/contract/errors.ts';
import { installation } from './installation.ts';

interface ServedModel {
  readonly directory: string;
  /** That it was imported, and what its import report asks for. */
  readonly notes: readonly string[];
  readonly importReport?: ImportReport;
}

/** An import may take minutes, so its stages are logged to stderr, the log of a background service. */
const log = (line: string) => console.error(line);

/** @throws bad_model naming job and directory, when the directory holds something that cannot be imported */
export async function servedModel(
  job: JobConfig,
  modelDirectory: string,
  dataDir: string,
  tell: (line: string) => void = log,
): Promise<ServedModel> {
  const { modelOnTheWay } = await import('../convert/cache.ts');
  let told: string | undefined;
  try {
    return await modelOnTheWay(modelDirectory, {
      job,
      cacheDir: join(dataDir, 'imported', job.jobName),
      version: installation().version,
      onStage: (stage) => {
        if (stage !== told) tell(`job ${job.jobName}: importing ${modelDirectory}: ${stage}`);
        told = stage;
      },
    });
  } catch (error) {
    const { code, message } = ServingError.from(error);
    if (code === 'internal') throw error;
    throw new ServingError(code, `job ${job.jobName}: ${message}`, { cause: error });
  }
}
