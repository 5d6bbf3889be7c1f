/** The task that compares two versions, for the process in which models are tried. */
import type { Task } from '../../onnx-import/process.ts';
import type { Diff, DiffRun } from './run.ts';

export const DIFF: Task<DiffRun, Diff> = {
  name: 'diff',
  run: async (request) => (await import('./run.ts')).runDiff(request),
};
