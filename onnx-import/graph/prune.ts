/**
 * Removes the nodes that no output needs, and gives the outputs their public names. Bodies use outer values that no
 * input list shows; these keep their producers too.
 */
import type { Attribute, Body, Node, Value } from './value.ts';

export function prune(body: Body): Body {
  const needed = new Set<string>(body.outputs.map(({ value }) => value.name));
  const kept: Node[] = [];
  for (const node of body.nodes.toReversed()) {
    if (!node.outputs.some((value) => needed.has(value.name))) continue;
    kept.push(node);
    for (const name of usedBy(node)) needed.add(name);
  }
  return rename({ ...body, nodes: kept.reverse() });
}

function* usedBy(node: Node): Generator<string> {
  for (const input of node.inputs) if (input) yield input.name;
  for (const attribute of Object.values(node.attributes)) {
    const inner = bodyOf(attribute);
    if (!inner) continue;
    for (const { value } of inner.outputs) yield value.name;
    for (const child of inner.nodes) yield* usedBy(child);
  }
}

export function bodyOf(attribute: Attribute | undefined): Body | undefined {
  return typeof attribute === 'object' && 'body' in attribute ? attribute.body : undefined;
}

/** Those of the bodies too. */
export function* allNodes(body: Body): Generator<Node> {
  for (const node of body.nodes) {
    yield node;
    for (const attribute of Object.values(node.attributes)) {
      const inner = bodyOf(attribute);
      if (inner) yield* allNodes(inner);
    }
  }
}

/** Gives each output's value the output's name. An inner value with that name is renamed. */
function rename(body: Body): Body {
  const names = new Map<string, string>();
  const wanted = new Set(body.outputs.map(({ name }) => name));
  for (const node of body.nodes) collectClashes(node, wanted, names);
  for (const { name, value } of body.outputs) names.set(value.name, name);
  if (names.size === 0) return body;
  return renameBody(body, names);
}

function collectClashes(node: Node, wanted: ReadonlySet<string>, names: Map<string, string>): void {
  const note = (value: Value | undefined) => {
    if (value && wanted.has(value.name)) names.set(value.name, `${value.name}.inner`);
  };
  for (const value of node.outputs) note(value);
  for (const value of node.inputs) if (value?.constant) note(value);
  for (const attribute of Object.values(node.attributes)) {
    const inner = bodyOf(attribute);
    for (const value of inner?.inputs ?? []) note(value);
    for (const child of inner?.nodes ?? []) collectClashes(child, wanted, names);
  }
}

function renameBody(body: Body, names: ReadonlyMap<string, string>): Body {
  const renamed = <T extends Value | undefined>(value: T): T => {
    const name = value && names.get(value.name);
    return name === undefined ? value : { ...value, name };
  };
  return {
    inputs: body.inputs.map(renamed),
    outputs: body.outputs.map(({ name, value }) => ({ name, value: renamed(value) })),
    nodes: body.nodes.map((node) => ({
      ...node,
      inputs: node.inputs.map(renamed),
      outputs: node.outputs.map(renamed),
      attributes: Object.fromEntries(
        Object.entries(node.attributes).map(([key, attribute]) => {
          const inner = bodyOf(attribute);
          return [key, inner ? { body: renameBody(inner, names) } : attribute];
        }),
      ),
    })),
  };
}
