/**
 * Reads an ONNX file's opset, IR version and the paths of its external weights. The paths come from the file, so one
 * that leaves the model's directory is refused.
 */
import { basename } from 'node:path';
import { badModel, DAMAGED, ServingError } from '../../lib/contract/errors.ts';
import { readMessage } from '../wire/binary.ts';
import { has, messageOf, messagesOf, numberOf, textOf, textsOf } from '../wire/message.ts';
import type { Message } from '../wire/table.ts';
import { skimMessage } from './skim.ts';
import { MODEL } from './tables.ts';

export interface OnnxFacts {
  /** The opset of the standard operators. */
  readonly opset: number;
  readonly irVersion: number;
  /** Inputs and outputs of rank 0, which onnxruntime does not tell from an unknown rank. */
  readonly scalars: readonly string[];
  /** Inputs of unknown rank. */
  readonly shapelessInputs: readonly string[];
  readonly shapelessOutputs: readonly string[];
  /** External weight files, relative to the model's directory, with `/`. */
  readonly externalFiles: readonly string[];
  /** How many bytes each of them has at least, as far as the model says it. */
  readonly externalBytes: ReadonlyMap<string, number>;
}

/** @throws bad_model when the file is not an ONNX model, or names a file outside its directory */
export async function readOnnxFacts(path: string): Promise<OnnxFacts> {
  const name = basename(path);
  const model = readOnnx(path);
  const graph = messageOf(model, 'graph');
  if (!graph || !has(model, 'opsets')) {
    throw badModel(
      `${path}: expected an ONNX model, found a file without a graph; fetch it again, or export it again`,
    );
  }
  const opsets = messagesOf(model, 'opsets');
  const isStandard = (opset: Message) => ['', 'ai.onnx'].includes(textOf(opset, 'domain'));
  const files = new Map<string, number>();
  visitTensors(graph, (tensor) => collectLocation(tensor, name, files));
  for (const inner of messagesOf(model, 'functions')) {
    visitTensors(inner, (tensor) => collectLocation(tensor, name, files));
  }
  return {
    opset: Math.max(0, ...opsets.filter(isStandard).map((opset) => numberOf(opset, 'version'))),
    irVersion: numberOf(model, 'irVersion'),
    scalars: namesOf([...messagesOf(graph, 'inputs'), ...messagesOf(graph, 'outputs')], isScalar),
    shapelessInputs: namesOf(messagesOf(graph, 'inputs'), isShapeless),
    shapelessOutputs: namesOf(messagesOf(graph, 'outputs'), isShapeless),
    externalFiles: [...files.keys()].sort(),
    externalBytes: files,
  };
}

/** The file without its large weights, which say nothing. @throws bad_model when it is damaged */
export function readOnnx(path: string): Message {
  const bytes = skimMessage(path, MODEL);
  try {
    return readMessage(bytes, MODEL, { what: 'protobuf' });
  } catch (error) {
    const { code, message } = ServingError.from(error);
    if (code !== 'bad_model') throw error;
    throw badModel(`${path}: ${DAMAGED} (${message})`, { cause: error });
  }
}

function namesOf(values: readonly Message[], isWanted: (value: Message) => boolean): string[] {
  return values.filter(isWanted).map((value) => textOf(value, 'name'));
}

function tensorTypeOf(port: Message): Message | undefined {
  const type = messageOf(port, 'type');
  return type && messageOf(type, 'tensor');
}

function isShapeless(port: Message): boolean {
  const tensor = tensorTypeOf(port);
  return tensor !== undefined && !has(tensor, 'shape');
}

function isScalar(port: Message): boolean {
  return tensorTypeOf(port) !== undefined && !isShapeless(port) && dimsOf(port).length === 0;
}

/** The sizes of an input or output; 0 where the file leaves one free, and none of an unknown rank. */
export function dimsOf(port: Message): number[] {
  const tensor = tensorTypeOf(port);
  const shape = tensor && messageOf(tensor, 'shape');
  return (shape ? messagesOf(shape, 'dims') : []).map((dim) => numberOf(dim, 'value'));
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

/** Constants by name: tensors, and attributes of `Constant` that hold a list themselves. */
export function constantsOf(graph: Message): (readonly [name: string, constant: Message])[] {
  const weights = messagesOf(graph, 'tensors').map((tensor) => [textOf(tensor, 'name'), tensor] as const);
  const made = messagesOf(graph, 'nodes').flatMap((node) => {
    if (textOf(node, 'operator') !== 'Constant') return [];
    const [name = ''] = textsOf(node, 'outputs');
    return messagesOf(node, 'attributes').map((item) => [name, messageOf(item, 'tensor') ?? item] as const);
  });
  return [...weights, ...made];
}

function collectLocation(tensor: Message, name: string, files: Map<string, number>): void {
  const entries = messagesOf(tensor, 'external');
  const valuesOf = (key: string) =>
    entries.filter((entry) => textOf(entry, 'key') === key).map((entry) => textOf(entry, 'value'));
  const [offset = 0] = valuesOf('offset');
  const [length = 0] = valuesOf('length');
  const end = Number(offset) + Number(length);
  for (const location of valuesOf('location')) {
    // onnxruntime treats `\` as a separator on Windows.
    const isInside = !/^[/\\]|^[a-z]:|(^|[/\\])\.\.([/\\]|$)|\0/i.test(location) && location !== '';
    if (!isInside) {
      const shown = JSON.stringify(location.slice(0, 200));
      throw badModel(
        `${name}: its weights lie in ${shown}, outside the model's folder; in Python: onnx.save(onnx.load("${name}"), "copy.onnx") puts them into the file`,
      );
    }
    const path = location.replaceAll('\\', '/').replace(/^(\.\/)+/, '');
    files.set(path, Math.max(files.get(path) ?? 0, Number.isFinite(end) ? end : 0));
  }
}
