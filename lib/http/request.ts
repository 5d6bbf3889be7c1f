/**
 * Reads an API Gateway HTTP API event (payload 2.0). API Gateway base64-encodes what it considers binary (also curl's
 * default content type) and passes gzip and deflate on. What they unzip to is capped while it grows. It decodes what it
 * considers text itself, as UTF-8: bytes that are something else have become U+FFFD before the function sees them.
 */
import { isUtf8 } from 'node:buffer';
import { gunzipSync, inflateSync } from 'node:zlib';
import type { APIGatewayProxyEventV2 } from 'aws-lambda';
import { quoteName } from '../codecs/quote.ts';
import { assertIdentity } from '../contract/enqueue.ts';
import { asError, badRequest, ServingError } from '../contract/errors.ts';
import { LIMITS, overLimit } from '../contract/limits.ts';
import { assertUri } from '../contract/names.ts';
import { callerOf } from './caller.ts';

export interface HttpRequest {
  readonly method: string;
  readonly path: string;
  /** Lower-cased names. */
  readonly headers: Readonly<Record<string, string | undefined>>;
  /** The parameters of the path and of the query. A uri with `?` or `..` only works in a query. */
  readonly parameters: Readonly<Record<string, string | undefined>>;
  /** The parameter `uri`. @throws bad_request for a bad uri, or none */
  uri(): string;
  /** The parameter `identity`, where there is one. @throws bad_request for what is none */
  identity(): string | undefined;
  /** The parameter `fetched`, where there is one: the id of a large result. @throws bad_request for what is none */
  fetched(): string | undefined;
  /** Who sent it, by `callerOf`. */
  caller(): string;
  /**
   * Decoded and unzipped: text where the event or a charset says so, else bytes.
   * @throws too_large, unsupported_media_type, bad_request
   */
  body(options?: BodyOptions): Uint8Array | string;
}

export interface BodyOptions {
  /**
   * The index of a byte to align to 8 in memory if possible, so that a typed array can start there without a copy.
   * Default 0.
   */
  readonly alignedAt?: number | undefined;
  /** Memory for base64; default fresh memory. */
  readonly allocate?: (bytes: number) => Buffer;
  /** The limit of its size. Default httpBodyBytes. */
  readonly limit?: 'httpBodyBytes' | 'frameBytes';
}

export function readRequest(event: APIGatewayProxyEventV2): HttpRequest {
  const { http } = event.requestContext;
  const parameters = { ...event.queryStringParameters, ...event.pathParameters };
  return {
    method: http.method,
    path: event.rawPath,
    headers: event.headers,
    parameters,
    uri: () => {
      const uri = assertUri(parameters['uri']);
      if (uri.includes(REPLACEMENT)) assertUtf8(event.rawQueryString);
      return uri;
    },
    identity: () =>
      parameters['identity'] === undefined ? undefined : assertIdentity(parameters['identity']),
    fetched: () => (parameters['fetched'] === undefined ? undefined : assertLargeId(parameters['fetched'])),
    caller: () => callerOf(event.requestContext),
    body: (options = {}) => readBody(event, options),
  };
}

/** The content type without its parameters; empty where there is none. */
export function mediaType({ headers }: Pick<HttpRequest, 'headers'>): string {
  return (headers['content-type'] ?? '').split(';', 1)[0]?.trim().toLowerCase() ?? '';
}

/** @throws bad_request */
function assertLargeId(id: string): string {
  if (/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(id)) return id;
  throw badRequest(`fetched: expected the id of a large result, got ${quoteName(id)}`);
}

/**
 * Decoders replace bytes that are not UTF-8 with this, which would make different uris equal. It is also a valid
 * character.
 */
const REPLACEMENT = '\ufffd';

/** Checks the query's uri as received. @throws bad_request */
function assertUtf8(rawQuery: string): void {
  for (const parameter of rawQuery.split('&')) {
    if (parameter.startsWith('uri=')) assertEscapes(parameter, 'uri');
  }
}

/** Checks percent escapes, whose decoders replace what is not UTF-8. @throws bad_request */
export function assertEscapes(text: string, where: string): void {
  for (const [escapes] of text.matchAll(/(?:%[\da-f]{2})+/gi)) {
    if (isUtf8(Buffer.from(escapes.replaceAll('%', ''), 'hex'))) continue;
    throw badRequest(`${where}: expected UTF-8, got ${quoteName(escapes)}`);
  }
}

