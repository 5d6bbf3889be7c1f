/** Compares a version with the one that clients know, and refuses changes by which they would get wrong results unnoticed. */
import { dirname } from 'node:path';
import type { JobConfig } from '../../lib/config/job.ts';
import { badModel } from '../../lib/contract/errors.ts';
import { type ModelProcess, withModelProcess } from '../../onnx-import/process.ts';
import { goldenRequests } from '../golden/file.ts';
import { newModelProcess } from '../model-process.ts';
import { type DiffReport, reportOf, reportText } from './report.ts';
import type { Side } from './run.ts';
import { DIFF, GROWTH } from './tasks.ts';

export interface DiffOptions {
  readonly job: JobConfig;
  readonly signal?: AbortSignal | undefined;
  /** Where the models run. Default: a process of its own. */
  readonly process?: ModelProcess | undefined;
}

const LIMIT_MS = 300_000;
/** Twice what onnxruntime takes without a model. */
const LEAST_BYTES = 50_000_000;

/**
 * @param before the version that clients know
 * @throws bad_model, model_unavailable when one of both does not open; the signal's reason
 */
export async function diffVersions(before: Side, after: Side, options: DiffOptions): Promise<DiffReport> {
  const { job, signal } = options;
  const requests = await goldenRequests(dirname(before.file));
  const run = { before, after, job, requests };
  const ask = (process: ModelProcess) => process.ask(DIFF, run, { ms: LIMIT_MS, signal });
  const diff = await withModelProcess(options.process, ask, newModelProcess);
  const growth = async ({ file }: Side) => {
    const fresh = newModelProcess();
    return fresh.ask(GROWTH, { file }, { ms: LIMIT_MS, signal }).finally(() => fresh.close());
  };
  // One after the other, because both may be large.
  const was = await growth(before);
  const is = await growth(after);
  return reportOf({ ...diff, memory: Math.max(was, is) > LEAST_BYTES ? is / was : undefined });
}

/** Accepts each break. */
export const ALL = 'all';

/** @param accepted names of breaks, or ALL. @throws bad_model with the report when it has others */
export function assertUnbroken(report: DiffReport, version: string, accepted: readonly string[]): void {
  const open = accepted.includes(ALL) ? [] : report.breaks.filter(({ name }) => !accepted.includes(name));
  if (open.length === 0) return;
  const names = open.map(({ name }) => name).join(',');
  throw badModel(
    `clients of version ${version} would get wrong results, so this one does not serve:\n${reportText(report)}\nIf they know of it, pass --accept ${names}`,
  );
}
