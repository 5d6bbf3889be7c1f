/** Makes a golden request of the inputs and outputs of a reference, such as an .npz that the model's framework wrote. */

import { badModel } from '../../lib/contract/errors.ts';
import { LIMITS, overLimit } from '../../lib/contract/limits.ts';
import { present } from '../../lib/contract/present.ts';
import { elementCount, formatShape, sliceTensor, type Tensor } from '../../lib/contract/tensor.ts';
import type { TensorSpec } from '../../lib/contract/values.ts';
import { predictionTexts } from '../../lib/http/predictions.ts';
import { elementTexts, type Filter, nest } from '../../lib/pipeline/answer/postprocess.ts';
import { matched, referenceTensors } from '../../onnx-import/inputs.ts';

interface Ports {
  readonly inputs: readonly TensorSpec[];
  readonly outputs: readonly TensorSpec[];
}

/**
 * One instance for each row of the reference, along the first axis of its inputs and outputs. Each has the scalar inputs.
 * @param path a directory with in*.npy and out*.npy, or an .npz with the same names
 * @throws bad_model when a name is not the model's, an input or output is missing, or the rows differ in number
 */
export async function goldenOfReference(path: string, ports: Ports, filter: Filter | undefined) {
  const references = await referenceTensors(path);
  const inputs = allOf(references.inputs, ports.inputs, 'input');
  const outputs = allOf(references.outputs, ports.outputs, 'output');
  const tensors = [...inputs, ...outputs];
  const rows = tensors.find(({ tensor }) => tensor.shape.length > 0)?.tensor.shape[0] ?? 1;
  const isOne = ({ tensor }: Named) => tensor.shape.length === 0;
  const counted = [...inputs.filter((input) => !isOne(input)), ...outputs];
  const other = counted.find((one) => (isOne(one) ? 1 : one.tensor.shape[0]) !== rows);
  if (other || rows === 0) {
    const shapes = tensors.map(({ name, tensor }) => `${name} ${formatShape(tensor.shape)}`).join(', ');
    throw badModel(
      `reference: expected the same number of rows, at least 1, in every array; found ${shapes}`,
    );
  }
  if (rows > LIMITS.instances) throw overLimit('instances', `${rows} rows are`, 'a request');
  const instances = Array.from({ length: rows }, (_, row) => {
    return `{${inputs.map(({ name, tensor }) => `${JSON.stringify(name)}:${jsonOf(rowOf(tensor, row))}`).join(',')}}`;
  });
  const outcomes = Array.from({ length: rows }, (_, row) => {
    return {
      ok: true,
      outputs: outputs.map(({ name, tensor }) => ({ name, ...rowOf(tensor, row) })),
    } as const;
  });
  return {
    request: `{"instances":[${instances.join(',\n')}]}`,
    predictions: predictionTexts(outcomes, filter),
  };
}

interface Named {
  readonly name: string;
  readonly tensor: Tensor;
}

/** In the order of the model. */
function allOf(files: ReadonlyMap<string, Tensor>, specs: readonly TensorSpec[], side: string): Named[] {
  const { found, unmatched } = matched(files, specs);
  const names = specs.map(({ name }) => name);
  const missing = names.filter((name) => !found.has(name));
  if (unmatched.length > 0 || missing.length > 0) {
    throw badModel(
      `reference: expected an array for each ${side} of the model, ${names.join(', ')}; ` +
        `found ${[...found.keys(), ...unmatched].join(', ')}`,
    );
  }
  return specs.map(({ name, dtype }) => {
    const tensor = present(found.get(name), name);
    if (tensor.dtype === dtype) return { name, tensor };
    throw badModel(`reference: ${side} "${name}" is ${dtype}, its array is ${tensor.dtype}`);
  });
}

function rowOf(tensor: Tensor, row: number): Tensor {
  const { shape } = tensor;
  if (shape.length === 0) return tensor;
  const width = elementCount(shape.slice(1));
  return sliceTensor(tensor, shape.slice(1), row * width, (row + 1) * width);
}

/** Nested arrays, with every digit of each element. */
function jsonOf(tensor: Tensor): string {
  const texts = elementTexts(tensor);
  const odd = texts.find((text) => /^-?(NaN|Infinity)$/.test(text));
  if (odd !== undefined) throw badModel(`reference: ${odd} has no form in JSON, so no request can hold it`);
  return nest(texts, tensor.shape);
}
