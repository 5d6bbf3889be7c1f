/**
 * Writes and reads the old contract's Arrow results: one record batch per tensor with two nullable columns, `data:
 * float32` and `shape: int32`; rows = number of elements, `shape` padded with nulls.
 *
 * A shape with more dimensions than elements ([1,1,2]) does not fit into its column, and more rows would put nulls into
 * `data`, which the old Python client cannot read. So the column holds the shape without its leading ones ([1,2]), and
 * the batch's custom metadata, which old clients ignore, holds the whole shape. A tensor without elements has no rows,
 * and its shape is in the metadata alone; the old client raises, as it always did.
 */
import { badRequest, ServingError } from '../../contract/errors.ts';
import { LIMITS, overLimit } from '../../contract/limits.ts';
import { elementCount, formatShape, type Tensor } from '../../contract/tensor.ts';
import { dimensionsOf } from '../safetensors.ts';
import { toFloat32 } from './float32.ts';
import { align8, CONTINUATION, END_BYTES, PREFIX_BYTES } from './message.ts';
import { type ArrowField, formatType } from './schema.ts';
import { type ArrowBatch, readArrowStream } from './stream.ts';

/** Key of the batch metadata that holds a whole shape, as in "1,1,2". */
const SHAPE_KEY = 'cluster-serving.shape';

// Every result has the same schema, so its messages are constants; a test writes them with a writer of flatbuffers.

const SCHEMA_BYTES = Buffer.from(
  '/////9AAAAAQAAAADAAYAAQABgAIABAADAAAAAQAAQAYAAAAAAAAAAAAAAAAAAAACAAIAAAABAAIAAAABAAAAAIAAAAYAAAAVAAA' +
    'ABAAFAAEAAgACQAMAAAAEAAQAAAAEAAAAAEDAAAYAAAAHAAAAAQAAABkYXRhAAAGAAYABAAGAAAAAQAAAAAAAAAQABQABAAIAAkA' +
    'DAAAABAAEAAAABAAAAABAgAAHAAAACQAAAAFAAAAc2hhcGUACAAJAAQACAAAAAoAAAAgAAAAAQAAAAAAAAAAAAAA',
  'base64',
);

/** The head of a record batch with zeros where its numbers go: this far from `rowsAt`, and the body's length at 40. */
interface BatchHead {
  readonly bytes: Uint8Array;
  readonly rowsAt: number;
}
const NODES = 24;
const BUFFERS = 64;
const BODY_LENGTH_AT = 40;

const USUAL_HEAD: BatchHead = {
  bytes: Buffer.from(
    '/////7gAAAAUAAAADgAUAAQABgAIAAwAAAAAABAAAAAEAAMAGAAAAAAAAAAAAAAACgAUAAQADAAQAAAADAAAAAAAAAAAAAAADAAA' +
      'ADAAAAAAAAAAAgAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA' +
      'AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA',
    'base64',
  ),
  rowsAt: 64,
};

/** The head of a batch whose metadata holds a whole shape (SHAPE_KEY), up to that text. */
const SHAPED_HEAD = Buffer.from(
  '/////wgBAAAUAAAADgAYAAQABgAIAAwAFAAAABAAAAAEAAMAHAAAAAAAAAAAAAAAmAAAAAoAGAAIABAAFAAAAAwAAAAAAAAAAAAA' +
    'AAAAAAAMAAAAMAAAAAAAAAACAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAABAAAAAAAAAAAAAAAAAAAAAAA' +
    'AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAABAAAADAAAAAgADAAEAAgACAAAAAgAAAAg' +
    'AAAAFQAAAGNsdXN0ZXItc2VydmluZy5zaGFwZQAAAA==',
  'base64',
);

function shapedHead(shape: readonly number[]): BatchHead {
  const text = shape.join(',');
  // A text has its length in front of it and a zero behind it.
  const bytes = Buffer.alloc(align8(SHAPED_HEAD.length + 4 + text.length + 1));
  bytes.set(SHAPED_HEAD);
  bytes.writeUInt32LE(bytes.length - PREFIX_BYTES, 4);
  bytes.writeUInt32LE(text.length, SHAPED_HEAD.length);
  bytes.write(text, SHAPED_HEAD.length + 4);
  return { bytes, rowsAt: 72 };
}

