/**
 * Converts TensorFlow's padding, strides and dilations to ONNX's pads. SAME depends on the image size: ceil(size /
 * stride) windows. onnxruntime's SAME_UPPER is wrong for strides larger than the kernel and ignores dilation, so pads
 * are computed here, at run time if necessary.
 */
import type { GraphBuilder } from '../../../graph/builder.ts';
import { rank } from '../../../graph/shapes.ts';
import type { Attributes, Value } from '../../../graph/value.ts';
import { listAttribute, type TfNode, textAttribute } from '../graph.ts';
import { type Size, shapeList, sizeOf } from './dims.ts';
import { emit } from './kernels.ts';
import { refuse } from './refuse.ts';

export interface Windows {
  readonly kernel: readonly number[];
  readonly strides: readonly number[];
  readonly dilations: readonly number[];
}

interface Padded {
  /** The input, padded itself if ONNX's pads cannot express it. */
  readonly x: Value;
  /** The attributes `pads` or `auto_pad`. */
  readonly attributes: Attributes;
  readonly grown: boolean;
}

/** Whether channels are last (NHWC, NDHWC), the default. */
export function channelsLast(node: TfNode, fallback = 'NHWC'): boolean {
  const format = textAttribute(node, 'data_format', fallback);
  if (format === 'NHWC' || format === 'NDHWC' || format === '') return true;
  if (format === 'NCHW' || format === 'NCDHW') return false;
  return refuse(`needs data_format NHWC or NCHW, got ${format}`);
}

/** The spatial part of a list in the order of the data format. Batch and channels must be 1. */
export function spatial(values: readonly number[], last: boolean, what: string, size: number): number[] {
  if (values.length === 0) return Array.from({ length: size - 2 }, () => 1);
  if (values.length !== size) refuse(`needs ${size} ${what}, got [${values.join(',')}]`);
  const [outside, inside] = last
    ? [[values[0], values[size - 1]], values.slice(1, -1)]
    : [values.slice(0, 2), values.slice(2)];
  if (outside.some((value) => value !== 1))
    refuse(`needs ${what} of 1 for batch and channels, got [${values.join(',')}]`);
  if (inside.some((value) => !Number.isInteger(value) || value < 1))
    refuse(`needs ${what} of at least 1, got [${values.join(',')}]`);
  return inside;
}

/** Turns explicit pads in the order of the data format into [begin..., end...] of the spatial axes. */
function explicitPads(node: TfNode, last: boolean, size: number): number[] {
  const values = listAttribute(node, 'explicit_paddings').ints;
  if (values.length !== 2 * size) refuse(`needs ${2 * size} explicit_paddings, got ${values.length}`);
  const axes = Array.from({ length: size - 2 }, (_, i) => (last ? i + 1 : i + 2));
  return [
    ...axes.map((axis) => values[2 * axis] as number),
    ...axes.map((axis) => values[2 * axis + 1] as number),
  ];
}

/** Pads a channels-first image. `fill` is the value outside when the input itself must be padded. */
export function padWindows(
  g: GraphBuilder,
  node: TfNode,
  x: Value,
  windows: Windows,
  options: { last: boolean; fill: number },
): Padded {
  const size = rank(x);
  const padding = textAttribute(node, 'padding', 'VALID');
  const none = Array.from({ length: 2 * (size - 2) }, () => 0);
  if (padding === 'VALID') return { x, attributes: { pads: none }, grown: false };
  if (padding === 'EXPLICIT')
    return { x, attributes: { pads: explicitPads(node, options.last, size) }, grown: false };
  if (padding !== 'SAME') refuse(`needs padding SAME, VALID or EXPLICIT, got ${padding}`);
  const amounts = windows.kernel.map((_, i) => sameAmount(x.shape?.[i + 2], windows, i));
  if (amounts.every((amount) => amount !== undefined)) {
    const before = amounts.map((amount) => Math.floor(amount / 2));
    const after = amounts.map((amount, i) => amount - (before[i] as number));
    return { x, attributes: { pads: [...before, ...after] }, grown: false };
  }
  const simple = windows.kernel.every(
    (kernel, i) => windows.dilations[i] === 1 && kernel >= (windows.strides[i] as number),
  );
  if (simple) return { x, attributes: { auto_pad: 'SAME_UPPER' }, grown: false };
  return { x: grow(g, x, windows, options.fill), attributes: { pads: none }, grown: true };
}

/** The total padding of one axis; undefined when it depends on a free size. */
function sameAmount(dim: number | string | undefined, windows: Windows, i: number): number | undefined {
  const stride = windows.strides[i] as number;
  const reach = reachOf(windows, i);
  if (reach === 1) return 0;
  if (typeof dim === 'number') return samePad(dim, reach, stride);
  return stride === 1 ? reach - 1 : undefined;
}

export function samePad(size: number, reach: number, stride: number): number {
  return Math.max((Math.ceil(size / stride) - 1) * stride + reach - size, 0);
}

/** The size that a window covers, dilation included. */
export function reachOf({ kernel, dilations }: Windows, i: number): number {
  return ((kernel[i] as number) - 1) * (dilations[i] as number) + 1;
}

/** Pads by amounts that are computed at run time. */
function grow(g: GraphBuilder, x: Value, windows: Windows, fill: number): Value {
  const begin: Size[] = [0, 0];
  const end: Size[] = [0, 0];
  for (const i of windows.kernel.keys()) {
    const size = sizeOf(g, x, i + 2);
    const amount = sameAmount(typeof size === 'number' ? size : undefined, windows, i);
    if (amount !== undefined) {
      begin.push(Math.floor(amount / 2));
      end.push(Math.ceil(amount / 2));
      continue;
    }
    const total = dynamicPad(g, size as Value, reachOf(windows, i), windows.strides[i] as number);
    const before = g.one('Div', [total, g.ints([2])]);
    begin.push(before);
    end.push(g.one('Sub', [total, before]));
  }
  return emit(g, 'Pad', [x, shapeList(g, [...begin, ...end]), g.scalar(x.dtype, fill)], {}, 'same_pad');
}

function dynamicPad(g: GraphBuilder, size: Value, reach: number, stride: number): Value {
  const windows = g.one('Div', [g.one('Add', [size, g.ints([stride - 1])]), g.ints([stride])]);
  const covered = g.one('Mul', [g.one('Sub', [windows, g.ints([1])]), g.ints([stride])]);
  const wanted = g.one('Sub', [g.one('Add', [covered, g.ints([reach])]), size]);
  return g.one('Max', [wanted, g.ints([0])]);
}
