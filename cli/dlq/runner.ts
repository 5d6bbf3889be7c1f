/**
 * Runs records that may crash their process. If that happens, the records that ran together are run again one by one.
 * Each has the time limit of the job's function, without loading the model.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import { modelSettings } from '../../lib/compose/model.ts';
import { ServingError, withPathAs } from '../../lib/contract/errors.ts';
import { modelPrefix } from '../../lib/contract/names.ts';
import type { Inputs, Outcome } from '../../lib/contract/values.ts';
import { IsolatedRunner } from '../../lib/inference/isolated-runner.ts';
import { isRecordFault } from '../../lib/pipeline/poison-isolation.ts';
import { downloadModel, readPointer } from '../../lib/registry/download.ts';
import { findModelFile } from '../../lib/registry/onnx-file.ts';
import type { ReplayRunner } from '../../local/console/replay.ts';
import type { DlqPlace } from './place.ts';

/** Long enough to start a process and load a model of gigabytes. */
const OPEN_MS = 300_000;

/**
 * Downloads the model that serves now, opens it in its own process, and closes it when `work` has ended.
 * @param limitMs of one record
 * @throws model_unavailable
 */
export async function withRunner<T>(
  place: DlqPlace,
  limitMs: number | undefined,
  work: (runner: ReplayRunner) => Promise<T>,
): Promise<T> {
  const { s3, bucket, job } = place;
  if (job.worker.class !== undefined) {
    const { withWorker } = await import('./worker.ts');
    return withWorker(place, limitMs, work);
  }
  const folder = await mkdtemp(join(tmpdir(), 'cluster-serving-replay-'));
  let isolated: IsolatedRunner | undefined;
  try {
    const location = { bucket, prefix: modelPrefix(job.jobName) };
    const pointer = await readPointer(s3, location);
    const { version } = pointer;
    const file = await findModelFile(await downloadModel(s3, location, pointer, folder));
    const runner = new IsolatedRunner({
      file,
      version,
      settings: modelSettings(job, availableParallelism()),
    });
    isolated = runner;
    await opened(runner);
    const recordMs = limitMs ?? job.function.timeoutSeconds * 1000;
    return await work({ version, run: (records) => runAll(runner, records, recordMs) });
  } catch (error) {
    throw withPathAs(error, folder, 'the model that serves');
  } finally {
    await isolated?.close();
    await rm(folder, { recursive: true, force: true });
  }
}

/** Starts the process, so that a model that does not open is not reported as a record's failure. */
async function opened(isolated: IsolatedRunner): Promise<void> {
  try {
    await isolated.run([], OPEN_MS);
  } catch (error) {
    if (!isRecordFault(error)) throw error;
    const message = `the model cannot be opened: ${error.message.replace(/ on this record/, '')}`;
    throw new ServingError('model_unavailable', message, { cause: error });
  }
}

const SIGNALLED = /\((SIGINT|SIGTERM|SIGHUP)\)/;

async function runAll(
  isolated: IsolatedRunner,
  records: readonly Inputs[],
  limitMs: number,
  again = false,
): Promise<Outcome[]> {
  if (records.length === 0) return [];
  await opened(isolated);
  try {
    return await isolated.run(records, limitMs);
  } catch (error) {
    if (!isRecordFault(error)) throw error;
    // Ctrl-C also reaches that process; then no record is at fault.
    if (SIGNALLED.test(error.message) && !again) return runAll(isolated, records, limitMs, true);
    if (records.length === 1) return [{ ok: false, error: new ServingError('model_failed', error.message) }];
  }
  const outcomes: Outcome[] = [];
  for (const record of records) outcomes.push(...(await runAll(isolated, [record], limitMs)));
  return outcomes;
}
