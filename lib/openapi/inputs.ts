/** The inputs of a model as JSON Schema, and instances that it may answer. */

import { wholeRange } from '../codecs/image/levels.ts';
import { isObject } from '../codecs/instances.ts';
import { DATATYPES } from '../codecs/open-inference/tensor.ts';
import { LIMITS } from '../contract/limits.ts';
import { elementAt } from '../contract/present.ts';
import type { DType } from '../contract/tensor.ts';
import type { TensorSpec } from '../contract/values.ts';
import { batchAxisOf, rowShape } from '../pipeline/batch/batch-axes.ts';
import { mayMiss } from '../pipeline/bind/columns.ts';
import type { Json, ModelFacts } from './facts.ts';
import { COUNT, list, object, TEXT } from './json-schema.ts';

/** Numbers of a tensor that an example writes out; larger ones are pictures, or sparse. */
const WRITTEN = 256;
/** Values for a free size, in the order in which they are tried. */
const FREE = [1, 2, 16, 64, 256];

/** A grey picture of 64 x 64. A model whose size is fixed gets it resized. */
const PICTURE =
  'iVBORw0KGgoAAAANSUhEUgAAAEAAAABACAAAAACPAi4CAAAAKUlEQVR42u3MQREAAAwCIKMb3RD77SAA6VEEAoFAIBAIBAKBQCAQfA8G320AeXC6efoAAAAASUVORK5CYII=';

type Dim = number | string;

/** The shape in which a record brings an input. */
function recordShape(spec: TensorSpec, inputAlreadyBatched: boolean): readonly Dim[] {
  return inputAlreadyBatched ? spec.shape : rowShape(spec);
}

/** True if an image may stand for it. */
export function takesImage({ dtype }: TensorSpec, shape: readonly Dim[]): boolean {
  const isChannels = (dim: Dim | undefined) => typeof dim === 'string' || dim === 1 || dim === 3;
  return dtype !== 'string' && shape.length === 3 && (isChannels(shape[0]) || isChannels(shape[2]));
}

/** One instance of POST /predict, as schemas by name: generators of clients make a class of each. */
export function instanceSchemas({ inputs, names }: ModelFacts, inputAlreadyBatched: boolean): Json {
  const properties = inputs.map((spec) => {
    const shape = recordShape(spec, inputAlreadyBatched);
    const columns = names?.columns[spec.name];
    const forms = [
      nested(elementSchema(spec.dtype, mayMiss(spec, names)), shape),
      ...(takesImage(spec, shape) ? [ref('Image'), ref('ImageText')] : []),
      ...(spec.dtype === 'string' || shape.length === 0
        ? []
        : [sparse(elementSchema(spec.dtype, false), shape)]),
    ];
    const about = `${spec.dtype} [${shape.map((dim) => (typeof dim === 'number' ? dim : dim || '?')).join(', ')}]`;
    const form = forms.length === 1 ? forms[0] : { anyOf: forms };
    return [
      spec.name,
      { description: spec.isText ? 'A text.' : about, ...form, ...(columns && { 'x-columns': columns }) },
    ];
  });
  const byInput = {
    type: 'object',
    properties: Object.fromEntries(properties),
    required: inputs.filter(({ optional }) => !optional).map(({ name }) => name),
    additionalProperties: false,
  };
  const [spec, ...others] = inputs;
  const columns = others.length === 0 && spec && spec.dtype !== 'string' && names?.columns[spec.name];
  const description = 'The inputs of a record by name.';
  if (!columns) return { Instance: { ...byInput, description } };
  return {
    Instance: { anyOf: [ref('InputsByName'), ref('InputsByColumn')], description },
    InputsByName: byInput,
    InputsByColumn: byColumn(columns, spec.dtype),
  };
}

/** Columns by their own names, each a number or, as in CSV, its text. */
function byColumn(columns: readonly string[], dtype: DType): Json {
  // A cell is not rounded to the largest float.
  const range = dtype === 'float32' && { minimum: -3.4028234663852886e38, maximum: 3.4028234663852886e38 };
  const cell = {
    anyOf: [
      { ...elementSchema(dtype, true), ...range },
      { type: 'string', format: 'number' },
    ],
  };
  return {
    type: 'object',
    properties: Object.fromEntries(columns.map((name) => [name, cell])),
    required: columns,
    additionalProperties: false,
  };
}

