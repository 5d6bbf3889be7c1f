/** The sizes that pictures give to what a model leaves free, for its check. */
import type { TensorSpec } from '../../lib/contract/values.ts';
import { type ImageChoice, imageSettings, overrideImage } from '../../lib/pipeline/bind/image-choice.ts';
import { readModel } from '../batching/model.ts';
import type { GivenShapes } from '../check/given-sizes.ts';
import { layoutOf, takesImages } from '../image-reading.ts';

/** @param fit what is stored of pictures with a model of these inputs. @throws bad_model as `fit` */
export function sizesOfPictures(
  file: string,
  fit: (inputs: readonly TensorSpec[]) => ImageChoice,
  own: ImageChoice,
): NonNullable<GivenShapes> {
  // The type counts once the model is open.
  const inputs = readModel(file).graph.inputs.map(
    ({ name, shape = [] }): TensorSpec => ({ name, dtype: 'float32', shape }),
  );
  const image = overrideImage(fit(inputs), own);
  const pictures = inputs.filter((spec) => takesImages(spec, layoutOf(image)));
  return Object.fromEntries(pictures.map((spec) => [spec.name, shapeOf(spec, image)]));
}

function shapeOf(spec: TensorSpec, image: ImageChoice): (number | string)[] {
  const { layout, channels, height, width } = imageSettings(spec, image);
  const depth = channels === 'grey' ? 1 : 3;
  const sizes = layout === 'chw' ? [depth, height, width] : [height, width, depth];
  return spec.shape.map((size, axis) =>
    typeof size === 'number' ? size : (sizes[axis - 1] ?? (size || `size${axis}`)),
  );
}
