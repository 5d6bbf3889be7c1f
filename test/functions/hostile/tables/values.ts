/** Instances whose numbers, texts, shapes or names the model does not take. */
import type { ErrorCode } from '../../../../lib/contract/errors.ts';
import type { InstanceCase, Text } from '../cases.ts';
import type { ModelName } from '../models.ts';

type Integer = readonly [model: ModelName, min: string, max: string, below: string, above: string];

/** 64 bits are beyond what JSON numbers hold: there the 2^53 rule answers first. */
const INTEGERS: readonly Integer[] = [
  ['int8', '-128', '127', '-129', '128'],
  ['int16', '-32768', '32767', '-32769', '32768'],
  ['int32', '-2147483648', '2147483647', '-2147483649', '2147483648'],
  ['uint8', '0', '255', '-1', '256'],
  ['uint16', '0', '65535', '-1', '65536'],
  ['uint32', '0', '4294967295', '-1', '4294967296'],
];

function integers([model, min, max, below, above]: Integer): InstanceCase[] {
  const range = `^input "x": expected ${min} to ${max} \\(${model}\\), got `;
  return [
    [`${model}: one below`, model, `{"x":[${below},0]}`, 'bad_input', new RegExp(`${range}${below}$`)],
    [`${model}: one above`, model, `{"x":[0,${above}]}`, 'bad_input', new RegExp(`${range}${above}$`)],
    [
      `${model}: a fraction`,
      model,
      '{"x":[1.5,0]}',
      'bad_input',
      new RegExp(`expected a whole number \\(${model}\\), got 1\\.5$`),
    ],
    [
      `${model}: 1e309`,
      model,
      '{"x":[1e309,0]}',
      'bad_input',
      new RegExp(`out of the range of ${model}: Infinity$`),
    ],
    ...['NaN', 'Infinity', '-Infinity'].map(
      (word): InstanceCase => [
        `${model}: ${word}`,
        model,
        `{"x":[${word},0]}`,
        'bad_input',
        new RegExp(`expected a whole number .*, got ${word}$`),
      ],
    ),
    [`${model}: a text`, model, '{"x":["1",0]}', 'bad_input', /expected a number, got "1"$/],
  ];
}

const BEYOND_2_53 = /beyond 2\^53, where JSON numbers lose digits$/;

