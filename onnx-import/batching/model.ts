/**
 * An ONNX file as the analysis sees it: its graph, bodies and functions, with weights as values. Only small weights have
 * elements; large ones, and those in other files, have a shape.
 */
import { badModel } from '../../lib/contract/errors.ts';
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
import { size } from './size.ts';
import { type Fixed, MAX_ELEMENTS } from './value.ts';

export interface GraphInput {
  readonly name: string;
  /** Undefined where not even the rank is said; a text, or none, is a free size. */
  readonly shape: readonly (number | string)[] | undefined;
}

export interface Graph {
  readonly nodes: readonly GraphNode[];
  readonly weights: ReadonlyMap<string, Fixed>;
  /** Without those that are weights. */
  readonly inputs: readonly GraphInput[];
  readonly outputs: readonly string[];
}

export interface GraphNode {
  readonly name: string;
  readonly operator: string;
  /** Empty for the standard operators. */
  readonly domain: string;
  /** Which of several functions of that name it calls. */
  readonly overload: string;
  /** An empty name is an optional input left out. */
  readonly inputs: readonly string[];
  readonly outputs: readonly string[];
  readonly attributes: ReadonlyMap<string, Attribute>;
}

export interface Attribute {
  readonly int: number;
  readonly float: number;
  readonly text: string;
  readonly ints: readonly number[];
  /** As far as they are few. */
  readonly floats: readonly number[];
  /** How many numbers or texts a list has; 0 for one that skim.ts leaves out, of texts at most MOST_TEXTS. */
  readonly count: number;
  readonly tensor: Fixed | undefined;
  readonly graph: Graph | undefined;
  /** In a function: the attribute of the call that it takes its value from. */
  readonly reference: string;
}

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
