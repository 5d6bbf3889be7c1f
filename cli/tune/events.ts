/**
 * Builds the events with which Lambda calls the functions, as JSON text: Lambda's runtime parses that within the
 * billed time, and 6 MB of it take longer than many models.
 */

import type { APIGatewayProxyEventV2, SQSEvent } from 'aws-lambda';
import { encodeMessage } from '../../lib/codecs/message.ts';
import { elementAt } from '../../lib/contract/present.ts';
import type { Tensor } from '../../lib/contract/tensor.ts';
import type { Inputs, Value } from '../../lib/contract/values.ts';
import { nestedValues } from '../../onnx-import/tensor-values.ts';

const NAME = 'tune';
/** As long as SQS's handles. */
const RECEIPT_HANDLE = 'x'.repeat(400);
/** A float32 has at most 9 significant digits. */
const DIGITS = 9;
/** The message of a record that is too large, as long as a real pointer. */
const POINTER = 'pointer:';
const POINTER_BYTES = 200;

/** Resolves the pointers of an event to their messages, without S3. */
export function resolver(records: readonly Inputs[]): (bodies: readonly string[]) => Promise<string[]> {
  const stored = records.map((_, i) => Buffer.from(messageOf(records, i)));
  return async (bodies) => bodies.map((body) => String(stored[Number(body.slice(POINTER.length))]));
}

/** `{"instances":[{…}]}` with one instance. */
export function requestBody(inputs: Inputs): string {
  const instance = Object.fromEntries([...inputs].map(([name, value]) => [name, jsonOf(value)]));
  return JSON.stringify({ instances: [instance] });
}

function jsonOf(value: Value): unknown {
  if (value.kind === 'json') return value.value;
  if (value.kind === 'image') return { b64: Buffer.from(value.bytes).toString('base64') };
  if (value.kind === 'text') return value.text;
  // Sparse values are neither generated nor read from files here.
  return value.kind === 'tensor' ? nested(value.tensor) : null;
}

function nested(tensor: Tensor): unknown {
  return nestedValues(tensor, (value) => {
    if (typeof value === 'bigint') return Number(value);
    if (typeof value !== 'number' || Number.isInteger(value) || tensor.dtype === 'float64') return value;
    return Number(value.toPrecision(DIGITS));
  });
}

/** The event of POST /predict from API Gateway's HTTP API. @param name of the API and its caller */
export function httpEvent(name: string, body: string): APIGatewayProxyEventV2 {
  const host = `${name}.execute-api.us-east-1.amazonaws.com`;
  const [method, path, protocol, sourceIp] = ['POST', '/predict', 'HTTP/1.1', '192.0.2.1'] as const;
  return {
    version: '2.0',
    routeKey: 'POST /predict',
    rawPath: path,
    rawQueryString: '',
    headers: {
      accept: '*/*',
      'content-length': String(body.length),
      'content-type': 'application/json',
      host,
      'user-agent': name,
      'x-forwarded-for': sourceIp,
      'x-forwarded-port': '443',
      'x-forwarded-proto': 'https',
    },
    requestContext: {
      accountId: '000000000000',
      apiId: name,
      domainName: host,
      domainPrefix: name,
      http: { method, path, protocol, sourceIp, userAgent: name },
      requestId: name,
      routeKey: 'POST /predict',
      stage: '$default',
      time: '01/Jan/2026:00:00:00 +0000',
      timeEpoch: 1_767_225_600_000,
    },
    body,
    isBase64Encoded: false,
  };
}

/** The event with messages of a queue from the event source mapping. @param name of the queue and its sender */
export function sqsEvent(name: string, bodies: readonly string[], receiptHandle: string): SQSEvent {
  return {
    Records: bodies.map((body, i) => ({
      messageId: `00000000-0000-4000-8000-${String(i).padStart(12, '0')}`,
      receiptHandle,
      body,
      attributes: {
        ApproximateReceiveCount: '1',
        SentTimestamp: '1767225600000',
        SenderId: `AROAEXAMPLEEXAMPLEEXA:${name}`,
        ApproximateFirstReceiveTimestamp: '1767225600001',
      },
      messageAttributes: {},
      md5OfBody: '0'.repeat(32),
      eventSource: 'aws:sqs',
      eventSourceARN: `arn:aws:sqs:us-east-1:000000000000:cluster-serving-${name}`,
      awsRegion: 'us-east-1',
    })),
  };
}

export function predictEvent(body: string): string {
  return JSON.stringify(httpEvent(NAME, body));
}

/** The message of a record: in an event, or in S3. */
export function messageOf(records: readonly Inputs[], index: number): string {
  const uri = `${NAME}-${String(index).padStart(8, '0')}`;
  return encodeMessage(uri, elementAt(records, index % records.length, 'records'));
}

/**
 * An event of `count` messages that cycle through the records. @param isPointing the records are in S3; see
 * `resolver`
 */
export function queueEvent(records: readonly Inputs[], count: number, isPointing = false): string {
  const bodies = Array.from({ length: count }, (_, i) =>
    isPointing ? `${POINTER}${i % records.length}`.padEnd(POINTER_BYTES) : messageOf(records, i),
  );
  return JSON.stringify(sqsEvent(NAME, bodies, RECEIPT_HANDLE));
}
