/**
 * In: a graph whose rows must not be run together. Out: the same graph for one row.
 * Trap: only what is declared changes, no node does; sizes elsewhere that carry the batch's name become 1 with it.
 */
import type { Body, Shape, Value } from './graph/value.ts';

export function withFixedBatch(graph: Body): Body {
  const batches = new Set(
    graph.inputs.map(({ shape }) => shape?.[0]).filter((dim) => typeof dim === 'string' && dim !== ''),
  );
  const fixedShape = (shape: Shape | undefined, isInput: boolean) =>
    shape?.map((dim, axis) =>
      batches.has(dim) || (isInput && axis === 0 && typeof dim === 'string') ? 1 : dim,
    );
  const fixed = (value: Value, isInput: boolean): Value => ({
    ...value,
    shape: fixedShape(value.shape, isInput),
  });
  return {
    ...graph,
    inputs: graph.inputs.map((value) => fixed(value, true)),
    outputs: graph.outputs.map(({ name, value }) => ({ name, value: fixed(value, false) })),
  };
}
