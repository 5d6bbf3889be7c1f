/** All rules by operator; `domain:operator` where the domain is not the standard one. */
import type { Rule } from '../call.ts';
import { CONTRIB } from './contrib.ts';
import { CONTROL_FLOW } from './control-flow.ts';
import { ELEMENTWISE } from './elementwise.ts';
import { INDEXING } from './indexing.ts';
import { JOINING } from './joining.ts';
import { LAYOUT } from './layout.ts';
import { MATMUL } from './matmul.ts';
import { ML } from './ml.ts';
import { QUANTIZATION } from './quantization.ts';
import { REDUCTIONS } from './reductions.ts';
import { SEQUENCE } from './sequence.ts';
import { SHAPES } from './shapes.ts';
import { WINDOWS } from './windows.ts';

export const RULES: Readonly<Record<string, Rule>> = {
  ...ELEMENTWISE,
  ...LAYOUT,
  ...INDEXING,
  ...JOINING,
  ...SHAPES,
  ...REDUCTIONS,
  ...MATMUL,
  ...WINDOWS,
  ...SEQUENCE,
  ...QUANTIZATION,
  ...CONTROL_FLOW,
  ...ML,
  ...CONTRIB,
};

/** They draw numbers, one list for the whole run. */
export const RANDOM: ReadonlySet<string> = new Set([
  'Bernoulli',
  'Multinomial',
  'RandomNormal',
  'RandomNormalLike',
  'RandomUniform',
  'RandomUniformLike',
]);
