/** How the files beside a model say that its pictures are prepared, and whether the model fits that. */
import { basename, dirname } from 'node:path';
import type { IgnoredFile } from '../../lib/config/import-values.ts';
import type { JobConfig } from '../../lib/config/job.ts';
import { badModel, type ServingError } from '../../lib/contract/errors.ts';
import { formatShape } from '../../lib/contract/tensor.ts';
import type { TensorSpec } from '../../lib/contract/values.ts';
import { type ImageChoice, imageSettings } from '../../lib/pipeline/bind/image-choice.ts';
import { IMAGE_FILE } from '../../lib/registry/image-file.ts';
import { textOf } from '../../lib/registry/names.ts';
import { takesImages } from '../image-reading.ts';
import { type Fields, fieldsOf } from './fields.ts';
import { readProcessor, type SaidImage, type Unapplied } from './processor.ts';
import { readTimm } from './timm.ts';

export interface FolderImage extends SaidImage {
  readonly source: IgnoredFile;
  /** Of config.json: a model that leaves the number of channels open has this one. */
  readonly depth: number | undefined;
}

type Settings = Pick<JobConfig, 'image' | 'import'>;
type Reader = (fields: Fields) => SaidImage | undefined;

/** The first that speaks of pictures counts. */
const READERS: readonly (readonly [IgnoredFile, Reader])[] = [
  ['preprocessor_config.json', processorOrTimm],
  // Newer folders keep the fields of each processor apart.
  ['processor_config.json', (fields) => ofNested(fields['image_processor'])],
  ['config.json', (fields) => nested(fields['pretrained_cfg'], readTimm)],
];

function processorOrTimm(fields: Fields): SaidImage | undefined {
  if (fields['sampling_rate'] !== undefined || fields['feature_size'] !== undefined) return undefined;
  return nested(fields['data_config'], readTimm) ?? readProcessor(fields);
}

function nested(value: unknown, read: Reader): SaidImage | undefined {
  const fields = fieldsOf(value);
  return fields && read(fields);
}

const ofNested = (value: unknown) => nested(value, processorOrTimm);

/**
 * Undefined where no file speaks of pictures, or `import.ignore` names the one that does.
 * @param directory a folder `onnx/` belongs to the one above it. @throws bad_model for a file that is no JSON
 */
export async function folderImage(
  directory: string,
  { ignore = [] }: JobConfig['import'] = {},
): Promise<FolderImage | undefined> {
  const config = await fieldsIn(directory, 'config.json');
  const depth = typeof config?.['num_channels'] === 'number' ? config['num_channels'] : undefined;
  for (const [source, read] of READERS) {
    const fields = await fieldsIn(directory, source);
    const said = fields && read(fields);
    if (said) return ignore.includes(source) ? undefined : { source, depth, ...said };
  }
  return undefined;
}

/** Whether only an import can store how pictures are prepared. What is wrong with the files is reported by the import. */
export async function hasImageToStore(directory: string, names: readonly string[]): Promise<boolean> {
  if (names.includes(IMAGE_FILE)) return false;
  return folderImage(directory).then(
    (said) => said !== undefined,
    () => true,
  );
}

export async function fieldsIn(directory: string, name: string): Promise<Fields | undefined> {
  const folders = basename(directory) === 'onnx' ? [directory, dirname(directory)] : [directory];
  for (const folder of folders) {
    const text = await textOf(folder, name);
    if (text === undefined) continue;
    try {
      return fieldsOf(JSON.parse(text));
    } catch (error) {
      throw badModel(`${folder}/${name}: expected JSON: ${(error as Error).message}`, { cause: error });
    }
  }
  return undefined;
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
      advice: `input "${name}" is ${formatShape(shape)}: put image: {layout: ${image.layout === 'chw' ? 'hwc' : 'chw'}} into config.yaml`,
      settledBy: ['layout'],
    });
  for (const key of ['mean', 'std'] as const)
    if (image.channels === 'grey' && (image[key]?.length ?? 1) > 1)
      found.push({
        field: `image_${key}`,
        advice: `${image[key]?.length} numbers, and pictures have one channel: put image: {${key}: ${image[key]?.[0]}} into config.yaml`,
        settledBy: [key],
      });
  if (typeof height !== 'number' || typeof width !== 'number') return found;
  const lines = `put image: {resize: ${height}, height: ${height}, width: ${width}}, which cuts the middle out, or image: {height: ${height}, width: ${width}}, which scales the whole picture, into config.yaml`;
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
    `${directory}: ${source} says how pictures are prepared, and the service does not apply ${list}. If the clients do it themselves, put import: {ignore: [${source}]} into config.yaml`,
  );
}