const NUMBERS: readonly InstanceCase[] = [
  ...INTEGERS.flatMap(integers),
  ['int64: beyond 2^53 with a point', 'int64', '{"x":[9007199254740993.0,0]}', 'bad_input', BEYOND_2_53],
  ['int64: below -2^53 with an exponent', 'int64', '{"x":[-9007199254740993e0,0]}', 'bad_input', BEYOND_2_53],
  [
    'int64: 2^63',
    'int64',
    '{"x":[9223372036854775808,0]}',
    'bad_input',
    /expected -9223372036854775808 to 9223372036854775807 \(int64\), got 9223372036854775808$/,
  ],
  ['int64: 1e300', 'int64', '{"x":[1e300,0]}', 'bad_input', BEYOND_2_53],
  ['int64: 1e309', 'int64', '{"x":[1e309,0]}', 'bad_input', /out of the range of int64: Infinity/],
  ['int64: a fraction', 'int64', '{"x":[0.1,0]}', 'bad_input', /expected a whole number \(int64\), got 0\.1/],
  [
    'int64: a text of digits',
    'int64',
    '{"x":["9007199254740993",0]}',
    'bad_input',
    /expected a number, got "9007199254740993"/,
  ],
  [
    'uint64: -1',
    'uint64',
    '{"x":[-1,0]}',
    'bad_input',
    /expected 0 to 18446744073709551615 \(uint64\), got -1/,
  ],
  [
    'uint64: 2^64',
    'uint64',
    '{"x":[18446744073709551616,0]}',
    'bad_input',
    /expected 0 to 18446744073709551615 \(uint64\), got 18446744073709551616$/,
  ],
  [
    'uint64: a tiny fraction',
    'uint64',
    '{"x":[1e-320,0]}',
    'bad_input',
    /expected a whole number \(uint64\), got 1e-320/,
  ],
  ['bool: 2', 'bool', '{"x":[2,0]}', 'bad_input', /expected true, false, 0 or 1, got 2/],
  ['bool: -1', 'bool', '{"x":[-1,0]}', 'bad_input', /expected true, false, 0 or 1, got -1/],
  ['bool: a half', 'bool', '{"x":[0.5,0]}', 'bad_input', /expected a whole number \(bool\), got 0\.5/],
  ['bool: a text', 'bool', '{"x":["true",0]}', 'bad_input', /expected a number, got "true"/],
  ['bool: null', 'bool', '{"x":[null,true]}', 'bad_input', /expected a number, got null/],
  [
    'float16: beyond 65504',
    'half',
    '{"x":[65505,0]}',
    'bad_input',
    /expected at most 65504 \(float16\), got 65505/,
  ],
  ['float16: 1e309', 'half', '{"x":[1e309,0]}', 'bad_input', /out of the range of float16: Infinity/],
  ['float32: 1e39', 'pair', '{"x":[1e39,0]}', 'bad_input', /out of the range of float32: 1e\+39/],
  ['float32: -1e39', 'pair', '{"x":[0,-1e39]}', 'bad_input', /out of the range of float32: -1e\+39/],
  ['float32: 1e309', 'pair', '{"x":[1e309,0]}', 'bad_input', /out of the range of float32: Infinity/],
  ['float32: -1e309', 'pair', '{"x":[-1e309,0]}', 'bad_input', /out of the range of float32: -Infinity/],
  [
    'float32: an integer of 400 digits',
    'pair',
    () => `{"x":[${'9'.repeat(400)},0]}`,
    'bad_input',
    /out of the range of float32: Infinity/,
  ],
  ['float64: 1e309', 'double', '{"x":[1e309,0]}', 'bad_input', /out of the range of float64: Infinity/],
  ['float32: a text', 'pair', '{"x":[1,"2"]}', 'bad_input', /^input "x": expected a number, got "2"$/],
  ['float32: "NaN"', 'pair', '{"x":["NaN",0]}', 'bad_input', /expected a number, got "NaN"/],
  ['float32: null', 'pair', '{"x":[1,null]}', 'bad_input', /expected a number, got null/],
  ['float32: an object', 'pair', '{"x":[1,{"y":2}]}', 'bad_input', /expected a number, got an object/],
  [
    'float32: an object where a row could be',
    'pair',
    '{"x":[{"0":1},{"0":2}]}',
    'bad_input',
    /expected a number, got an object/,
  ],
  [
    'float32: objects a hundred thousand deep',
    'pair',
    () => `{"x":[1,${'{"a":'.repeat(1e5)}1${'}'.repeat(1e5)}]}`,
    'bad_input',
    /expected a number, got an object/,
  ],
  [
    'float32: a text of a megabyte',
    'pair',
    () => `{"x":[1,"${'a'.repeat(1e6)}"]}`,
    'bad_input',
    /expected a number, got "a{80}\.\.\."/,
  ],
];

