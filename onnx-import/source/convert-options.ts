/** What a user says of a model beside its files. */

import type { Choice } from '../files/variants.ts';
import type { Shape } from '../graph/value.ts';

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