/** The tensors of `/v2`, which have their batch dimension. */
export function tensorSchema(
  { name, dtype, shape }: TensorSpec,
  labels: readonly string[] | undefined,
  isInput = false,
): Json {
  return {
    type: 'object',
    description: `Shape [${shape.map((dim) => (typeof dim === 'number' ? dim : -1)).join(', ')}]; -1 is a free dimension.`,
    properties: {
      name: { type: 'string', const: name },
      datatype: { type: 'string', const: DATATYPES[dtype] },
      shape: {
        type: 'array',
        ...(shape.length > 0 && { minItems: shape.length, maxItems: shape.length }),
        ...(isInput && shape.length > 0 && { prefixItems: shape.map(sizeSchema) }),
        items: COUNT,
      },
      data: { type: 'array', description: 'Row-major.', items: {} },
      parameters: { type: isInput ? ['object', 'null'] : 'object' },
    },
    required: ['name', 'datatype', 'shape', ...(isInput ? ['data'] : [])],
    ...(labels && { 'x-labels': labels }),
  };
}

function sizeSchema(dim: Dim): Json {
  return typeof dim === 'number' ? { type: 'integer', const: dim } : COUNT;
}

/**
 * The values of `instances` and `inputs` in `:predict`: the rows of each input by name, or only the rows if there is
 * one input. Undefined if rows are not counted along the first axis.
 */
export function servingSchemas({ inputs, names }: ModelFacts): { instances: Json; inputs: Json } | undefined {
  if (inputs.some((spec) => batchAxisOf(spec) !== 0 || spec.shape.length === 0)) return undefined;
  const rows = inputs.map((spec) => [spec.name, servingRow(spec, mayMiss(spec, names))] as const);
  const needed = inputs.filter(({ optional }) => !optional).map(({ name }) => name);
  const byName = (schemaOf: (row: Json) => Json): Json => ({
    type: 'object',
    properties: Object.fromEntries(rows.map(([name, row]) => [name, schemaOf(row)])),
    required: needed,
    additionalProperties: false,
  });
  const column = (row: Json): Json => ({ type: 'array', items: row, minItems: 1 });
  const [only, ...others] = rows.filter(([name]) => needed.includes(name));
  const bare = (schemaOf: (row: Json) => Json): Json[] =>
    only && others.length === 0 ? [schemaOf(only[1])] : [];
  const instances = (row: Json) => list(row, LIMITS.instances);
  return {
    instances: { anyOf: [instances(byName((row) => row)), ...bare(instances)] },
    inputs: { anyOf: [byName(column), ...bare(column)] },
  };
}

function servingRow(spec: TensorSpec, isTable: boolean): Json {
  const shape = rowShape(spec);
  const bytes = object({ b64: { ...TEXT, contentEncoding: 'base64' } });
  const element = spec.dtype === 'string' ? { anyOf: [TEXT, bytes] } : elementSchema(spec.dtype, isTable);
  const forms = [
    nested(element, shape),
    // A graph of TensorFlow often takes both.
    ...(shape.length === 1 && shape[0] === 1 ? [element] : []),
    ...(takesImage(spec, shape) ? [ref('Image')] : []),
  ];
  return forms.length === 1 ? elementAt(forms, 0, 'forms') : { anyOf: forms };
}

export function ref(name: string): Json {
  return { $ref: `#/components/schemas/${name}` };
}

function nested(element: Json, shape: readonly Dim[]): Json {
  return shape.reduceRight<Json>((items, dim) => {
    const size = typeof dim === 'number' ? { minItems: dim, maxItems: dim } : { minItems: 1 };
    return { type: 'array', items, ...size };
  }, element);
}

/** One of this shape. That it has as many rows of indices as values, JSON Schema cannot say. */
function sparse(element: Json, shape: readonly Dim[]): Json {
  const each = (schemaOf: (dim: Dim) => Json) => ({
    type: 'array',
    prefixItems: shape.map(schemaOf),
    minItems: shape.length,
    maxItems: shape.length,
  });
  const most = shape.reduce<number>(
    (product, dim) => product * (typeof dim === 'number' ? dim : Infinity),
    1,
  );
  const points = { type: 'array', minItems: 1, ...(Number.isFinite(most) && { maxItems: most }) };
  // False and true are 0 and 1, as everywhere.
  const index = (dim: Dim) =>
    dim === 1
      ? {
          anyOf: [
            { type: 'integer', const: 0 },
            { type: 'boolean', const: false },
          ],
        }
      : { type: ['integer', 'boolean'], minimum: 0, ...(typeof dim === 'number' && { maximum: dim - 1 }) };
  return {
    type: 'object',
    description: 'A sparse tensor: a row of indices, counted from 0, for each value of data.',
    properties: {
      shape: each((dim) => (typeof dim === 'number' ? { const: dim } : { type: 'integer', minimum: 1 })),
      data: { ...points, items: element },
      indices: {
        ...points,
        items: each(index),
        uniqueItems: true,
      },
    },
    required: ['shape', 'data', 'indices'],
  };
}

