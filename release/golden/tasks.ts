/** The tasks that golden requests give to the process in which models are tried. */
import { LOADED, PREPARE, type Task } from '../../onnx-import/process.ts';
import type { GoldenAnswer, GoldenRun } from './run.ts';

export const GOLDEN: Task<GoldenRun, GoldenAnswer> = {
  name: 'golden',
  run: async (request) => (await import('./run.ts')).runGolden(request),
};

/** Loads what every new version is asked. */
export const PREPARE_ALL: Task<object, object> = {
  name: PREPARE.name,
  run: (nothing) => Promise.all([LOADED.run(nothing), import('./run.ts')]).then(() => ({})),
};
