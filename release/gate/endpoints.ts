/**
 * The endpoints of a model without a service around them: POST /predict, the Open Inference Protocol and a record of the
 * queue, exactly as a client asks them. The handlers are those of the deployed functions.
 */

import { predict } from '../../functions/predict.ts';
import { decodeInstances } from '../../lib/codecs/instances.ts';
import { encodeMessage } from '../../lib/codecs/message.ts';
import { DATATYPES } from '../../lib/codecs/open-inference/tensor.ts';
import { badModel, type ErrorCode, ServingError } from '../../lib/contract/errors.ts';
import { elementAt } from '../../lib/contract/present.ts';
import type { Tensor } from '../../lib/contract/tensor.ts';
import { nestedValues, valuesOf } from '../../lib/contract/tensor-values.ts';
import type { BatchAxis, Inputs, Model, TensorSpec } from '../../lib/contract/values.ts';
import { encodePng } from '../../lib/http/worker/png.ts';
import { together } from '../../lib/observe/together.ts';
import type { Filter } from '../../lib/pipeline/answer/postprocess.ts';
import { batchAxisOf } from '../../lib/pipeline/batch/batch-axes.ts';
import { serveEvent } from '../../lib/pipeline/event.ts';
import type { Sink } from '../../lib/pipeline/serve.ts';

const NAME = 'gate';
const NOW = 1_767_225_600_000;
/** The request reached the model, whose answer or input is larger than this endpoint takes. */
const REACHED: readonly ErrorCode[] = ['too_large'];

interface HttpAnswer {
  readonly code?: ErrorCode;
  readonly error?: string;
  readonly predictions?: readonly string[];
}

export interface Endpoints {
  /**
   * Sends a request to POST /predict.
   * @returns the first prediction; undefined when the request was too large for the endpoint, or the answer
   */
  predict(body: string, type?: 'application/json' | 'text/csv'): Promise<string | undefined>;
  /** Sends the first record of a request to the queue. */
  queue(body: string): Promise<void>;
  /** Sends one row to each endpoint. @throws the error of the first that refuses it */
  ask(specs: readonly TensorSpec[], feeds: readonly Tensor[], alreadyBatched: boolean): Promise<void>;
}

export function endpointsOf(model: Model, filter: Filter | undefined): Endpoints {
  const observers = together([], () => performance.now());
  const failures: ServingError[] = [];
  const sink: Sink = {
    async save(finished) {
      for (const { outcome } of finished) if (!outcome.ok) failures.push(outcome.error);
      return [];
    },
  };
  const running = { begin: () => async () => undefined };
  const payloads = { resolve: async (bodies: readonly string[]) => [...bodies] };
  const onHttp = predict({ model, observers, filter, jobName: NAME });
  const onQueue = serveEvent({ model, observers, sink, running, payloads, now: () => NOW });
  const post = async (path: string, body: string, type = 'application/json') => {
    const { statusCode, body: answer } = await onHttp(httpEvent(path, body, type));
    const { code, error, predictions }: HttpAnswer = JSON.parse(String(answer));
    if (statusCode === 200 || (code && REACHED.includes(code))) return predictions?.[0];
    throw new ServingError(code ?? 'internal', `POST ${path} answers ${statusCode}: ${error}`);
  };
  const queue = async (body: string) => {
    failures.length = 0;
    const [record] = decodeInstances(body);
    const { batchItemFailures } = await onQueue(sqsEvent(record as Inputs));
    const [failure] = failures;
    if (failure && !REACHED.includes(failure.code)) {
      throw new ServingError(failure.code, `a record of the queue fails: ${failure.message}`);
    }
    if (batchItemFailures.length > 0) throw badModel('a record of the queue comes back without an answer');
  };
  return {
    predict: (body, type) => post('/predict', body, type),
    queue,
    async ask(specs, feeds, alreadyBatched) {
      const body = bodyOf(specs, feeds, alreadyBatched);
      await post('/predict', body);
      const inputs = feeds.map((tensor, i) => portOf(elementAt(specs, i, 'specs').name, tensor));
      await post(`/v2/models/${NAME}/infer`, JSON.stringify({ inputs }));
      await queue(body);
    },
  };
}

/** The row as a request to POST /predict. */
function bodyOf(specs: readonly TensorSpec[], feeds: readonly Tensor[], alreadyBatched: boolean): string {
  const values = specs.map((spec, i) => [
    spec.name,
    recordValue(spec, elementAt(feeds, i, 'feeds'), alreadyBatched),
  ]);
  return JSON.stringify({ instances: [Object.fromEntries(values)] });
}

/** A value as a record gives it. */
export function recordValue(spec: TensorSpec, tensor: Tensor, alreadyBatched: boolean): unknown {
  return recordOf(nestedValues(tensor, jsonValue), alreadyBatched ? 'none' : batchAxisOf(spec));
}

/** A picture as PNG, which every choice of channels takes. */
export function greyPicture(width: number, height: number): Promise<Uint8Array> {
  return encodePng({ width, height, data: new Uint8Array(width * height).fill(128) }, 1);
}

function portOf(name: string, tensor: Tensor) {
  return {
    name,
    datatype: DATATYPES[tensor.dtype],
    shape: tensor.shape,
    data: Array.from(valuesOf(tensor), jsonValue),
  };
}

/** Without its batch axis, so of several rows the first. */
function recordOf(value: unknown, axis: BatchAxis): unknown {
  if (axis === 'none' || !Array.isArray(value)) return value;
  return axis === 0 ? value[0] : value.map((part) => recordOf(part, axis - 1));
}

/** JSON has no bigint. Made-up values are small. */
function jsonValue(value: number | bigint | string): number | string {
  return typeof value === 'bigint' ? Number(value) : value;
}

/** An event of API Gateway, as far as the handler reads it. */
function httpEvent(path: string, body: string, type: string): Parameters<ReturnType<typeof predict>>[0] {
  const headers = { 'content-type': type };
  const http = { method: 'POST', path, protocol: 'HTTP/1.1', sourceIp: '', userAgent: '' };
  const of = { accountId: '', apiId: '', domainName: '', domainPrefix: '', stage: '$default', requestId: '' };
  const requestContext = { ...of, http, routeKey: '$default', time: '', timeEpoch: NOW };
  const request = { rawPath: path, rawQueryString: '', headers, body, isBase64Encoded: false };
  return { version: '2.0', routeKey: '$default', ...request, requestContext };
}

/** An event of SQS, as far as the handler reads it. */
function sqsEvent(inputs: Inputs): Parameters<ReturnType<typeof serveEvent>>[0] {
  const sentAt = String(NOW);
  const attributes = {
    ApproximateReceiveCount: '1',
    ApproximateFirstReceiveTimestamp: sentAt,
    SentTimestamp: sentAt,
    SenderId: '',
  };
  const message = { messageId: NAME, body: encodeMessage(NAME, inputs), attributes, messageAttributes: {} };
  const source = {
    receiptHandle: '',
    md5OfBody: '',
    eventSource: 'aws:sqs',
    eventSourceARN: '',
    awsRegion: '',
  };
  return { Records: [{ ...message, ...source }] };
}
