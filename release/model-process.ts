/** The process in which the service tries models: it also asks their golden requests. */
import { ModelProcess, prepareModelProcess } from '../onnx-import/process.ts';

export function newModelProcess(): ModelProcess {
  return new ModelProcess(new URL('./process.ts', import.meta.url));
}

/** Starts the one of the next verification, which loads its code meanwhile. */
export function prepareModels(): void {
  prepareModelProcess(newModelProcess());
}
