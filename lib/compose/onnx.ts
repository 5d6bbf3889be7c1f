/**
 * The default run stage: binding (lib/pipeline/infer.ts) in front of an ONNX model, in this process, or in an
 * isolated one for records that may end it.
 */
import type { Runner, TensorSpec } from '../contract/values.ts';
import type { IsolatedRunner } from '../inference/isolated-runner.ts';
import { type OnnxSettings, openTensorRunner } from '../inference/runner.ts';
import { RUN_BYTES } from '../inference/warm-up.ts';
import { batchAxisOf } from '../pipeline/batch-axes.ts';
import { infer } from '../pipeline/infer.ts';

export interface OnnxRunner extends Runner {
  readonly inputs: readonly TensorSpec[];
  readonly outputs: readonly TensorSpec[];
}

/** @throws model_unavailable with onnxruntime's reason */
export async function openOnnx(file: string, version: string, settings: OnnxSettings): Promise<OnnxRunner> {
  const model = await openTensorRunner(file, settings);
  let closing: Promise<unknown> | undefined;
  let isolated: Promise<IsolatedRunner> | undefined;
  // Loaded on demand: few environments need it, and loading child_process takes 3 ms of a cold start.
  const isolatedRunner = () =>
    (isolated ??= import('../inference/isolated-runner.ts').then(
      (module) => new module.IsolatedRunner({ file, version, settings }),
    ));
  const batch = {
    maxRows: settings.batchSize,
    maxBytes: RUN_BYTES,
    fixedRows: model.fixedRows,
    separable: model.separable,
    inputAxes: model.inputs.map(batchAxisOf),
    outputAxes: model.outputs.map(batchAxisOf),
    inputAlreadyBatched: settings.inputAlreadyBatched,
    image: settings.image,
  };
  return {
    version,
    inputs: model.inputs,
    outputs: model.outputs,
    run: (records, policy) => infer(records, model.inputs, batch, (feeds) => model.run(feeds), policy),
    runIsolated: async (records, limitMs) => (await isolatedRunner()).run(records, limitMs),
    async close() {
      closing ??= Promise.all([model.close(), isolated?.then((opened) => opened.close())]);
      await closing;
    },
  };
}
