/**
 * The child's side: a request over the channel, an answer, the next request. onnxruntime blocks its thread, so a model
 * with an endless loop freezes its process, and a broken one may end it.
 */
import { endWithParent } from '../../lib/inference/end-with-parent.ts';
import { answerOf, type Task, type TaskRequest } from './task.ts';

/** Makes this process one that does these tasks. Of two tasks with one name, the last one counts. */
export function serveTasks(tasks: readonly Task<never, unknown>[]): void {
  const byName = new Map(tasks.map(({ name, run }) => [name, run]));
  endWithParent();
  // Ctrl-C reaches all processes of a terminal; the parent decides what it means and ends this one.
  process.on('SIGINT', () => undefined);
  const unknown = async () => {
    throw new Error('the process that tries models does not know this task');
  };
  process.on('message', (message) => {
    const request = message as TaskRequest;
    void answerOf(byName.get(request.name) ?? unknown, request).then((answer) => process.send?.(answer));
  });
  process.on('disconnect', () => process.exit());
}
