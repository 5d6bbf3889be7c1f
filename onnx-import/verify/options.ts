/** How the model of a job is verified. */
import { axesOf, type JobConfig } from '../../lib/config/job.ts';
import type { ProofOptions } from '../batching/verdict.ts';

export function proofOptions(
  job: Pick<JobConfig, 'batchSize' | 'inputs' | 'outputs'>,
): Pick<ProofOptions, 'maxRows' | 'batchAxes'> {
  return { maxRows: job.batchSize, batchAxes: axesOf(job).batchAxes };
}
