/**
 * Writes an Open Inference Protocol response: JSON, followed by the bytes of binary outputs. A binary body leaves
 * Lambda as base64, a third larger, and must fit into its 6 MiB. The JSON is padded with spaces to a multiple of 8,
 * so that clients can view the tensors without a copy.
 */
import { JSON_LENGTH_HEADER } from '../../codecs/open-inference/request.ts';
import { DATATYPES } from '../../codecs/open-inference/tensor.ts';
import { textsLength, writeTexts } from '../../codecs/open-inference/texts.ts';
import { ServingError } from '../../contract/errors.ts';
import { LIMITS } from '../../contract/limits.ts';
import type { NamedTensor } from '../../contract/values.ts';
import { elementTexts } from '../../pipeline/answer/postprocess.ts';
import { assertAnswer } from '../predictions.ts';
import { binary, type HttpResponse, jsonText } from '../response.ts';
import type { AnsweredOutput, InferenceAnswer } from './run.ts';

/**
 * @param allocate memory for the answer until it is text
 * @throws too_large when it exceeds Lambda's limit
 */
export function inferenceAnswer(
  { model, version, headers, id, outputs }: InferenceAnswer,
  allocate: (bytes: number) => Buffer,
): HttpResponse {
  assertSize(outputs);
  const named = { model_name: model, model_version: version, ...(id === undefined ? {} : { id }) };
  const head = JSON.stringify(named).slice(0, -1);
  const json = `${head},"outputs":[${outputs.map(outputText).join(',')}]}`;
  const tensors = outputs.filter((output) => output.binary).map(({ tensor }) => tensor);
  if (tensors.length === 0) return jsonText(200, assertAnswer(json), headers);
  const jsonLength = upToBoundary(Buffer.byteLength(json));
  const body = allocate(jsonLength + tensors.reduce((sum, tensor) => sum + byteLength(tensor), 0));
  body.fill(' ', body.write(json), jsonLength);
  let at = jsonLength;
  for (const tensor of tensors) at = writeTensor(tensor, body, at);
  const text = assertAnswer(body.toString('base64'));
  return binary(200, text, { ...headers, [JSON_LENGTH_HEADER]: String(jsonLength) });
}

const BOUNDARY = 8;

function upToBoundary(length: number): number {
  return Math.ceil(length / BOUNDARY) * BOUNDARY;
}

/** An element takes at least two characters of JSON, so an answer that cannot fit is not written. */
function assertSize(outputs: readonly AnsweredOutput[]): void {
  let bytes = 0;
  for (const { tensor, binary: isBinary } of outputs) {
    bytes += isBinary ? Math.ceil((byteLength(tensor) * 4) / 3) : tensor.data.length * 2;
  }
  if (bytes <= LIMITS.httpBodyBytes) return;
  throw new ServingError(
    'too_large',
    `the answer would have at least ${bytes} bytes (binary outputs as base64), over the limit of ${LIMITS.httpBodyBytes} (httpBodyBytes); ask for fewer outputs, or send fewer rows`,
  );
}

function outputText({ tensor, binary: isBinary }: AnsweredOutput): string {
  const { name, dtype, shape } = tensor;
  const content = isBinary
    ? `"parameters":{"binary_data_size":${byteLength(tensor)}}`
    : `"data":[${elementTexts(tensor).join(',')}]`;
  return `{"name":${JSON.stringify(name)},"datatype":"${DATATYPES[dtype]}","shape":[${shape.join(',')}],${content}}`;
}

function byteLength({ dtype, data }: NamedTensor): number {
  return dtype === 'string' ? textsLength(data) : data.byteLength;
}

/** @returns the index after the tensor */
function writeTensor({ dtype, data }: NamedTensor, into: Buffer, at: number): number {
  if (dtype === 'string') return writeTexts(data, into, at);
  const { buffer, byteOffset, byteLength: length } = data;
  into.set(new Uint8Array(buffer, byteOffset, length), at);
  return at + length;
}
