/**
 * Bodies of at most 6 MiB, unzipped, that once took seconds or gigabytes, or are of the kind of one that did. Each is to cost no
 * more than a few times what JSON.parse takes for as many bytes.
 */
import { gzipSync } from 'node:zlib';
import { FlatReader } from '../../../../lib/codecs/arrow/flatbuffers.ts';
import { encodeFrame } from '../../../../lib/codecs/values/frame.ts';
import { float32Column, scalar, table, vector, writeFlat } from '../../../support/arrow-writer.ts';

export type Target = 'predict' | 'predictions' | 'queue' | 'grpc';

export interface CostlyCase {
  readonly name: string;
  readonly target: Target;
  readonly path?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body: () => string | Uint8Array;
  readonly status: number;
  /** The error of the answer. */
  readonly message: RegExp;
}

/** What a case measures has room for the parts around it. */
const BYTES = 6 * 1024 * 1024 - 300;

const filled = (unit: string, bytes = BYTES) => unit.repeat(Math.floor(bytes / unit.length));
/** As many units as fit, each another one. */
function counted(unit: (i: number) => string, bytes = BYTES): string {
  const parts: string[] = [];
  for (let i = 0, size = 0; ; i++) {
    const part = unit(i);
    size += part.length;
    if (size > bytes) return parts.join('');
    parts.push(part);
  }
}
const list = (unit: string) => `[${filled(`${unit},`)}0]`;
const key = (i: number) => i.toString(36);

const MEMBERS = /members of objects are over the limit of 262144 in 6 MiB \(jsonMembers\)/;
const ARRAYS = /arrays are over the limit of 524288 in 6 MiB \(jsonArrays\)/;
const OBJECTS = /objects are over the limit of 131072 in 6 MiB \(jsonObjects\)/;
const TEXTS = /texts and keys are over the limit of 524288 in 6 MiB \(texts\)/;
const DEEP = /nested deeper than 16/;
const NOT_JSON = /not JSON/;

const JSON_TYPE = { 'content-type': 'application/json' };
const V2 = '/v2/models/serving_stream/infer';
const V1 = '/v1/models/serving_stream';

/** A value of JSON, wherever a route has one. */
const VALUES: readonly (readonly [name: string, value: () => string, status: number, message: RegExp])[] = [
  ['objects with a key of their own each', () => `[${counted((i) => `{"${key(i)}":1},`)}0]`, 413, OBJECTS],
  ['an object of a million keys', () => `{${counted((i) => `"${key(i)}":1,`)}"":0}`, 413, MEMBERS],
  ['a key that stands a million times', () => `{${filled('"a":1,')}"":0}`, 413, MEMBERS],
  ['keys that are indices', () => `{${counted((i) => `"${9e6 - i}":1,`)}"":0}`, 413, MEMBERS],
  ['empty arrays', () => list('[]'), 413, ARRAYS],
  ['empty objects', () => list('{}'), 413, OBJECTS],
  ['different texts', () => `[${counted((i) => `"${key(i)}",`)}0]`, 413, TEXTS],
  ['brackets that are never closed', () => filled('['), 413, DEEP],
];

const json = (name: string, value: string, status: number, message: RegExp, target: Target = 'predict') => ({
  name,
  target,
  headers: JSON_TYPE,
  body: () => value,
  status,
  message,
});

