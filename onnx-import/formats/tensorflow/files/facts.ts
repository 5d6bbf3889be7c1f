/**
 * Derives the dtype and shape of a tensor from its node, as far as the file states them. `[]` as the shape of a
 * placeholder means a scalar in new files and an unspecified shape in old ones.
 */
import type { DType } from '../../../../lib/contract/tensor.ts';
import { has, messageOf, messagesOf, numberOf } from '../../../wire/message.ts';
import type { Message } from '../../../wire/table.ts';
import type { TfShape, TfType } from '../graph.ts';
import type { RawNode } from './raw.ts';
import { readShape } from './tensor.ts';
import { tfType } from './types.ts';

/** The first graph format version in which the empty shape of a placeholder means a scalar. */
const SCALAR_PLACEHOLDERS = 24;

/** Operations with an output type that no attribute states. */
const FIXED: ReadonlyMap<string, DType> = new Map(
  Object.entries({
    uint8: 'DecodeJpeg DecodePng DecodeImage DecodeGif DecodeAndCropJpeg DecodeBmp',
    float32: 'ResizeBilinear ResizeBicubic ResizeArea CropAndResize Mfcc AudioSpectrogram',
    string:
      'ReadFile AsString StringJoin DecodeBase64 EncodeBase64 Substr StringLower StringUpper StringStrip StringFormat ReduceJoin ' +
      'RegexReplace StaticRegexReplace UnicodeEncode UnicodeTranscode UnsortedSegmentJoin',
    bool: 'Equal NotEqual Less LessEqual Greater GreaterEqual LogicalAnd LogicalOr LogicalNot IsFinite IsNan IsInf',
    int64: 'Where StringToHashBucket StringToHashBucketFast StringToHashBucketStrong',
    int32: 'Rank StringLength',
  }).flatMap(([dtype, operations]) => operations.split(' ').map((operation) => [operation, dtype as DType])),
);

/** Types of the outputs in order, where no attribute states them. */
const BY_PORT: ReadonlyMap<string, readonly DType[]> = new Map([
  ['StringSplit', ['int64', 'string', 'int64']],
  ['StringSplitV2', ['int64', 'string', 'int64']],
  ['StringNGrams', ['string', 'int64']],
  ['UnicodeDecode', ['int64', 'int32']],
]);

/** The attributes that may state an output's type; the first one present counts. */
const TYPE_ATTRIBUTES = ['dtype', 'DstT', 'out_type', 'output_type', 'Tparams', 'element_dtype', 'Tout', 'T'];
const TYPE_LISTS = ['Tout', 'output_types', 'component_types', 'T'];

/** Returns undefined when the file does not state it. */
export function typeOfTensor(node: RawNode, port: number): TfType | undefined {
  const fixed = FIXED.get(node.op) ?? BY_PORT.get(node.op)?.[port];
  if (fixed !== undefined) return fixed;
  for (const name of TYPE_ATTRIBUTES) {
    const value = node.attributes.get(name) as Message | undefined;
    if (value !== undefined && has(value, 'type')) return tfType(numberOf(value, 'type'));
  }
  for (const name of TYPE_LISTS) {
    const value = node.attributes.get(name) as Message | undefined;
    const types = (value === undefined ? undefined : messageOf(value, 'list'))?.['type'] as
      | Int32Array
      | undefined;
    if (types?.[port] !== undefined) return tfType(types[port]);
  }
  return undefined;
}

export function shapeOfTensor(node: RawNode, port: number, producer: number): TfShape {
  const listed = node.attributes.get('_output_shapes') as Message | undefined;
  const list = listed === undefined ? undefined : messageOf(listed, 'list');
  const output = list === undefined ? undefined : messagesOf(list, 'shape')[port];
  if (output !== undefined) return readShape(output);
  if (!node.op.startsWith('Placeholder')) return undefined;
  const value = node.attributes.get('shape') as Message | undefined;
  if (value === undefined) return undefined;
  const shape = readShape(messageOf(value, 'shape'));
  const old = node.op === 'Placeholder' && producer < SCALAR_PLACEHOLDERS;
  return old && shape?.length === 0 ? undefined : shape;
}
