/** The input and output types of the converters: a model's files and the user's options become an ONNX graph. */

import type { ImageSettings } from '../lib/codecs/image/image.ts';
import type { ModelNames } from '../lib/contract/values.ts';
import type { Body, Shape } from './graph/value.ts';
import type { Choice } from './layout/variants.ts';

export interface ConvertOptions extends Choice {
  /** Shapes by input name, which may also be tensors to cut the graph at. A text is a free dimension. */
  readonly inputShapes?: Readonly<Record<string, Shape>>;
  /** PyTorch and BigDL: shapes by position, for inputs that `inputShapes` leaves out. */
  readonly shapesInOrder?: readonly Shape[];
  /** Inputs to convert from, if the file does not name them or preprocessing is cut off. Default: the file's. */
  readonly inputNames?: readonly string[];
  /** Outputs to keep. Default: the file's. */
  readonly outputNames?: readonly string[];
  /** Inputs to replace by one number (`keep_prob: 1`). */
  readonly constants?: Readonly<Record<string, number>>;
  /** SavedModel: the signature. Default `serving_default`. */
  readonly signature?: string;
  /** SavedModel: the tags of the meta graph. Default `serve`. */
  readonly tags?: readonly string[];
  /** XGBoost: the number that stands for a missing value, beside NaN. Its files do not say it. */
  readonly missing?: number;
}

/** How images are fed to the model, if the source format defines it. */
export interface ImageProposal {
  readonly layout: 'chw' | 'hwc';
  readonly channels: 'bgr' | 'rgb' | 'grey';
  /** What the source says of the numbers, by input. */
  readonly numbers?: Readonly<Record<string, ImageNumbers>>;
}

export type ImageNumbers = Pick<ImageSettings, 'scale' | 'mean'>;

export interface Conversion {
  readonly graph: Body;
  /** The source files that were read, relative to the model's directory. */
  readonly files: readonly string[];
  /** Notes for the user, such as a replaced input or a renamed output. */
  readonly notes: readonly string[];
  readonly image?: ImageProposal;
  /**
   * Present when the batch of the file was freed: the model with the batch as it is in the file, which the import takes
   * unless the rows of the freed one are proven to be independent of each other.
   */
  readonly otherwise?: () => Conversion;
  /** The names of columns and classes, where the source has them. */
  readonly names?: ModelNames;
}