const PLACES: readonly (readonly [
  name: string,
  target: Target,
  path: string,
  around: (v: string) => string,
])[] = [
  ['an input of /predict', 'predict', '/predict', (v) => `{"instances":[{"x":${v}}]}`],
  ['one of two inputs by position', 'predict', '/predict', (v) => `{"instances":[{"1":1,"0":${v}}]}`],
  ['an input of /predictions', 'predictions', '/predictions', (v) => `{"instances":[{"x":${v}}]}`],
  [
    'data of /v2',
    'predict',
    V2,
    (v) => `{"inputs":[{"name":"x","shape":[1],"datatype":"INT64","data":${v}}]}`,
  ],
  ['inputs of /v1', 'predict', `${V1}:predict`, (v) => `{"inputs":${v}}`],
  ['beside NaN in /v1', 'predict', `${V1}:predict`, (v) => `{"instances":[NaN,${v}]}`],
  ['the context of /v1', 'predict', `${V1}:classify`, (v) => `{"context":{"x":${v}},"examples":[{}]}`],
  ['input of /v1/embeddings', 'predict', '/v1/embeddings', (v) => `{"model":"serving_stream","input":${v}}`],
  ['the body of /encode_json', 'predict', '/encode_json', (v) => v],
  ['img_url of /encode_img_url', 'predict', '/encode_img_url', (v) => `{"img_url":${v}}`],
  ['a record of the queue', 'queue', '', (v) => record('stream', `{"instances":[{"x":${v}}]}`)],
];

function record(serde: string, data: string): string {
  return JSON.stringify({ uri: 'u', serde, data });
}

/** Each value in one place of its own, and those that one reader saw in another way in all of them. */
const JSON_CASES: readonly CostlyCase[] = PLACES.flatMap(([place, target, path, around], i) =>
  [VALUES[i % VALUES.length], VALUES[(i + 3) % VALUES.length]].map((value) => {
    const [name, make, status, message] = value as (typeof VALUES)[number];
    const body = () => around(make());
    return { name: `${name}: ${place}`, target, path, headers: JSON_TYPE, body, status, message };
  }),
);

/** Long texts and numbers, which no limit counts. */
const LONG_CASES: readonly CostlyCase[] = [
  json('escaped quotes beside NaN, never closed', `{"instances":[NaN,"${filled('\\"')}`, 400, NOT_JSON),
  json('a number of six million digits', `{"instances":[{"x":${filled('7')}}]}`, 400, /out of the range/),
  json('many words', `{"instances":${list('NaN')}}`, 413, /NaN and infinities are over the limit/),
  json(
    'integers of 16 digits',
    `{"inputs":${list('9007199254740993')}}`,
    413,
    /over the limit of 262144 \(jsonSpecials\)/,
  ),
].map((one, i) => (i === 1 ? one : { ...one, path: `${V1}:predict` }));

const CSV = { 'content-type': 'text/csv' };
const ZIPPED = { ...CSV, 'content-encoding': 'gzip' };
const NO_ROWS = /^the CSV has no rows/;
const TOO_WIDE = /^line 1: at least 4097 columns are over the limit of 4096 \(csvColumns\)$/;
const CSV_BODIES: readonly (readonly [name: string, body: () => string, status: number, message: RegExp])[] =
  [
    ['empty lines', () => `a,b\n${filled('\n')}`, 400, NO_ROWS],
    ['empty lines of Windows', () => `a,b\r\n${filled('\r\n')}`, 400, NO_ROWS],
    ['missing values', () => `a\n${filled('\n')}`, 413, /^at least 1001 rows are over the limit of 1000/],
    ['a first line of commas', () => filled(','), 413, TOO_WIDE],
    ['a second line of commas', () => `a,b\n${filled(',')}`, 400, /^line 2: at least 3 cells, expected 2/],
    ['rows that are too short', () => `a,b\n${filled('1\n')}`, 400, /^line 2: 1 cells, expected 2/],
    ['a quote that never closes', () => `a,b\n"${filled('1,2\n')}`, 400, /is not closed, in line 2$/],
    ['doubled quotes', () => `a,b\n${filled('"', BYTES - (BYTES % 2))}`, 400, /^line 2: 1 cells, expected 2/],
    [
      'more cells than a request has',
      () =>
        `${Array.from({ length: 1_000 }, (_, i) => key(i)).join()}\n${filled(`${','.repeat(999)}\n`, BYTES - 4_000)}`,
      413,
      /^at least 263 rows of 1000 cells are over the limit of 262144 cells \(csvCells\)/,
    ],
  ];
