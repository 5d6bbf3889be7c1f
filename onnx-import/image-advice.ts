/** Names what the service does with images without settings, and lines for config.yaml: few model files say what is right. */
import { isDeepStrictEqual } from 'node:util';
import { IMAGE_PRESETS, PRESET_NAMES, type PresetName } from '../lib/config/image-presets.ts';
import type { JobConfig } from '../lib/config/job.ts';
import type { SaidPreprocessing } from './image-reading.ts';
import type { ImportReport } from './import-report.ts';
import { preparedText } from './vision/text.ts';

export interface ImageAdvice {
  readonly text: string;
  /** Lines of config.yaml, of which one is right. The first is likely, where the source of the model makes one so. */
  readonly choices: readonly { readonly config: string; readonly about: string }[];
}

/** Undefined for a model without images, and for a job that has image settings. */
export function imageAdvice(report: ImportReport, settings: JobConfig['image']): ImageAdvice | undefined {
  const { images, config, source } = report;
  const [image] = images;
  if (report.prepared || image === undefined || Object.keys(settings).length > 0) return undefined;
  const isGrey = images.every(({ channels }) => channels === 'grey');
  const what = isGrey ? 'grey 0..255' : 'BGR 0..255';
  const layout = config.flatMap((line) => /^ {2}(layout: (chw|hwc))$/.exec(line)?.[1] ?? []);
  const choice = (about: string, ...own: string[]) => {
    return { config: `image: {${[...own, ...layout].join(', ')}}`, about };
  };
  const isNone = image.said?.image.scale === 1 && image.said.image.mean?.every((one) => one === 0);
  const said = takesWhole(report) && !isNone ? undefined : image.said;
  const numbers = [`scale: ${image.numbers?.scale}`, `mean: ${JSON.stringify(image.numbers?.mean)}`];
  const names = source.format === 'caffe' ? new Set<PresetName>(['caffe', ...PRESET_NAMES]) : PRESET_NAMES;
  const presets = [...names].filter((name) => fits(name, isGrey, report));
  return {
    text: `Images go in as ${what}, as Cluster Serving does; most published nets were trained otherwise. Put the line that fits the training of this one into config.yaml, as its only image${saidText(said)}:`,
    choices: [
      ...(image.numbers ? [choice('as the net says', `channels: ${image.channels}`, ...numbers)] : []),
      ...(said ? [saidChoice(said, layout)] : []),
      ...presets.map((name) => {
        const { about } = IMAGE_PRESETS[name];
        if (isGrey) return choice(about.replace('RGB', 'grey'), `preset: ${name}`, 'channels: grey');
        return layout.length > 0 ? choice(about, `preset: ${name}`) : { config: `image: ${name}`, about };
      }),
      choice(`${what}, without this note`, `channels: ${isGrey ? 'grey' : 'bgr'}`),
    ],
  };
}

/** A preset where its numbers are those that are said. */
function saidChoice({ source, image }: SaidPreprocessing, layout: readonly string[]) {
  const { channels, scale, mean, std, ...size } = image;
  const sizes = Object.entries(size).map(([key, value]) => `${key}: ${value}`);
  const isSame = (name: PresetName) => {
    const { about, ...preset } = IMAGE_PRESETS[name];
    return isDeepStrictEqual(preset, { channels, scale, mean, std }) && about !== '';
  };
  const preset = PRESET_NAMES.find(isSame);
  const numbers = [
    `channels: ${channels}`,
    ...(scale === 1 ? [] : [`scale: ${scale}`]),
    ...(mean?.every((one) => one === 0) ? [] : [`mean: ${JSON.stringify(mean)}`]),
    ...(std?.every((one) => one === 1) ? [] : [`std: ${JSON.stringify(std)}`]),
  ];
  const own = [...(preset ? [`preset: ${preset}`] : numbers), ...sizes, ...layout];
  const config = preset && own.length === 1 ? `image: ${preset}` : `image: {${own.join(', ')}}`;
  return { config, about: `from ${source}` };
}

function saidText(said: SaidPreprocessing | undefined): string {
  if (!said) return '';
  const notes = said.notes.map((note) => `; ${note}`).join('');
  return `. The first line is from ${said.source}${notes}. The others are guesses`;
}

/** One channel has one mean, and whole numbers have no fractions. */
function fits(name: PresetName, isGrey: boolean, report: ImportReport): boolean {
  const { mean, scale } = IMAGE_PRESETS[name];
  if (scale === 1 && mean.every((value) => value === 0)) return !isGrey;
  return !takesWhole(report) && (!isGrey || mean.length === 1);
}

function takesWhole({ inputs }: ImportReport): boolean {
  return inputs.some(({ dtype, shape }) => shape?.length === 4 && /^u?int/.test(dtype));
}

/** For the text of an import report: what is in force, or what the owner may choose. */
export function picturesText(report: ImportReport, settings: JobConfig['image']): string[] {
  const { prepared } = report;
  return prepared ? ['', preparedText(prepared, settings)] : adviceText(imageAdvice(report, settings));
}

export function adviceText(advice: ImageAdvice | undefined): string[] {
  return advice ? ['', advice.text, '', '```yaml', ...choiceLines(advice), '```'] : [];
}

export function choiceLines({ choices }: ImageAdvice): string[] {
  const width = Math.max(...choices.map(({ config }) => config.length));
  return choices.map(({ config, about }) => `${config.padEnd(width)}  # ${about}`);
}
