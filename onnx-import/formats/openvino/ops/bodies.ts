/** How the bodies of loops and conditions are joined to their ports, and If. */
import { badModel } from '../../../../lib/contract/errors.ts';
import type { Value, ValueType } from '../../../graph/value.ts';
import { layersOf, type Net, whole } from '../net.ts';
import { cast, type OpTable, type OvNode, type Rule } from '../node.ts';
import { childOf, type Element } from '../xml.ts';

/** How a port of the loop is joined to a layer of its body. */
export interface Joint {
  /** -1: none. */
  readonly port: number;
  readonly layer: string;
  readonly axis: number | undefined;
  readonly start: number;
  readonly end: number;
  readonly stride: number;
  readonly part: number;
  readonly purpose: string;
}

const MAX_DEPTH = 16;
export function jointsOf(element: Element | undefined, name: 'input' | 'output'): Joint[] {
  const found = element?.children.filter((child) => child.name === name) ?? [];
  return found.map(({ attributes: at }) => {
    const number = (key: string, fallback: number) =>
      at.has(key) ? whole(at.get(key) as string, key) : fallback;
    return {
      port: number('external_port_id', -1),
      layer: at.get('internal_layer_id') ?? '',
      axis: at.has('axis') ? number('axis', 0) : undefined,
      start: number('start', 0),
      end: number('end', -1),
      stride: number('stride', 1),
      part: number('part_size', 1),
      purpose: at.get('purpose') ?? '',
    };
  });
}

export function bodyOf(node: OvNode, name: string): Net {
  const element = childOf(node.layer.element, name);
  if (!element) throw badModel(`has no ${name}`);
  if (depthOf(element) > MAX_DEPTH) throw badModel(`has bodies within bodies, more than ${MAX_DEPTH} deep`);
  return layersOf(element, node.net.version, node.net.file);
}

function depthOf(element: Element): number {
  const own = element.name.endsWith('body') ? 1 : 0;
  return own + element.children.reduce((most, child) => Math.max(most, depthOf(child)), 0);
}

/** What a Result of a body gives. */
export function resultOf(body: Net, id: string, values: ReadonlyMap<string, Value>): Value {
  const layer = body.layers.find((each) => each.id === id);
  // Before version 10 a port map names the layer that gives the value.
  const source = layer?.type === 'Result' ? layer.sources[0] : `${id}:${layer?.outputs[0]?.id ?? ''}`;
  const value = source === undefined ? undefined : values.get(source);
  if (value) return value;
  throw badModel(`has a body in which layer ${id} cannot be converted`);
}

export function inputAt(node: OvNode, port: number): Value {
  const i = node.layer.inputs.findIndex(({ id }) => id === `${port}`);
  if (i < 0) throw badModel(`maps port ${port}, which it does not have`);
  return node.input(i);
}

/** The values in the order of the ports. */
export function inOrder(
  node: OvNode,
  joints: readonly Joint[],
  valueOf: (joint: Joint, i: number) => Value,
): Value[] {
  return node.layer.outputs.map(({ id }) => {
    const i = joints.findIndex(({ port }) => `${port}` === id);
    if (i < 0) throw badModel(`does not map its output ${id}`);
    return valueOf(joints[i] as Joint, i);
  });
}

const condition: Rule = (node) => {
  for (const i of node.inputs.keys()) node.optional(i);
  const { g } = node;
  const branches = ['then', 'else'].map((name) => {
    const body = bodyOf(node, `${name}_body`);
    const map = childOf(node.layer.element, `${name}_port_map`);
    const builder = g.body();
    const given = new Map(jointsOf(map, 'input').map(({ layer, port }) => [layer, inputAt(node, port)]));
    const values = node.net.convertBody(body, given, builder);
    const outputs = inOrder(node, jointsOf(map, 'output'), ({ layer }) => resultOf(body, layer, values));
    for (const value of outputs) builder.output(`${node.hint}:${g.fresh()}`, value);
    return { builder, outputs };
  });
  const [yes, no] = branches as [(typeof branches)[0], (typeof branches)[0]];
  const flag = cast(node, g.one('Reshape', [node.input(0), g.ints([])]), 'bool');
  const results = yes.outputs.map((value, i): ValueType => {
    const other = no.outputs[i]?.shape;
    const isSame = value.shape?.length === other?.length;
    return {
      dtype: value.dtype,
      shape: isSame ? value.shape?.map((dim, axis) => (dim === other?.[axis] ? dim : g.fresh())) : undefined,
    };
  });
  const bodies = { then_branch: { body: yes.builder.finish() }, else_branch: { body: no.builder.finish() } };
  return g.add('If', [flag], bodies, { outputs: results.length, results, hint: node.hint });
};

export const CONDITIONS: OpTable = { If: condition };