const CSV_CASES = CSV_BODIES.flatMap(([name, body, status, message], i): CostlyCase[] => {
  const target = i % 2 === 0 ? 'predict' : 'predictions';
  const zipped = { name: `CSV, zipped: ${name}`, target, headers: ZIPPED, status, message } as const;
  return [{ ...zipped, body: () => gzipSync(body()) }];
});

const NDJSON = { 'content-type': 'application/x-ndjson' };
/** A thousand lines, of as many characters each. */
const lines = (line: (size: number) => string) => `${line(Math.floor(BYTES / 1_000) - 1)}\n`.repeat(1_000);
const nested = (open: string, close: string, size: number) => {
  const levels = Math.floor((size - 30) / (open.length + close.length));
  return `{"instances":[{"x":${open.repeat(levels)}1${close.repeat(levels)}}]}`;
};
const NDJSON_CASES: readonly CostlyCase[] = [
  ['deep arrays', () => lines((size) => nested('[', ']', size)), 207, /the line is nested deeper/],
  ['deep objects', () => lines((size) => nested('{"a":', '}', size)), 207, /the line is nested deeper/],
  [
    'depth below what is searched',
    () => `${nested('[', ']', 6_000)}\n`.repeat(16),
    207,
    /arrays are nested deeper than 16/,
  ],
  [
    'objects of many keys',
    () => lines((size) => `{"instances":[{${counted((i) => `"${key(i)}":1,`, size - 40)}"":1}]}`),
    413,
    MEMBERS,
  ],
  ['many instances', () => lines((size) => `{"instances":[${filled('[],', size - 30)}0]}`), 413, ARRAYS],
  [
    'some instances',
    () => `{"instances":[${filled('0,', 4_000)}0]}\n`.repeat(1_000),
    207,
    /a line holds one record, got 2001 instances/,
  ],
  ['empty lines', () => filled('\n'), 400, /^the body is empty/],
  ['blank lines', () => filled(' \t\n'), 400, /^the body is empty/],
  ['tiny lines', () => filled('1\n'), 413, /recordsPerBody/],
].map(([name, body, status, message]) => ({
  name: `NDJSON: ${name as string}`,
  target: 'predictions',
  headers: NDJSON,
  body: body as () => string,
  status: status as number,
  message: message as RegExp,
}));

const FORM = { 'content-type': 'multipart/form-data; boundary=b' };
const part = (name: string, content = '') =>
  `--b\r\nContent-Disposition: form-data; name="${name}"\r\n\r\n${content}\r\n`;
const FORM_CASES: readonly CostlyCase[] = [
  ['many parts', FORM, () => counted((i) => part(`f${i}`)), 413, /a form takes 32 fields/],
  ['a header without an end', FORM, () => `--b\r\n${filled('a: b\r\n')}`, 400, /no headers/],
  ['nearly boundaries', FORM, () => part('img_bytes', filled('\r\n--')), 400, /cut off/],
  ['names', FORM, () => `--b\r\nContent-Disposition: form-data${';name="a'.repeat(900)}\r\n\r\n`, 400, /./],
  [
    'url-encoded',
    { 'content-type': 'application/x-www-form-urlencoded' },
    () => filled('a=%41&'),
    413,
    /65536/,
  ],
].map(([name, headers, body, status, message]) => ({
  name: `a form: ${name as string}`,
  target: 'predict',
  path: name === 'url-encoded' ? '/encode_img_url' : '/encode_img_bytes',
  headers: headers as Record<string, string>,
  body: body as () => string,
  status: status as number,
  message: message as RegExp,
}));

/** What base64 makes 6 MiB of. */
const BINARY = Math.floor(BYTES * 0.75) & ~7;
const FRAME = { 'content-type': 'application/x-wkr' };
const jsonFrame = (text: string) => {
  const header = { type: 'encode', identity: 'a', id: 'b', value: { $t: 'json', b: 0 } };
  return Buffer.concat(encodeFrame(header, [Buffer.from(text)]));
};

