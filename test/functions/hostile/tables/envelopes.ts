/** What is around a body: its encoding and its size, as the handlers get it; and requests as a socket brings them. */
import { brotliCompressSync, deflateRawSync, gzipSync } from 'node:zlib';
import type { ErrorCode } from '../../../../lib/contract/errors.ts';

export type EnvelopeCase = readonly [
  name: string,
  headers: Readonly<Record<string, string>>,
  body: () => string | Uint8Array,
  code: ErrorCode,
  message: RegExp,
];

const GOOD = '{"instances":[{"x":[1,2]}]}';
const MiB = 1024 * 1024;
const LIMIT = 6 * MiB;
const zipped = gzipSync(GOOD);
const GZIP = { 'content-encoding': 'gzip' };

const encoding = (
  value: string,
  body: () => string | Uint8Array,
  shown = value.toLowerCase(),
): EnvelopeCase => [
  `content-encoding ${JSON.stringify(value)}`,
  { 'content-encoding': value },
  body,
  'unsupported_media_type',
  new RegExp(`^content-encoding "${shown.replaceAll(/[*+]/g, '\\$&')}": expected gzip, deflate or none$`),
];

const cut = (name: string, body: () => Uint8Array): EnvelopeCase => [
  name,
  GZIP,
  body,
  'bad_request',
  /^the gzip body cannot be read: .+/,
];

/** Good JSON behind so much white space. */
const padded = (bytes: number) => GOOD.padStart(bytes, ' ');
const OVER = /^the body is 6291457 bytes, over the limit of 6291456 bytes \(httpBodyBytes\)$/;
const UNZIPPED = /^the body is \d+ bytes and unzipped over the limit of 6291456 bytes \(httpBodyBytes\)$/;

export const ENVELOPES: readonly EnvelopeCase[] = [
  encoding('br', () => brotliCompressSync(GOOD)),
  [
    'deflate without the header of zlib',
    { 'content-encoding': 'deflate' },
    () => deflateRawSync(GOOD),
    'bad_request',
    /^the deflate body cannot be read: incorrect header check$/,
  ],
  encoding('zstd', () => GOOD),
  encoding('compress', () => GOOD),
  encoding('gzip, gzip', () => gzipSync(zipped)),
  encoding('gzip,identity', () => zipped),
  encoding('x-gzip', () => zipped),
  encoding('GZIP2', () => zipped),
  encoding('*', () => GOOD),
  encoding('../gzip', () => zipped),
  [
    'a content-encoding of 8,000 characters',
    { 'content-encoding': 'e'.repeat(8000) },
    () => GOOD,
    'unsupported_media_type',
    /^content-encoding "e{80}\.\.\.": expected gzip, deflate or none$/,
  ],
  cut('said to be gzip, and is not', () => Buffer.from(GOOD)),
  cut('said to be gzip, and is base64 of it', () => Buffer.from(zipped.toString('base64'))),
  cut('gzip of no bytes', () => Buffer.alloc(0)),
  cut('gzip cut in its header', () => zipped.subarray(0, 5)),
  cut('gzip cut in its data', () => zipped.subarray(0, 20)),
  cut('gzip without its checksum', () => zipped.subarray(0, -8)),
  cut('gzip cut by a byte', () => zipped.subarray(0, -1)),
  cut('gzip with another checksum', () => Buffer.concat([zipped.subarray(0, -8), Buffer.alloc(8, 1)])),
  cut('gzip with changed data', () =>
    Buffer.concat([zipped.subarray(0, 12), Buffer.of(0xff, 0xff), zipped.subarray(14)]),
  ),
  ['gzip of nothing', GZIP, () => gzipSync(''), 'bad_request', /^the body is empty/],
  ['gzip of gzip', GZIP, () => gzipSync(zipped), 'bad_request', /^the body is not valid UTF-8/],
  ['gzip of no JSON', GZIP, () => gzipSync('hello'), 'bad_request', /^the body is not JSON/],
  ['a gzip bomb of 100 MB', GZIP, () => gzipSync(Buffer.alloc(100 * MiB)), 'too_large', UNZIPPED],
  ['a gzip bomb of a byte too many', GZIP, () => gzipSync(padded(LIMIT + 1)), 'too_large', UNZIPPED],
  [
    'gzip of many parts, together too large',
    GZIP,
    () => Buffer.concat(Array<Buffer>(7).fill(gzipSync(Buffer.alloc(MiB, ' ')))),
    'too_large',
    UNZIPPED,
  ],
  ['a text of a byte too many', {}, () => padded(LIMIT + 1), 'too_large', OVER],
  ['bytes, one too many', {}, () => Buffer.from(padded(LIMIT + 1)), 'too_large', OVER],
  [
    'a text whose characters fit and whose bytes do not',
    {},
    () => `{"instances":[{"x":"${'€'.repeat(LIMIT / 3)}"}]}`,
    'too_large',
    /^the body is 6291480 bytes, over the limit of 6291456 bytes/,
  ],
  [
    'gzip that is too large itself',
    GZIP,
    () => Buffer.concat([zipped, Buffer.alloc(LIMIT)]),
    'too_large',
    /^the body is 62915\d\d bytes, over the limit/,
  ],
];

