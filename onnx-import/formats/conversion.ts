/** What a converter makes of a model's files: an ONNX graph, and what the source says beside it. */
import type { ImageSettings } from '../../lib/codecs/image/image.ts';
import type { ModelNames } from '../../lib/contract/values.ts';
import type { Body } from '../graph/value.ts';

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
