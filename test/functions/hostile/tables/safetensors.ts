/** Records as safetensors files, our own wire, for the model `pair`. */
import { encodeTensors } from '../../../../lib/codecs/safetensors.ts';
import type { ErrorCode } from '../../../../lib/contract/errors.ts';
import type { DataCase } from '../cases.ts';

export const goodFile = (): Uint8Array =>
  encodeTensors(new Map([['x', { dtype: 'float32', shape: [2], data: Float32Array.of(1, 2) }]]));

/** A file with this header text and a body of zeros. */
function file(header: string | Uint8Array, bodyBytes = 0): Buffer {
  const text = Buffer.from(header as string);
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(text.length));
  return Buffer.concat([length, text, Buffer.alloc(bodyBytes)]);
}

export const tensorFile = (header: unknown, bodyBytes = 0): Buffer => file(JSON.stringify(header), bodyBytes);
const json = tensorFile;
/** The good file's only tensor, changed. */
const x = (changed: object, metadata?: object) =>
  json(
    {
      ...(metadata ? { __metadata__: metadata } : {}),
      x: { dtype: 'F32', shape: [2], data_offsets: [0, 8], ...changed },
    },
    8,
  );
const BYTES = { dtype: 'U8', shape: [8] };
const sparse = (kind: string, indices: object = { dtype: 'I32', shape: [1, 1], data_offsets: [8, 12] }) =>
  json(
    {
      __metadata__: { 'kind:x': kind, 'kind:x/indices': 'indices' },
      x: { dtype: 'F32', shape: [1], data_offsets: [0, 4] },
      'x/indices': indices,
    },
    16,
  );

const bad = (
  name: string,
  data: () => Uint8Array,
  message: RegExp,
  code: ErrorCode = 'bad_request',
): DataCase => [name, data, code, message];

/** `count` tensors that all claim the same megabytes of the body, one byte off. */
export function sharedFile(count: number, megabytes: number): Uint8Array {
  const bytes = megabytes * 1024 * 1024;
  const entry = { dtype: 'F32', shape: [bytes / 4], data_offsets: [1, bytes + 1] };
  return json(Object.fromEntries(Array.from({ length: count }, (_, i) => [`t${i}`, entry])), bytes + 8);
}

