/**
 * Refuses a model whose folder says how its inputs are made in a way that the service does not follow: its answers would look
 * right and be wrong. Only a field with an effect on the answer is refused. `import.ignore` names files whose advice the
 * clients follow themselves.
 */
import { basename, dirname, join } from 'node:path';
import type { IgnoredFile } from '../lib/config/import-values.ts';
import type { JobConfig } from '../lib/config/job.ts';
import { asError, badModel } from '../lib/contract/errors.ts';
import { textOf } from '../lib/registry/names.ts';
import { type Found, isOnnx, takesPicturesOfAnySize } from '../onnx-import/index.ts';

type Fields = Readonly<Record<string, unknown>>;

interface Settings extends Pick<JobConfig, 'image' | 'import'> {}

interface Unapplied {
  /** The field, with what it asks for. */
  readonly field: string;
  readonly advice: string;
}

/** The way in which the service reads a picture. */
interface Given {
  readonly image: JobConfig['image'];
  /** True if a picture keeps its own size. */
  readonly keepsSize: boolean;
}

type Reader = (fields: Fields, given: Given) => readonly Unapplied[];

/** Steps that have no effect here, because the service always takes them or they are for training. */
const HARMLESS: ReadonlySet<string> = new Set(['do_convert_rgb', 'do_reduce_labels']);
/** Steps with a reader of their own. */
const READ: ReadonlySet<string> = new Set([
  'do_resize',
  'do_center_crop',
  'do_rescale',
  'do_normalize',
  'do_flip_channel_order',
]);
const BILINEAR = 2;
const CUT = 'the service scales the whole picture: cut pictures before they are sent';
/** The relative difference of a number that went through JSON, or through a text that somebody shortened. */
const NEARNESS = 1e-4;

const READERS: Readonly<Record<IgnoredFile, Reader>> = {
  'preprocessor_config.json': processor,
  // Newer folders keep the fields of each processor apart.
  'processor_config.json': (fields, given) =>
    ['image_processor', 'feature_extractor'].flatMap((name) => {
      const own = fieldsOf(fields[name]);
      return own ? processor(own, given) : [];
    }),
  'config.json': timm,
  'config_sentence_transformers.json': sentences,
};

/**
 * @param directory the folder of the model; a folder `onnx/` belongs to the one above it
 * @param file the model, if it is ONNX
 * @returns notes about ignored files, for the user
 * @throws bad_model naming each file and field, with what to do
 */
export async function assertApplied(
  directory: string,
  { image, import: { ignore = [] } }: Settings,
  file?: string,
): Promise<readonly string[]> {
  const given = {
    image,
    keepsSize: image.height === undefined && file !== undefined && takesPicturesOfAnySize(file),
  };
  const notes: string[] = [];
  const refused: string[] = [];
  for (const [name, read] of Object.entries(READERS) as [IgnoredFile, Reader][]) {
    const fields = await fieldsIn(directory, name);
    const found = fields ? read(fields, given) : [];
    if (found.length === 0) continue;
    const list = found.map(({ field, advice }) => `${field} (${advice})`).join('; ');
    if (ignore.includes(name)) notes.push(`${name} is ignored, as import.ignore says: ${list}`);
    else refused.push(`${name} says how inputs are made, and the service does not apply ${list}`);
  }
  if (refused.length === 0) return notes;
  const names = refused.map((line) => line.split(' ', 1)[0]).join(', ');
  throw badModel(
    `${directory}: ${refused.join('; ')}. If the clients do it themselves, put import: {ignore: [${names}]} into config.yaml`,
  );
}

/** `assertApplied` for a model that was found. */
export async function assertInputsMade(
  { kind, home, directory, files }: Found,
  job: JobConfig,
): Promise<readonly string[]> {
  const file = files.find((name) => name.endsWith('.onnx'));
  const isRead = isOnnx(kind) && file !== undefined;
  return assertApplied(home, job, isRead ? join(directory, file) : undefined);
}

async function fieldsIn(directory: string, name: string): Promise<Fields | undefined> {
  const folders = basename(directory) === 'onnx' ? [directory, dirname(directory)] : [directory];
  for (const folder of folders) {
    const text = await textOf(folder, name);
    if (text === undefined) continue;
    try {
      return fieldsOf(JSON.parse(text));
    } catch (error) {
      throw badModel(`${folder}/${name}: expected JSON: ${asError(error).message}`, { cause: error });
    }
  }
  return undefined;
}

function fieldsOf(value: unknown): Fields | undefined {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Fields) : undefined;
}

function processor(fields: Fields, given: Given): readonly Unapplied[] {
  if (fields['feature_extractor_type'] !== undefined && isAudio(fields)) return audio(fields);
  const other = Object.keys(fields)
    .filter((key) => /^(do|apply)_/.test(key) && fields[key] === true && !HARMLESS.has(key) && !READ.has(key))
    .map((field) => ({ field, advice: 'not available here' }));
  return [...numbers(fields, given), ...sizes(fields, given), ...other];
}

function isAudio(fields: Fields): boolean {
  return fields['sampling_rate'] !== undefined || fields['feature_size'] !== undefined;
}

/** The service takes no audio: clients send features, of which only the scaling is easily forgotten. */
function audio(fields: Fields): readonly Unapplied[] {
  if (fields['do_normalize'] !== true) return [];
  return [
    { field: 'do_normalize', advice: 'the service takes no audio: scale each record before it is sent' },
  ];
}

/** value = pixel × factor + offset, for each channel. */
interface Scaling {
  readonly factor: readonly number[];
  readonly offset: readonly number[];
}

