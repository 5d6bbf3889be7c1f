/**
 * Reads the fields of a form, url-encoded or multipart (RFC 7578). Strict: a body that differs from the forms of
 * browsers, curl and Python's requests is refused, because a guess would pass on the wrong bytes.
 */
import { quoteName } from '../../codecs/quote.ts';
import { decodeUtf8 } from '../../codecs/utf8.ts';
import { badRequest, ServingError } from '../../contract/errors.ts';
import { assertEscapes, type HttpRequest } from '../request.ts';

const MOST_FIELDS = 32;
/** Limit for the headers of a part, and for a url-encoded form. */
const HEADER_BYTES = 8 * 1024;
const URLENCODED_BYTES = 64 * 1024;

/** RFC 2046; `requests` and browsers write no more than 60 characters. */
const BOUNDARY = /;\s*boundary=(?:"([^"\r\n]{1,70})"|([0-9A-Za-z'()+_,\-./:=?]{1,70}))\s*(?:;|$)/i;
const NAME = /;\s*name=(?:"((?:[^"\\\r\n]|\\.)*)"|([^\s";]+))/i;
const FILENAME = /;\s*filename=(?:"((?:[^"\\\r\n]|\\.)*)"|([^\s";]+))/i;

/** A field of a multipart form. */
export interface FormPart {
  readonly content: Uint8Array;
  /** A file has one. */
  readonly filename: string | undefined;
}

/** The values by name: bytes in a multipart form, texts otherwise. @throws bad_request, too_large */
export function readForm(
  request: Pick<HttpRequest, 'headers' | 'body'>,
): ReadonlyMap<string, Uint8Array | string> {
  const type = request.headers['content-type'] ?? '';
  if (!/^\s*multipart\//i.test(type)) return readUrlEncoded(bytesOf(request.body({ limit: 'frameBytes' })));
  return new Map([...readParts(request)].map(([name, { content }]) => [name, content]));
}

/** The fields of a multipart form by name. @throws bad_request, too_large */
export function readParts(request: Pick<HttpRequest, 'headers' | 'body'>): ReadonlyMap<string, FormPart> {
  const type = request.headers['content-type'] ?? '';
  const body = bytesOf(request.body({ limit: 'frameBytes' }));
  const [, quoted, plain] = BOUNDARY.exec(type) ?? [];
  const boundary = quoted ?? plain;
  if (boundary === undefined) throw badRequest('the content-type of the form names no boundary');
  return readMultipart(body, boundary);
}

function bytesOf(body: Uint8Array | string): Buffer {
  if (typeof body === 'string') return Buffer.from(body);
  return Buffer.from(body.buffer, body.byteOffset, body.byteLength);
}

function readUrlEncoded(body: Buffer): ReadonlyMap<string, string> {
  if (body.byteLength > URLENCODED_BYTES)
    throw tooLarge(`a form without files takes ${URLENCODED_BYTES} bytes`);
  const fields = new Map<string, string>();
  const text = decodeUtf8(body);
  if (text === undefined) throw badRequest('the form is not valid UTF-8');
  // The decoder of a form replaces escapes that are not UTF-8.
  assertEscapes(text, 'the form');
  for (const [name, value] of new URLSearchParams(text)) add(fields, name, value);
  return fields;
}

function readMultipart(body: Buffer, boundary: string): ReadonlyMap<string, FormPart> {
  const fields = new Map<string, FormPart>();
  const delimiter = Buffer.from(`\r\n--${boundary}`, 'latin1');
  // The first delimiter begins the body.
  if (!body.subarray(0, delimiter.length - 2).equals(delimiter.subarray(2))) {
    throw malformed('it does not begin with its boundary');
  }
  let at = delimiter.length - 2;
  while (!startsWith(body, at, '--')) {
    if (!startsWith(body, at, '\r\n')) throw malformed('a boundary is followed by no line break');
    const headers = at + 2;
    const content = body.indexOf('\r\n\r\n', at, 'latin1') + 4;
    if (content < 4) throw malformed('a part has no headers');
    if (content - headers > HEADER_BYTES) throw tooLarge(`the headers of a part take ${HEADER_BYTES} bytes`);
    const end = body.indexOf(delimiter, content - 2);
    if (end < 0) throw malformed('it is cut off');
    const head = decodeUtf8(body.subarray(headers, content - 4));
    if (head === undefined) throw malformed('the headers of a part are not UTF-8');
    const { name, filename } = namesOf(head);
    add(fields, name, { content: body.subarray(content, Math.max(content, end)), filename });
    at = end + delimiter.length;
  }
  return fields;
}

function namesOf(headers: string): { readonly name: string; readonly filename: string | undefined } {
  const lines = headers.split('\r\n');
  const valueOf = (name: string) =>
    lines.find((line) => line.toLowerCase().startsWith(`${name}:`))?.slice(name.length + 1);
  const encoding = valueOf('content-transfer-encoding')?.trim().toLowerCase() ?? 'binary';
  if (!['binary', '8bit', '7bit'].includes(encoding)) {
    throw malformed(`the encoding ${quoteName(encoding)} is not served`);
  }
  const disposition = valueOf('content-disposition') ?? '';
  const [, quoted, plain] = NAME.exec(disposition) ?? [];
  const name = quoted ?? plain;
  if (name === undefined || !/^\s*form-data\s*;/i.test(disposition)) throw malformed('a part has no name');
  const [, inQuotes, bare] = FILENAME.exec(disposition) ?? [];
  return { name, filename: inQuotes ?? bare };
}

function add<T>(fields: Map<string, T>, name: string, value: T): void {
  if (fields.has(name)) throw badRequest(`the form has ${quoteName(name)} twice`);
  if (fields.size === MOST_FIELDS) throw tooLarge(`a form takes ${MOST_FIELDS} fields`);
  fields.set(name, value);
}

function startsWith(body: Buffer, at: number, text: string): boolean {
  return body.toString('latin1', at, at + text.length) === text;
}

function malformed(problem: string): ServingError {
  return badRequest(`the multipart form cannot be read: ${problem}`);
}

function tooLarge(limit: string): ServingError {
  return new ServingError('too_large', `the form is too large: ${limit}`);
}