interface Part {
  readonly data: Float32Array;
  /** The content of the shape column: at most one dimension per row. */
  readonly dims: readonly number[];
  readonly head: BatchHead;
}

/**
 * Other dtypes are cast to float32, the only one of this format.
 * @throws model_failed for text, for no outputs, and for data that does not fit its shape; too_large over the limits
 */
export function encodeArrowResult(outputs: readonly Tensor[]): Uint8Array {
  if (outputs.length === 0) throw new ServingError('model_failed', 'expected at least one output, got none');
  if (outputs.length > LIMITS.arrowBatches) throw overLimit('arrowBatches', `${outputs.length} outputs are`);
  const parts = outputs.map(toPart);
  let length = SCHEMA_BYTES.length + END_BYTES;
  for (const { head, data } of parts) length += head.bytes.length + bodyLayout(data.length).length;
  // From Node's pool, because fresh memory costs more than what is written to it; zeros, because gaps are not written.
  const { buffer, byteOffset } = Buffer.allocUnsafe(length).fill(0);
  const stream = new Uint8Array(buffer, byteOffset, length);
  const view = new DataView(buffer, byteOffset);
  stream.set(SCHEMA_BYTES);
  let at = SCHEMA_BYTES.length;
  for (const part of parts) at = writePart(stream, view, at, part);
  view.setUint32(at, CONTINUATION, true);
  return stream;
}

function toPart(output: Tensor, index: number): Part {
  const { dtype, shape } = output;
  if (dtype === 'string') {
    throw new ServingError('model_failed', `output ${index} is text; an Arrow result carries numbers only`);
  }
  if (shape.length > LIMITS.tensorRank) {
    throw new ServingError('too_large', `output ${index}: rank ${shape.length} is over ${LIMITS.tensorRank}`);
  }
  const count = elementCount(shape, LIMITS.tensorElements);
  if (count !== output.data.length) {
    throw new ServingError(
      'model_failed',
      `output ${index}: shape ${formatShape(shape)} means ${count} values, data has ${output.data.length}`,
    );
  }
  const data = toFloat32(output.data, dtype);
  if (shape.length <= count) return { data, dims: shape, head: USUAL_HEAD };
  return { data, dims: withoutLeadingOnes(shape, count), head: shapedHead(shape) };
}

/**
 * Removes leading ones until at most `count` dimensions remain. There are fewer other dimensions than elements, so
 * there are enough ones.
 */
function withoutLeadingOnes(shape: readonly number[], count: number): number[] {
  if (count === 0) return [];
  let spare = shape.length - count;
  return shape.filter((dim) => dim !== 1 || spare-- <= 0);
}

/** Where the three buffers are in the body of a batch of `rows`; data has no validity buffer, it has no nulls. */
function bodyLayout(rows: number): {
  readonly bits: number;
  readonly shape: number;
  readonly length: number;
} {
  const bits = align8(4 * rows);
  const shape = bits + align8(rows / 8);
  return { bits, shape, length: shape + align8(4 * rows) };
}