/** A schema of many columns that are all the last one, whose name is long. */
function sharedName(columns: number, length: number): Uint8Array {
  const fields = Array.from({ length: columns }, (_, i) =>
    float32Column(i === columns - 1 ? 'x'.repeat(length) : 'y'),
  );
  const schema = table(undefined, vector(fields));
  const metadata = writeFlat(table(scalar(2, 4), scalar(1, 1), schema, scalar(8, 0)));
  const flat = new FlatReader(metadata);
  const view = new DataView(metadata.buffer, metadata.byteOffset);
  const { start } = flat.items(flat.slot(flat.follow(flat.slot(flat.root(), 2)), 1), 4);
  const last = flat.follow(start + 4 * (columns - 1));
  for (let at = start; at < start + 4 * columns; at += 4) view.setUint32(at, last - at, true);
  const prefix = Buffer.alloc(8, 0xff);
  prefix.writeUInt32LE(metadata.length, 4);
  return Buffer.concat([prefix, metadata]);
}

function binaryTexts(count: number): Uint8Array {
  const parameters = { binary_data_size: 4 * count };
  const head = JSON.stringify({ inputs: [{ name: 'x', shape: [1, count], datatype: 'BYTES', parameters }] });
  return Buffer.concat([Buffer.from(head.padEnd(200)), Buffer.alloc(4 * count)]);
}

function varint(value: number): number[] {
  return value < 128 ? [value] : [(value & 127) | 128, ...varint(Math.floor(value / 128))];
}
/** A field of protobuf with bytes. */
const field = (number: number, body: Uint8Array) =>
  Buffer.concat([Buffer.of(8 * number + 2, ...varint(body.length)), body]);

const BINARY_CASES: readonly CostlyCase[] = [
  {
    name: 'a million frames',
    target: 'predict',
    path: '/encode',
    headers: FRAME,
    body: () => filled('\0\0\0\u0002{}', BINARY),
    status: 400,
    message: /malformed frame: expected one/,
  },
  {
    name: 'a frame with objects that have a key of their own each',
    target: 'predict',
    path: '/encode',
    headers: FRAME,
    body: () => jsonFrame(`[${counted((i) => `{"${key(i)}":1},`, BINARY - 300)}0]`),
    status: 400,
    message: /a block is JSON whose objects are over the limit/,
  },
  {
    name: 'Arrow columns that share a name of 4 MB',
    target: 'predictions',
    headers: JSON_TYPE,
    body: () => record('arrow', Buffer.from(sharedName(4_096, 4 * 1024 * 1024)).toString('base64')),
    status: 400,
    message: /its texts have more bytes together/,
  },
  {
    name: 'base64 with white space in every second place, and a foreign character',
    target: 'predictions',
    headers: JSON_TYPE,
    body: () => record('arrow', `${filled('A ', BYTES)}*`),
    status: 400,
    message: /unexpected "\*" at position/,
  },
  {
    name: 'texts without a character in a binary tensor',
    target: 'predict',
    path: V2,
    headers: { 'content-type': 'application/octet-stream', 'inference-header-content-length': '200' },
    body: () => binaryTexts(BINARY / 4 - 100),
    status: 413,
    message: /BYTES elements are over the limit of 524288 \(texts\)/,
  },
  {
    name: 'a shape of six million dimensions over gRPC',
    target: 'grpc',
    body: () => field(5, Buffer.concat([field(1, Buffer.from('x')), field(3, Buffer.alloc(BYTES, 1))])),
    status: 400,
    message: /datatype nothing/,
  },
  {
    name: 'three million empty messages over gRPC',
    target: 'grpc',
    body: () => Buffer.alloc(BYTES & ~1, Buffer.of(0x2a, 0)),
    status: 400,
    message: /more than 262144 messages/,
  },
];

export const COSTLY: readonly CostlyCase[] = [
  ...JSON_CASES,
  ...LONG_CASES,
  ...CSV_CASES,
  ...NDJSON_CASES,
  ...FORM_CASES,
  ...BINARY_CASES,
];