/** A value at least this large would be infinite. */
const FLOATS: Readonly<Partial<Record<DType, number>>> = { float16: 65_520, float32: 3.4028235677973366e38 };

function elementSchema(dtype: DType, mayBeMissing: boolean): Json {
  if (dtype === 'string') return { type: 'string' };
  if (dtype === 'bool') return { type: 'boolean' };
  if (!dtype.startsWith('float')) {
    const { min, max } = wholeRange(dtype);
    const safe = (bound: number) =>
      Math.max(-Number.MAX_SAFE_INTEGER, Math.min(Number.MAX_SAFE_INTEGER, bound));
    return { type: ['integer', 'boolean'], minimum: safe(min), maximum: safe(max) };
  }
  const largest = FLOATS[dtype];
  const range = largest === undefined ? {} : { exclusiveMinimum: -largest, exclusiveMaximum: largest };
  return { type: ['number', 'boolean', ...(mayBeMissing ? ['null'] : [])], ...range };
}

/** Instances that the model may answer, the shortest first. Which of them it does answer, only a run shows. */
function* possibleInstances({ inputs }: ModelFacts, inputAlreadyBatched: boolean): Generator<Json> {
  const shapes = inputs.map((spec) => recordShape(spec, inputAlreadyBatched));
  const isFree = shapes.some((shape) => shape.some((dim) => typeof dim === 'string'));
  for (const size of isFree ? FREE : [1]) {
    for (const one of [0, 1]) {
      const values = inputs.map((spec, i) => {
        const shape = (shapes[i] ?? []).map((dim) => (typeof dim === 'number' ? dim : size));
        return [spec.name, exampleValue(spec, shape, one)] as const;
      });
      yield Object.fromEntries(values);
    }
  }
}

/** The first possible instance that `isAnswered`; undefined when none is. */
export async function exampleOf(
  model: ModelFacts,
  inputAlreadyBatched: boolean,
  isAnswered: (instance: Json) => Promise<boolean>,
): Promise<Json | undefined> {
  for (const instance of possibleInstances(model, inputAlreadyBatched))
    if (await isAnswered(instance)) return instance;
  return undefined;
}

function exampleValue(spec: TensorSpec, shape: readonly number[], one: number): unknown {
  const { dtype } = spec;
  const count = shape.reduce((product, dim) => product * dim, 1);
  if (dtype === 'string') return fill(shape, 'a text');
  if (count <= WRITTEN) return fill(shape, dtype === 'bool' ? one === 1 : one);
  if (takesImage(spec, shape)) return { b64: PICTURE };
  return { shape, data: [one], indices: [shape.map(() => 0)] };
}

/** Nested arrays of one value. */
function fill(shape: readonly number[], value: unknown): unknown {
  return shape.reduceRight<unknown>((inner, dim) => Array.from({ length: dim }, () => inner), value);
}

/** The instance as a request to `/v2`, of one row; undefined where its tensors are not written out, or a batch has more rows. */
export function inferenceExample(
  { inputs }: ModelFacts,
  instance: Json,
  inputAlreadyBatched: boolean,
): Json | undefined {
  const tensors = inputs.map((spec) => {
    const { name, dtype, shape } = spec;
    const value = instance[name];
    if (isObject(value)) return undefined;
    const sizes: number[] = [];
    for (let inner = value; Array.isArray(inner); inner = inner[0]) sizes.push(inner.length);
    const axis = batchAxisOf(spec);
    if (!inputAlreadyBatched && axis !== 'none' && shape.length > 0) {
      if (typeof shape[axis] === 'number' && shape[axis] !== 1) return undefined;
      sizes.splice(axis, 0, 1);
    }
    return { name, datatype: DATATYPES[dtype], shape: sizes, data: [value].flat(Infinity) };
  });
  return tensors.every((tensor) => tensor !== undefined) ? { inputs: tensors } : undefined;
}
