/**
 * Proposes the batch axes of inputs that no record could reach without them, from their declared shapes, as lines of
 * config.yaml.
 */
import type { BatchAxis, TensorSpec } from '../../lib/contract/values.ts';
import type { BatchAxes } from '../../lib/contract/verification.ts';

/**
 * @param shapeless inputs of unknown rank; of them nothing is proposed
 * @returns only axes other than the first; empty when records fit without any
 */
export function proposedAxes(
  inputs: readonly Pick<TensorSpec, 'name' | 'shape'>[],
  shapeless: readonly string[],
): BatchAxes {
  const declared = inputs.filter(({ name }) => !shapeless.includes(name));
  const firsts = new Set(declared.map(({ shape }) => shape[0]).filter((size) => size !== undefined));
  const free = new Set([...firsts].filter((size) => typeof size === 'string'));
  // Records can be told apart by a free size alone, and by a fixed one only where all inputs have it.
  const isFixed = free.size === 0 && firsts.size === 1;
  const axes = declared.map(({ name, shape }): readonly [string, BatchAxis] => {
    const [first] = shape;
    if (first === undefined) return [name, 'none'];
    if (typeof first === 'string' || isFixed) return [name, 0];
    const isBatch = (size: number | string) => typeof size === 'string' && free.has(size);
    const at = shape.findIndex(isBatch);
    return [name, at === -1 || at !== shape.findLastIndex(isBatch) ? 'none' : at];
  });
  return Object.fromEntries(axes.filter(([, axis]) => axis !== 0));
}

/** Ready to be pasted. */
export function axisLines(axes: BatchAxes): string[] {
  const lines = Object.entries(axes).map(([name, axis]) => {
    const key = /^[A-Za-z_][\w.-]*$/.test(name) ? name : JSON.stringify(name);
    return `  ${key}: {batchAxis: ${axis}}`;
  });
  return lines.length === 0 ? [] : ['inputs:', ...lines];
}
