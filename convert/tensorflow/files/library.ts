/**
 * The functions of a file: which node calls which, with each body read once. Ten functions that call each other twice
 * are a thousand nodes, so all bodies share one node limit.
 */
import { badModel } from '../../../lib/contract/errors.ts';
import { mapOf, messageOf, textOf } from '../../wire/message.ts';
import type { Message, MessageMap } from '../../wire/table.ts';
import type { OutputTable } from './outputs.ts';
import { MAX_NODES, type RawFunction, type RawGraph, type RawNode, readFunction } from './raw.ts';

/** The functions that a node was inlined from, innermost first. */
export interface CallStack {
  readonly name: string;
  readonly depth: number;
  readonly parent: CallStack | undefined;
}

const MAX_DEPTH = 100;
const CALLS = new Set(['PartitionedCall', 'StatefulPartitionedCall']);

interface Callee {
  readonly name: string;
  /** What the caller says of the function's own attributes. */
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

  /** The function a node plainly calls; undefined for all other nodes. */
  calleeOf(node: RawNode): Callee | undefined {
    if (CALLS.has(node.op)) {
      const value = node.attributes.get('f') as Message | undefined;
      const func = value === undefined ? undefined : messageOf(value, 'func');
      if (func === undefined) throw badModel(`node "${node.name}" (${node.op}) names no function`);
      return { name: textOf(func, 'name'), attributes: mapOf(func, 'attr') };
    }
    return this.definitions.has(node.op) ? { name: node.op, attributes: node.attributes } : undefined;
  }

  /** @throws bad_model for a function the file does not have, and beyond the limit of nodes */
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

/** The stack inside `name`. @throws bad_model for a function that calls itself, over others or directly */
export function enter(name: string, parent: CallStack | undefined): CallStack {
  for (let frame = parent; frame !== undefined; frame = frame.parent) {
    if (frame.name === name) throw badModel(`function "${name}" calls itself`);
  }
  const depth = (parent?.depth ?? 0) + 1;
  if (depth > MAX_DEPTH) throw badModel(`functions call each other more than ${MAX_DEPTH} deep`);
  return { name, depth, parent };
}