/** The same, and good. */
export const GOOD_ENVELOPES: readonly (readonly [
  string,
  Readonly<Record<string, string>>,
  () => string | Uint8Array,
])[] = [
  ['a text of exactly 6 MiB', {}, () => padded(LIMIT)],
  ['bytes, exactly 6 MiB', {}, () => Buffer.from(padded(LIMIT))],
  ['gzip of exactly 6 MiB', GZIP, () => gzipSync(padded(LIMIT))],
  ['GZIP in capitals', { 'content-encoding': ' GZIP ' }, () => zipped],
  ['identity', { 'content-encoding': 'identity' }, () => GOOD],
  ['an empty content-encoding', { 'content-encoding': '' }, () => GOOD],
  ['a content type of text', { 'content-type': 'text/plain' }, () => GOOD],
  ['a content type that is none', { 'content-type': 'x' }, () => Buffer.from(GOOD)],
  ['no headers at all', {}, () => Buffer.from(GOOD)],
];

/** A request as bytes on a socket, to the local gateway. Some answers are the gateway's own words, as on AWS. */
export type SocketCase = readonly [name: string, request: () => string, status: number, body: RegExp];

const request = (line: string, headers: readonly string[] = [], body = GOOD): string =>
  [
    line,
    'Host: localhost',
    'Connection: close',
    ...(headers.some((header) => /^(content-length|transfer-encoding):/i.test(header))
      ? []
      : [`Content-Length: ${body.length}`]),
    ...headers,
    '',
    body,
  ].join('\r\n');

const notFound = /"message":"Not Found"/;
const badRequest = /"message":"Bad Request"/;
const wrongMethod = (method: string, path = '/predict'): SocketCase => [
  `${method} ${path}`,
  () => request(`${method} ${path} HTTP/1.1`),
  404,
  notFound,
];
const path = (name: string, target: string, status = 404, body = notFound): SocketCase => [
  name,
  () => request(`POST ${target} HTTP/1.1`),
  status,
  body,
];
const broken = (name: string, headers: readonly string[], status = 400, body = badRequest): SocketCase => [
  name,
  () => request('POST /predict HTTP/1.1', headers),
  status,
  body,
];

