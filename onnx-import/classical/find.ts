/** Finds the nodes of ai.onnx.ml in a file: in its graph, in bodies of If, Loop and Scan, and in its functions. */
import type { DType } from '../../lib/contract/tensor.ts';
import { dtypeIn } from '../graph/attributes.ts';
import { fieldsOf, type RawField } from '../onnx/rewrite/fields.ts';
import { hasNode, nodeOf, type RawNode } from '../onnx/rewrite/graph.ts';
import { ML_DOMAIN } from '../onnx/rewrite/kernels.ts';
import { opsetIn, ownKernels, usedNames } from '../onnx/rewrite/mender.ts';
import { readMessage } from '../wire/binary.ts';
import { messageOf, numberOf, textOf } from '../wire/message.ts';
import type { Table } from '../wire/table.ts';

export interface FoundNode {
  readonly node: RawNode;
  readonly content: Uint8Array;
  /** Of its inputs, where the file says them. */
  readonly dtypes: readonly (DType | undefined)[];
  /** Of ai.onnx.ml. */
  readonly opset: number;
  readonly isUsed: (output: string) => boolean;
}

const text = (name: string) => ({ name, type: 'string' as const });
const TENSOR_TYPE: Table = { 1: { name: 'elements', type: 'int32' } };
const VALUE: Table = {
  1: text('name'),
  2: { name: 'type', type: () => ({ 1: { name: 'tensor', type: () => TENSOR_TYPE } }) },
};
const INITIALIZER: Table = { 2: { name: 'elements', type: 'int32' }, 8: text('name') };

/** Whether a file has such nodes, without reading its weights. @throws bad_model */
export function hasClassicalNodes(path: string): boolean {
  return hasNode(path, (_operator, domain) => domain === ML_DOMAIN);
}

export function* classicalNodes(file: Uint8Array): Generator<FoundNode> {
  const model = fieldsOf(file);
  const shadowed = ownKernels(model);
  const isOwn = ({ node }: FoundNode) => !shadowed.has(node.operator);
  const used = usedNames(model);
  const [opset, isUsed] = [opsetOf(model, 8), (output: string) => used.has(output)];
  for (const { number, content } of model) {
    if (number === 7)
      yield* [...nodesIn(fieldsOf(content), { at: 1, opset, isUsed, outer: new Map() })].filter(isOwn);
    if (number !== 25) continue;
    const body = fieldsOf(content);
    const found = nodesIn(body, { at: 7, opset: opsetOf(body, 9), isUsed, outer: new Map() });
    yield* [...found].filter(isOwn);
  }
}

interface Place extends Pick<FoundNode, 'isUsed' | 'opset'> {
  /** The number of the field with nodes. */
  readonly at: number;
  readonly outer: ReadonlyMap<string, DType>;
}

function* nodesIn(fields: readonly RawField[], place: Place): Generator<FoundNode> {
  const { at, opset, isUsed, outer } = place;
  const known = new Map([...outer, ...fields.flatMap((item) => typeIn(item, at))]);
  for (const { number, content } of fields) {
    if (number !== at) continue;
    const node = nodeOf(content);
    if (node.domain === ML_DOMAIN) {
      yield { node, content, dtypes: node.inputs.map((input) => known.get(input)), opset, isUsed };
      continue;
    }
    const cast = node.operator === 'Cast' ? dtypeIn(node.number('to')) : undefined;
    if (cast) known.set(node.outputs[0] ?? '', cast);
    for (const attribute of fieldsOf(content).filter((item) => item.number === 5)) {
      for (const body of fieldsOf(attribute.content)) {
        const isGraph = body.number === 6 || body.number === 11;
        if (isGraph) yield* nodesIn(fieldsOf(body.content), { ...place, at: 1, outer: known });
      }
    }
  }
}

/** The type of an input, an inner value or an initializer. */
function typeIn({ number, content }: RawField, at: number): (readonly [string, DType])[] {
  if (at !== 1 || ![5, 11, 13].includes(number)) return [];
  const message = readMessage(content, number === 5 ? INITIALIZER : VALUE);
  const type = messageOf(message, 'type');
  const tensor = number === 5 ? message : type && messageOf(type, 'tensor');
  const dtype = tensor && dtypeIn(numberOf(tensor, 'elements'));
  return dtype ? [[textOf(message, 'name'), dtype]] : [];
}

function opsetOf(fields: readonly RawField[], at: number): number {
  return Math.max(1, opsetIn(fields, at, [ML_DOMAIN]) ?? 1);
}
