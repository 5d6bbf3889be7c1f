/** Reads TensorFlow's padding, strides and dilations, which are in the order of the data format. */
import type { Windows } from '../../emit/windows.ts';
import { listAttribute, type TfNode, textAttribute } from '../graph.ts';
import { refuse } from './refuse.ts';

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

/** Where the windows lie, in the names of ONNX. */
export function paddingOf(node: TfNode, last: boolean, size: number): Windows['pads'] {
  const padding = textAttribute(node, 'padding', 'VALID');
  if (padding === 'VALID') return Array.from({ length: 2 * (size - 2) }, () => 0);
  if (padding === 'SAME') return 'same_upper';
  if (padding === 'EXPLICIT') return explicitPads(node, last, size);
  return refuse(`needs padding SAME, VALID or EXPLICIT, got ${padding}`);
}
