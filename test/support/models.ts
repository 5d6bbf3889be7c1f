/**
 * A process in which the models of test files run one after another. Starting one and loading onnxruntime takes most of an
 * import, so only tests of memory, limits and cancelling let each import have its own. It ends with this process.
 */
import { ModelProcess } from '../../onnx-import/check/model-process.ts';
import type { AnswerOf, RequestOf, Work } from '../../onnx-import/check/process.ts';

/** An option of imports, also of those of a service, which itself always measures: that takes a process of its own. */
export const UNMEASURED = { measure: false } as const;

/** Several services ask at the same time. */
class OneByOne extends ModelProcess {
  #last: Promise<unknown> = Promise.resolve();

  override ask<Kind extends Work>(
    ...[work, request, limits]: [Kind, RequestOf<Kind>, Parameters<ModelProcess['ask']>[2]]
  ): Promise<AnswerOf<Kind>> {
    const asked = this.#last.then(() => super.ask(work, request, limits));
    this.#last = asked.catch(() => undefined);
    return asked;
  }
}

export const models: ModelProcess = new OneByOne();
