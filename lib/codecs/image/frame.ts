/** Computes how a picture fits into a tensor: the size to scale it to, and the window to crop from its middle or to pad around it. */
import { badConfig } from '../../contract/errors.ts';
import { LIMITS, overLimit } from '../../contract/limits.ts';
import { type PillowFilter, pillowResizer } from './pillow.ts';
import type { Pixels } from './pixels.ts';
import { type Resizer, resizer, type Size, type Window } from './resize.ts';

export interface FrameSettings {
  /** The tensor's width; left out, the scaled picture's. */
  readonly width?: number;
  readonly height?: number;
  /**
   * What a picture is scaled to before width x height are cut out of its middle: the length of its shorter side, or
   * [height, width]; `none`: it keeps its size; `fit`: it is scaled until it fits, and filled up around. Left out: it is
   * scaled to width x height.
   */
  readonly resize?: number | readonly number[] | 'none' | 'fit';
  /** Which way half a pixel of the middle goes: `floor` as in Transformers, `round` as in torchvision. Default floor. */
  readonly middle?: 'floor' | 'round';
  /** Red, green and blue of what is filled up. Default 0. */
  readonly fill?: number;
  /** OpenCV's bilinear, or a filter of Pillow, which take the mean of the pixels where they scale down. Default opencv. */
  readonly resample?: 'opencv' | PillowFilter;
}

/** The rows of a tensor's picture. */
export interface FramedRows extends Size {
  /** Pixels that a row takes. */
  readonly cost: number;
  /** R G B R G B ... of row `y`, valid until the next call. */
  row(y: number): Uint8Array;
}

/** Undefined for a picture that is taken as it is. @throws bad_config for sizes that are none, too_large */
export function framedRows(pixels: Pixels, settings: FrameSettings): FramedRows | undefined {
  const { scaled, window } = frameOf(pixels, settings);
  const { width, height } = window;
  checkPixels('an image resized to', scaled);
  checkPixels('an image resized to', window);
  const isWhole = width === scaled.width && height === scaled.height;
  if (isWhole && width === pixels.width && height === pixels.height) return undefined;
  const inner = innerOf(scaled, window);
  const made = resizerOf(pixels, scaled, inner, settings.resample);
  const filled = new Uint8Array(3 * width).fill(settings.fill ?? 0);
  const colours = filled.slice();
  const at = 3 * (inner.left - window.left);
  const part = colours.subarray(at, at + 3 * inner.width);
  const isInner = (y: number) => y >= inner.top && y < inner.top + inner.height;
  return {
    width,
    height,
    cost: Math.max(width, made.cost ?? 0),
    row(y) {
      const from = window.top + y;
      if (!isInner(from)) return filled;
      made.row(from, part);
      return colours;
    },
  };
}

export function checkPixels(what: string, { width, height }: Size): void {
  if (width * height > LIMITS.imagePixels) {
    throw overLimit('imagePixels', `${what} ${width}x${height} pixels is`, 'pixels');
  }
}

/** The part of a window that lies in the picture. */
function innerOf(scaled: Size, window: Window): Window {
  const left = Math.max(0, window.left);
  const top = Math.max(0, window.top);
  const width = Math.min(scaled.width, window.left + window.width) - left;
  const height = Math.min(scaled.height, window.top + window.height) - top;
  return { left, top, width, height };
}

function resizerOf(
  pixels: Pixels,
  scaled: Size,
  window: Window,
  resample: FrameSettings['resample'],
): Resizer {
  if (scaled.width === pixels.width && scaled.height === pixels.height) return cutter(pixels, window);
  if (resample === undefined || resample === 'opencv') return resizer(pixels, scaled, window);
  return pillowResizer(pixels, scaled, window, resample);
}

function cutter({ width, data }: Pixels, window: Window): Resizer {
  return {
    row(y, row) {
      const first = 3 * (y * width + window.left);
      row.set(data.subarray(first, first + 3 * window.width));
      return row;
    },
  };
}

interface Frame {
  readonly scaled: Size;
  /** The target's place in the scaled picture; beyond its edges where the target is larger. */
  readonly window: Window;
}

/** @throws bad_config for sizes that are none */
function frameOf(pixels: Pixels, settings: FrameSettings): Frame {
  const { width, height, resize, middle = 'floor' } = settings;
  const scaled = scaledSize(pixels, settings);
  const isWhole = resize === undefined;
  const target = {
    width: isWhole ? scaled.width : (width ?? scaled.width),
    height: isWhole ? scaled.height : (height ?? scaled.height),
  };
  for (const [name, size] of [
    ['width', scaled.width],
    ['height', scaled.height],
    ['width', target.width],
    ['height', target.height],
  ] as const) {
    if (!Number.isSafeInteger(size) || size < 1) {
      throw badConfig(`image ${name} must be a whole number of pixels from 1, got ${size}`);
    }
  }
  const left = start(scaled.width - target.width, middle);
  const top = start(scaled.height - target.height, middle);
  return { scaled, window: { left, top, ...target } };
}

function scaledSize(pixels: Pixels, { width, height, resize }: FrameSettings): Size {
  const own = { width: pixels.width, height: pixels.height };
  if (resize === undefined) return { width: width ?? own.width, height: height ?? own.height };
  if (resize === 'none') return own;
  if (resize === 'fit') {
    const ratio = Math.min((width ?? own.width) / own.width, (height ?? own.height) / own.height);
    const fitted = (size: number) => Math.max(1, roundHalfEven(size * ratio));
    return { width: fitted(own.width), height: fitted(own.height) };
  }
  if (typeof resize !== 'number') return { width: resize[1] ?? 0, height: resize[0] ?? 0 };
  const [short, long] = [Math.min(own.width, own.height), Math.max(own.width, own.height)];
  const longer = Math.max(1, Math.trunc((resize * long) / short));
  return own.width <= own.height ? { width: resize, height: longer } : { width: longer, height: resize };
}

/** Where the target begins, of which the scaled picture is larger by `more`. */
function start(more: number, middle: FrameSettings['middle']): number {
  if (middle === 'floor') return Math.floor(more / 2);
  return more < 0 ? Math.ceil(more / 2) : roundHalfEven(more / 2);
}

function roundHalfEven(value: number): number {
  const rounded = Math.round(value);
  return rounded - value === 0.5 && rounded % 2 !== 0 ? rounded - 1 : rounded;
}