/** @returns where the next message starts */
function writePart(stream: Uint8Array, view: DataView, at: number, { data, dims, head }: Part): number {
  const rows = data.length;
  const layout = bodyLayout(rows);
  stream.set(head.bytes, at);
  // Every number is far below 2^32 (LIMITS.tensorElements), so the upper halves keep the template's zeros.
  const rowsAt = at + head.rowsAt;
  view.setUint32(rowsAt, rows, true);
  view.setUint32(at + BODY_LENGTH_AT, layout.length, true);
  const nodes = rowsAt + NODES;
  view.setUint32(nodes, rows, true);
  view.setUint32(nodes + 16, rows, true);
  view.setUint32(nodes + 24, rows - dims.length, true);
  const buffers = rowsAt + BUFFERS;
  view.setUint32(buffers + 24, 4 * rows, true);
  view.setUint32(buffers + 32, layout.bits, true);
  view.setUint32(buffers + 40, Math.ceil(rows / 8), true);
  view.setUint32(buffers + 48, layout.shape, true);
  view.setUint32(buffers + 56, 4 * rows, true);
  const body = at + head.bytes.length;
  new Float32Array(stream.buffer, stream.byteOffset + body, rows).set(data);
  for (let i = 0; i < dims.length; i++) {
    const bit = body + layout.bits + (i >> 3);
    stream[bit] = (stream[bit] as number) | (1 << (i & 7));
    view.setInt32(body + layout.shape + 4 * i, dims[i] as number, true);
  }
  return body + layout.length;
}

/**
 * @returns one float32 tensor per record batch; views of `bytes` where aligned. A batch without rows and without our
 *   metadata (an old server's) has lost its shape and becomes [0].
 * @throws bad_request when the bytes are not such a stream, too_large over the limits
 */
export function decodeArrowResult(bytes: Uint8Array): Tensor[] {
  const { fields, batches } = readArrowStream(bytes);
  const data = columnOf(fields, 'data', 'float32');
  const shape = columnOf(fields, 'shape', 'int32');
  if (batches.length === 0) throw badRequest('Arrow result: expected a record batch, got none');
  return batches.map((batch) => readPart(batch, data, shape));
}

function columnOf(fields: readonly ArrowField[], name: string, type: 'float32' | 'int32'): ArrowField {
  const field = fields.find((candidate) => candidate.name === name);
  if (field?.type === type) return field;
  const got = field === undefined ? `${fields.length} others` : formatType(field);
  throw badRequest(`Arrow result: expected a column "${name}" of ${type}, got ${got}`);
}

function readPart(batch: ArrowBatch, dataField: ArrowField, shapeField: ArrowField): Tensor {
  const nulls = batch.nullsOf(dataField);
  if (nulls !== 0) throw badRequest(`Arrow result: expected no nulls in data, got ${nulls}`);
  const data = batch.numbersOf(dataField, 'float32');
  const shape = shapeInMetadata(batch) ?? shapeColumn(batch, shapeField);
  if (shape === undefined) return { dtype: 'float32', shape: [0], data };
  const count = elementCount(shape, LIMITS.tensorElements);
  if (count !== data.length) {
    throw badRequest(
      `Arrow result: shape ${formatShape(shape)} means ${count} values, data has ${data.length}; old servers cut off a shape with more dimensions than values`,
    );
  }
  return { dtype: 'float32', shape, data };
}

function shapeInMetadata(batch: ArrowBatch): number[] | undefined {
  const written = batch.metadata().get(SHAPE_KEY);
  if (written === undefined) return undefined;
  const shape = dimensionsOf(written);
  if (shape) return shape;
  throw badRequest(`Arrow result: metadata ${SHAPE_KEY}: expected dimensions as in "1,2"`);
}

/** Returns undefined without rows, which leave no room for a shape. */
function shapeColumn(batch: ArrowBatch, field: ArrowField): number[] | undefined {
  const rows = batch.lengthOf(field);
  if (rows === 0) return undefined;
  const rank = rows - batch.nullsOf(field);
  if (rank < 0) throw badRequest('Arrow result: shape has more nulls than rows');
  if (rank > LIMITS.tensorRank) throw overLimit('tensorRank', `Arrow result: ${rank} dimensions are`);
  const dims = batch.numbersOf(field, 'int32');
  const valid = batch.validityOf(field);
  const shape: number[] = [];
  for (let cell = 0; cell < rows && shape.length < rank; cell++) {
    if (!valid(cell)) continue;
    const dim = dims[cell] as number;
    if (dim < 0) throw badRequest(`Arrow result: expected dimensions >= 0, got ${dim}`);
    shape.push(dim);
  }
  return shape;
}
