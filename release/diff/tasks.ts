/** The tasks that compare two versions, for the process in which models are tried. */
import type { Task } from '../../onnx-import/process.ts';
import type { DiffRun, RanDiff, Side } from './run.ts';

export const DIFF: Task<DiffRun, RanDiff> = {
  name: 'diff',
  run: async (request) => (await import('./run.ts')).runDiff(request),
};

export const GROWTH: Task<Pick<Side, 'file'>, number> = {
  name: 'growth',
  run: async ({ file }) => (await import('./memory.ts')).growthOf(file),
};
