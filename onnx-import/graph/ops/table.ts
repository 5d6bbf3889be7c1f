/** All operators; `domain:operator` where the domain is not the standard one. */
import { ATTENTION } from './attention.ts';
import { CLASSICAL } from './classical.ts';
import { CONTROL_FLOW } from './control-flow.ts';
import { ELEMENTWISE } from './elementwise.ts';
import { INDEXING } from './indexing.ts';
import { JOINING } from './joining.ts';
import { LAYOUT } from './layout.ts';
import { MATMUL } from './matmul.ts';
import type { Operator, Operators } from './operator.ts';
import { QUANTIZED } from './quantized.ts';
import { RECURRENT } from './recurrent.ts';
import { REDUCE } from './reduce.ts';
import { SIZES } from './sizes.ts';
import { WINDOWS } from './windows.ts';

export const OPERATORS: Operators = {
  ...ATTENTION,
  ...CLASSICAL,
  ...CONTROL_FLOW,
  ...ELEMENTWISE,
  ...INDEXING,
  ...JOINING,
  ...LAYOUT,
  ...MATMUL,
  ...QUANTIZED,
  ...RECURRENT,
  ...REDUCE,
  ...SIZES,
  ...WINDOWS,
};

export function operatorOf(name: string): Operator | undefined {
  return Object.hasOwn(OPERATORS, name) ? OPERATORS[name] : undefined;
}
