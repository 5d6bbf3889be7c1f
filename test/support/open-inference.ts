/**
 * A client of the Open Inference Protocol for tests, written from its specification and independent of lib/. Builds
 * requests, as a body with headers or as a Lambda event, and reads responses.
 */
import type { APIGatewayProxyEventV2 } from 'aws-lambda';
import type { HttpResponse } from '../../lib/http/response.ts';

export interface SentTensor {
  readonly name: string;
  readonly datatype: string;
  readonly shape: readonly number[];
  /** JSON, or else bytes. */
  readonly data?: unknown;
  readonly bytes?: Uint8Array;
  readonly parameters?: Readonly<Record<string, unknown>>;
}

export interface SentRequest {
  readonly body: Buffer;
  readonly headers: Readonly<Record<string, string>>;
}

/** @param rest what else the request's JSON says: id, outputs, parameters */
export function inferRequest(inputs: readonly SentTensor[], rest: object = {}): SentRequest {
  const described = inputs.map(({ bytes, parameters, ...input }) => {
    const all = { ...(bytes ? { binary_data_size: bytes.byteLength } : {}), ...parameters };
    return { ...input, ...(Object.keys(all).length > 0 ? { parameters: all } : {}) };
  });
  const json = Buffer.from(JSON.stringify({ inputs: described, ...rest }));
  const parts = inputs.flatMap(({ bytes }) => (bytes ? [bytes] : []));
  if (parts.length === 0) return { body: json, headers: { 'content-type': 'application/json' } };
  return {
    body: Buffer.concat([json, ...parts]),
    headers: {
      'content-type': 'application/octet-stream',
      'inference-header-content-length': String(json.length),
    },
  };
}

/** As API Gateway makes an event of it. */
export function eventOf(
  { body, headers }: SentRequest,
  path = '/v2/models/serving_stream/infer',
  method = 'POST',
): APIGatewayProxyEventV2 {
  const isText = headers['content-type'] === 'application/json' && !headers['content-encoding'];
  const event = {
    version: '2.0',
    routeKey: `${method} /v2/{path+}`,
    rawPath: path,
    rawQueryString: '',
    headers,
    requestContext: { http: { method, path } },
    body: body.toString(isText ? 'utf8' : 'base64'),
    isBase64Encoded: !isText,
  };
  return event as unknown as APIGatewayProxyEventV2;
}

export interface ReceivedTensor {
  readonly name: string;
  readonly datatype: string;
  readonly shape: readonly number[];
  readonly data?: readonly unknown[];
  readonly bytes?: Buffer;
}

export interface Received {
  readonly json: Readonly<Record<string, unknown>>;
  readonly outputs: readonly ReceivedTensor[];
}

/** @throws when the sizes in the JSON do not add up to the body */
export function receivedOf(body: Buffer, jsonLength: string | null | undefined): Received {
  const end = jsonLength ? Number(jsonLength) : body.length;
  const json = JSON.parse(body.toString('utf8', 0, end)) as Record<string, unknown>;
  let at = end;
  const outputs = (json['outputs'] as (ReceivedTensor & { parameters?: Record<string, number> })[]).map(
    ({ parameters, ...output }) => {
      const size = parameters?.['binary_data_size'];
      if (size === undefined) return output;
      const bytes = body.subarray(at, at + size);
      if (bytes.length !== size) throw new Error(`${output.name}: ${bytes.length} of ${size} bytes`);
      at += size;
      return { ...output, bytes };
    },
  );
  if (at !== body.length) throw new Error(`${body.length - at} bytes are left over`);
  return { json, outputs };
}

/** The answer of a handler, as the gateway would send it. */
export function answerOf({ statusCode = 200, headers = {}, body = '', isBase64Encoded }: HttpResponse) {
  const bytes = Buffer.from(body, isBase64Encoded ? 'base64' : 'utf8');
  const jsonLength = headers['inference-header-content-length'];
  return {
    status: statusCode,
    headers,
    bytes,
    received: () => receivedOf(bytes, jsonLength === undefined ? undefined : String(jsonLength)),
    error: () => JSON.parse(bytes.toString()) as { error: string; code: string },
  };
}

/** A binary BYTES tensor: each text behind 4 bytes of its length. */
export function textBytes(texts: readonly string[]): Buffer {
  return Buffer.concat(
    texts.flatMap((text) => {
      const bytes = Buffer.from(text);
      const length = Buffer.alloc(4);
      length.writeUInt32LE(bytes.length);
      return [length, bytes];
    }),
  );
}

export function bytesOf(array: ArrayBufferView): Buffer {
  return Buffer.from(array.buffer as ArrayBuffer, array.byteOffset, array.byteLength);
}
