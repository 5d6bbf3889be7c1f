/** The task that replays captures, for the process in which models are tried. */
import type { Task } from '../../onnx-import/process.ts';
import type { ReplayRun } from './run.ts';
import type { Replay } from './tally.ts';

export const REPLAY: Task<ReplayRun, Replay> = {
  name: 'replay',
  run: async (request) => (await import('./run.ts')).runReplay(request),
};
