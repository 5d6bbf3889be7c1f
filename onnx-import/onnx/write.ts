/**
 * Writes a graph as an ONNX file. Protobuf puts the length of a message before its content, so
 * lengths are computed first and weights are written without a copy. A protobuf ends at 2 GB; larger weights go to a
 * second file.
 */
import { open } from 'node:fs/promises';
import { basename } from 'node:path';
import { ServingError } from '../../lib/contract/errors.ts';
import type { Tensor } from '../../lib/contract/tensor.ts';
import { ELEMENT_TYPES } from '../graph/attributes.ts';
import { allNodes } from '../graph/prune.ts';
import type { Attribute, Body, Node, Value, ValueType } from '../graph/value.ts';
import { bytes, type Chunk, float, integer, message, packedFloats, text } from '../wire/chunk.ts';
import { splitOperator, withOpsets } from './opset.ts';

/** Below protobuf's 2 GB, with room for everything except weights. */
const MAX_FILE_BYTES = 2 ** 31 - 64 * 1024 * 1024;
/** Smaller tensors stay in the model's file, where onnxruntime can read shapes while it loads. */
const EXTERNAL_FROM_BYTES = 1024;

interface WrittenOnnx {
  /** The model's file, and the file of its weights if there is one. */
  readonly files: readonly string[];
  readonly opset: number;
  readonly irVersion: number;
}

interface WriteOptions {
  readonly producerVersion: string;
  /** The size from which weights go to a second file. For tests. */
  readonly maxFileBytes?: number;
  /** Called with the bytes written so far and the total. */
  readonly onProgress?: (writtenBytes: number, totalBytes: number) => void;
}

/** Writes `path`, and `<path>.data` beside it when the weights are too large for one protobuf. */
export async function writeOnnx(body: Body, path: string, options: WriteOptions): Promise<WrittenOnnx> {
  const whole = modelChunk(body, undefined, options.producerVersion);
  const { opsets, irVersion } = withOpsets(body);
  const versions = { opset: opsets[''] as number, irVersion };
  if (whole.length <= (options.maxFileBytes ?? MAX_FILE_BYTES)) {
    await writeParts(path, whole.parts, (written) => options.onProgress?.(written, whole.length));
    return { files: [path], ...versions };
  }
  const external = new ExternalWeights(`${basename(path)}.data`);
  const model = modelChunk(body, external, options.producerVersion);
  const total = model.length + external.length;
  await writeParts(`${path}.data`, external.parts, (written) => options.onProgress?.(written, total));
  await writeParts(path, model.parts, () => options.onProgress?.(total, total));
  return { files: [path, `${path}.data`], ...versions };
}

/** Returns the file as one array, for small models and tests. */
export function onnxBytes(body: Body): Uint8Array {
  return Buffer.concat(modelChunk(body, undefined, '').parts);
}

/** The largest single write, so that writing does not copy everything. */
const WRITE_BYTES = 16 * 1024 * 1024;

/** Writes a new file. */
export async function writeParts(
  path: string,
  parts: readonly Uint8Array[],
  onWritten: (bytes: number) => void = () => undefined,
): Promise<void> {
  const file = await open(path, 'wx');
  let written = 0;
  try {
    for (const part of parts) {
      for (let at = 0; at < part.byteLength; at += WRITE_BYTES) {
        const piece = part.subarray(at, at + WRITE_BYTES);
        await file.writeFile(piece);
        written += piece.byteLength;
        onWritten(written);
      }
    }
  } finally {
    await file.close();
  }
}

/** A separate file of weights, each aligned to a page so that it can be mapped. */
class ExternalWeights {
  readonly location: string;
  readonly parts: Uint8Array[] = [];
  length = 0;

  constructor(location: string) {
    this.location = location;
  }

  add(data: Uint8Array): { offset: number; length: number } {
    const padding = (4096 - (this.length % 4096)) % 4096;
    if (padding > 0) this.parts.push(new Uint8Array(padding));
    const offset = this.length + padding;
    this.parts.push(data);
    this.length = offset + data.byteLength;
    return { offset, length: data.byteLength };
  }
}

/** All constants of the nodes and bodies, which become initializers of the outermost graph. */
function constantsOf(body: Body): Map<string, Value> {
  const inputs = [...allNodes(body)].flatMap((node) => node.inputs);
  return new Map(inputs.flatMap((input) => (input?.constant ? [[input.name, input] as const] : [])));
}

