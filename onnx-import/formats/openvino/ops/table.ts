/** All supported operations by their names, for version 10 and later and for those before. */
import { type Layer, placeOf } from '../net.ts';
import type { OpTable, Rule } from '../node.ts';
import { readConstant } from '../weights.ts';
import { ACTIVATIONS } from './activation.ts';
import { BLOB_LAYERS } from './blobs.ts';
import { BLOCKS } from './blocks.ts';
import { CONDITIONS } from './bodies.ts';
import { CONVOLUTIONS } from './convolution.ts';
import { DETECTIONS } from './detection.ts';
import { ELEMENTWISE } from './elementwise.ts';
import { LEGACY_OPS } from './legacy.ts';
import { LOOPS } from './loops.ts';
import { NORMALIZATIONS } from './normalization.ts';
import { POOLINGS } from './pooling.ts';
import { PRIORS } from './priors.ts';
import { RECURRENCES } from './recurrent.ts';
import { REDUCTIONS } from './reduction.ts';
import { REGIONS } from './regions.ts';
import { RESIZINGS } from './resize.ts';
import { SHAPINGS } from './shaping.ts';
import { SLICINGS, stridedSlice } from './slicing.ts';

const constant: Rule = (node) => {
  const place = placeOf(node.layer.attributes, 'the constant');
  node.ignore('offset', 'size');
  const type = node.text('element_type');
  const tensor = readConstant(node.net.weights, place, type, node.numbers('shape', []));
  return node.g.constant(tensor, node.hint);
};

const OPS: OpTable = {
  Const: constant,
  ...ACTIVATIONS,
  ...BLOCKS,
  ...CONDITIONS,
  ...CONVOLUTIONS,
  ...DETECTIONS,
  ...ELEMENTWISE,
  ...LOOPS,
  ...NORMALIZATIONS,
  ...POOLINGS,
  ...PRIORS,
  ...RECURRENCES,
  ...REDUCTIONS,
  ...REGIONS,
  ...RESIZINGS,
  ...SHAPINGS,
  ...SLICINGS,
};

/** Operations that mean the same in versions before 10. */
const UNCHANGED =
  'Abs Acos Acosh Asin Asinh Atan Atanh Ceiling Concat Cos Cosh CTCGreedyDecoder DepthToSpace DetectionOutput Elu Erf ' +
  'Exp Floor GRN Log PriorBox PriorBoxClustered ROIPooling ReLU RegionYolo ReorgYolo Sigmoid Sign ' +
  'Sin Sinh SoftMax SpaceToDepth Squeeze Tan Unsqueeze';

const LEGACY: OpTable = {
  ...Object.fromEntries(UNCHANGED.split(' ').flatMap((type) => (OPS[type] ? [[type, OPS[type]]] : []))),
  StridedSlice: stridedSlice(true),
  ...BLOB_LAYERS,
  ...LEGACY_OPS,
};

/** For the list in docs/reference/operators.md. */
export const OP_TYPES: readonly string[] = [...new Set([...Object.keys(OPS), ...Object.keys(LEGACY)])];

/** Undefined for an operation that is not converted. */
export function ruleOf({ type, opset }: Layer, version: number): Rule | undefined {
  // Operations of other sets, such as extensions, may have the same names.
  if (version >= 10 && !/^opset\d{1,2}$/.test(opset)) return undefined;
  const table = version >= 10 ? OPS : LEGACY;
  return Object.hasOwn(table, type) ? table[type] : undefined;
}

export function whyRefused({ type, opset }: Layer): string {
  if (type === 'ReadValue' || type === 'Assign')
    return 'is not supported: the model keeps a state from one call to the next, and each record is served alone';
  if (/^(Random|Multinomial)/.test(type)) return 'is not supported: its answers are random';
  if (opset !== '' && !/^opset\d{1,2}$/.test(opset)) return `is not supported: it is of the set "${opset}"`;
  return 'is not supported';
}
