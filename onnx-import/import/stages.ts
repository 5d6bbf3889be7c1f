/** The stages of an import. Each holds all that is known by then, and is made of the one before it. */
import type { ModelNames, TensorSpec } from '../../lib/contract/values.ts';
import type { BatchAxes, Verification } from '../../lib/contract/verification.ts';
import type { ImageChoice } from '../../lib/pipeline/bind/image-choice.ts';
import type { ProofOptions } from '../batching/verdict.ts';
import type { CheckOptions } from '../check/check.ts';
import type { CheckReport } from '../check/run.ts';
import type { ImageProposal } from '../formats/conversion.ts';
import type { Convert } from '../formats/convert.ts';
import type { OnnxFacts } from '../onnx/facts.ts';
import type { ModelProcess } from '../process/model-process.ts';
import type { ImportReport } from '../report/import-report.ts';
import type { GivenShapes } from '../samples/given-sizes.ts';
import type { ConvertOptions } from '../source/convert-options.ts';
import type { FoundModel } from '../source/detect.ts';
import type { ImportedText } from '../text/import.ts';
import type { RewritesReport } from '../verify/rewrites.ts';

export const MODEL_FILE = 'model.onnx';

/** As progress shows them. */
export const STAGES = {
  reading: '1 of 5  reading the files',
  converting: '2 of 5  converting',
  writing: '3 of 5  writing',
  checking: '4 of 5  running the model',
  verifying: '5 of 5  verifying its answers',
} as const;

export type Stage = keyof typeof STAGES;

/** Where an import works, and what it was asked for. */
export interface Workshop extends CheckOptions {
  /** What is made lies here until the import is done. */
  readonly folder: string;
  readonly process: ModelProcess;
  /** Two files, joined into one in `folder`. */
  readonly joined?: JoinedSource | undefined;
  /** `performance.now()` of its start. */
  readonly startMs: number;
  readonly version: string;
  readonly convert?: ConvertOptions | undefined;
  /** How the files beside the model say that its pictures are prepared. */
  readonly pictures?: Pictures | undefined;
  /** Names of files whose advice is not followed. */
  readonly ignore?: readonly string[] | undefined;
  readonly converter?: Convert | undefined;
  readonly proof?: ProofOptions | undefined;
  readonly onStage?: ((stage: Stage, done?: number, total?: number) => void) | undefined;
}

export interface JoinedSource {
  readonly path: string;
  readonly notes: readonly string[];
}

export interface Pictures {
  /** The file that says it. */
  readonly source: string;
  /** @returns the settings for a model of these inputs. @throws bad_model for fields that cannot be applied */
  readonly fit: (inputs: readonly TensorSpec[]) => ImageChoice;
}

/** The names of inputs and outputs of unknown rank. */
export interface Shapeless {
  readonly inputs: readonly string[];
  readonly outputs: readonly string[];
}

export type Found = FoundModel;

/** The model is an ONNX file, which has not been run yet. */
export interface Converted {
  readonly found: Found;
  readonly facts: Pick<OnnxFacts, 'opset' | 'irVersion' | 'externalFiles'>;
  readonly shapeless: Shapeless;
  /** The files that were read, relative to the model's directory. */
  readonly sources: readonly string[];
  readonly notes: readonly string[];
  readonly image: ImageProposal | undefined;
  /** Whether the conversion freed a number of rows that the source fixes. */
  readonly isFreed: boolean;
  /** What the source itself calls columns and classes. */
  readonly names: ModelNames;
}

/** It loads, and answers as its reference does. */
export interface Checked extends Converted {
  readonly report: CheckReport;
  /** Which rewrites of onnxruntime were off in the check, and stay off. */
  readonly rewrites: RewritesReport;
  /** The batch axes without which no record reaches the model, as they are proposed. */
  readonly proposed: BatchAxes;
  /** Of a model of texts. */
  readonly text?: ImportedText | undefined;
}

/** Whether records may share a run is decided. */
export interface Verified extends Checked {
  readonly verification: Verification;
}

/** Its folder is complete but for the report. */
export interface Reported {
  readonly found: Found;
  /** Holds the model, its weights and names; not yet the output. */
  readonly folder: string;
  /** The sizes with which it was checked. */
  readonly sizes: GivenShapes;
  readonly importReport: ImportReport;
}
