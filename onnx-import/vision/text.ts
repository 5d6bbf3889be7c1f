/** Says in a line what becomes of a picture. */
import type { ImageChoice } from '../../lib/pipeline/bind/image-choice.ts';

/** @param own the job's settings, which win */
export function preparedText(
  { source, image }: { readonly source: string; readonly image: ImageChoice },
  own: ImageChoice,
): string {
  const keys = Object.keys(own);
  const over = keys.length === 0 ? '' : `; image: of config.yaml wins over it in ${keys.join(', ')}`;
  return `pictures are prepared as ${source} says: ${steps(image).join(', ')}${over}`;
}

function steps({
  resize,
  resample,
  height,
  width,
  channels,
  scale = 1,
  mean = [0],
  std = [1],
  fill,
}: ImageChoice): string[] {
  const method =
    resample === undefined || resample === 'opencv' ? "OpenCV's bilinear" : `Pillow's ${resample}`;
  const target = height === undefined ? undefined : `${height} x ${width}`;
  const scaled = {
    undefined: target && `scaled to ${target} (${method})`,
    number: `scaled to a shorter side of ${String(resize)} (${method})`,
    object: Array.isArray(resize) ? `scaled to ${resize.join(' x ')} (${method})` : undefined,
    string:
      resize === 'fit'
        ? `scaled to fit ${target ?? 'the model'} (${method}) and filled up with ${fill ?? 0}`
        : undefined,
  }[typeof resize as 'undefined' | 'number' | 'object' | 'string'];
  const cut =
    resize !== undefined && resize !== 'fit' && target ? `${target} cut out of the middle` : undefined;
  const numbers = `value = (pixel × ${Number(scale.toPrecision(6))} − ${shown(mean)}) / ${shown(std)}`;
  return [scaled, cut, channels?.toUpperCase(), numbers].filter((step) => step !== undefined);
}

function shown(values: readonly number[]): string {
  const texts = values.map((value) => `${Number(value.toPrecision(6))}`);
  return new Set(texts).size === 1 ? (texts[0] as string) : `[${texts.join(', ')}]`;
}