const TEXTS: readonly InstanceCase[] = [
  ['text: a number', 'texts', '{"x":["a",1]}', 'bad_input', /^input "x": expected text, got 1$/],
  ['text: null', 'texts', '{"x":["a",null]}', 'bad_input', /expected text, got null/],
  ['text: true', 'texts', '{"x":[true]}', 'bad_input', /expected text, got true/],
  [
    'text: an array among texts',
    'texts',
    '{"x":["a",["b"]]}',
    'bad_input',
    /got an array where the first element is none/,
  ],
  ['text: an object', 'texts', '{"x":[{"b64":"YQ=="}]}', 'bad_input', /expected text, got an object/],
  [
    'text: an image object',
    'texts',
    '{"x":{"b64":"YQ=="}}',
    'bad_input',
    /expected string \[n\], got text or an image/,
  ],
  [
    'text: a sparse tensor',
    'texts',
    '{"x":{"shape":[2],"data":["a"],"indices":[[0]]}}',
    'bad_input',
    /expected string, got a sparse tensor/,
  ],
  ['text: a number alone', 'texts', '{"x":1}', 'bad_input', /^input "x": expected text, got 1$/],
  [
    'text: a matrix of texts',
    'texts',
    '{"x":[["a"]]}',
    'bad_input',
    /expected string \[n\], got shape \[1,1\]/,
  ],
  [
    'text: no texts',
    'texts',
    '{"x":[]}',
    'bad_input',
    /^input "x": is empty \(shape \[0\]\), expected at least one element/,
  ],
  [
    'text: a NUL',
    'texts',
    '{"x":["a\\u0000b"]}',
    'bad_input',
    /expected text without NUL characters and lone surrogates, got "a\\u0000b"/,
  ],
  [
    'text: the upper half of a pair',
    'texts',
    '{"x":["\\ud83d"]}',
    'bad_input',
    /lone surrogates, got "\\ud83d"/,
  ],
  [
    'text: the lower half of a pair',
    'texts',
    '{"x":["ok","\\ude00 "]}',
    'bad_input',
    /lone surrogates, got "\\ude00 "/,
  ],
  ['text: a pair the wrong way round', 'texts', '{"x":["\\ude00\\ud83d"]}', 'bad_input', /lone surrogates/],
];

const shape = (
  name: string,
  model: ModelName,
  instance: Text,
  message: RegExp,
  code: ErrorCode = 'bad_input',
): InstanceCase => [name, model, instance, code, message];

