/** The outputs of a PyTorch model: a tensor, or tensors in tuples, lists and dicts, with the names that there are. */
import { badModel } from '../../../lib/contract/errors.ts';
import type { Value } from '../../graph/value.ts';
import type { Context } from './run/context.ts';
import { TensorRef } from './run/tensor.ts';
import { Dict, isNumber, kindOf, List, type Py, Scalar, Tuple } from './run/values.ts';

const MAX_OUTPUTS = 1_000;

export interface NamedOutput {
  readonly name: string;
  readonly value: Value;
}

/** @throws bad_model for what is no tensor, and for names in the options that the model has not */
export function outputsOf(c: Context, result: Py, wanted: readonly string[] | undefined): NamedOutput[] {
  const found: NamedOutput[] = [];
  collect(c, result, '', found);
  if (found.length === 0) throw badModel('the model returns no tensor');
  const [only] = found;
  const named = found.length === 1 && only?.name === '' ? [{ name: 'output', value: only.value }] : found;
  if (wanted === undefined) return named;
  return wanted.map((name) => {
    const output = named.find((each) => each.name === name);
    if (output) return output;
    throw badModel(`has no output "${name}"; its outputs are ${named.map((each) => each.name).join(', ')}`);
  });
}

function collect(c: Context, value: Py, name: string, found: NamedOutput[]): void {
  if (found.length >= MAX_OUTPUTS) throw badModel(`the model returns over ${MAX_OUTPUTS} tensors`);
  if (value instanceof TensorRef && value.quantized)
    throw badModel('the model returns a quantized tensor; let it end with dequantize()');
  if (value instanceof TensorRef) found.push({ name, value: value.value });
  else if (value instanceof Scalar) found.push({ name, value: value.value });
  else if (value instanceof List || value instanceof Tuple) {
    const names = value instanceof Tuple ? value.names : undefined;
    for (const [i, item] of value.items.entries())
      collect(c, item, names?.[i] ?? (name === '' ? `output_${i}` : `${name}_${i}`), found);
  } else if (value instanceof Dict)
    for (const [key, item] of value.items) collect(c, item, String(key), found);
  else if (value === null) c.notes.add(`output "${name || 'output'}" is None and was left out`);
  else if (isNumber(value))
    c.notes.add(`output "${name || 'output'}" is always the same number and was left out`);
  else throw badModel(`the model returns ${kindOf(value)}, which is no tensor`);
}