function readBody(event: APIGatewayProxyEventV2, options: BodyOptions): Uint8Array | string {
  const limit = options.limit ?? 'httpBodyBytes';
  const text = event.body ?? '';
  const encoding = event.headers['content-encoding']?.trim().toLowerCase() || 'identity';
  if (!event.isBase64Encoded && encoding === 'identity') {
    // It is text already; converting it to bytes and back would cost a quarter of the time for a JSON tensor. A code
    // unit has 1 to 3 bytes.
    assertSize(text.length * 3 <= LIMITS[limit] ? text.length : Buffer.byteLength(text), limit);
    return assertDecoded(text, event);
  }
  const bytes = event.isBase64Encoded ? decodeAligned(text, options) : Buffer.from(text);
  assertSize(bytes.byteLength, limit);
  return withCharset(encoding === 'identity' ? bytes : unzipped(bytes, encoding, limit), event);
}

/** Types whose bytes are not text, even if a client adds a charset. */
const BINARY = /^(?:multipart|image|audio|video)\/|^application\/octet-stream/i;

/** In lower case; undefined for UTF-8 and its subset ASCII, and where none is declared. */
function otherCharset({ headers }: APIGatewayProxyEventV2): string | undefined {
  const type = headers['content-type'] ?? '';
  const [, quoted, plain] = /;\s*charset\s*=\s*(?:"([^"]*)"|([^\s;"]+))/i.exec(type) ?? [];
  const charset = (quoted ?? plain)?.toLowerCase();
  return charset === undefined || /^(?:utf-?8|us-ascii|ascii)$/.test(charset) || BINARY.test(type)
    ? undefined
    : charset;
}

/** A text that API Gateway decoded. @throws unsupported_media_type, bad_request */
function assertDecoded(text: string, event: APIGatewayProxyEventV2): string {
  const charset = otherCharset(event);
  if (charset !== undefined) {
    throw new ServingError(
      'unsupported_media_type',
      `charset ${quoteName(charset)}: expected UTF-8; encode the body as UTF-8, or send it with gzip, which keeps its bytes`,
    );
  }
  if (!text.includes(REPLACEMENT)) return text;
  // Both bytes of its mark.
  if (text.startsWith(REPLACEMENT.repeat(2)) && text.includes('\0'))
    throw badRequest('the body is UTF-16; save it as UTF-8 (in Excel "CSV UTF-8")');
  throw badRequest(
    'the body holds U+FFFD, which stands for bytes that are not UTF-8: encode it as UTF-8; where the character itself is meant, write it as \\ufffd in JSON; a body with binary tensors has content-type: application/octet-stream',
  );
}

/** Bytes as text of the charset that the client declared. @throws unsupported_media_type, bad_request */
function withCharset(bytes: Uint8Array, event: APIGatewayProxyEventV2): Uint8Array | string {
  const charset = otherCharset(event);
  if (charset === undefined) return bytes;
  const decoder = decoderOf(charset);
  try {
    return decoder.decode(bytes);
  } catch {
    throw badRequest(
      `the body is not valid ${quoteName(charset)}, the charset that its content-type declares`,
    );
  }
}

/** @throws unsupported_media_type for a charset that is not known */
function decoderOf(charset: string) {
  try {
    return new TextDecoder(charset, { fatal: true });
  } catch (error) {
    const message = `charset ${quoteName(charset)} is not known; encode the body as UTF-8`;
    throw new ServingError('unsupported_media_type', message, { cause: error });
  }
}

function unzipped(bytes: Buffer, encoding: string, limit: NonNullable<BodyOptions['limit']>): Buffer {
  const unzip = encoding === 'gzip' ? gunzipSync : encoding === 'deflate' ? inflateSync : undefined;
  if (!unzip) {
    throw new ServingError(
      'unsupported_media_type',
      `content-encoding ${quoteName(encoding)}: expected gzip, deflate or none`,
    );
  }
  try {
    return unzip(bytes, { maxOutputLength: LIMITS[limit] });
  } catch (error) {
    if (asError(error).code === 'ERR_BUFFER_TOO_LARGE') {
      // The full size is unknown, because unzipping stopped.
      throw overLimit(limit, `the body is ${bytes.byteLength} bytes and unzipped`, 'bytes');
    }
    throw badRequest(`the ${encoding} body cannot be read: ${asError(error).message}`);
  }
}

const BOUNDARY = 8;

/** Decodes base64 so that byte `alignedAt` is aligned in memory. */
function decodeAligned(text: string, options: BodyOptions): Buffer {
  const { alignedAt = 0, allocate = (bytes) => Buffer.allocUnsafe(bytes), limit = 'httpBodyBytes' } = options;
  const most = Buffer.byteLength(text, 'base64');
  assertSize(most, limit);
  const memory = allocate(most + BOUNDARY);
  const past = (memory.byteOffset + alignedAt) % BOUNDARY;
  const start = past === 0 ? 0 : BOUNDARY - past;
  return memory.subarray(start, start + memory.write(text, start, 'base64'));
}

function assertSize(bytes: number, limit: NonNullable<BodyOptions['limit']>): void {
  if (bytes > LIMITS[limit]) throw overLimit(limit, `the body is ${bytes} bytes,`, 'bytes');
}
