/**
 * A process in which the models of test files run one after another. Starting one and loading onnxruntime takes most of an
 * import, so only tests of memory, limits and cancelling let each import have its own. It ends with this process.
 */
import { ModelProcess } from '../../onnx-import/process/model-process.ts';
import type { Task } from '../../onnx-import/process/task.ts';

/** An option of imports, also of those of a service, which itself always measures: that takes a process of its own. */
export const UNMEASURED = { measure: false } as const;

/** Several services ask at the same time. */
class OneByOne extends ModelProcess {
  #last: Promise<unknown> = Promise.resolve();

  override ask<Request extends object, Answer>(
    ...[task, request, limits]: [Task<Request, Answer>, Request, Parameters<ModelProcess['ask']>[2]]
  ): Promise<Answer> {
    const asked = this.#last.then(() => super.ask(task, request, limits));
    this.#last = asked.catch(() => undefined);
    return asked;
  }
}

export const models: ModelProcess = new OneByOne(new URL('../../release/process.ts', import.meta.url));
