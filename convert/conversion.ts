/**
 * What a format's converter takes and gives. In: a model's files and the person's choices. Out: an ONNX graph.
 */
import type { Body, Shape } from './graph/value.ts';

export interface ConvertOptions {
  /** Shapes (or new cut points) by input name; a text is a free dimension. */
  readonly inputShapes?: Readonly<Record<string, Shape>>;
  /** Inputs to convert from, where the file leaves it open or the person cuts preprocessing off. Default: the file's. */
  readonly inputNames?: readonly string[];
  /** Outputs to keep. Default: the file's. */
  readonly outputNames?: readonly string[];
  /** Inputs to replace by one number (`keep_prob: 1`). */
  readonly constants?: Readonly<Record<string, number>>;
  /** SavedModel: the signature. Default `serving_default`. */
  readonly signature?: string;
  /** SavedModel: the tags of the meta graph. Default `serve`. */
  readonly tags?: readonly string[];
}

/** How pictures are fed to the model, where the source format says it. */
export interface ImageProposal {
  readonly layout: 'chw' | 'hwc';
  readonly channels: 'bgr' | 'rgb' | 'grey';
}

export interface Conversion {
  readonly graph: Body;
  /** The source files that were read, relative to the directory. */
  readonly files: readonly string[];
  /** What the person should know: an input that was replaced, an output that was renamed. */
  readonly notes: readonly string[];
  readonly image?: ImageProposal;
}
