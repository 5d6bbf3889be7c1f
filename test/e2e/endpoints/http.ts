/** The endpoints of one service that answer in the response: /predict, /encode_json, /v2, /v1/models, and gRPC. */
import { type ServiceError, status as statuses } from '@grpc/grpc-js';
import { DATATYPES, DTYPES } from '../../../lib/codecs/open-inference/tensor.ts';
import { readTexts } from '../../../lib/codecs/open-inference/texts.ts';
import {
  allocate,
  type DType,
  elementCount,
  type NumericDType,
  viewBytes,
} from '../../../lib/contract/tensor.ts';
import { readMessage } from '../../../onnx-import/wire/binary.ts';
import type { Table } from '../../../onnx-import/wire/table.ts';
import { type Call, type Sent as GrpcSent, inferMessage } from '../../local/grpc/client.ts';
import { bytes, double, floats, ints } from '../../onnx-import/support/protobuf.ts';
import { ALL_BINARY } from '../../support/inference-endpoint.ts';
import {
  bytesOf,
  inferRequest,
  receivedOf,
  type SentTensor,
  textBytes,
} from '../../support/open-inference.ts';
import {
  type Element,
  exactJson,
  flatOf,
  nestedOf,
  type Output,
  readExact,
  type Said,
  type Sent,
  type SentRecord,
} from './record.ts';

/** What an endpoint answers to a record; undefined where it has no form for it. */
export type Endpoint = (record: SentRecord) => Promise<Said | undefined>;

/** What makes whole tensors of a record. */
export interface WholeTensors {
  /** Inputs without a batch axis. */
  readonly whole: ReadonlySet<string>;
  /** As many as the file fixes, all the same; else 1. */
  readonly rows: number;
}

interface HttpService extends WholeTensors {
  readonly url: string;
  readonly job: string;
  readonly call: Call;
}

export const all = (record: SentRecord, test: (sent: Sent) => boolean) =>
  Object.values(record.inputs).every(test);
const mapInputs = <T>(record: SentRecord, value: (sent: Sent) => T) =>
  Object.fromEntries(Object.entries(record.inputs).map(([name, sent]) => [name, value(sent)]));

async function post(url: string, body: string | Buffer, headers: Record<string, string>) {
  const response = await fetch(url, { method: 'POST', body: body as string, headers });
  return {
    status: response.status,
    headers: response.headers,
    body: Buffer.from(await response.arrayBuffer()),
  };
}

type Answer = Awaited<ReturnType<typeof post>>;

/** Reads an answer, or the error in its place. */
function said({ status, body, headers }: Answer, read: (text: string) => readonly Output[]): Said {
  const text = body.toString();
  if (status === 200) return { ok: true, outputs: read(text) };
  const { code, error, error_message: message } = JSON.parse(text) as Record<string, string>;
  return {
    ok: false,
    code: String(code ?? headers.get('x-error-code') ?? status),
    message: String(error ?? message),
  };
}

const outputsOf = (value: unknown): Output[] =>
  [value as Output | readonly Output[]].flat().map(({ shape, data }) => ({ shape, data }));
export const predicted = (text: string) => outputsOf(readExact(text.slice('{value='.length, -1)));

const JSON_TYPE = { 'content-type': 'application/json' };

export const instanceOf = (record: SentRecord) => mapInputs(record, nestedOf);

export function httpEndpoints(service: HttpService): Readonly<Record<string, Endpoint>> {
  const { url } = service;
  return {
    async predict(record) {
      const answer = await post(`${url}/predict`, exactJson({ instances: [instanceOf(record)] }), JSON_TYPE);
      return said(answer, (text) =>
        predicted((JSON.parse(text) as { predictions: string[] }).predictions[0] as string),
      );
    },
    async csv(record) {
      const table = csvOf(record);
      if (table === undefined) return undefined;
      const answer = await post(`${url}/predict`, table, { 'content-type': 'text/csv' });
      return said(answer, (text) =>
        predicted((JSON.parse(text) as { predictions: string[] }).predictions[0] as string),
      );
    },
    'v2 as JSON': (record) => inferred(service, record, jsonTensor),
    'v2 as bytes': (record) => inferred(service, record, binaryTensor),
    'gRPC as bytes': (record) => called(service, record, (sent) => ({ raw: rawOf(sent) })),
    async 'gRPC as contents'(record) {
      if (!all(record, ({ dtype }) => dtype !== 'float16')) return undefined;
      return called(service, record, (sent) => ({ typed: contentsOf(sent) }));
    },
    ':predict of rows': (record) => served(service, { instances: [instanceOf(record)] }, 'predictions'),
    ':predict of columns': (record) => {
      const inputs = Object.entries(record.inputs).map(([name, sent]) => [
        name,
        nestedOf(wholeOf(service, name, sent)),
      ]);
      return served(service, { inputs: Object.fromEntries(inputs) }, 'outputs');
    },
  };
}

/** With its batch axis, as endpoints take it that take whole tensors. */
export function wholeOf({ whole, rows }: WholeTensors, name: string, sent: Sent): Sent {
  if (whole.has(name)) return sent;
  const data = Array.from({ length: rows }, () => sent.data).flat();
  return { ...sent, shape: [rows, ...sent.shape], data };
}

/** A table of one row; undefined for what is no table, or has a character that no body may hold. */
function csvOf(record: SentRecord): string | undefined {
  const isCell = ({ shape, data }: Sent) => shape.length <= 1 && data.length === 1;
  if (!all(record, isCell)) return undefined;
  const cell = (value: unknown) =>
    typeof value === 'string' ? `"${value.replaceAll('"', '""')}"` : exactJson(value);
  const values = Object.values(record.inputs).map(({ data: [value] }) => cell(value));
  return `${Object.keys(record.inputs).map(cell).join(',')}\n${values.join(',')}\n`;
}

