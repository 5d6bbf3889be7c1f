/**
 * Reads an ONNX file's opset, IR version and the paths of its external weights. The paths come from the file, so one
 * that leaves the model's directory is refused.
 */
import { readFile } from 'node:fs/promises';
import { basename } from 'node:path';
import { badModel, DAMAGED, ServingError } from '../../lib/contract/errors.ts';
import { readMessage } from '../wire/binary.ts';
import { has, messageOf, messagesOf, numberOf, textOf } from '../wire/message.ts';
import type { Message, Table } from '../wire/table.ts';

export interface OnnxFacts {
  /** The opset of the standard operators. */
  readonly opset: number;
  readonly irVersion: number;
  /** Inputs of unknown rank. */
  readonly shapelessInputs: readonly string[];
  readonly shapelessOutputs: readonly string[];
  /** External weight files, relative to the model's directory, with `/`. */
  readonly externalFiles: readonly string[];
}

const ENTRY: Table = { 1: { name: 'key', type: 'string' }, 2: { name: 'value', type: 'string' } };
const TENSOR: Table = { 13: { name: 'external', type: () => ENTRY, repeated: true } };
const SPARSE: Table = {
  1: { name: 'values', type: () => TENSOR },
  2: { name: 'indices', type: () => TENSOR },
};
const ATTRIBUTE: Table = {
  5: { name: 'tensor', type: () => TENSOR },
  6: { name: 'graph', type: () => GRAPH },
  10: { name: 'tensors', type: () => TENSOR, repeated: true },
  11: { name: 'graphs', type: () => GRAPH, repeated: true },
  22: { name: 'sparse', type: () => SPARSE },
  23: { name: 'sparses', type: () => SPARSE, repeated: true },
};
const NODE: Table = { 5: { name: 'attributes', type: () => ATTRIBUTE, repeated: true } };
const TENSOR_TYPE: Table = { 2: { name: 'shape', type: () => NOTHING } };
const NOTHING: Table = {};
const TYPE: Table = { 1: { name: 'tensor', type: () => TENSOR_TYPE } };
const VALUE: Table = { 1: { name: 'name', type: 'string' }, 2: { name: 'type', type: () => TYPE } };
const GRAPH: Table = {
  1: { name: 'nodes', type: () => NODE, repeated: true },
  5: { name: 'tensors', type: () => TENSOR, repeated: true },
  11: { name: 'inputs', type: () => VALUE, repeated: true },
  12: { name: 'outputs', type: () => VALUE, repeated: true },
  15: { name: 'sparses', type: () => SPARSE, repeated: true },
};
const FUNCTION: Table = { 7: { name: 'nodes', type: () => NODE, repeated: true } };
const OPSET: Table = { 1: { name: 'domain', type: 'string' }, 2: { name: 'version', type: 'int64' } };
const MODEL: Table = {
  1: { name: 'irVersion', type: 'int64' },
  7: { name: 'graph', type: () => GRAPH },
  8: { name: 'opsets', type: () => OPSET, repeated: true },
  25: { name: 'functions', type: () => FUNCTION, repeated: true },
};

/** @throws bad_model when the file is not an ONNX model, or names a file outside its directory */
export async function readOnnxFacts(path: string): Promise<OnnxFacts> {
  const name = basename(path);
  const model = parsed(await bytesOf(path), path);
  const graph = messageOf(model, 'graph');
  if (!graph || !has(model, 'opsets')) {
    throw badModel(`${path}: expected an ONNX model, found a file without a graph`);
  }
  const opsets = messagesOf(model, 'opsets');
  const isStandard = (opset: Message) => ['', 'ai.onnx'].includes(textOf(opset, 'domain'));
  const files = new Set<string>();
  visitTensors(graph, (tensor) => collectLocation(tensor, name, files));
  for (const inner of messagesOf(model, 'functions')) {
    visitTensors(inner, (tensor) => collectLocation(tensor, name, files));
  }
  return {
    opset: Math.max(0, ...opsets.filter(isStandard).map((opset) => numberOf(opset, 'version'))),
    irVersion: numberOf(model, 'irVersion'),
    shapelessInputs: shapelessOf(messagesOf(graph, 'inputs')),
    shapelessOutputs: shapelessOf(messagesOf(graph, 'outputs')),
    externalFiles: [...files].sort(),
  };
}

function parsed(bytes: Uint8Array, path: string): Message {
  try {
    return readMessage(bytes, MODEL, { what: 'protobuf' });
  } catch (error) {
    const { code, message } = ServingError.from(error);
    if (code !== 'bad_model') throw error;
    throw badModel(`${path}: ${DAMAGED} (${message})`, { cause: error });
  }
}

function shapelessOf(values: readonly Message[]): string[] {
  return values.filter(isShapeless).map((value) => textOf(value, 'name'));
}

function isShapeless(input: Message): boolean {
  const type = messageOf(input, 'type');
  const tensor = type && messageOf(type, 'tensor');
  return tensor !== undefined && !has(tensor, 'shape');
}

async function bytesOf(path: string): Promise<Uint8Array> {
  try {
    return await readFile(path);
  } catch (error) {
    // An ONNX file is one protobuf, which ends at 2 GB.
    const { code, message } = error as NodeJS.ErrnoException;
    const why = code === 'ERR_FS_FILE_TOO_LARGE' ? 'it is over 2 GB, which no ONNX file can be' : message;
    throw badModel(`${path} cannot be read: ${why}`, { cause: error });
  }
}

/** Visits the tensors of a graph or function, including bodies. The reader has limited their nesting. */
function visitTensors(graph: Message, visit: (tensor: Message) => void): void {
  const sparse = (message: Message | undefined) => {
    for (const side of ['values', 'indices']) {
      const tensor = message && messageOf(message, side);
      if (tensor) visit(tensor);
    }
  };
  for (const tensor of messagesOf(graph, 'tensors')) visit(tensor);
  for (const message of messagesOf(graph, 'sparses')) sparse(message);
  for (const node of messagesOf(graph, 'nodes')) {
    for (const attribute of messagesOf(node, 'attributes')) {
      const tensor = messageOf(attribute, 'tensor');
      if (tensor) visit(tensor);
      for (const item of messagesOf(attribute, 'tensors')) visit(item);
      sparse(messageOf(attribute, 'sparse'));
      for (const item of messagesOf(attribute, 'sparses')) sparse(item);
      const body = messageOf(attribute, 'graph');
      for (const inner of [...(body ? [body] : []), ...messagesOf(attribute, 'graphs')])
        visitTensors(inner, visit);
    }
  }
}

function collectLocation(tensor: Message, name: string, files: Set<string>): void {
  for (const entry of messagesOf(tensor, 'external')) {
    if (textOf(entry, 'key') !== 'location') continue;
    const location = textOf(entry, 'value');
    // onnxruntime treats `\` as a separator on Windows.
    const isInside = !/^[/\\]|^[a-z]:|(^|[/\\])\.\.([/\\]|$)|\0/i.test(location) && location !== '';
    if (!isInside) {
      const shown = JSON.stringify(location.slice(0, 200));
      throw badModel(`${name}: its weights lie in ${shown}, outside the model's folder`);
    }
    files.add(location.replaceAll('\\', '/').replace(/^(\.\/)+/, ''));
  }
}
