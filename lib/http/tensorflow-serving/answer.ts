/** Writes the answers of TensorFlow Serving's API: JSON, in which floats may be NaN, Infinity and -Infinity, as there. */

import { encodeBase64 } from '../../codecs/encode-base64.ts';
import { quoteName } from '../../codecs/quote.ts';
import type { Verb } from '../../codecs/tensorflow-serving/request.ts';
import { badRequest, type ServingError } from '../../contract/errors.ts';
import { LIMITS, overLimit } from '../../contract/limits.ts';
import { elementAt } from '../../contract/present.ts';
import { elementCount, formatShape, type Tensor } from '../../contract/tensor.ts';
import type { NamedTensor } from '../../contract/values.ts';
import { elementTexts, nest } from '../../pipeline/answer/postprocess.ts';
import { float16Value } from '../../pipeline/bind/cast.ts';

/** @param isRow the form of a predict request */
export function answerText(
  verb: Verb,
  outputs: readonly NamedTensor[],
  rows: number,
  isRow: boolean,
): string {
  assertFits(outputs);
  if (verb === 'classify') return `{"results":[${classesOf(outputs, rows).join(',')}]}`;
  if (verb === 'regress') return `{"results":[${valuesOf(outputs, rows).join(',')}]}`;
  return isRow
    ? `{"predictions":[${predictionsOf(outputs, rows).join(',')}]}`
    : `{"outputs":${columnsOf(outputs)}}`;
}

/** An answer to a predict request whose rows were records of their own: an output may have another shape for each. */
export function rowsText(records: readonly (readonly NamedTensor[])[]): string {
  assertFits(records.flat());
  return `{"predictions":[${records.map(columnsOf).join(',')}]}`;
}

/** An element takes two characters and more, so outputs that cannot fit are not written. @throws too_large */
function assertFits(outputs: readonly NamedTensor[]): void {
  const least = outputs.reduce((sum, { data }) => sum + data.length * 2, 0);
  if (least > LIMITS.httpBodyBytes)
    throw overLimit('httpBodyBytes', `the answer has ${least} bytes and more, which are`);
}

/** The value of the only output, or an object of all. */
function columnsOf(outputs: readonly NamedTensor[]): string {
  const texts = outputs.map((output) => [output.name, nest(elementsOf(output), output.shape)] as const);
  return texts.length === 1 ? elementAt(texts, 0, 'texts')[1] : objectOf(texts);
}

/** Each row's value of the only output, or an object of all. @throws bad_request where one has other rows */
function predictionsOf(outputs: readonly NamedTensor[], rows: number): string[] {
  const columns = outputs.map((output) => {
    const [own, ...row] = output.shape;
    if (own !== rows)
      throw badRequest(
        `Tensor name: ${output.name} ${own === undefined ? 'has no shape information' : `has inconsistent batch size: ${own} expecting: ${rows}`}; ask with "inputs" instead of "instances"`,
      );
    const texts = elementsOf(output);
    const width = elementCount(row);
    return Array.from({ length: own }, (_, at) => nest(texts.slice(at * width, (at + 1) * width), row));
  });
  const [only = []] = columns;
  if (columns.length === 1) return only;
  return only.map((_, at) =>
    objectOf(
      outputs.map(
        ({ name }, i) => [name, elementAt(elementAt(columns, i, 'columns'), at, 'column')] as const,
      ),
    ),
  );
}

function objectOf(members: readonly (readonly [name: string, text: string])[]): string {
  return `{${members.map(([name, text]) => `${JSON.stringify(name)}:${text}`).join(',')}}`;
}

/** The elements as JSON texts; those of texts whose name ends with `_bytes` as base64. */
function elementsOf({ name, ...tensor }: NamedTensor): string[] {
  if (tensor.dtype === 'string' && name.endsWith('_bytes'))
    return tensor.data.map((text) => `{"b64":${JSON.stringify(encodeBase64(Buffer.from(text)))}}`);
  const texts = elementTexts(tensor);
  return tensor.dtype.startsWith('float') ? texts.map((text, at) => numberOr(text, tensor, at)) : texts;
}

/** JSON has no NaN and no infinity, which are null elsewhere. */
function numberOr(text: string, { dtype, data }: Tensor, at: number): string {
  if (text !== 'null') return text;
  const value = Number(data[at]);
  return String(dtype === 'float16' ? float16Value(value) : value);
}

/** For each row, label and score of each class. A class without a label has an empty one. */
function classesOf(outputs: readonly NamedTensor[], rows: number): string[] {
  const scores = floatsOf(outputs, 'scores');
  const [own, count = 0] = scores?.shape ?? [];
  if (!scores || own !== rows || scores.shape.length !== 2)
    throw unfit('classify', 'of floats [batch, classes], or one of these called "scores"', outputs);
  const classes = outputs.find(
    ({ name, dtype, shape }) =>
      name === 'classes' && dtype === 'string' && formatShape(shape) === formatShape(scores.shape),
  );
  const texts = elementsOf(scores);
  return Array.from({ length: rows }, (_, row) => {
    const pairs = texts.slice(row * count, (row + 1) * count).map((text, at) => {
      const label = classes?.data[row * count + at] ?? scores.labels?.[at] ?? '';
      return `[${JSON.stringify(label)},${text}]`;
    });
    return `[${pairs.join(',')}]`;
  });
}

function valuesOf(outputs: readonly NamedTensor[], rows: number): string[] {
  const output = floatsOf(outputs, 'outputs');
  const [own, ...row] = output?.shape ?? [];
  if (output && own === rows && row.length < 2 && elementCount(row) === 1) return elementsOf(output);
  throw unfit('regress', 'of floats [batch] or [batch, 1], or one of these called "outputs"', outputs);
}

/** The output with the name that signatures of TensorFlow have for it, or else the only one of floats. */
function floatsOf(outputs: readonly NamedTensor[], name: string): NamedTensor | undefined {
  const floats = outputs.filter(({ dtype }) => dtype.startsWith('float'));
  return floats.find((output) => output.name === name) ?? (floats.length === 1 ? floats[0] : undefined);
}

function unfit(verb: Verb, expected: string, outputs: readonly NamedTensor[]): ServingError {
  const got = outputs.map(({ name, dtype, shape }) => `${quoteName(name)} ${dtype} ${formatShape(shape)}`);
  return badRequest(`${verb} needs one output ${expected}; the model gave ${got.join(', ')}; ask :predict`);
}
