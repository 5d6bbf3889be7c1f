/** Reads fields of JSON that other libraries wrote. */

export type Fields = Readonly<Record<string, unknown>>;

const MAX_NUMBER = 1e6;
const MAX_PIXELS = 16_384;

export function fieldsOf(value: unknown): Fields | undefined {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Fields) : undefined;
}

export function numberOf(value: unknown): number | undefined {
  return typeof value === 'number' && Math.abs(value) < MAX_NUMBER ? value : undefined;
}

/** One number, or one for each channel. */
export function channelNumbersOf(value: unknown): readonly number[] | undefined {
  const list = Array.isArray(value) ? (value as readonly unknown[]).map(numberOf) : [numberOf(value)];
  const isRight = list.length === 1 || list.length === 3;
  return isRight && list.every((one) => one !== undefined) ? list : undefined;
}

export function pixelsOf(value: unknown): number | undefined {
  const pixels = numberOf(value);
  return pixels !== undefined && Number.isInteger(pixels) && pixels > 0 && pixels <= MAX_PIXELS
    ? pixels
    : undefined;
}

export interface Sides {
  readonly height: number;
  readonly width: number;
}

/** `{height, width}`, [height, width], or one number for both. */
export function sidesOf(value: unknown): Sides | undefined {
  const list = Array.isArray(value) && value.length === 2 ? (value as readonly unknown[]) : undefined;
  const fields = list ? { height: list[0], width: list[1] } : fieldsOf(value);
  const one = pixelsOf(value);
  const height = one ?? pixelsOf(fields?.['height']);
  const width = one ?? pixelsOf(fields?.['width']);
  return height !== undefined && width !== undefined ? { height, width } : undefined;
}
