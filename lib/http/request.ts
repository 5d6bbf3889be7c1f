/**
 * Reads an API Gateway HTTP API event (payload 2.0). API Gateway base64-encodes what it considers binary (also curl's
 * default content type) and passes gzip and deflate on. What they unzip to is capped while it grows.
 */
import { isUtf8 } from 'node:buffer';
import { gunzipSync, inflateSync } from 'node:zlib';
import type { APIGatewayProxyEventV2 } from 'aws-lambda';
import { quoteName } from '../codecs/quote.ts';
import { assertIdentity } from '../contract/enqueue.ts';
import { badRequest, ServingError } from '../contract/errors.ts';
import { LIMITS, overLimit } from '../contract/limits.ts';
import { assertUri } from '../contract/names.ts';

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
  /** Decoded and unzipped. @throws too_large, unsupported_media_type, bad_request */
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
    body: (options = {}) => readBody(event, options),
  };
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
    if (!parameter.startsWith('uri=')) continue;
    for (const escapes of parameter.match(/(?:%[\da-f]{2})+/gi) ?? []) {
      if (isUtf8(Buffer.from(escapes.replaceAll('%', ''), 'hex'))) continue;
      throw badRequest(`uri: expected UTF-8, got ${quoteName(escapes)}`);
    }
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
    return text;
  }
  const bytes = event.isBase64Encoded ? decodeAligned(text, options) : Buffer.from(text);
  assertSize(bytes.byteLength, limit);
  if (encoding === 'identity') return bytes;
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
    if ((error as NodeJS.ErrnoException).code === 'ERR_BUFFER_TOO_LARGE') {
      // The full size is unknown, because unzipping stopped.
      throw overLimit(limit, `the body is ${bytes.byteLength} bytes and unzipped`, 'bytes');
    }
    throw badRequest(`the ${encoding} body cannot be read: ${(error as Error).message}`);
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
