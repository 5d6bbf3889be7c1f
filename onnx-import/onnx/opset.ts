/**
 * Chooses the operator sets of a file. Graphs are built for opset 17; a few operators on texts need opset 20, in which
 * reductions take their axes as an input and Split says how many parts it makes.
 */
import { tensorOf } from '../graph/numbers.ts';
import { allNodes, bodyOf } from '../graph/prune.ts';
import type { Body, Node, Value } from '../graph/value.ts';

interface Raised {
  readonly body: Body;
  readonly irVersion: number;
  /** Versions by domain; the standard one is ''. */
  readonly opsets: Readonly<Record<string, number>>;
}

const USUAL = { opset: 17, irVersion: 8 };
/** The first IR version that allows opset 20 is 9. */
const TEXTS = { opset: 20, irVersion: 9 };
const NEEDS_TEXTS = new Set(['StringConcat', 'StringSplit', 'RegexFullMatch']);
/** ReduceSum takes its axes as an input since opset 13. */
const REDUCTION = /^Reduce(?!Sum$)/;

/** In ai.onnx.ml, LabelEncoder takes tensors from version 4 on, and TreeEnsemble begins with 5, which came with IR 10. */
const TREES = 'ai.onnx.ml:TreeEnsemble';
const TREES_IR_VERSION = 10;

export function withOpsets(body: Body): Raised {
  const nodes = [...allNodes(body)];
  const { opset, irVersion } = nodes.some(needsTexts) ? TEXTS : USUAL;
  const domains = new Set(nodes.map(({ op }) => splitOperator(op).domain));
  const hasTrees = nodes.some(({ op }) => op === TREES);
  return {
    body: opset === USUAL.opset ? body : raised(body),
    irVersion: hasTrees ? TREES_IR_VERSION : irVersion,
    opsets: {
      '': opset,
      ...(domains.has('ai.onnx.ml') ? { 'ai.onnx.ml': hasTrees ? 5 : 4 } : {}),
      ...(domains.has('com.microsoft') ? { 'com.microsoft': 1 } : {}),
    },
  };
}

/** `domain:name`, or a name alone for the standard operators. */
export function splitOperator(op: string): { domain: string; name: string } {
  const colon = op.indexOf(':');
  return { domain: op.slice(0, Math.max(0, colon)), name: op.slice(colon + 1) };
}

function needsTexts({ op, inputs }: Node): boolean {
  return NEEDS_TEXTS.has(op) || (op === 'Equal' && inputs[0]?.dtype === 'string');
}

function raised(body: Body): Body {
  return { ...body, nodes: body.nodes.map(raisedNode) };
}

function raisedNode(node: Node): Node {
  const attributes = Object.fromEntries(
    Object.entries(node.attributes).map(([name, attribute]) => {
      const inner = bodyOf(attribute);
      return [name, inner ? { body: raised(inner) } : attribute];
    }),
  );
  const { axes, ...rest } = attributes;
  if (REDUCTION.test(node.op) && Array.isArray(axes)) {
    return { ...node, inputs: [node.inputs[0], axesOf(axes as readonly number[])], attributes: rest };
  }
  if (node.op !== 'Split' || node.inputs[1] !== undefined) return { ...node, attributes };
  return { ...node, attributes: { ...attributes, num_outputs: node.outputs.length } };
}

/** Equal lists have one name, and the writer writes one constant for each name. */
function axesOf(axes: readonly number[]): Value {
  const constant = tensorOf('int64', [axes.length], axes);
  return { name: `reduced axes ${axes.join(' ')}`, dtype: 'int64', shape: constant.shape, constant };
}