/** No model is needed to see it. */
export const SAFETENSORS: readonly DataCase[] = [
  bad(
    'nothing',
    () => new Uint8Array(0),
    /^not a readable safetensors file: expected at least 8 bytes, got 0/,
  ),
  bad('seven bytes', () => Buffer.alloc(7), /expected at least 8 bytes, got 7/),
  bad('a header length alone', () => file('').fill(1, 0, 1), /a header of 1 bytes, expected at most 0\b/),
  bad(
    'a header of 2^63 bytes',
    () => Buffer.from([255, 255, 255, 255, 255, 255, 255, 127, 123]),
    /a header of 9223372036854776000 bytes, expected at most 1\b/,
  ),
  bad('a header longer than the file', () => goodFile().subarray(0, 40), /a header of \d+ bytes/),
  bad(
    'a header over 1 MiB',
    () => file(' '.repeat(1024 * 1024 + 1)),
    /a header of 1048577 bytes, expected at most 1048576\b/,
  ),
  bad('an empty header', () => file(''), /JSON/),
  bad('a header that is no JSON', () => file('{x'), /JSON/),
  bad(
    'a header that is not UTF-8',
    () => file(Buffer.of(0x7b, 0xff, 0x7d)),
    /not a readable safetensors file: .+/,
  ),
  bad('a header that is an array', () => json([]), /the header is no object/),
  bad('a header that is null', () => json(null), /the header is no object/),
  bad(
    'a header a hundred thousand deep',
    () => file('['.repeat(1e5) + ']'.repeat(1e5)),
    /the header is no object/,
  ),
  bad('a pickle', () => Buffer.from('\x80\x04\x95\x10\0\0\0\0\0\0\0', 'latin1'), /a header of \d+ bytes/),
  bad('no tensor', () => json({}), /expected at least one input, got none/),
  bad(
    'metadata alone',
    () => json({ __metadata__: { format: 'pt' } }),
    /expected at least one input, got none/,
  ),
  bad(
    'indices alone',
    () =>
      json({ __metadata__: { 'kind:i': 'indices' }, i: { dtype: 'I32', shape: [0], data_offsets: [0, 0] } }),
    /expected at least one input/,
  ),
  bad(
    'metadata that is an array',
    () => json({ __metadata__: ['a'] }),
    /the header|__metadata__ is no object of texts/,
  ),
  bad(
    'metadata that is no text',
    () => json({ __metadata__: { a: 1 } }),
    /__metadata__ is no object of texts/,
  ),
  bad(
    '257 tensors',
    () =>
      json(
        Object.fromEntries(
          Array.from({ length: 257 }, (_, i) => [`t${i}`, { dtype: 'U8', shape: [0], data_offsets: [0, 0] }]),
        ),
      ),
    /257 entries are over the limit of 256 tensors/,
  ),
  bad(
    'a name of 257 characters',
    () => json({ ['n'.repeat(257)]: { dtype: 'F32', shape: [2], data_offsets: [0, 8] } }, 8),
    /has 257 characters, over the limit of 256 \(inputNameLength\)/,
    'too_large',
  ),
  bad(
    'a name of a megabyte',
    () => json({ ['n'.repeat(1e6)]: 3 }),
    /tensor "n{80}\.\.\." is of unknown dtype nothing/,
  ),
  bad('an entry that is null', () => json({ x: null }), /tensor "x" is of unknown dtype nothing/),
  bad('an entry that is an array', () => json({ x: [1] }), /tensor "x" is of unknown dtype nothing/),
  bad('no dtype', () => x({ dtype: undefined }), /unknown dtype nothing/),
  bad('an unknown dtype', () => x({ dtype: 'F8_E4M3' }), /tensor "x" is of unknown dtype "F8_E4M3"/),
  bad('a dtype in small letters', () => x({ dtype: 'f32' }), /unknown dtype "f32"/),
  bad('a dtype that is a number', () => x({ dtype: 32 }), /unknown dtype 32/),
  bad(
    'a dtype that cannot become a text',
    () => x({ dtype: { toString: 1, valueOf: 1 } }),
    /unknown dtype an object/,
  ),
  bad(
    'a dtype a hundred thousand deep',
    () => file(`{"x":{"dtype":${'['.repeat(1e5)}${']'.repeat(1e5)}}}`),
    /unknown dtype an array/,
  ),
  bad(
    'no shape',
    () => x({ shape: undefined }),
    /tensor "x" needs a shape of up to 16 dimensions and two data_offsets/,
  ),
  bad('a shape that is a number', () => x({ shape: 2 }), /needs a shape/),
  bad('a dimension of -1', () => x({ shape: [-1] }), /needs a shape/),
  bad('a dimension of a half', () => x({ shape: [0.5] }), /needs a shape/),
  bad('a dimension that is a text', () => x({ shape: ['2'] }), /needs a shape/),
  bad('17 dimensions', () => x({ shape: Array(17).fill(1) }), /needs a shape of up to 16 dimensions/),
  bad('a shape of 10^18', () => x({ shape: [1e9, 1e9] }), /over the limit of 67108864 elements/, 'too_large'),
  bad(
    'a shape of 2^32 by 2^32',
    () => x({ shape: [2 ** 32, 2 ** 32] }),
    /over the limit of 67108864 elements/,
    'too_large',
  ),
  bad(
    'a huge shape with a 0',
    () => x({ shape: [1e9, 1e9, 0], data_offsets: [0, 0] }),
    /over the limit of 67108864 elements/,
    'too_large',
  ),
  bad(
    'a shape of more bytes',
    () => x({ shape: [3] }),
    /tensor "x": float32 \[3\] takes 12 bytes, its data_offsets are \[0,8\] of 8/,
  ),
  bad(
    'no offsets',
    () => x({ data_offsets: undefined }),
    /needs a shape of up to 16 dimensions and two data_offsets/,
  ),
  bad('one offset', () => x({ data_offsets: [0] }), /two data_offsets/),
  bad('three offsets', () => x({ data_offsets: [0, 8, 8] }), /two data_offsets/),
  bad('a negative offset', () => x({ data_offsets: [-8, 0] }), /two data_offsets/),
  bad('offsets turned round', () => x({ data_offsets: [8, 0] }), /its data_offsets are \[8,0\] of 8/),
  bad('offsets behind the end', () => x({ data_offsets: [8, 16] }), /its data_offsets are \[8,16\] of 8/),
  bad(
    'an offset of 2^53',
    () => x({ data_offsets: [0, 2 ** 53 - 1] }),
    /its data_offsets are \[0,9007199254740991\] of 8/,
  ),
  bad('a file cut by a byte', () => goodFile().subarray(0, -1), /its data_offsets are \[0,8\] of 7/),
  bad(
    'two tensors over the same bytes',
    () => json({ a: { ...BYTES, data_offsets: [0, 8] }, b: { ...BYTES, data_offsets: [0, 8] } }, 8),
    /its tensors have 16 bytes together, its body 8/,
  ),
  bad(
    '256 tensors that share one body',
    () => sharedFile(256, 4),
    /its tensors have 8388608 bytes together, its body 4194312/,
  ),
  bad(
    'texts that are no JSON',
    () => json({ __metadata__: { 'kind:x': 'strings:1' }, x: { ...BYTES, data_offsets: [0, 8] } }, 8),
    /text "x": .+JSON/,
  ),
  bad(
    'texts that are numbers',
    () =>
      Buffer.concat([
        json({
          __metadata__: { 'kind:x': 'strings:1' },
          x: { dtype: 'U8', shape: [3], data_offsets: [0, 3] },
        }),
        Buffer.from('[1]'),
      ]),
    /text "x" is no array of texts/,
  ),
  bad(
    'texts of another shape',
    () =>
      Buffer.concat([
        json({
          __metadata__: { 'kind:x': 'strings:2' },
          x: { dtype: 'U8', shape: [5], data_offsets: [0, 5] },
        }),
        Buffer.from('["a"]'),
      ]),
    /text "x": 1 items are not of shape "2"/,
  ),
  bad(
    'texts of a shape of a megabyte',
    () =>
      Buffer.concat([
        json({
          __metadata__: { 'kind:x': `strings:${'1,'.repeat(4e5)}1` },
          x: { dtype: 'U8', shape: [5], data_offsets: [0, 5] },
        }),
        Buffer.from('["a"]'),
      ]),
    /1 items are not of shape "1,1,[1,]*\.\.\."/,
  ),
  bad('an image of floats', () => x({}, { 'kind:x': 'image' }), /an image: expected uint8, got float32/),
  bad(
    'sparse without indices',
    () => x({}, { 'kind:x': 'sparse:2' }),
    /sparse "x": expected int32 "…\/indices", got nothing/,
  ),
  bad(
    'sparse with indices of floats',
    () => sparse('sparse:2', { dtype: 'F32', shape: [1, 1], data_offsets: [8, 12] }),
    /expected int32 "…\/indices", got float32/,
  ),
  bad('sparse without a shape', () => sparse('sparse'), /expected up to 16 dimensions as in "2,3", got ""/),
  bad('sparse with a shape of words', () => sparse('sparse:two'), /as in "2,3", got "two"/),
  bad('sparse with a dimension of -1', () => sparse('sparse:-1'), /got "-1"/),
  bad('sparse with a dimension of 1e18', () => sparse('sparse:1e18'), /got "1e18"/),
  bad(
    'sparse with a hundred thousand dimensions',
    () => sparse(`sparse:${'1,'.repeat(1e5)}1`),
    /as in "2,3", got "1,1,[1,]*\.\.\."/,
  ),
];

