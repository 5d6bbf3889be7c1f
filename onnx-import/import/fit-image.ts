/** Fits the settings of pictures that a folder says to the inputs of its model. */
import { badModel, type ServingError } from '../../lib/contract/errors.ts';
import { formatShape } from '../../lib/contract/tensor.ts';
import type { TensorSpec } from '../../lib/contract/values.ts';
import { type ImageChoice, imageSettings } from '../../lib/pipeline/bind/image-choice.ts';
import { takesImages } from '../report/image-reading.ts';
import type { FolderImage } from '../vision/folder.ts';
import type { Unapplied } from '../vision/processor.ts';

/** Settings of pictures that win. */
interface Settings {
  readonly image: ImageChoice;
}

/**
 * What is stored with a model of these inputs: the folder's settings, with the layout and the channels of the model.
 * @throws bad_model naming each field that cannot be applied and that no setting of the job stands in for
 */
export function fitImage(
  directory: string,
  said: FolderImage,
  inputs: readonly TensorSpec[],
  { image: own }: Settings,
): ImageChoice {
  const proposal = { layout: said.image.layout ?? 'chw', channels: 'rgb' } as const;
  const pictures = inputs.filter((spec) => takesImages(spec, undefined) || takesImages(spec, proposal));
  const [first] = pictures;
  if (!first) {
    const found = inputs.map(({ name, dtype, shape }) => `${name}: ${dtype} ${formatShape(shape)}`);
    const advice = `no input of the model takes pictures, which are [N, 3, height, width] or [N, height, width, 3]: ${found.join(', ')}`;
    throw refusal(directory, said.source, [{ field: 'pictures', advice }]);
  }
  const image = withDepth(said, first);
  const problems = [...said.refused, ...pictures.flatMap((spec) => misfits(spec, image))];
  const open = problems.filter(({ settledBy = [] }) => !settledBy.some((key) => own[key] !== undefined));
  if (open.length > 0) throw refusal(directory, said.source, open);
  return image;
}

function withDepth({ image, depth }: FolderImage, spec: TensorSpec): ImageChoice {
  const { layout } = imageSettings(spec, image);
  const own = spec.shape[layout === 'chw' ? 1 : 3];
  const isGrey = (typeof own === 'number' ? own : depth) === 1;
  return { ...image, layout, ...(isGrey && { channels: 'grey' }) };
}

/** Where the file and the model say different sizes, so that Transformers itself would not run it. */
function misfits({ name, shape }: TensorSpec, image: ImageChoice): Unapplied[] {
  const [depth, height, width] =
    image.layout === 'hwc' ? [3, 1, 2].map((axis) => shape[axis]) : shape.slice(1);
  const found: Unapplied[] = [];
  if (typeof depth === 'number' && depth !== (image.channels === 'grey' ? 1 : 3))
    found.push({
      field: `data_format`,
      advice: `input "${name}" is ${formatShape(shape)}: put image: {layout: ${image.layout === 'chw' ? 'hwc' : 'chw'}} into the settings`,
      settledBy: ['layout'],
    });
  for (const key of ['mean', 'std'] as const)
    if (image.channels === 'grey' && (image[key]?.length ?? 1) > 1)
      found.push({
        field: `image_${key}`,
        advice: `${image[key]?.length} numbers, and pictures have one channel: put image: {${key}: ${image[key]?.[0]}} into the settings`,
        settledBy: [key],
      });
  if (typeof height !== 'number' || typeof width !== 'number') return found;
  const lines = `put image: {resize: ${height}, height: ${height}, width: ${width}}, which cuts the middle out, or image: {height: ${height}, width: ${width}}, which scales the whole picture, into the settings`;
  const settledBy = ['resize', 'height'] as const;
  const model = `the model takes ${height} x ${width}`;
  if (image.height === undefined && image.resize !== undefined)
    found.push({
      field: sizeName(image),
      advice: `pictures come in other sizes, ${model}: ${lines}`,
      settledBy,
    });
  else if (image.height !== undefined && (image.height !== height || image.width !== width))
    found.push({ field: `size ${image.height} x ${image.width}`, advice: `${model}: ${lines}`, settledBy });
  return found;
}

function sizeName({ resize }: ImageChoice): string {
  return resize === 'none' ? 'do_resize false' : `size.shortest_edge ${String(resize)}`;
}

function refusal(directory: string, source: string, problems: readonly Unapplied[]): ServingError {
  const list = problems.map(({ field, advice }) => `${field} (${advice})`).join('; ');
  return badModel(
    `${directory}: ${source} says how pictures are prepared, and this is not applied: ${list}. If the clients do it themselves, put import: {ignore: [${source}]} into the settings`,
  );
}
