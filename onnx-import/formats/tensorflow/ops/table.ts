/** All operations by their TensorFlow names, joined from one table per file. */
import { BATCH_SPACE } from './batch-space.ts';
import { BLOCKS } from './blocks.ts';
import { BRANCHES } from './branches.ts';
import { CHOOSING } from './choosing.ts';
import { CONVOLUTION } from './convolution.ts';
import { COUNTING } from './counting.ts';
import { CROP } from './crop.ts';
import { DETECTION } from './detection.ts';
import { ELEMENTWISE } from './elementwise.ts';
import { FUSED } from './fused.ts';
import { GATHERING } from './gathering.ts';
import { LISTS } from './lists/lists.ts';
import { LOOKUPS } from './lookups.ts';
import { LOOPS } from './loops.ts';
import { LOSSES } from './losses.ts';
import { MATRIX } from './matrix.ts';
import { NORMALIZATION } from './normalization.ts';
import { POOLING } from './pooling.ts';
import { QUANTIZATION } from './quantization.ts';
import { RAGGED } from './ragged.ts';
import { RANDOM } from './random.ts';
import { RECURRENT } from './recurrent.ts';
import { REDUCTION } from './reduction.ts';
import { RESIZE } from './resize.ts';
import type { OpTable, Rule } from './rule.ts';
import { SCATTERING } from './scattering.ts';
import { SHAPING } from './shaping.ts';
import { SLICING } from './slicing.ts';
import { SOURCES } from './sources.ts';
import { STRINGS } from './strings.ts';

export const OPS: OpTable = {
  ...BATCH_SPACE,
  ...BLOCKS,
  ...BRANCHES,
  ...CHOOSING,
  ...CONVOLUTION,
  ...CROP,
  ...DETECTION,
  ...ELEMENTWISE,
  ...COUNTING,
  ...FUSED,
  ...GATHERING,
  ...LISTS,
  ...LOOKUPS,
  ...LOOPS,
  ...LOSSES,
  ...MATRIX,
  ...NORMALIZATION,
  ...POOLING,
  ...QUANTIZATION,
  ...RAGGED,
  ...RANDOM,
  ...RECURRENT,
  ...REDUCTION,
  ...RESIZE,
  ...SCATTERING,
  ...SHAPING,
  ...SLICING,
  ...SOURCES,
  ...STRINGS,
};

export function ruleOf(op: string): Rule | undefined {
  return Object.hasOwn(OPS, op) ? OPS[op] : undefined;
}
