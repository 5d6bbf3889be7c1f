/** Sparse tensors as POST /predict takes them: `{"shape", "data", "indices"}`, indices counted from 0. */
import type { ErrorCode } from '../../../../lib/contract/errors.ts';
import type { InstanceCase, Text } from '../cases.ts';
import type { ModelName } from '../models.ts';

const sparse = (shape: string, data: string, indices: string) =>
  `{"x":{"shape":${shape},"data":${data},"indices":${indices}}}`;
const square = (
  name: string,
  instance: Text,
  message: RegExp,
  code: ErrorCode = 'bad_input',
  model: ModelName = 'square',
): InstanceCase => [name, model, instance, code, message];

const PARTS =
  /expected float32 \[3,3\], \{"b64"\} or a sparse \{"shape","data","indices"\}, got an object with \[/;

export const SPARSE: readonly InstanceCase[] = [
  square('no indices', '{"x":{"shape":[3,3],"data":[1]}}', PARTS),
  square('no data', '{"x":{"shape":[3,3],"indices":[[0,0]]}}', PARTS),
  square('no shape', '{"x":{"data":[1],"indices":[[0,0]]}}', PARTS),
  square('the names of the Python client', '{"x":{"indices":[[0,0]],"values":[1],"shape":[3,3]}}', PARTS),
  square('a shape that is a number', sparse('9', '[1]', '[[0,0]]'), PARTS),
  square('a shape that is null', sparse('null', '[1]', '[[0,0]]'), PARTS),
  square('data that is an object', sparse('[3,3]', '{}', '[[0,0]]'), PARTS),
  square('indices that are a text', sparse('[3,3]', '[1]', '"0,0"'), PARTS),
  square('another shape', sparse('[4,4]', '[1]', '[[0,0]]'), /expected float32 \[3,3\], got shape \[4,4\]/),
  square('one dimension less', sparse('[9]', '[1]', '[[0]]'), /expected float32 \[3,3\], got shape \[9\]/),
  square('no dimension', sparse('[]', '[1]', '[[0]]'), /expected float32 \[3,3\], got shape \[\]/),
  square(
    'a dimension of 0',
    sparse('[3,0]', '[1]', '[[0,0]]'),
    /is empty \(shape \[3,0\]\), expected float32 \[3,3\]/,
  ),
  square(
    'a dimension of -1',
    sparse('[-1,3]', '[1]', '[[0,0]]'),
    /sparse shape: expected whole numbers from 0 to 2\^53, got -1/,
  ),
  square('a dimension of a half', sparse('[3,0.5]', '[1]', '[[0,0]]'), /sparse shape: .* got 0\.5/),
  square('a dimension that is a text', sparse('["3",3]', '[1]', '[[0,0]]'), /sparse shape: .* got "3"/),
  square('a dimension that is null', sparse('[null,3]', '[1]', '[[0,0]]'), /sparse shape: .* got null/),
  square(
    'a dimension that is an array',
    sparse('[[3],3]', '[1]', '[[0,0]]'),
    /sparse shape: .* got an array/,
  ),
  square(
    'a dimension of 2^31',
    sparse('[2147483648,1]', '[1]', '[[0,0]]'),
    /over the limit of 67108864 elements/,
    'too_large',
    'grid',
  ),
  square(
    'a dimension of 1e18',
    sparse('[1e18,1]', '[1]', '[[0,0]]'),
    /sparse shape: .* got 1000000000000000000/,
    'bad_input',
    'grid',
  ),
  square(
    'a dimension of 1e309',
    sparse('[1e309,1]', '[1]', '[[0,0]]'),
    /sparse shape: .* got Infinity/,
    'bad_input',
    'grid',
  ),
  square(
    'two dimensions of 2^31',
    sparse('[2147483648,2147483648]', '[1]', '[[0,0]]'),
    /shape \[2147483648,2147483648\] is over the limit/,
    'too_large',
    'grid',
  ),
  square(
    'a product that overflows to 0',
    sparse('[4294967296,4294967296]', '[1]', '[[0,0]]'),
    /is over the limit/,
    'too_large',
    'grid',
  ),
  square(
    'one element over the limit',
    sparse('[67108865,1]', '[1]', '[[0,0]]'),
    /shape \[67108865,1\] is over the limit of 67108864 elements/,
    'too_large',
    'grid',
  ),
  square(
    '17 dimensions',
    sparse(`[${Array(17).fill(1).join()}]`, '[1]', `[[${Array(17).fill(0).join()}]]`),
    /sparse shape: 17 dimensions are over the limit of 16 \(tensorRank\)/,
    'too_large',
  ),
  square(
    'a million dimensions',
    () => sparse(`[${'1,'.repeat(1e6)}1]`, '[1]', '[[0]]'),
    /1000001 dimensions are over the limit of 16/,
    'too_large',
  ),
  square('no values', sparse('[3,3]', '[]', '[]'), /^input "x": sparse indices: is empty \(shape \[0\]\)/),
  square(
    'no points for a value',
    sparse('[3,3]', '[1]', '[[]]'),
    /sparse indices: is empty \(shape \[1,0\]\)/,
  ),
  square(
    'a point less than values',
    sparse('[3,3]', '[1,2]', '[[0,0]]'),
    /sparse indices: expected \[2,2\] or \[2,2\] for 2 values of shape \[3,3\], got \[1,2\]/,
  ),
  square(
    'a point more than values',
    sparse('[3,3]', '[1]', '[[0,0],[1,1]]'),
    /sparse indices: expected \[1,2\] or \[2,1\] for 1 values .* got \[2,2\]/,
  ),
  square(
    'points of three dimensions',
    sparse('[3,3]', '[1]', '[[0,0,0]]'),
    /expected \[1,2\] or \[2,1\] .* got \[1,3\]/,
  ),
  square('flat indices', sparse('[3,3]', '[1]', '[0,0]'), /expected \[1,2\] or \[2,1\] .* got \[2\]/),
  square('indices one level too deep', sparse('[3,3]', '[1]', '[[[0,0]]]'), /got \[1,1,2\]/),
  square(
    'ragged indices',
    sparse('[3,3]', '[1,2]', '[[0,0],[1]]'),
    /sparse indices: arrays do not agree in shape/,
  ),
  square(
    'an index of 3 in three',
    sparse('[3,3]', '[1]', '[[3,0]]'),
    /sparse index 3 of dimension 0: expected 0 to 2/,
  ),
  square(
    'an index of -1',
    sparse('[3,3]', '[1]', '[[0,-1]]'),
    /sparse index -1 of dimension 1: expected 0 to 2/,
  ),
  square(
    'an index of a half',
    sparse('[3,3]', '[1]', '[[0.5,0]]'),
    /sparse indices: expected a whole number \(int32\), got 0\.5/,
  ),
  square(
    'an index beyond 2^31',
    sparse('[3,3]', '[1]', '[[2147483648,0]]'),
    /sparse indices: expected -2147483648 to 2147483647 \(int32\), got 2147483648/,
  ),
  square(
    'an index of 1e309',
    sparse('[3,3]', '[1]', '[[1e309,0]]'),
    /sparse indices: a number is out of the range of int32/,
  ),
  square(
    'an index that is a text',
    sparse('[3,3]', '[1]', '[["0",0]]'),
    /sparse indices: expected a number, got "0"/,
  ),
  square(
    'an index that is null',
    sparse('[3,3]', '[1]', '[[null,0]]'),
    /sparse indices: expected a number, got null/,
  ),
  square(
    'the same point twice',
    sparse('[3,3]', '[1,2,3]', '[[1,1],[0,0],[1,1]]'),
    /the same point is named twice/,
  ),
  square(
    'the same point twice, by dimension',
    sparse('[3,3]', '[1,2,3]', '[[1,0,1],[1,0,1]]'),
    /the same point is named twice/,
  ),
  square(
    'a value out of range',
    sparse('[3,3]', '[1e39]', '[[0,0]]'),
    /sparse data: a number is out of the range of float32: 1e\+39/,
  ),
  square(
    'a value that is a text',
    sparse('[3,3]', '["1"]', '[[0,0]]'),
    /sparse data: expected a number, got "1"/,
  ),
  square(
    'a value that is a row',
    sparse('[3,3]', '[1,[2]]', '[[0,0],[1,1]]'),
    /sparse data: arrays do not agree in shape/,
  ),
  square(
    'values fifty thousand deep',
    () => sparse('[3,3]', '['.repeat(5e4) + ']'.repeat(5e4), '[[0,0]]'),
    /sparse data: arrays are nested deeper than 16/,
    'too_large',
  ),
  square(
    'values a million deep',
    () => sparse('[3,3]', '['.repeat(1e6) + ']'.repeat(1e6), '[[0,0]]'),
    /nested deeper than 16/,
    'too_large',
  ),
  square(
    'a sparse text',
    '{"x":{"shape":[2],"data":["a"],"indices":[[0]]}}',
    /expected string, got a sparse tensor/,
    'bad_input',
    'texts',
  ),
];
