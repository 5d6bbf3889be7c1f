/** All supported layer types by their Caffe names. */
import type { ConvertLayer } from '../node.ts';
import { ACTIVATIONS } from './activation.ts';
import { ARITHMETIC } from './arithmetic.ts';
import { CONVOLUTIONS } from './convolution.ts';
import { DETECTIONS } from './detection.ts';
import { MOVES } from './moves.ts';
import { NORMALIZATIONS } from './normalization.ts';
import { POOLINGS } from './pooling.ts';
import { RECURRENCES } from './recurrent.ts';
import { REGIONS } from './regions.ts';
import { RESIZINGS } from './resizing.ts';

const LAYERS: Readonly<Record<string, ConvertLayer>> = {
  ...ACTIVATIONS,
  ...ARITHMETIC,
  ...CONVOLUTIONS,
  ...DETECTIONS,
  ...MOVES,
  ...NORMALIZATIONS,
  ...POOLINGS,
  ...RECURRENCES,
  ...REGIONS,
  ...RESIZINGS,
};

/** For the list in docs/reference/operators.md. */
export const LAYER_TYPES: readonly string[] = Object.keys(LAYERS);

/** Undefined for a type that is not converted. */
export function layerOf(type: string): ConvertLayer | undefined {
  return Object.hasOwn(LAYERS, type) ? LAYERS[type] : undefined;
}
