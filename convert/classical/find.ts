/** Finds the nodes of ai.onnx.ml in a file: in its graph, in bodies of If, Loop and Scan, and in its functions. */
import type { DType } from '../../lib/contract/tensor.ts';
import { skimMessage } from '../batching/skim.ts';
import { ELEMENT_TYPES } from '../graph/attributes.ts';
import { fieldsOf, type RawField } from '../onnx/rewrite/fields.ts';
import { nodeOf, OPERATORS, type RawNode } from '../onnx/rewrite/graph.ts';
import { ML_DOMAIN } from '../onnx/rewrite/kernels.ts';
import { usedNames } from '../onnx/rewrite/mender.ts';
import { readMessage } from '../wire/binary.ts';
import { messageOf, messagesOf, numberOf, textOf } from '../wire/message.ts';
import type { Message, Table } from '../wire/table.ts';

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
const OPSET: Table = { 1: text('domain'), 2: { name: 'version', type: 'int64' } };
const TENSOR_TYPE: Table = { 1: { name: 'elements', type: 'int32' } };
const VALUE: Table = {
  1: text('name'),
  2: { name: 'type', type: () => ({ 1: { name: 'tensor', type: () => TENSOR_TYPE } }) },
};
const INITIALIZER: Table = { 2: { name: 'elements', type: 'int32' }, 8: text('name') };
const OWN_FUNCTION: Table = { 1: text('name'), 10: text('domain') };

/** Whether a file has such nodes, without reading its weights. @throws bad_model */
export function hasClassicalNodes(path: string): boolean {
  const has = (graph: Message): boolean =>
    messagesOf(graph, 'nodes').some(
      (node) =>
        textOf(node, 'domain') === ML_DOMAIN ||
        messagesOf(node, 'attributes').some((attribute) => {
          const body = messageOf(attribute, 'graph');
          return [...(body ? [body] : []), ...messagesOf(attribute, 'graphs')].some(has);
        }),
    );
  const model = readMessage(skimMessage(path, OPERATORS), OPERATORS);
  const graph = messageOf(model, 'graph');
  return [...(graph ? [graph] : []), ...messagesOf(model, 'functions')].some(has);
}

export function* classicalNodes(file: Uint8Array): Generator<FoundNode> {
  const model = fieldsOf(file);
  const functions = model.filter(({ number }) => number === 25);
  const shadowed = new Set(
    functions.map(({ content }) => {
      const own = readMessage(content, OWN_FUNCTION);
      return `${textOf(own, 'domain')}:${textOf(own, 'name')}`;
    }),
  );
  const isOwn = ({ node }: FoundNode) => !shadowed.has(`${node.domain}:${node.operator}`);
  const used = usedNames(model);
  const [opset, isUsed] = [opsetOf(model, 8), (output: string) => used.has(output)];
  for (const { number, content } of model) {
    if (number === 7)
      yield* nodesIn(fieldsOf(content), { at: 1, opset, isUsed, outer: new Map() }).filter(isOwn);
    if (number !== 25) continue;
    const body = fieldsOf(content);
    yield* nodesIn(body, { at: 7, opset: opsetOf(body, 9), isUsed, outer: new Map() }).filter(isOwn);
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
    const cast = node.operator === 'Cast' ? dtypeOf(node.number('to')) : undefined;
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
  const dtype = tensor && dtypeOf(numberOf(tensor, 'elements'));
  return dtype ? [[textOf(message, 'name'), dtype]] : [];
}

function dtypeOf(code: number): DType | undefined {
  return (Object.keys(ELEMENT_TYPES) as DType[]).find((dtype) => ELEMENT_TYPES[dtype] === code);
}

function opsetOf(fields: readonly RawField[], at: number): number {
  const versions = fields.flatMap(({ number, content }) => {
    if (number !== at) return [];
    const opset = readMessage(content, OPSET);
    return textOf(opset, 'domain') === ML_DOMAIN ? [numberOf(opset, 'version')] : [];
  });
  return Math.max(1, ...versions);
}
