/**
 * Reads a body that consists of one tensor's bytes (`Inference-Header-Content-Length: 0`). Its shape follows from the
 * length, which is only possible if one dimension is free.
 */
import type { InferenceInput } from '../../codecs/open-inference/request.ts';
import { binaryTensor, DATATYPES } from '../../codecs/open-inference/tensor.ts';
import { quoteName } from '../../codecs/quote.ts';
import { badRequest, type ServingError } from '../../contract/errors.ts';
import { bytesPerElement, type NumericDType } from '../../contract/tensor.ts';
import type { TensorSpec } from '../../contract/values.ts';
import { batchAxisOf } from '../../pipeline/batch/batch-axes.ts';
import { formatSpec } from '../../pipeline/bind/shape-check.ts';

/** If two dimensions are free, the batch dimension is 1. @throws bad_request, bad_input */
export function rawInput(body: Uint8Array | string, specs: readonly TensorSpec[]): InferenceInput {
  if (typeof body === 'string') {
    throw refusal('it came as text; send it with content-type: application/octet-stream');
  }
  const [spec] = specs;
  if (!spec || specs.length > 1) throw refusal(`the model has ${specs.length} inputs, expected one`);
  const { name, dtype } = spec;
  if (dtype === 'string') throw refusal('the model takes texts (BYTES)');
  const shape = shapeFor(spec, dtype, body.byteLength);
  return { name, tensor: binaryTensor(`input ${quoteName(name)}`, DATATYPES[dtype], shape, body) };
}

function shapeFor(spec: TensorSpec, dtype: NumericDType, bytes: number): number[] {
  const what = `${DATATYPES[dtype]} ${formatSpec(spec.shape)}`;
  const free = spec.shape.flatMap((dim, axis) => (typeof dim === 'string' ? [axis] : []));
  const beside = free.length > 1 ? free.filter((axis) => axis !== batchAxisOf(spec)) : free;
  if (beside.length > 1) throw refusal(`${what} has more free dimensions than its length tells`);
  const [deduced] = beside;
  const fixed = spec.shape.reduce<number>((size, dim) => (typeof dim === 'number' ? size * dim : size), 1);
  const unit = fixed * bytesPerElement(dtype);
  const isWhole = deduced === undefined ? bytes === unit : bytes > 0 && bytes % unit === 0;
  if (!isWhole)
    throw refusal(
      `${bytes} bytes do not make ${what}, which takes ${unit}${deduced === undefined ? '' : ' times a whole number'}`,
    );
  return spec.shape.map((dim, axis) => (typeof dim === 'number' ? dim : axis === deduced ? bytes / unit : 1));
}

function refusal(reason: string): ServingError {
  return badRequest(`the body is one tensor without JSON, and ${reason}`);
}
