/**
 * In: a job's model and records that may be deadly. Out: their outcomes; the command survives each of them.
 * Trap: one deadly record takes its part of the records along, which then run one by one; each gets the time that the
 * job's function has, and loading the model counts to nobody's.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import { modelSettings } from '../../lib/compose/model.ts';
import { ServingError } from '../../lib/contract/errors.ts';
import { modelPrefix } from '../../lib/contract/names.ts';
import type { Inputs, Outcome } from '../../lib/contract/values.ts';
import { Fence } from '../../lib/inference/isolated-runner.ts';
import { isGuilt } from '../../lib/pipeline/poison-isolation.ts';
import { downloadModel, readPointer } from '../../lib/registry/download.ts';
import { findModelFile } from '../../lib/registry/onnx-file.ts';
import type { DlqPlace } from './place.ts';

export interface ReplayRunner {
  /** Of the model. */
  readonly version: string;
  /** As many outcomes, same order. @throws model_unavailable */
  run(records: readonly Inputs[]): Promise<Outcome[]>;
  close(): Promise<void>;
}

/** A process starts and a model of gigabytes is loaded. */
const OPEN_MS = 300_000;

/**
 * Downloads the model that serves now and opens it in a process of its own.
 * @param limitMs of one record
 * @throws model_unavailable
 */
export async function openRunner(
  { s3, bucket, job }: DlqPlace,
  limitMs: number = job.function.timeoutSeconds * 1000,
): Promise<ReplayRunner> {
  const folder = await mkdtemp(join(tmpdir(), 'cluster-serving-replay-'));
  const removeFolder = () => rm(folder, { recursive: true, force: true });
  try {
    const location = { bucket, prefix: modelPrefix(job.jobName) };
    const pointer = await readPointer(s3, location);
    const file = await findModelFile(await downloadModel(s3, location, pointer, folder));
    const settings = modelSettings(job, availableParallelism());
    const fence = new Fence({ file, version: pointer.version, settings });
    await opened(fence);
    return {
      version: pointer.version,
      run: (records) => runAll(fence, records, limitMs),
      async close() {
        await fence.close();
        await removeFolder();
      },
    };
  } catch (error) {
    await removeFolder();
    throw error;
  }
}

/** No record is to blame when the model cannot be opened. */
async function opened(fence: Fence): Promise<void> {
  try {
    await fence.run([], OPEN_MS);
  } catch (error) {
    if (!isGuilt(error)) throw error;
    const message = `the model cannot be opened: ${error.message.replace(/ on this record/, '')}`;
    throw new ServingError('model_unavailable', message, { cause: error });
  }
}

async function runAll(
  fence: Fence,
  records: readonly Inputs[],
  limitMs: number,
  again = false,
): Promise<Outcome[]> {
  if (records.length === 0) return [];
  await opened(fence);
  try {
    return await fence.run(records, limitMs);
  } catch (error) {
    if (!isGuilt(error)) throw error;
    // Ctrl-C reaches that process too: no record sent it.
    if (SIGNALLED.test(error.message) && !again) return runAll(fence, records, limitMs, true);
    if (records.length === 1) return [{ ok: false, error: new ServingError('model_failed', error.message) }];
  }
  const outcomes: Outcome[] = [];
  for (const record of records) outcomes.push(...(await runAll(fence, [record], limitMs)));
  return outcomes;
}

const SIGNALLED = /\((SIGINT|SIGTERM|SIGHUP)\)/;
