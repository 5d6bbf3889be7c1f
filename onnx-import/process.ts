/**
 * The process in which models are tried, because onnxruntime blocks its thread and may end its process. A caller may add
 * tasks of its own. An entry apart from index.ts: a program that starts soon starts this first, and it loads nothing else.
 */
export {
  inModelProcess,
  ModelProcess,
  PREPARE,
  prepareModelProcess,
  withModelProcess,
} from './process/model-process.ts';
export { serveTasks } from './process/serve-tasks.ts';
export type { Task } from './process/task.ts';
export { LOADED, TASKS } from './verify/tasks.ts';
