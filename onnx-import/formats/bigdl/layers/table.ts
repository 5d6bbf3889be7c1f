/** All supported modules by their names in BigDL's package nn. */
import type { Rule } from '../call.ts';
import { CONTAINERS, wrapper } from './containers.ts';
import { CONVOLUTIONS } from './convolution.ts';
import { ELEMENTS } from './elements.ts';
import { LINEARS } from './linear.ts';
import { NORMALIZATIONS } from './normalization.ts';
import { POOLINGS } from './pooling.ts';
import { CELLS, RECURRENCES } from './recurrent.ts';
import { REDUCTIONS } from './reductions.ts';
import { SHAPES } from './shapes.ts';
import { SPATIAL } from './spatial.ts';
import { TABLES } from './tables.ts';

const MODULES: Readonly<Record<string, Rule>> = {
  ...CONTAINERS,
  ...CONVOLUTIONS,
  ...ELEMENTS,
  ...LINEARS,
  ...NORMALIZATIONS,
  ...POOLINGS,
  ...RECURRENCES,
  ...REDUCTIONS,
  ...SHAPES,
  ...SPATIAL,
  ...TABLES,
};

/** For the list in docs/reference/operators.md. */
export const MODULE_TYPES: readonly string[] = Object.keys(MODULES);

/** The packages of layers in Keras's style: BigDL 0.x, BigDL 2.x (also `keras`), Analytics Zoo; and a graph of its nets. */
const WRAPPERS = /^(nn\.(keras|internal)|keras(\.(layers|models))?)\.\w+$|^net\.GraphNet$/;

/** Undefined for a type that is not converted. */
export function ruleOf(type: string): Rule | undefined {
  if (WRAPPERS.test(type)) return wrapper;
  const name = /^nn\.(\w+)$/.exec(type)?.[1];
  return name !== undefined && Object.hasOwn(MODULES, name) ? MODULES[name] : undefined;
}

/** Whether a module of this type is converted, on its own or as a part of others. */
export function isKnown(type: string): boolean {
  return ruleOf(type) !== undefined || Object.hasOwn(CELLS, type);
}
