/**
 * Reads the nodes and functions of a GraphDef with their attributes still encoded. Inputs are written as `x`, `x:0`
 * or `^x`, and in functions as `argument` or `x:output:0`; all become `node:port`.
 */
import { badModel } from '../../../../lib/contract/errors.ts';
import { mapOf, messageOf, messagesOf, numberOf, textOf, textsOf } from '../../../wire/message.ts';
import type { Message, MessageMap } from '../../../wire/table.ts';
import type { TfAttributes } from '../graph.ts';
import { type OutputTable, outputTable, portOf } from './outputs.ts';

/** Limits a graph with its functions inlined, and all function bodies together. */
export const MAX_NODES = 200_000;

export interface RawNode {
  readonly name: string;
  readonly op: string;
  /** `node:port`. */
  readonly inputs: readonly string[];
  readonly controlInputs: readonly string[];
  readonly attributes: MessageMap;
  /** The decoded attributes of a node that this program made; `attributes` is empty then. */
  readonly made?: TfAttributes;
}

interface RawArgument {
  readonly name: string;
  /** A DataType number. */
  readonly type: number;
}

/** A function's body; the tensors of its arguments are `argument:0`. */
export interface RawFunction {
  readonly name: string;
  readonly inputs: readonly RawArgument[];
  readonly outputs: readonly { readonly name: string; readonly tensor: string }[];
  readonly controlOutputs: readonly string[];
  readonly nodes: ReadonlyMap<string, RawNode>;
}

export interface RawGraph {
  readonly nodes: ReadonlyMap<string, RawNode>;
  readonly functions: ReadonlyMap<string, Message>;
  readonly outputs: OutputTable;
  /** The version of the graph format. */
  readonly producer: number;
}

/** @throws bad_model for a duplicate node name, an unreadable input or too many nodes */
export function readGraph(graph: Message, operations: readonly Message[] = []): RawGraph {
  const functions = new Map<string, Message>();
  const signatures: Message[] = [];
  const library = messageOf(graph, 'library');
  for (const definition of library === undefined ? [] : messagesOf(library, 'function')) {
    const signature = messageOf(definition, 'signature');
    if (signature === undefined) continue;
    functions.set(textOf(signature, 'name'), definition);
    signatures.push(signature);
  }
  const versions = messageOf(graph, 'versions');
  return {
    nodes: readNodes(messagesOf(graph, 'node'), splitGraphInput),
    functions,
    outputs: outputTable([...operations, ...signatures]),
    producer: versions === undefined ? 0 : numberOf(versions, 'producer'),
  };
}

/** Reads a function of the library and turns its references into ports. */
export function readFunction(definition: Message, outputs: OutputTable): RawFunction {
  const signature = messageOf(definition, 'signature') ?? {};
  const name = textOf(signature, 'name');
  const inputs = messagesOf(signature, 'input_arg').map((argument) => readArgument(argument, name));
  const messages = messagesOf(definition, 'node_def');
  const owners = new Map(messages.map((message) => [textOf(message, 'name'), message]));
  const split = (input: string): string => {
    const [node = '', output, index] = input.split(':');
    if (output === undefined) return `${node}:0`;
    const owner = owners.get(node);
    // One colon is the form of the main graph, which some tools also write into functions.
    if (index === undefined) return splitGraphInput(input);
    if (owner === undefined || !/^\d{1,6}$/.test(index)) return badInput(input, name);
    const facts = { name: node, op: textOf(owner, 'op'), attributes: mapOf(owner, 'attr') };
    return `${node}:${portOf(outputs, facts, output, Number(index))}`;
  };
  const results = mapOf(definition, 'ret');
  return {
    name,
    inputs,
    outputs: messagesOf(signature, 'output_arg').map((argument) => {
      const output = readArgument(argument, name).name;
      const tensor = results.get(output);
      if (typeof tensor !== 'string') {
        throw badModel(`function "${name}" returns nothing for its output "${output}"`);
      }
      return { name: output, tensor: split(tensor) };
    }),
    controlOutputs: [...mapOf(definition, 'control_ret').values()].map(String),
    nodes: readNodes(messages, split),
  };
}

function readArgument(argument: Message, owner: string): RawArgument {
  const name = textOf(argument, 'name');
  const list = textOf(argument, 'number_attr') || textOf(argument, 'type_list_attr');
  if (list !== '') {
    throw badModel(`function "${owner}": its argument "${name}" is a list, which is not supported`);
  }
  return { name, type: numberOf(argument, 'type') };
}

function readNodes(messages: readonly Message[], split: (input: string) => string): Map<string, RawNode> {
  if (messages.length > MAX_NODES) {
    throw badModel(`a graph has ${messages.length} nodes, at most ${MAX_NODES} are read`);
  }
  const nodes = new Map<string, RawNode>();
  for (const message of messages) {
    const name = textOf(message, 'name');
    if (name === '') throw badModel('a node has no name');
    if (nodes.has(name)) throw badModel(`two nodes are named "${name}"`);
    const inputs: string[] = [];
    const controlInputs: string[] = [];
    for (const input of textsOf(message, 'input')) {
      if (input.startsWith('^')) controlInputs.push(input.slice(1));
      else inputs.push(split(input));
    }
    nodes.set(name, {
      name,
      op: textOf(message, 'op'),
      inputs,
      controlInputs,
      attributes: mapOf(message, 'attr'),
    });
  }
  return nodes;
}

/** Turns `x` or `x:0` into `x:0`. */
export function splitGraphInput(input: string): string {
  if (!input.includes(':')) return `${input}:0`;
  return /^[^:]+:\d{1,6}$/.test(input) ? input.replace(/:0+(?=\d)/, ':') : badInput(input, '');
}

function badInput(input: string, owner: string): never {
  const where = owner === '' ? '' : `function "${owner}": `;
  throw badModel(`${where}"${input}" does not name a tensor of a node`);
}
