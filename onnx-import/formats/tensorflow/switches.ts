/**
 * Recognizes placeholders that are not data, such as dropout's probability or a training flag, and returns their
 * serving values. `dropout` may be the share that is kept or dropped; only the graph shows which.
 */
import { type TfGraph, type TfInput, type TfNode, usersOf } from './graph.ts';

const TRAINING = /(is_?train|train(ing)?_?(phase|mode|flag)?$|phase_?train|learning_phase|(^|[/_])phase$)/i;
const KEPT = /keep_?(prob|rate)/i;
const DROPPED = /drop_?(out|rate|prob)/i;

export function isTrainingFlag(name: string): boolean {
  return TRAINING.test(name);
}

/** The serving value of an input of rank 0 or unknown rank. */
export function servingValue(tf: TfGraph, { name, tensor, dtype }: TfInput): number | undefined {
  if (dtype === 'bool' || dtype === 'int32') return isTrainingFlag(name) ? 0 : undefined;
  if (dtype !== 'float32' && dtype !== 'float64') return undefined;
  if (KEPT.test(name)) return 1;
  if (!DROPPED.test(name)) return undefined;
  const users = usersOf(tf).get(tensor) ?? [];
  if (users.some((node) => isDivisor(node, tensor))) return 1;
  return users.some((node) => isSubtracted(node, tensor)) ? 0 : undefined;
}

function isDivisor({ op, inputs }: TfNode, tensor: string): boolean {
  return (op === 'RealDiv' || op === 'Div') && inputs[1] === tensor;
}

function isSubtracted({ op, inputs }: TfNode, tensor: string): boolean {
  return (op === 'Sub' || op === 'GreaterEqual') && inputs[1] === tensor;
}