function jsonTensor(sent: Sent): Partial<SentTensor> {
  return { data: nestedOf({ shape: [sent.data.length], data: sent.data }) };
}

function binaryTensor(sent: Sent): Partial<SentTensor> {
  return { bytes: rawOf(sent) };
}

/** The elements as bytes. float16 travels as its bits. */
export function rawOf(sent: Sent): Buffer {
  if (sent.dtype === 'string') return textBytes(sent.data as string[]);
  return bytesOf(arrayOf(sent));
}

export function arrayOf({ dtype, data }: Sent) {
  const array = allocate(dtype as NumericDType, data.length);
  const view = dtype === 'float16' ? new Float16Array(array.buffer as ArrayBuffer) : array;
  const put: (value: Element) => number | bigint = dtype.endsWith('int64')
    ? (value) => BigInt(value)
    : (value) => Number(value);
  data.forEach((value, i) => ((view as { [index: number]: number | bigint })[i] = put(value)));
  return array;
}

async function inferred(service: HttpService, record: SentRecord, form: (sent: Sent) => Partial<SentTensor>) {
  const tensors = Object.entries(record.inputs).map(([name, one]): SentTensor => {
    const sent = wholeOf(service, name, one);
    return { name, datatype: DATATYPES[sent.dtype], shape: sent.shape, ...form(sent) };
  });
  const path = `${service.url}/v2/models/${service.job}/infer`;
  if (!tensors.some((tensor) => tensor.bytes)) {
    const answer = await post(path, exactJson({ inputs: tensors }), JSON_TYPE);
    return said(answer, (text) => (readExact(text) as { outputs: Output[] }).outputs);
  }
  const { body, headers } = inferRequest(tensors, ALL_BINARY);
  const answer = await post(path, body, { ...headers });
  const length = answer.headers.get('inference-header-content-length');
  return said(answer, () =>
    receivedOf(answer.body, length).outputs.map(
      ({ name, datatype, shape, bytes: content = Buffer.alloc(0) }) => {
        return { name, shape, data: elementsOf(DTYPES.get(datatype) as DType, shape, content) };
      },
    ),
  );
}

function elementsOf(dtype: DType, shape: readonly number[], content: Uint8Array): readonly unknown[] {
  if (dtype === 'string') return readTexts(content, elementCount(shape));
  const array = viewBytes(dtype, Uint8Array.from(content));
  return Array.from(
    (dtype === 'float16' ? new Float16Array(array.buffer as ArrayBuffer) : array) as Float32Array,
  );
}

const TENSOR: Table = {
  1: { name: 'name', type: 'string' },
  2: { name: 'datatype', type: 'string' },
  3: { name: 'shape', type: 'int64', repeated: true },
};
const ANSWER: Table = {
  5: { name: 'outputs', type: () => TENSOR, repeated: true },
  6: { name: 'raw', type: 'bytes', repeated: true },
};

interface Called {
  readonly outputs?: readonly {
    readonly name: string;
    readonly datatype: string;
    readonly shape?: BigInt64Array;
  }[];
  readonly raw?: readonly Uint8Array[];
}

async function called(
  service: HttpService,
  record: SentRecord,
  form: (sent: Sent) => Partial<GrpcSent>,
): Promise<Said> {
  const tensors = Object.entries(record.inputs).map(([name, one]): GrpcSent => {
    const sent = wholeOf(service, name, one);
    return { name, datatype: DATATYPES[sent.dtype], shape: sent.shape, ...form(sent) };
  });
  try {
    const { outputs = [], raw = [] } = readMessage(
      await service.call('ModelInfer', inferMessage(service.job, tensors)),
      ANSWER,
    ) as Called;
    return {
      ok: true,
      outputs: outputs.map(({ name, datatype, shape: dims = [] }, i) => {
        const shape = Array.from(dims as BigInt64Array, Number);
        return { name, shape, data: elementsOf(DTYPES.get(datatype) as DType, shape, raw[i] as Uint8Array) };
      }),
    };
  } catch (error) {
    const { code, details, message } = error as ServiceError;
    return { ok: false, code: statuses[code] ?? String(code), message: details ?? message };
  }
}

/** The fields of InferTensorContents. */
function contentsOf({ dtype, data }: Sent): Buffer {
  if (dtype === 'string') return Buffer.concat(data.map((text) => bytes(8, text as string)));
  if (dtype === 'float32') return floats(6, data.map(Number));
  if (dtype === 'float64') return Buffer.concat(data.map((value) => double(7, Number(value))));
  const whole = data.map((value) => (typeof value === 'boolean' ? Number(value) : (value as number)));
  if (dtype === 'bool') return ints(1, whole);
  const field = dtype === 'int64' ? 3 : dtype === 'uint64' ? 5 : dtype.startsWith('u') ? 4 : 2;
  return ints(field, whole);
}

/** In the form of TensorFlow Serving, which has words for NaN and infinities. */
async function served(service: HttpService, body: object, key: 'predictions' | 'outputs'): Promise<Said> {
  const text = exactJson(body);
  const answer = await post(`${service.url}/v1/models/${service.job}:predict`, text, JSON_TYPE);
  return said(answer, (answered) => {
    const found = (readExact(answered) as Record<string, unknown>)[key];
    const value = key === 'predictions' ? (found as readonly unknown[])[0] : found;
    const isNamed = typeof value === 'object' && value !== null && !Array.isArray(value) && !('b64' in value);
    if (!isNamed) return [flatOf(value)];
    return Object.entries(value).map(([name, each]) => ({ name, ...flatOf(each) }));
  });
}