function scalingOf(scale: number, mean: readonly number[], std: readonly number[]): Scaling {
  const at = (list: readonly number[], i: number, missing: number) => list[i] ?? list[0] ?? missing;
  const channels = [0, 1, 2];
  return {
    factor: channels.map((i) => scale / at(std, i, 1)),
    offset: channels.map((i) => -at(mean, i, 0) / at(std, i, 1)),
  };
}

function isNear(one: Scaling, other: Scaling): boolean {
  const near = (a: readonly number[], b: readonly number[]) =>
    a.every((value, i) => Math.abs(value - (b[i] ?? 0)) <= NEARNESS * Math.max(Math.abs(value), 1 / 255));
  return near(one.factor, other.factor) && near(one.offset, other.offset);
}

function numbers(fields: Fields, { image }: Given): readonly Unapplied[] {
  const normalizes = fields['do_normalize'] === true;
  // Before do_rescale existed, do_normalize divided by 255 as well.
  const rescales = fields['do_rescale'] === true || (fields['do_rescale'] === undefined && normalizes);
  const scale = rescales ? finiteOf(fields['rescale_factor'], 1 / 255) : 1;
  const mean = normalizes ? numbersOf(fields['image_mean']) : [0];
  const std = normalizes ? numbersOf(fields['image_std']) : [1];
  const isImages = rescales || normalizes || fields['size'] !== undefined;
  if (!isImages) return [];
  const order = fields['do_flip_channel_order'] === true ? 'bgr' : 'rgb';
  const said = `channels: ${order}, scale: ${scale}, mean: ${JSON.stringify(mean)}, std: ${JSON.stringify(std)}`;
  const advice = `put image: {${said}} into config.yaml`;
  const fieldNames = [
    ...(rescales ? ['rescale_factor'] : []),
    ...(normalizes ? ['image_mean', 'image_std'] : []),
  ];
  const own = scalingOf(image.scale ?? 1, image.mean ?? [0], image.std ?? [1]);
  const isGrey = mean.length === 1 && std.length === 1 && image.channels === 'grey';
  const inOrder = isGrey || (image.channels ?? 'bgr') === order;
  if (isNear(scalingOf(scale, mean, std), own) && inOrder) return [];
  const field = [...fieldNames, ...(inOrder ? [] : [`the order ${order.toUpperCase()}`])].join(', ');
  return [{ field, advice }];
}

function sizes(fields: Fields, { image, keepsSize }: Given): readonly Unapplied[] {
  const found: Unapplied[] = [];
  if (fields['do_center_crop'] === true) found.push({ field: 'do_center_crop', advice: CUT });
  if (fields['do_resize'] === false || fields['size'] === undefined) return found;
  const { size, resample = BILINEAR, crop_pct: cropShare } = fields;
  const edge = ['shortest_edge', 'longest_edge', 'max_height'].find(
    (key) => typeof fieldsOf(size)?.[key] === 'number',
  );
  if (edge !== undefined && fields['do_center_crop'] !== true) {
    found.push({
      field: `size.${edge}`,
      advice: 'the service does not keep the ratio of the sides: scale before',
    });
  }
  if (typeof cropShare === 'number' && cropShare < 1) found.push({ field: 'crop_pct', advice: CUT });
  if (resample !== BILINEAR)
    found.push({ field: `resample ${JSON.stringify(resample)}`, advice: 'the service scales bilinearly' });
  const { height, width } = fieldsOf(size) ?? { height: size, width: size };
  if (typeof height !== 'number' || typeof width !== 'number') return found;
  const isOther = image.height !== undefined && (image.height !== height || image.width !== width);
  if (keepsSize || isOther) {
    const now = isOther ? `${image.height} x ${image.width} now` : 'pictures keep their size now';
    found.push({
      field: `size ${height} x ${width}`,
      advice: `put image: {height: ${height}, width: ${width}} into config.yaml; ${now}`,
    });
  }
  return found;
}

/** Read where Transformers' own file is missing, as a folder of timm has it. */
function timm(fields: Fields, given: Given): readonly Unapplied[] {
  const own = fieldsOf(fields['pretrained_cfg']);
  if (!own) return [];
  const { mean, std, crop_pct: crop = 1, interpolation = 'bilinear' } = own;
  const said = { do_rescale: true, do_normalize: true, image_mean: mean, image_std: std };
  return [
    ...numbers(said, given),
    ...(typeof crop === 'number' && crop < 1 ? [{ field: `crop_pct ${crop}`, advice: CUT }] : []),
    ...(interpolation === 'bilinear'
      ? []
      : [
          {
            field: `interpolation ${JSON.stringify(interpolation)}`,
            advice: 'the service scales bilinearly',
          },
        ]),
  ];
}

function sentences(fields: Fields): readonly Unapplied[] {
  const { prompts, default_prompt_name: name, truncate_dim: dimensions } = fields;
  const prompt = typeof name === 'string' ? fieldsOf(prompts)?.[name] : undefined;
  const found: Unapplied[] = [];
  if (typeof name === 'string' && prompt !== '') {
    const advice =
      typeof prompt === 'string'
        ? `put ${JSON.stringify(prompt)} in front of each text before it is sent`
        : 'prompts has no text of this name';
    found.push({ field: `default_prompt_name ${JSON.stringify(name)}`, advice });
  }
  if (typeof dimensions === 'number')
    found.push({ field: `truncate_dim ${dimensions}`, advice: 'cut vectors after they came' });
  return found;
}

function finiteOf(value: unknown, missing: number): number {
  return typeof value === 'number' && Number.isFinite(value) ? value : missing;
}

function numbersOf(value: unknown): readonly number[] {
  const list = Array.isArray(value) ? (value as readonly unknown[]) : [value];
  return list.map((one) => finiteOf(one, Number.NaN)).slice(0, 4);
}