function modelChunk(given: Body, external: ExternalWeights | undefined, version: string): Chunk {
  const { body, irVersion, opsets } = withOpsets(given);
  return message([
    integer(1, irVersion),
    text(2, 'cluster-serving'),
    ...(version ? [text(3, version)] : []),
    bytes(7, graphChunk(body, constantsOf(body), external)),
    ...Object.entries(opsets).map(([domain, opset]) =>
      bytes(8, message([text(1, domain), integer(2, opset)])),
    ),
  ]);
}

function graphChunk(body: Body, constants?: ReadonlyMap<string, Value>, external?: ExternalWeights): Chunk {
  return message([
    ...body.nodes.map((node) => bytes(1, nodeChunk(node))),
    text(2, 'model'),
    ...[...(constants?.values() ?? [])].map((value) =>
      bytes(5, tensorChunk(value.constant as Tensor, value.name, external)),
    ),
    ...body.inputs.map((value) => bytes(11, valueChunk(value.name, value))),
    ...body.outputs.map(({ value }) => bytes(12, valueChunk(value.name, value))),
  ]);
}

function nodeChunk({ op, inputs, outputs, attributes }: Node): Chunk {
  const last = inputs.findLastIndex((input) => input !== undefined);
  const { domain, name: operator } = splitOperator(op);
  return message([
    ...inputs.slice(0, last + 1).map((input) => text(1, input?.name ?? '')),
    ...outputs.map(({ name }) => text(2, name)),
    text(3, outputs[0]?.name ?? ''),
    text(4, operator),
    ...(domain ? [text(7, domain)] : []),
    ...Object.entries(attributes).flatMap(([name, attribute]) =>
      attribute === undefined ? [] : [bytes(5, attributeChunk(name, attribute))],
    ),
  ]);
}

export function attributeChunk(name: string, attribute: Attribute): Chunk {
  const of = (type: number, ...fields: Chunk[]) => message([text(1, name), ...fields, integer(20, type)]);
  if (typeof attribute === 'number') return of(2, integer(3, attribute));
  if (typeof attribute === 'string') return of(3, text(4, attribute));
  if ('float' in attribute) return of(1, float(2, attribute.float));
  if ('floats' in attribute) return of(6, packedFloats(7, attribute.floats));
  if ('strings' in attribute) return of(8, ...attribute.strings.map((item) => text(9, item)));
  if ('encoded' in attribute) return of(attribute.type, attribute.encoded);
  if ('tensor' in attribute) return of(4, bytes(5, tensorChunk(attribute.tensor, '')));
  if ('body' in attribute) return of(5, bytes(6, graphChunk(attribute.body)));
  return of(7, ...attribute.map((item) => integer(8, item)));
}

function tensorChunk({ dtype, shape, data }: Tensor, name: string, external?: ExternalWeights): Chunk {
  const head = [...shape.map((dim) => integer(1, dim)), integer(2, ELEMENT_TYPES[dtype])];
  if (Array.isArray(data)) {
    return message([...head, ...data.map((item: string) => text(6, item)), text(8, name)]);
  }
  const view = data as ArrayBufferView;
  const raw = new Uint8Array(view.buffer as ArrayBuffer, view.byteOffset, view.byteLength);
  if (!external || raw.byteLength < EXTERNAL_FROM_BYTES) {
    return message([...head, text(8, name), bytes(9, { parts: [raw], length: raw.byteLength })]);
  }
  const { offset, length } = external.add(raw);
  const entry = (key: string, value: string) => bytes(13, message([text(1, key), text(2, value)]));
  const where = [
    entry('location', external.location),
    entry('offset', `${offset}`),
    entry('length', `${length}`),
  ];
  return message([...head, text(8, name), ...where, integer(14, 1)]);
}

function valueChunk(name: string, { dtype, shape }: ValueType): Chunk {
  const dims = shape?.map((dim) =>
    bytes(1, message([typeof dim === 'number' ? integer(1, dim) : text(2, dim)])),
  );
  const type = message([integer(1, ELEMENT_TYPES[dtype]), ...(dims ? [bytes(2, message(dims))] : [])]);
  if (name === '') throw new ServingError('internal', 'a value without a name');
  return message([text(1, name), bytes(2, message([bytes(1, type)]))]);
}
