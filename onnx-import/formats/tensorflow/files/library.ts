/**
 * Resolves the functions of a file: which function a node calls, with each body read once. Inlining grows
 * exponentially (ten functions that call each other twice are a thousand nodes), so all bodies share one node limit.
 */
import { badModel } from '../../../../lib/contract/errors.ts';
import { mapOf, messageOf, textOf } from '../../../wire/message.ts';
import type { Message, MessageMap } from '../../../wire/table.ts';
import type { OutputTable } from './outputs.ts';
import { MAX_NODES, type RawFunction, type RawGraph, type RawNode, readFunction } from './raw.ts';

/** The functions from which a node was inlined, innermost first. */
export interface CallStack {
  readonly name: string;
  readonly depth: number;
  readonly parent: CallStack | undefined;
}

const MAX_DEPTH = 100;
const CALLS = new Set(['PartitionedCall', 'StatefulPartitionedCall']);

interface Callee {
  readonly name: string;
  /** The caller's values for the function's own attributes. */
  readonly attributes: MessageMap;
}

export class Library {
  readonly outputs: OutputTable;
  private readonly definitions: ReadonlyMap<string, Message>;
  private readonly bodies = new Map<string, RawFunction>();
  private nodesLeft = MAX_NODES;

  constructor(graph: RawGraph) {
    this.definitions = graph.functions;
    this.outputs = graph.outputs;
  }

  /** The function that a node calls directly; undefined for all other nodes. */
  calleeOf(node: RawNode): Callee | undefined {
    if (CALLS.has(node.op)) {
      const value = node.attributes.get('f') as Message | undefined;
      const func = value === undefined ? undefined : messageOf(value, 'func');
      if (func === undefined) throw badModel(`node "${node.name}" (${node.op}) names no function`);
      return { name: textOf(func, 'name'), attributes: mapOf(func, 'attr') };
    }
    return this.definitions.has(node.op) ? { name: node.op, attributes: node.attributes } : undefined;
  }

  /** @throws bad_model for a function that is not in the file, or when the node limit is reached */
  body(name: string): RawFunction {
    let body = this.bodies.get(name);
    if (body === undefined) {
      const definition = this.definitions.get(name);
      if (definition === undefined) throw badModel(`function "${name}" is called and is not in the file`);
      body = readFunction(definition, this.outputs);
      this.bodies.set(name, body);
    }
    this.nodesLeft -= body.nodes.size + 1;
    if (this.nodesLeft < 0) throw badModel(`inlining the functions gives more than ${MAX_NODES} nodes`);
    return body;
  }
}

/**
 * Returns the stack inside `name`.
 * @throws bad_model for a function that calls itself, directly or through others
 */
export function enter(name: string, parent: CallStack | undefined): CallStack {
  for (let frame = parent; frame !== undefined; frame = frame.parent) {
    if (frame.name === name) throw badModel(`function "${name}" calls itself`);
  }
  const depth = (parent?.depth ?? 0) + 1;
  if (depth > MAX_DEPTH) throw badModel(`functions call each other more than ${MAX_DEPTH} deep`);
  return { name, depth, parent };
}