const SHAPES: readonly InstanceCase[] = [
  shape('too few', 'pair', '{"x":[1]}', /^input "x": expected float32 \[2\], got shape \[1\]$/),
  shape('too many', 'pair', '{"x":[1,2,3]}', /expected float32 \[2\], got shape \[3\]/),
  shape('a scalar', 'pair', '{"x":1}', /expected float32 \[2\], got shape \[\]/),
  shape('true alone', 'pair', '{"x":true}', /expected float32 \[2\], got shape \[\]/),
  shape('null', 'pair', '{"x":null}', /expected a number, got null/),
  shape(
    'a text of digits',
    'pair',
    '{"x":"1,2"}',
    /^input "x": expected float32 \[2\], got text or an image$/,
  ),
  shape('an empty text', 'pair', '{"x":""}', /expected float32 \[2\], got text or an image/),
  shape(
    'an empty object',
    'pair',
    '{"x":{}}',
    /expected float32 \[2\], \{"b64"\} or a sparse .*, got an object with \[\]$/,
  ),
  shape('an object of other keys', 'pair', '{"x":{"values":[1,2]}}', /got an object with \["values"\]/),
  shape(
    'an object of 1,000 keys',
    'pair',
    () => `{"x":{${Array.from({ length: 1000 }, (_, i) => `"k${i}":0`).join()}}}`,
    /"k7" and 992 more\]/,
  ),
  shape('nothing in it', 'pair', '{"x":[]}', /is empty \(shape \[0\]\), expected at least one element/),
  shape('two rows of nothing', 'pair', '{"x":[[],[]]}', /is empty \(shape \[2,0\]\)/),
  shape(
    'with the batch dimension',
    'pair',
    '{"x":[[1,2]]}',
    /got shape \[1,2\] \(send one record without the batch dimension, or set inputAlreadyBatched\)/,
  ),
  shape(
    'two records in one',
    'pair',
    '{"x":[[1,2],[3,4]]}',
    /got shape \[2,2\] \(send one record without the batch dimension/,
  ),
  shape(
    'the other way round',
    'matrix',
    '{"x":[[1,2],[3,4],[5,6]]}',
    /expected float32 \[2,3\], got shape \[3,2\]/,
  ),
  shape('flat', 'matrix', '{"x":[1,2,3,4,5,6]}', /expected float32 \[2,3\], got shape \[6\]/),
  shape('one dimension too many', 'matrix', '{"x":[[[1,2,3],[4,5,6]]]}', /got shape \[1,2,3\]/),
  shape(
    'a shorter second row',
    'matrix',
    '{"x":[[1,2,3],[4,5]]}',
    /^input "x": arrays do not agree in shape: expected \[2,3\], got 2 elements where the first has 3 at depth 1$/,
  ),
  shape('a longer second row', 'matrix', '{"x":[[1,2,3],[4,5,6,7]]}', /got 4 elements where the first has 3/),
  shape('an empty second row', 'matrix', '{"x":[[1,2,3],[]]}', /got 0 elements where the first has 3/),
  shape(
    'a number for the second row',
    'matrix',
    '{"x":[[1,2,3],4]}',
    /got 4 where the first element is an array/,
  ),
  shape(
    'a text for the second row',
    'matrix',
    '{"x":[[1,2,3],"456"]}',
    /got "456" where the first element is an array/,
  ),
  shape(
    'null for the second row',
    'matrix',
    '{"x":[[1,2,3],null]}',
    /got null where the first element is an array/,
  ),
  shape(
    'an object for the second row',
    'matrix',
    '{"x":[[1,2,3],{"0":4}]}',
    /got an object where the first element is an array/,
  ),
  shape(
    'a row within the second row',
    'matrix',
    '{"x":[[1,2,3],[4,5,[6]]]}',
    /got an array where the first element is none/,
  ),
  shape(
    'a row where the first element is none',
    'vector',
    '{"x":[1,[2]]}',
    /got an array where the first element is none/,
  ),
  shape(
    'ragged at the third level',
    'cube',
    '{"x":[[[1,2],[3,4]],[[5,6],[7]]]}',
    /expected \[2,2,2\], got 1 elements/,
  ),
  shape(
    '17 dimensions',
    'pair',
    () => `{"x":${'['.repeat(17)}1${']'.repeat(17)}}`,
    /arrays are nested deeper than 16 \(tensorRank\)/,
    'too_large',
  ),
  shape(
    'a million dimensions',
    'pair',
    () => `{"x":${'['.repeat(1e6)}${']'.repeat(1e6)}}`,
    /nested deeper than 16/,
    'too_large',
  ),
  shape(
    'fifty thousand dimensions in the second element',
    'pair',
    () => `{"x":[1,${'['.repeat(5e4)}${']'.repeat(5e4)}]}`,
    /got an array where the first element is none/,
  ),
  shape(
    'a million dimensions in the second element',
    'pair',
    () => `{"x":[1,${'['.repeat(1e6)}${']'.repeat(1e6)}]}`,
    /nested deeper than 16/,
    'too_large',
  ),
  shape(
    'fifty thousand dimensions',
    'pair',
    () => `{"x":${'['.repeat(5e4)}${']'.repeat(5e4)}}`,
    /arrays are nested deeper than 16 \(tensorRank\)/,
    'too_large',
  ),
  shape('a million numbers for two', 'pair', () => `{"x":[${'0,'.repeat(1e6)}0]}`, /got shape \[1000001\]/),
  shape(
    '5 rows for a batch of 4',
    'fixed',
    '{"x":[[1,2],[1,2],[1,2],[1,2],[1,2]]}',
    /expected float32 \[2\], got shape \[5,2\]/,
  ),
  shape(
    '3 rows for a batch of 4',
    'fixed',
    '{"x":[[1,2],[1,2],[1,2]]}',
    /expected float32 \[2\], got shape \[3,2\]/,
  ),
  shape('a batch of 0', 'whole', '{"a":[],"b":[]}', /^input "a": is empty \(shape \[0\]\)/),
  shape(
    '2 rows beside 3',
    'whole',
    '{"a":[[1,2],[3,4]],"b":[[5],[6],[7]]}',
    /^input "a": has 2 rows where another input has 3$/,
  ),
  shape(
    'no batch dimension where it is expected',
    'whole',
    '{"a":[1,2],"b":[[3]]}',
    /^input "a": expected float32 \[N,2\], got shape \[2\]/,
  ),
];