/** Readable, and no input of the model. */
export const SAFETENSORS_UNFIT: readonly DataCase[] = [
  [
    'a vector of four',
    () => x({ dtype: 'F16', shape: [4] }),
    'bad_input',
    /^input "x": expected float32 \[2\], got shape \[4\]/,
  ],
  [
    'another name beside the right one',
    () =>
      json(
        {
          x: { dtype: 'F32', shape: [2], data_offsets: [0, 8] },
          y: { dtype: 'F32', shape: [0], data_offsets: [8, 8] },
        },
        8,
      ),
    'bad_input',
    /unknown input "y"/,
  ],
  [
    'an image',
    () => x({ dtype: 'U8', shape: [8] }, { 'kind:x': 'image' }),
    'bad_input',
    /expected float32 \[2\], got text or an image/,
  ],
  [
    'texts',
    () =>
      Buffer.concat([
        json({
          __metadata__: { 'kind:x': 'strings:1' },
          x: { dtype: 'U8', shape: [5], data_offsets: [0, 5] },
        }),
        Buffer.from('["a"]'),
      ]),
    'bad_input',
    /expected float32, got string/,
  ],
  [
    'doubles beyond float32',
    () =>
      Buffer.concat([
        file('{"x":{"dtype":"F64","shape":[2],"data_offsets":[0,16]}}'),
        Buffer.from(Float64Array.of(1, 1e39).buffer),
      ]),
    'bad_input',
    /expected at most 3\.4028234663852886e\+38 \(float32\), got 1e\+39/,
  ],
  [
    'nothing in it',
    () => json({ x: { dtype: 'F32', shape: [0], data_offsets: [0, 0] } }),
    'bad_input',
    /is empty \(shape \[0\]\), expected float32 \[2\]/,
  ],
  [
    'sparse of another shape',
    () => sparse('sparse:3'),
    'bad_input',
    /expected float32 \[2\], got shape \[3\]/,
  ],
  [
    'sparse with two dimensions for one',
    () => sparse('sparse:2,2'),
    'bad_input',
    /expected float32 \[2\], got shape \[2,2\]/,
  ],
  [
    'sparse with indices of another shape',
    () => sparse('sparse:2', { dtype: 'I32', shape: [2], data_offsets: [8, 16] }),
    'bad_input',
    /sparse indices: expected \[1,1\] or \[1,1\] for 1 values of shape \[2\], got \[2\]/,
  ],
];
