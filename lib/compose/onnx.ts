/**
 * The default run stage: binding (lib/pipeline/infer.ts) in front of an ONNX model, in this process, or in an
 * isolated one for records that may end it.
 */
import { dirname } from 'node:path';
import type {
  ModelNames,
  NamedTensor,
  Outcome,
  Runner,
  TensorRunner,
  TensorSpec,
} from '../contract/values.ts';
import type { Runtime } from '../contract/verification.ts';
import type { IsolatedRunner } from '../inference/isolated-runner.ts';
import { type OnnxSettings, openTensorRunner } from '../inference/runner.ts';
import { RUNTIME, startOnnx } from '../inference/session.ts';
import { RUN_BYTES } from '../inference/warm-up.ts';
import { batchAxisOf, mayHaveClasses } from '../pipeline/batch/batch-axes.ts';
import { RunSize } from '../pipeline/batch/run-size.ts';
import { type Block, inferBlock } from '../pipeline/bind/block.ts';
import { type ImageChoice, overrideImage } from '../pipeline/bind/image-choice.ts';
import { infer } from '../pipeline/infer.ts';
import { readImageFile } from '../registry/image-file.ts';
import { assertNames, hasTexts, readNames } from '../registry/names.ts';
import { CLOCK } from './clock.ts';

export { RUNTIME, startOnnx };

export interface OnnxRunner extends Runner {
  readonly inputs: readonly TensorSpec[];
  readonly outputs: readonly TensorSpec[];
  readonly hasKnownRows: boolean;
  /** True if records may share a run. */
  readonly separable: boolean;
  readonly names: ModelNames;
  /** The job's settings of pictures, over those that are stored with the model. */
  readonly image: ImageChoice;
  /** Records that arrived as one block. @returns undefined when `run` should run them */
  readonly runBlock?: (block: Block) => Promise<Block | undefined>;
}

/** Texts that are sorted by length together, over the runs of many records. */
const SORTED_TEXTS = 256;

/** Returns the labels of the outputs that have classes, by name. */
export function classLabels(
  { labels }: ModelNames,
  outputs: readonly TensorSpec[],
): ReadonlyMap<string, readonly string[]> {
  const classes = new Set(outputs.filter(mayHaveClasses).map(({ name }) => name));
  return new Map(Object.entries(labels).filter(([name]) => classes.has(name)));
}

/** The outcomes, each output with the labels of its classes. */
export function labelled(outcomes: Outcome[], labels: ReturnType<typeof classLabels>): Outcome[] {
  if (labels.size === 0) return outcomes;
  const withLabels = (output: NamedTensor): NamedTensor => {
    const own = labels.get(output.name);
    // The file may leave open how many classes there are.
    return own && output.shape.at(-1) === own.length ? { ...output, labels: own } : output;
  };
  return outcomes.map((outcome) =>
    outcome.ok ? { ...outcome, outputs: outcome.outputs.map(withLabels) } : outcome,
  );
}

export function runtimeName({ onnxruntime }: Runtime): string {
  return `onnxruntime ${onnxruntime}`;
}

/** True if a verification, or the job's owner, states how rows relate. */
export function hasKnownRows({ verification, batching = 'proven' }: OnnxSettings): boolean {
  return verification !== undefined || batching !== 'proven';
}

/** The names beside the model's file. @throws model_unavailable, after closing the model, when they do not fit it */
async function namesOf(file: string, model: TensorRunner): Promise<ModelNames> {
  try {
    const names = await readNames(dirname(file), model.outputs);
    assertNames(names, model);
    return names;
  } catch (error) {
    await model.close();
    throw error;
  }
}

/** The model as one of texts, where an import put a tokenizer beside it. @throws bad_model, after closing the model */
async function openTexts(file: string, model: TensorRunner, settings: OnnxSettings): Promise<TensorRunner> {
  const folder = dirname(file);
  if (!(await hasTexts(folder))) return model;
  try {
    // Loaded on demand: other models do not wait for it.
    const [{ readTextModel }, { textRunner }] = await Promise.all([
      import('../text/files.ts'),
      import('../text/runner.ts'),
    ]);
    const mayPad = settings.verification?.batching.padding === 'agrees';
    return textRunner(model, await readTextModel(folder), { maxRows: settings.batchSize, mayPad });
  } catch (error) {
    await model.close();
    throw error;
  }
}

/** @throws model_unavailable with onnxruntime's reason */
export async function openOnnx(file: string, version: string, given: OnnxSettings): Promise<OnnxRunner> {
  const image = overrideImage(await readImageFile(dirname(file)), given.image);
  const settings = { ...given, image };
  const model = await openTexts(file, await openTensorRunner(file, settings), settings);
  const names = await namesOf(file, model);
  const labels = classLabels(names, model.outputs);
  let closing: Promise<unknown> | undefined;
  let isolated: Promise<IsolatedRunner> | undefined;
  // Loaded on demand: few environments need it, and loading child_process takes 3 ms of a cold start.
  const isolatedRunner = () =>
    (isolated ??= import('../inference/isolated-runner.ts').then(
      (module) => new module.IsolatedRunner({ file, version, settings }),
    ));
  const batch = {
    // Texts of many lengths are sorted before they are cut into runs.
    maxRows: model.inputs[0]?.isText ? Math.max(settings.batchSize, SORTED_TEXTS) : settings.batchSize,
    maxBytes: RUN_BYTES,
    // Texts are cut into runs by their runner.
    runSize:
      model.inputs[0]?.isText || settings.hasSteadyRuns
        ? undefined
        : new RunSize(settings.batchSize, CLOCK.now),
    fixedRows: model.fixedRows,
    separable: model.separable,
    inputAxes: model.inputs.map(batchAxisOf),
    outputAxes: model.outputs.map(batchAxisOf),
    inputAlreadyBatched: settings.inputAlreadyBatched,
    image,
    names,
  };
  return {
    version,
    runtime: runtimeName(RUNTIME),
    names,
    image,
    inputs: model.inputs,
    outputs: model.outputs,
    separable: model.separable,
    hasKnownRows: hasKnownRows(settings),
    run: async (records, policy) =>
      labelled(
        await infer(records, model.inputs, batch, (feeds, isOver) => model.run(feeds, isOver), policy),
        labels,
      ),
    runBlock: (block) => inferBlock(block, model, batch, (feeds) => model.run(feeds)),
    runIsolated: async (records, limitMs) =>
      labelled(await (await isolatedRunner()).run(records, limitMs), labels),
    async close() {
      closing ??= Promise.all([model.close(), isolated?.then((opened) => opened.close())]);
      await closing;
    },
  };
}
