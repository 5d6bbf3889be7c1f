/** Converts the layers of a net or body in order, each after its inputs, and compares what comes out with the ports. */
import { badModel } from '../../../lib/contract/errors.ts';
import { formatShape } from '../../../lib/contract/tensor.ts';
import { BATCH } from '../../graph/batch.ts';
import type { GraphBuilder } from '../../graph/builder.ts';
import type { Dim, Shape, Value } from '../../graph/value.ts';
import { withValidSizes } from '../problems.ts';
import type { Layer, Net, Port } from './net.ts';
import { type NetState, OvNode } from './node.ts';
import { ruleOf, whyRefused } from './ops/table.ts';
import { dtypeNamed, elementType } from './weights.ts';

/** @returns values by `layer:port`; those of a layer that cannot be converted are missing, and its problem is noted */
export function convertLayers(
  net: Net,
  given: ReadonlyMap<string, Value>,
  state: NetState,
  g: GraphBuilder,
): ReadonlyMap<string, Value> {
  const values = new Map<string, Value>();
  const open = takersOf(net);
  for (const layer of net.layers) {
    const outer = given.get(layer.id);
    if (outer) values.set(portKey(layer, 0), outer);
    else if (layer.type !== 'Result') {
      convertLayer(layer, values, state, g, net.used);
      // Weights that were turned or widened are not needed twice in memory.
      for (const source of layer.sources) {
        if (source === undefined) continue;
        open.set(source, (open.get(source) ?? 0) - 1);
        if (open.get(source) === 0 && values.get(source)?.constant) values.delete(source);
      }
    }
  }
  return values;
}

/** How many inputs take each port. */
function takersOf({ layers }: Net): Map<string, number> {
  const count = new Map<string, number>();
  for (const source of layers.flatMap(({ sources }) => sources))
    if (source !== undefined) count.set(source, (count.get(source) ?? 0) + 1);
  return count;
}

export function portKey(layer: Layer, i: number): string {
  return `${layer.id}:${layer.outputs[i]?.id ?? ''}`;
}

function convertLayer(
  layer: Layer,
  values: Map<string, Value>,
  state: NetState,
  g: GraphBuilder,
  used: ReadonlySet<string>,
): void {
  const rule = ruleOf(layer, state.version);
  if (!rule) {
    state.problems.add(layer.type, layer.name, whyRefused(layer));
    return;
  }
  const inputs = layer.sources.map((source) => (source === undefined ? undefined : values.get(source)));
  // The input comes from a layer that failed, which is reported already.
  if (layer.sources.some((source, i) => source !== undefined && inputs[i] === undefined)) return;
  const made = state.problems.collect(layer.type, layer.name, () =>
    withValidSizes(() => {
      const node = new OvNode(layer, inputs, state, g, (i) => used.has(portKey(layer, i)));
      const result = rule(node);
      node.assertAllRead();
      const outputs = Array.isArray(result) ? (result as readonly Value[]) : [result as Value];
      if (outputs.length < layer.outputs.length)
        throw badModel(`gives ${outputs.length} outputs, the file has ${layer.outputs.length}`);
      return layer.outputs.map((port, i) => fitted(outputs[i] as Value, port, state, g));
    }),
  );
  for (const [i, value] of (made ?? []).entries()) values.set(portKey(layer, i), value);
}

/**
 * The value with the sizes of its port where they are not known otherwise.
 * @throws bad_model when dtype or a size is another than that of the port: then the layer was misunderstood
 */
function fitted(value: Value, port: Port, state: NetState, g: GraphBuilder): Value {
  const { shape } = value;
  const element = elementType(port.precision);
  if (state.version >= 10 && element !== '' && element !== 'undefined' && dtypeNamed(element) !== value.dtype)
    throw badModel(`gives ${value.dtype}, the file says ${port.precision}`);
  if (port.dims.length === 0) return value;
  if (shape && !fits(shape, port.dims, state))
    throw badModel(`gives ${formatShape(shape)}, the file says [${port.dims.join(',')}]`);
  if (state.freedBatch !== undefined || !state.isAsDeclared) return value;
  const known = port.dims.map((dim, i): Dim => {
    const own = shape?.[i];
    if (typeof own === 'number') return own;
    return dim >= 0 ? dim : (own ?? g.fresh());
  });
  return shape && known.every((dim, i) => dim === shape[i]) ? value : retyped(value, known);
}

/** The node stays the producer, so only what this file knows of the value changes. */
function retyped(value: Value, shape: Shape): Value {
  return Object.assign(value, { shape });
}

function fits(shape: Shape, dims: readonly number[], { freedBatch, isAsDeclared }: NetState): boolean {
  if (shape.length !== dims.length) return false;
  return shape.every((dim, i) => {
    const declared = dims[i] as number;
    if (dim === BATCH && freedBatch !== undefined) return declared === freedBatch;
    return declared < 0 || typeof dim === 'string' || dim === declared || !isAsDeclared;
  });
}
