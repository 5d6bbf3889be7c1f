/** Bodies of queue messages, for the model `pair`. */
import type { ErrorCode } from '../../../../lib/contract/errors.ts';
import { goodArrow } from './arrow.ts';
import { goodFile } from './safetensors.ts';

/** Messages without a readable uri: they go back by their id until they are archived. */
export type Unaddressed = readonly [
  name: string,
  body: string | (() => string),
  message: RegExp,
  code?: ErrorCode,
];

const uri = (name: string, value: unknown, message: RegExp): Unaddressed => [
  `a uri ${name}`,
  JSON.stringify({ uri: value, data: 'AAAA' }),
  message,
];

const NOT_JSON = /^the message is not JSON: .+/;

export const UNADDRESSED: readonly Unaddressed[] = [
  ['nothing', '', NOT_JSON],
  ['text', 'hello', NOT_JSON],
  ['a byte order mark', '\ufeff{"uri":"u","data":""}', NOT_JSON],
  ['XML', '<record uri="u"/>', NOT_JSON],
  ['what Python prints', "{'uri': 'u', 'data': ''}", NOT_JSON],
  ['two objects', '{"uri":"u"}{"uri":"v"}', NOT_JSON],
  ['an object without an end', '{"uri":"u","data":"', NOT_JSON],
  ['500,000 brackets', () => '['.repeat(5e5), NOT_JSON],
  ['null', 'null', /^the message is null, expected \{uri, data\}/],
  ['a number', '3', /the message is a number/],
  ['a text in quotes', '"uri"', /the message is a string/],
  ['an array', '[{"uri":"u"}]', /the message is an array/],
  ['arrays 250,000 deep', () => '['.repeat(2.5e5) + ']'.repeat(2.5e5), /the message is an array/],
  [
    'arrays a million deep beside its uri',
    () => `{"uri":"u","data":"","more":${'['.repeat(1e6)}${']'.repeat(1e6)}}`,
    /^the message is nested deeper than 16 dimensions/,
    'too_large',
  ],
  ['no uri', '{"data":"AAAA"}', /^uri: expected a text of 1 to 1024 bytes, got nothing/],
  ['a uri in __proto__', '{"__proto__":{"uri":"u"},"data":""}', /^uri: .* got nothing/],
  uri('that is null', null, /got null/),
  uri('that is a number', 7, /got number/),
  uri('that is an array', ['u'], /got object/),
  uri('that is empty', '', /got an empty text/),
  uri('of 1,025 bytes', 'u'.repeat(1025), /^uri: 1025 bytes are over the limit of 1024/),
  uri('of 342 characters of three bytes', '€'.repeat(342), /^uri: 1026 bytes are over the limit/),
  uri('of a million bytes', 'u'.repeat(1e6), /^uri: 1000000 bytes are over the limit/),
  uri('with a line feed', 'a\nb', /control characters and lone surrogates are not allowed/),
  uri('with a carriage return', 'a\r\nSet-Cookie: x', /control characters/),
  uri('with a NUL', 'a\0', /control characters/),
  uri('with DEL', 'a\x7f', /control characters/),
  uri('with half a character', 'a\ud800', /lone surrogates/),
  [
    'a pointer of a uri with a line feed',
    '{"uri":"a\\nb","pointer":"payloads/bad-input/0"}',
    /control characters/,
  ],
  ['a pointer of no uri', '{"pointer":"payloads/bad-input/0"}', /^uri: .* got nothing/],
];

/** Everything of a record but its uri. */
export type Addressed = readonly [
  name: string,
  fields: Readonly<Record<string, unknown>>,
  code: ErrorCode,
  message: RegExp,
];

const base64 = (bytes: Uint8Array) => Buffer.from(bytes).toString('base64');
const stream = (name: string, data: string, message: RegExp, code: ErrorCode = 'bad_request'): Addressed => [
  `stream: ${name}`,
  { serde: 'stream', data },
  code,
  message,
];
const BAD = 'bad_request';