export const SOCKET: readonly SocketCase[] = [
  wrongMethod('GET'),
  wrongMethod('PUT'),
  wrongMethod('PATCH'),
  wrongMethod('DELETE'),
  wrongMethod('TRACE'),
  wrongMethod('PUT', '/predictions'),
  wrongMethod('PATCH', '/predictions/u'),
  ['a method that does not exist', () => request('BREW /predict HTTP/1.1'), 400, badRequest],
  ['a method in small letters', () => request('post /predict HTTP/1.1'), 400, badRequest],
  path('a slash too many', '/predict/'),
  path('two slashes', '//predict'),
  path('capitals', '/PREDICT'),
  path('a path that climbs', '/predictions/../predict'),
  path('a path that climbs in percent signs', '/predictions/%2e%2e/%2e%2e/etc/passwd'),
  path('a path of backslashes', '/..\\..\\windows'),
  path('a percent sign alone', '/predict%', 400, badRequest),
  path('half a percent escape', '/predict%2', 400, badRequest),
  path('percent escapes that are no UTF-8', '/predict%ff', 400, badRequest),
  path(
    'a path of 10,000 characters',
    `/${'p'.repeat(10_240)}`,
    431,
    /"message":"Request Header Fields Too Large"/,
  ),
  path('a path with a space', '/predict now', 400, badRequest),
  ['a line that is no HTTP', () => 'hello\r\n\r\n', 400, badRequest],
  ['HTTP of version 9', () => request('POST /predict HTTP/9.9'), 400, badRequest],
  ['TLS on a plain port', () => '\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03', 400, badRequest],
  broken(
    'headers of more than 10,240 bytes',
    [`X-Large: ${'h'.repeat(10_240)}`],
    431,
    /"message":"Request Header Fields Too Large"/,
  ),
  broken(
    'headers of 100 kB',
    [`X-Large: ${'h'.repeat(100_000)}`],
    431,
    /"message":"Request Header Fields Too Large"/,
  ),
  broken('a header name with a space', ['X Large: 1']),
  broken('a header without a colon', ['X-Large']),
  broken('a header with a NUL', ['X-Nul: a\0b']),
  broken('a content length that is no number', ['Content-Length: many']),
  broken('a negative content length', ['Content-Length: -1']),
  broken('two content lengths', ['Content-Length: 27', 'Content-Length: 28']),
  broken('a content length beside chunks', ['Content-Length: 27', 'Transfer-Encoding: chunked']),
  broken('chunks that are none', ['Transfer-Encoding: chunked']),
  broken('an unknown transfer encoding', ['Transfer-Encoding: gzip']),
  broken(
    'a content length over 10 MB',
    ['Content-Length: 10485761'],
    413,
    /"message":"Request Entity Too Large"/,
  ),
  broken(
    'two content encodings',
    ['Content-Encoding: gzip', 'Content-Encoding: br'],
    415,
    /content-encoding \\"gzip,br\\": expected gzip, deflate or none/,
  ),
  broken('gzip that is none', ['Content-Encoding: gzip'], 400, /the gzip body cannot be read/),
  ['no body', () => request('POST /predict HTTP/1.1', [], ''), 400, /the body is empty/],
  [
    'a body that its content length cuts',
    () => request('POST /predict HTTP/1.1', ['Content-Length: 10'], GOOD.slice(0, 10)),
    400,
    /the body is not JSON/,
  ],
];

/** The same, and good. */
export const GOOD_SOCKET: readonly (readonly [string, () => string])[] = [
  ['no content type', () => request('POST /predict HTTP/1.1')],
  ['8 KB of headers', () => request('POST /predict HTTP/1.1', [`X-Large: ${'h'.repeat(8192)}`])],
  [
    'two of one header',
    () => request('POST /predict HTTP/1.1', ['X-Twice: 1', 'X-Twice: 2', 'Accept: a', 'Accept: b']),
  ],
  ['a header called __proto__', () => request('POST /predict HTTP/1.1', ['__proto__: 1', 'constructor: 2'])],
  ['an unexpected query', () => request('POST /predict?uri=%0d%0a&uri=x HTTP/1.1')],
  ['a fragment of percent escapes', () => request('POST /pred%69ct HTTP/1.1')],
];
