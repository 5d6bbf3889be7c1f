/**
 * An ONNX file as the analysis sees it: its graph, bodies and functions, with weights as values. Only small weights have
 * elements; large ones, and those in other files, have a shape.
 */
import { badModel } from '../../lib/contract/errors.ts';
import type { Attribute, Graph, GraphInput, GraphNode } from '../graph/rows/node.ts';
import { size } from '../graph/rows/size.ts';
import { type Fixed, MAX_ELEMENTS } from '../graph/rows/value.ts';
import { elementsOf } from '../onnx/elements.ts';
import { readOnnx } from '../onnx/facts.ts';
import {
  byteStringsOf,
  bytesOf,
  messageOf,
  messagesOf,
  numberOf,
  plainNumbersOf,
  textOf,
  textsOf,
} from '../wire/message.ts';
import type { Message } from '../wire/table.ts';

/** A function of the file: its body is run in place of a node. */
export interface LocalFunction {
  readonly nodes: readonly GraphNode[];
  readonly inputs: readonly string[];
  readonly outputs: readonly string[];
  /** Names of the attributes of a call, and defaults. */
  readonly defaults: ReadonlyMap<string, Attribute>;
  readonly opsets: ReadonlyMap<string, number>;
}

export interface Model {
  readonly graph: Graph;
  /** By domain; the standard one is ''. */
  readonly opsets: ReadonlyMap<string, number>;
  /** By `functionKey`. */
  readonly functions: ReadonlyMap<string, readonly LocalFunction[]>;
}

export function functionKey(domain: string, name: string, overload: string): string {
  return JSON.stringify([domain, name, overload]);
}

/** @throws bad_model when the file is no ONNX model */
export function readModel(path: string): Model {
  const message = readOnnx(path);
  const graph = messageOf(message, 'graph');
  if (!graph) throw badModel(`${path}: expected an ONNX model, found a file without a graph`);
  const functions = new Map<string, LocalFunction[]>();
  for (const item of messagesOf(message, 'functions')) {
    const key = functionKey(domainOf(item), textOf(item, 'name'), textOf(item, 'overload'));
    functions.set(key, [...(functions.get(key) ?? []), functionOf(item)]);
  }
  return {
    graph: graphOf(graph),
    opsets: opsetsOf(message),
    functions,
  };
}

/** A graph with the bodies of its nodes. */
export function* graphsIn(
  graph: Pick<Graph, 'nodes' | 'weights'>,
): Generator<Pick<Graph, 'nodes' | 'weights'>> {
  yield graph;
  for (const { attributes } of graph.nodes) {
    for (const { graph: body } of attributes.values()) if (body) yield* graphsIn(body);
  }
}

function domainOf(message: Message): string {
  const domain = textOf(message, 'domain');
  return domain === 'ai.onnx' ? '' : domain;
}

function opsetsOf(message: Message): Map<string, number> {
  return new Map(messagesOf(message, 'opsets').map((opset) => [domainOf(opset), numberOf(opset, 'version')]));
}

function functionOf(message: Message): LocalFunction {
  return {
    nodes: messagesOf(message, 'nodes').map(nodeOf),
    inputs: textsOf(message, 'inputs'),
    outputs: textsOf(message, 'outputs'),
    defaults: attributesOf(messagesOf(message, 'defaults')),
    opsets: opsetsOf(message),
  };
}

function graphOf(message: Message): Graph {
  const weights = new Map(
    messagesOf(message, 'tensors').map((tensor) => [textOf(tensor, 'name'), tensorOf(tensor)]),
  );
  for (const sparse of messagesOf(message, 'sparses')) {
    const values = messageOf(sparse, 'values');
    const shape = plainNumbersOf(sparse, 'dims').map(size);
    if (values) weights.set(textOf(values, 'name'), { kind: 'fixed', shape });
  }
  return {
    nodes: messagesOf(message, 'nodes').map(nodeOf),
    weights,
    inputs: messagesOf(message, 'inputs')
      .map(inputOf)
      .filter(({ name }) => !weights.has(name)),
    outputs: messagesOf(message, 'outputs').map((output) => textOf(output, 'name')),
  };
}

function inputOf(message: Message): GraphInput {
  const type = messageOf(message, 'type');
  const tensor = type && messageOf(type, 'tensor');
  const shape = tensor && messageOf(tensor, 'shape');
  const dims = shape && messagesOf(shape, 'dims');
  return {
    name: textOf(message, 'name'),
    // Some exporters write -1 for a free size.
    shape: dims?.map((dim) =>
      numberOf(dim, 'value', -1) >= 0 ? numberOf(dim, 'value') : textOf(dim, 'name'),
    ),
  };
}

function nodeOf(message: Message): GraphNode {
  return {
    name: textOf(message, 'name'),
    operator: textOf(message, 'operator'),
    domain: domainOf(message),
    overload: textOf(message, 'overload'),
    inputs: textsOf(message, 'inputs'),
    outputs: textsOf(message, 'outputs'),
    attributes: attributesOf(messagesOf(message, 'attributes')),
  };
}

function attributesOf(messages: readonly Message[]): Map<string, Attribute> {
  return new Map(messages.map((item) => [textOf(item, 'name'), attributeOf(item)]));
}

function attributeOf(message: Message): Attribute {
  const tensor = messageOf(message, 'tensor');
  const graph = messageOf(message, 'graph');
  const [ints, floats] = [plainNumbersOf(message, 'ints'), plainNumbersOf(message, 'floats')];
  return {
    int: numberOf(message, 'int'),
    float: numberOf(message, 'float'),
    text: Buffer.from(bytesOf(message, 'text')).toString(),
    ints,
    floats: floats.slice(0, MAX_ELEMENTS + 1),
    count: Math.max(ints.length, floats.length, byteStringsOf(message, 'texts').length),
    tensor: tensor && tensorOf(tensor),
    graph: graph && graphOf(graph),
    reference: textOf(message, 'reference'),
  };
}

const FLOAT16 = 10;

/** A weight. */
function tensorOf(message: Message): Fixed {
  const type = numberOf(message, 'type');
  const shape = plainNumbersOf(message, 'dims').map(size);
  const count = shape.reduce((all, dim) => all * dim.factor, 1);
  // Of a float16 nothing is known.
  const data = type === FLOAT16 ? undefined : elementsOf(message);
  if (count === 0) return { kind: 'fixed', shape, type, elements: [] };
  if (data?.length !== count) return { kind: 'fixed', shape, type };
  const first = data[0];
  let uniform = true;
  for (let i = 1; i < count && uniform; i++) uniform = Object.is(data[i], first);
  const elements = count <= MAX_ELEMENTS ? Array.from(data, (element) => size(Number(element))) : undefined;
  return { kind: 'fixed', shape, elements, type, uniform };
}
