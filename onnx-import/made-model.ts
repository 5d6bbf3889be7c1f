/** A model as an import makes it: an ONNX file that was checked by running it, with what is known of its source. */
import { dirname, join } from 'node:path';
import type { JobConfig } from '../lib/config/job.ts';
import { badModel } from '../lib/contract/errors.ts';
import type { ModelNames } from '../lib/contract/values.ts';
import type { BatchAxes } from '../lib/contract/verification.ts';
import { proposedAxes } from './axis-proposal.ts';
import { readModel } from './batching/model.ts';
import { type ProofOptions, prove } from './batching/verdict.ts';
import { type CheckOptions, checkOnnx } from './check/check.ts';
import { inModelProcess } from './check/model-process.ts';
import type { CheckReport } from './check/run.ts';
import type { ImageProposal } from './conversion.ts';
import type { FoundModel } from './detect.ts';
import { referenceProblem } from './import-report.ts';
import { notRunNotes, shapelessNotes } from './notes.ts';
import { type OnnxFacts, readOnnxFacts } from './onnx/facts.ts';
import { rewriteOnnx } from './onnx/rewrite/rewrite.ts';
import { writeParts } from './onnx/write.ts';
import { copySource } from './sources.ts';
import { type ImportedText, importText } from './text/import.ts';
import type { RewritesReport } from './verify/rewrites.ts';
import { findRewrites } from './verify/verify.ts';

export const MODEL_FILE = 'model.onnx';

interface MakeOptions extends CheckOptions {
  readonly proof?: ProofOptions | undefined;
  readonly job?: Pick<JobConfig, 'import'> | undefined;
  readonly onStage?: ((stage: 'checking') => void) | undefined;
}

export type FileSays = Pick<OnnxFacts, 'opset' | 'irVersion' | 'externalFiles'>;

/** The names of inputs and outputs of unknown rank. */
export interface Shapeless {
  readonly inputs: readonly string[];
  readonly outputs: readonly string[];
}

export interface MadeModel {
  readonly facts: FileSays;
  readonly report: CheckReport;
  /** Which rewrites of onnxruntime were off in the check, and stay off. */
  readonly rewrites: RewritesReport;
  /** The batch axes without which no record reaches the model, as they are proposed. */
  readonly proposed: BatchAxes;
  readonly shapeless: Shapeless;
  readonly sources: readonly string[];
  readonly notes: readonly string[];
  readonly image: ImageProposal | undefined;
  /** Whether the conversion freed a number of rows that the source fixes. */
  readonly isFreed: boolean;
  /** What the source itself calls columns and classes. */
  readonly names: ModelNames;
  /** Of a model of texts. */
  readonly text?: ImportedText | undefined;
}

/** For comparing the nodes of a large forest. */
const NODES_MS = 300_000;

/** Copies an ONNX model with its external weights; unchanged, but for what no function can serve. */
export async function passThrough(
  found: FoundModel,
  folder: string,
  options: MakeOptions,
): Promise<MadeModel> {
  const [file] = found.files as readonly [string];
  const source = join(found.directory, file);
  const { externalFiles, shapelessInputs, shapelessOutputs } = await readOnnxFacts(source);
  const rewritten = await rewriteOnnx(source);
  for (const path of externalFiles) await copySource(found, join(dirname(file), path), join(folder, path));
  if (rewritten.model) await writeParts(join(folder, MODEL_FILE), rewritten.model.parts);
  else await copySource(found, file, join(folder, MODEL_FILE));
  const facts = await readOnnxFacts(join(folder, MODEL_FILE));
  // The nodes of the source as they are answered now: check compares those of the new file, in which most have no transform.
  const { signal, process } = options;
  const request = { file: source, isMended: true };
  const open = rewritten.model
    ? await inModelProcess('nodes', request, { ms: NODES_MS, signal }, process)
    : [];
  const checked = await check(folder, shapelessInputs, options);
  const { report, rewrites } = checked;
  const isText = found.kind === 'hugging_face';
  const text = isText
    ? await importText(found.directory, folder, report, options.job?.import.ignore ?? [])
    : undefined;
  return {
    text,
    facts,
    ...checked,
    shapeless: { inputs: shapelessInputs, outputs: shapelessOutputs },
    sources: isText ? found.files : [file, ...externalFiles],
    names: { columns: {}, labels: rewritten.labels },
    notes: [
      ...(text?.notes ?? []),
      ...rewritten.notes,
      ...new Set([...open, ...rewrites.open]),
      ...notRunNotes(report, 'give the free sizes with --input name:shape'),
      ...shapelessNotes(shapelessInputs, 'export the model with its shape, so that it has one'),
    ],
    image: undefined,
    isFreed: false,
  };
}

/** Finds the rewrites that have to be off first, because all else is to be found out without them. @throws bad_model */
export async function check(
  folder: string,
  shapeless: readonly string[],
  options: MakeOptions,
): Promise<Pick<MadeModel, 'report' | 'rewrites' | 'proposed'>> {
  options.onStage?.('checking');
  const { sizes, signal, process } = options;
  const file = join(folder, MODEL_FILE);
  const inputs = readModel(file).graph.inputs.map(({ name, shape = [] }) => ({ name, shape }));
  const proposed = proposedAxes(inputs, shapeless);
  const batchAxes = { ...proposed, ...options.proof?.batchAxes };
  const sharesRuns = prove(file, { ...options.proof, batchAxes }).verdict.verdict === 'proven';
  const rewrites = await findRewrites(file, { batchAxes, sizes, signal, process });
  const report = await checkOnnx(file, {
    ...options,
    shapeless,
    sharesRuns,
    optimization: rewrites.runtime,
  });
  const problem = referenceProblem(report);
  if (problem) throw badModel(problem);
  return { report, rewrites, proposed };
}