const NAMES: readonly InstanceCase[] = [
  [
    'one missing',
    'two',
    '{"a":[1,2]}',
    'bad_input',
    /^missing input "b"; the model expects "a" float32 \[2\], "b" int64 \[1\]$/,
  ],
  ['one too many', 'two', '{"a":[1,2],"b":[3],"c":4}', 'bad_input', /^unknown input "c"; the model expects/],
  [
    'one misspelt',
    'two',
    '{"a":[1,2],"B":[3]}',
    'bad_input',
    /^missing input "b", unknown input "B"; the model expects/,
  ],
  [
    'three unknown inputs for two',
    'two',
    '{"p":1,"q":2,"r":3}',
    'bad_input',
    /^missing input "a", "b", unknown input "p", "q", "r"/,
  ],
  ['one unknown input for two', 'two', '{"p":1}', 'bad_input', /^missing input "a", "b", unknown input "p"/],
  [
    'a hundred unknown inputs',
    'two',
    () => `{${Array.from({ length: 100 }, (_, i) => `"s${i}":0`).join()}}`,
    'bad_input',
    /"s7" and 92 more; the model expects/,
  ],
  [
    '__proto__ in place of one',
    'two',
    '{"a":[1,2],"__proto__":[3]}',
    'bad_input',
    /unknown input "__proto__"/,
  ],
  [
    'constructor in place of one',
    'two',
    '{"a":[1,2],"constructor":[3]}',
    'bad_input',
    /unknown input "constructor"/,
  ],
  ['an empty name', 'two', '{"a":[1,2],"":[3]}', 'bad_input', /unknown input ""/],
  ['a name with NUL', 'two', '{"a":[1,2],"b\\u0000":[3]}', 'bad_input', /unknown input "b\\u0000"/],
  ['a name that climbs', 'two', '{"a":[1,2],"../../b":[3]}', 'bad_input', /unknown input "\.\.\/\.\.\/b"/],
  [
    'names of 256 characters',
    'two',
    () => `{"a":[1,2],"${'n'.repeat(256)}":[3]}`,
    'bad_input',
    /unknown input "n{80}\.\.\."/,
  ],
  [
    'a name twice, the last value wrong',
    'two',
    '{"a":[1,2],"b":[3],"b":[4,5]}',
    'bad_input',
    /^input "b": expected int64 \[1\], got shape \[2\]/,
  ],
  [
    'names of the model in another case and another order',
    'two',
    '{"B":[3],"A":[1,2]}',
    'bad_input',
    /^missing input "a", "b", unknown input "B", "A"; .*; did you mean "b" for "B", "a" for "A"\?$/,
  ],
  [
    'a name of the model with a unit, for its only input',
    'pair',
    '{" X_ (m/s)":[1,2]}',
    'bad_input',
    /^missing input "x", unknown input " X_ \(m\/s\)"; .*; did you mean "x" for " X_ \(m\/s\)"\?$/,
  ],
];

/** Of a body that says `bindByPosition`, and of clients that never did. */
export const POSITIONS: readonly InstanceCase[] = [
  [
    'by position, the second wrong',
    'two',
    '{"p":[1,2],"q":[0.5]}',
    'bad_input',
    /^input "q": expected a whole number \(int64\), got 0\.5/,
  ],
  [
    'by position, in the wrong order',
    'two',
    '{"q":[3],"p":[1,2]}',
    'bad_input',
    /^input "q": expected float32 \[2\], got shape \[1\]/,
  ],
];

/** Right for us, and wrong for the model. */
const RUNS: readonly InstanceCase[] = [
  [
    'model: an index beyond its table',
    'lookup',
    '{"x":[3]}',
    'model_failed',
    /^the model failed on this record: .*out of data bounds/,
  ],
  [
    'model: an index before its table',
    'lookup',
    '{"x":[-4]}',
    'model_failed',
    /^the model failed on this record: .*out of data bounds/,
  ],
];

export const VALUES: readonly InstanceCase[] = [...NUMBERS, ...TEXTS, ...SHAPES, ...NAMES, ...RUNS];
