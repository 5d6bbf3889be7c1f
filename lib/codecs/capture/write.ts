/**
 * Writes a captured request or record as one line of JSON. Numbers keep their bits: those of JSON as they were sent, and those of
 * tensors with as many digits as their dtype needs. Texts and pictures are written only where `include` names their input.
 */
import {
  type CaptureFacts,
  type CaptureHeader,
  type CaptureSettings,
  EVERY_NAME,
} from '../../contract/capture.ts';
import { contentOf, isInfinity, JsonNumbers } from '../../contract/json-numbers.ts';
import type { Tensor } from '../../contract/tensor.ts';
import { valuesOf } from '../../contract/tensor-values.ts';
import type { Inputs, NamedTensor, Outcome, Value } from '../../contract/values.ts';
import { objectText } from '../json.ts';

type Columns = Pick<CaptureSettings, 'include' | 'leaveOut'>;

export function headerLine(header: CaptureHeader): string {
  return JSON.stringify(header);
}

/** @param outcomes one for each record; undefined where all of them failed */
export function captureLine(
  facts: CaptureFacts,
  records: readonly Inputs[],
  outcomes: readonly Outcome[] | undefined,
  columns: Columns,
): string {
  const texts = records.map((record, i) => recordText(record, outcomes?.[i], columns));
  return `${JSON.stringify(facts).slice(0, -1)},"records":[${texts.join(',')}]}`;
}

function recordText(record: Inputs, outcome: Outcome | undefined, columns: Columns): string {
  const left: string[] = [];
  const inputs: (readonly [string, string])[] = [];
  for (const [name, value] of record) {
    const text = columns.leaveOut.includes(name) ? undefined : valueText(name, value, columns);
    if (text === undefined) left.push(name);
    else inputs.push([name, text]);
  }
  const parts = [`"inputs":${objectText(inputs, String)}`];
  const names = inputs.map(([name]) => name);
  // A reader of JSON puts names that are numbers first.
  if (Object.keys(Object.fromEntries(inputs)).some((name, i) => name !== names[i]))
    parts.push(`"order":${JSON.stringify(names)}`);
  if (record.binding !== undefined) parts.push(`"binding":"${record.binding}"`);
  if (left.length > 0) parts.push(`"left":${JSON.stringify(left)}`);
  if (outcome?.ok) {
    const outputs = outcome.outputs.filter(({ name }) => !columns.leaveOut.includes(name));
    parts.push(`"outputs":[${outputs.map(outputText).join(',')}]`);
    if (outcome.place) parts.push(`"place":[${outcome.place.row},${outcome.place.rows}]`);
  }
  return `{${parts.join(',')}}`;
}

/** @returns undefined for what `include` would have to name */
function valueText(name: string, value: Value, { include }: Columns): string | undefined {
  const isNamed = include.includes(name) || include.includes(EVERY_NAME);
  switch (value.kind) {
    case 'json': {
      const content = contentOf(value);
      if (content instanceof JsonNumbers) return content.text.replace(/\s+/g, '');
      return !isNamed && hasText(content) ? undefined : jsonText(content);
    }
    case 'tensor':
      if (value.tensor.dtype === 'string' && !isNamed) return undefined;
      return `{"tensor":${tensorText(value.tensor)}}`;
    case 'sparse': {
      const { shape, indices, indicesShape, values } = value;
      if (values.dtype === 'string' && !isNamed) return undefined;
      return `{"sparse":{"shape":[${shape.join()}],"indices":[${indices.join()}],"indicesShape":[${indicesShape.join()}],"values":${tensorText(values)}}}`;
    }
    case 'image':
      return isNamed ? `{"image":"${Buffer.from(value.bytes).toString('base64')}"}` : undefined;
    case 'text':
      return isNamed ? `{"text":${JSON.stringify(value.text)}}` : undefined;
    case 'value':
      return undefined;
  }
}

function hasText(content: unknown): boolean {
  if (Array.isArray(content)) return content.some(hasText);
  return typeof content === 'string' || (typeof content === 'object' && content !== null);
}

function jsonText(content: unknown): string {
  if (Array.isArray(content)) return `[${content.map(jsonText).join(',')}]`;
  if (typeof content === 'number') return numberText(content);
  if (typeof content !== 'bigint') return JSON.stringify(content) ?? 'null';
  if (!isInfinity(content)) return String(content);
  return content < 0n ? '-Infinity' : 'Infinity';
}

function numberText(value: number): string {
  // The word would be read as INFINITY, which a number that is too large is not.
  if (Math.abs(value) === Infinity) return value < 0 ? '-1e999' : '1e999';
  return Object.is(value, -0) ? '-0' : String(value);
}

function outputText({ name, ...tensor }: NamedTensor): string {
  return `{"name":${JSON.stringify(name)},${tensorText(tensor).slice(1)}`;
}

function tensorText(tensor: Tensor): string {
  const { dtype, shape } = tensor;
  const values = valuesOf(tensor);
  const texts = Array.from<number | bigint | string, string>(values, (value) =>
    elementText(value, dtype === 'float32'),
  );
  return `{"dtype":"${dtype}","shape":[${shape.join()}],"data":[${texts.join()}]}`;
}

/** NaN and infinities are texts, which every reader of JSON takes. */
function elementText(value: number | bigint | string, isFloat32: boolean): string {
  if (typeof value === 'string') return JSON.stringify(value);
  if (typeof value === 'bigint') return String(value);
  if (!Number.isFinite(value)) return `"${value}"`;
  return isFloat32 ? shortest(value) : numberText(value);
}

/** The digits that tell a float32 from its neighbours: mostly half of those of the same double. */
function shortest(value: number): string {
  for (const digits of [7, 8]) {
    const text = value.toPrecision(digits);
    if (Math.fround(Number(text)) === value) return numberText(value === 0 ? value : Number(text));
  }
  return numberText(value);
}