/** The same at the queue and at POST /predictions: no model is needed to see it. */
export const ENVELOPES: readonly Addressed[] = [
  ['data that is null', { data: null }, BAD, /^data: expected a text, got null/],
  ['data that is a number', { data: 3 }, BAD, /^data: expected a text, got a number/],
  ['data that is an object', { data: { x: [1, 2] } }, BAD, /^data: expected a text, got an object/],
  ['data that is an array', { data: [1, 2] }, BAD, /^data: expected a text, got an array/],
  [
    'data a hundred thousand deep',
    { data: JSON.parse('['.repeat(1000) + ']'.repeat(1000)) as unknown },
    BAD,
    /^data: expected a text, got an array/,
  ],
  ['serde that is null', { data: '', serde: null }, BAD, /^serde: expected a text, got null/],
  ['serde that is a number', { data: '', serde: 1 }, BAD, /^serde: expected a text, got a number/],
  [
    'serde of pickles',
    { data: 'gASVCgAAAAAAAABd', serde: 'pickle' },
    BAD,
    /^serde "pickle": expected "arrow", "stream" or "safetensors"/,
  ],
  ['serde in capitals', { data: '', serde: 'ARROW' }, BAD, /^serde "ARROW": expected/],
  ['serde that is empty', { data: '', serde: '' }, BAD, /^serde "": expected/],
  ['serde of prototypes', { data: '', serde: '__proto__' }, BAD, /^serde "__proto__": expected/],
  ['serde of a megabyte', { data: '', serde: 's'.repeat(1e6) }, BAD, /^serde "s{80}\.\.\.": expected/],
  ['no data to decode', { data: '' }, BAD, /Arrow stream: it is empty/],
  ['white space to decode', { data: ' \n' }, BAD, /Arrow stream: it is empty/],
  ['data that is no base64', { data: '***' }, BAD, /^base64: unexpected "\*" at position 0 of 3/],
  [
    'data of five characters',
    { data: 'AAAAA' },
    BAD,
    /^base64: cut off at position 5: 5 characters are no whole bytes/,
  ],
  [
    'base64 with a pad in its middle',
    { data: `AA==${base64(goodArrow())}` },
    BAD,
    /^base64: wrong padding at position 2/,
  ],
  ['safetensors that are no base64', { data: 'a.b', serde: 'safetensors' }, BAD, /^base64: unexpected "\."/],
  [
    'Arrow said to be safetensors',
    { data: base64(goodArrow()), serde: 'safetensors' },
    BAD,
    /^not a readable safetensors file: a header of \d+ bytes/,
  ],
  ['safetensors said to be Arrow', { data: base64(goodFile()) }, BAD, /^Arrow stream: /],
  ['Arrow said to be a stream', { data: base64(goodArrow()), serde: 'stream' }, BAD, /^the body is not JSON/],
  [
    'a stream said to be Arrow',
    { data: '{"instances":[{"x":[1,2]}]}' },
    BAD,
    /^base64: unexpected "\{" at position 0/,
  ],
  stream('nothing', '', /^the body is empty/),
  stream('no JSON', 'x', /^the body is not JSON/),
  stream('null', 'null', /^no "instances" array in the body \(got null\)/),
  stream('one instance without its list', '{"x":[1,2]}', /\(got the keys \["x"\]\)/),
  stream('no instance', '{"instances":[]}', /"instances" is empty/),
  stream('two instances', '{"instances":[{"x":[1,2]},{"x":[3,4]}]}', /^a record holds one instance, got 2/),
  stream('an instance that is null', '{"instances":[null]}', /instances\[0\]: .* got null/),
  stream('an instance without inputs', '{"instances":[{}]}', /got an empty one/),
  stream(
    'a name of 257 characters',
    `{"instances":[{"${'n'.repeat(257)}":1}]}`,
    /over the limit of 256 \(inputNameLength\)/,
    'too_large',
  ),
];

/** Only at the queue: at POST /predictions a body without data is one of instances. */
export const POINTERS: readonly Addressed[] = [
  ['no data', {}, BAD, /^data: expected a text, got nothing$/],
  ...[
    ['of another job', 'payloads/other/0'],
    ['to a model', 'models/bad-input/current.json'],
    ['that climbs', 'payloads/bad-input/../other/0'],
    ['into a folder', 'payloads/bad-input/a/b'],
    ['that is a whole address', 's3://bucket/payloads/bad-input/0'],
    ['that starts with a slash', '/payloads/bad-input/0'],
    ['with a percent sign', 'payloads/bad-input/%2e%2e'],
    ['with a NUL', 'payloads/bad-input/0\0'],
    ['with a line feed', 'payloads/bad-input/0\n'],
    ['of 81 characters', `payloads/bad-input/${'0'.repeat(81)}`],
    ['to the folder itself', 'payloads/bad-input/'],
    ['that is empty', ''],
  ].map(
    ([name, pointer]): Addressed => [
      `a pointer ${name as string}`,
      { pointer },
      BAD,
      /^data: expected a text, got nothing; its "pointer" names no payload of this job$/,
    ],
  ),
  ['a pointer that is a number', { pointer: 3 }, BAD, /its "pointer" names no payload/],
  [
    'a pointer that is an object',
    { pointer: { key: 'payloads/bad-input/0' } },
    BAD,
    /its "pointer" names no payload/,
  ],
];
