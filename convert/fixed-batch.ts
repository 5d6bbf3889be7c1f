/**
 * Fixes the batch of a graph to one row, if its rows must not run together. Only declared shapes change, not nodes;
 * other sizes with the name of the batch become 1 too.
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
