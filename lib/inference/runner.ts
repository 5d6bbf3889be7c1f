/**
 * The default Runner: an ONNX model. In: a model file and the job's settings. Out: records -> outcomes.
 * Trap: whether records can share a run is not written in the file (`[1,1,M,7]` does not say), so it is measured once,
 * at warm-up.
 */
import type { Runner, TensorSpec } from '../contract/values.ts';
import type { ImageChoice } from '../pipeline/image-choice.ts';
import { infer } from '../pipeline/infer.ts';
import type { Fence } from './isolated-runner.ts';
import { openSession } from './session.ts';
import { fixedBatch, RUN_BYTES, warmUp } from './warm-up.ts';

export interface OnnxSettings {
  readonly threads: number;
  /** Most rows of one run. */
  readonly batchSize: number;
  readonly inputAlreadyBatched: boolean;
  readonly image: ImageChoice;
}

export interface OnnxRunner extends Runner {
  readonly inputs: readonly TensorSpec[];
  readonly outputs: readonly TensorSpec[];
}

/**
 * Opens the model, warms it up and learns whether records can share a run.
 * @throws model_unavailable with onnxruntime's reason
 */
export async function openOnnx(file: string, version: string, settings: OnnxSettings): Promise<OnnxRunner> {
  const session = await openSession(file, { threads: settings.threads });
  let closing: Promise<unknown> | undefined;
  let fence: Promise<Fence> | undefined;
  // On demand: hardly any environment needs it, and what starts processes takes 3 ms of a cold start to load.
  const fenced = () =>
    (fence ??= import('./isolated-runner.ts').then(
      (module) => new module.Fence({ file, version, settings }),
    ));
  const fixedRows = fixedBatch(session.inputs);
  const batch = {
    maxRows: settings.batchSize,
    maxBytes: RUN_BYTES,
    fixedRows,
    separable: await warmUp(session, fixedRows, settings.image),
    inputAlreadyBatched: settings.inputAlreadyBatched,
    image: settings.image,
  };
  return {
    version,
    inputs: session.inputs,
    outputs: session.outputs,
    run: (records, options) => infer(records, session.inputs, batch, (feeds) => session.run(feeds), options),
    fenced: async (records, limitMs) => (await fenced()).run(records, limitMs),
    async close() {
      closing ??= Promise.all([session.close(), fence?.then((opened) => opened.close())]);
      await closing;
    },
  };
}
