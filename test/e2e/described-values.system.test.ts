/** Requests that /openapi.json calls valid get the success that it declares: its examples, and what is drawn from it alone. */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import type { Arbitrary } from 'fast-check';
import { type DescribedService, describedService } from '../support/described.ts';
import { DESCRIBED_JOBS, PICTURE } from '../support/described-jobs.ts';
import fc from '../support/fast-check.ts';
import { WITH_PYTHON } from '../support/python.ts';
import { temporaryFolder } from '../support/runner.ts';
import { testStack } from '../support/stack.ts';

interface Schema {
  readonly $ref?: string;
  readonly anyOf?: readonly Schema[];
  readonly oneOf?: readonly Schema[];
  readonly const?: unknown;
  readonly enum?: readonly unknown[];
  readonly type?: string | readonly string[];
  readonly format?: string;
  readonly contentEncoding?: string;
  readonly items?: Schema;
  readonly prefixItems?: readonly Schema[];
  readonly minItems?: number;
  readonly maxItems?: number;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
  readonly minimum?: number;
  readonly maximum?: number;
  readonly exclusiveMinimum?: number;
  readonly exclusiveMaximum?: number;
}

/** Short enough for two of them to fit into a model of texts. */
const TEXTS = fc.string({ unit: 'grapheme', maxLength: 5 });

/** All rows of a request are alike: their forms are chosen before the values are drawn, and free lengths are `size`. */
function valuesOf(
  schemas: Readonly<Record<string, object>>,
  schema: Schema,
  size: number,
): Arbitrary<Arbitrary<unknown>> {
  const inner = (one: Schema) => valuesOf(schemas, one, size);
  if (schema.$ref) return inner(schemas[schema.$ref.split('/').at(-1) as string] as Schema);
  const forms = schema.anyOf ?? schema.oneOf;
  if (forms) return fc.oneof(...forms.map(inner));
  if ('const' in schema) return fc.constant(fc.constant(schema.const));
  if (schema.enum) return fc.constant(fc.constantFrom(...schema.enum));
  const { type, items, minItems = 0, maxItems = Infinity } = schema;
  if (type === 'array') {
    const length = Math.max(minItems, Math.min(maxItems, size));
    return inner(items ?? {}).map((item) => fc.array(item, { minLength: length, maxLength: length }));
  }
  if (type === 'object') {
    const fields = Object.entries(schema.properties ?? {}).map(([key, one]) => [key, inner(one)] as const);
    return fc
      .record(Object.fromEntries(fields), { requiredKeys: [...(schema.required ?? [])] })
      .map((drawn) => fc.record(drawn));
  }
  return fc.constant(fc.oneof(...[type ?? []].flat().map((one) => scalar(one, schema))));
}

function scalar(type: string, schema: Schema): Arbitrary<unknown> {
  if (type === 'null') return fc.constant(null);
  if (type === 'boolean') return fc.boolean();
  if (type === 'integer') return fc.integer({ min: schema.minimum ?? -1e9, max: schema.maximum ?? 1e9 });
  if (type === 'number') {
    const { exclusiveMinimum: min = -1e300, exclusiveMaximum: max = 1e300 } = schema;
    return fc.double({ min, max, minExcluded: true, maxExcluded: true, noNaN: true });
  }
  if (schema.format === 'image') return fc.constant(PICTURE);
  if (schema.contentEncoding === 'base64') return TEXTS.map((text) => Buffer.from(text).toString('base64'));
  return TEXTS;
}

type Write = (into: DataView, at: number, value: never) => void;
/** For each datatype of these models: an element in JSON, and in binary data. */
const ELEMENTS: Readonly<Record<string, readonly [drawn: Arbitrary<unknown>, bytes: number, write: Write]>> =
  {
    FP32: [
      fc.float({ noNaN: true, noDefaultInfinity: true }),
      4,
      (into, at, value) => into.setFloat32(at, value, true),
    ],
    INT64: [fc.maxSafeInteger(), 8, (into, at, value) => into.setBigInt64(at, BigInt(value), true)],
  };

function bytesOf(datatype: string, data: readonly unknown[]): Buffer {
  if (datatype === 'BYTES') {
    const texts = data.map((text) => Buffer.from(text as string));
    return Buffer.concat(
      texts.flatMap((text) => {
        const length = Buffer.alloc(4);
        length.writeUInt32LE(text.length);
        return [length, text];
      }),
    );
  }
  const [, bytes, write] = ELEMENTS[datatype] ?? assert.fail(datatype);
  const view = new DataView(new ArrayBuffer(data.length * bytes));
  for (const [i, value] of data.entries()) write(view, i * bytes, value as never);
  return Buffer.from(view.buffer);
}

const nestedBy = (data: readonly unknown[], [, ...inner]: readonly number[]): readonly unknown[] => {
  if (inner.length === 0) return data;
  const width = inner.reduce((product, size) => product * size, 1);
  const rows = Array.from({ length: data.length / width }, (_, i) => data.slice(i * width, (i + 1) * width));
  return rows.map((row) => nestedBy(row, inner));
};

interface DrawnTensor {
  readonly name: string;
  readonly datatype: string;
  readonly shape: readonly number[];
  readonly data: readonly unknown[];
}

/** Tensors for all inputs, whose free sizes are `size`. */
function tensorsOf(described: readonly Schema[], size: number): Arbitrary<DrawnTensor[]> {
  const drawn = described.map(({ properties = {} }) => {
    const { name, datatype, shape } = properties;
    const sizes = (shape?.prefixItems ?? []).map((dim) => (dim.const ?? size) as number);
    const length = sizes.reduce((product, one) => product * one, 1);
    const element =
      datatype?.const === 'BYTES' ? TEXTS : (ELEMENTS[datatype?.const as string]?.[0] ?? assert.fail());
    return fc.array(element, { minLength: length, maxLength: length }).map(
      (data): DrawnTensor => ({
        name: name?.const as string,
        datatype: datatype?.const as string,
        shape: sizes,
        data,
      }),
    );
  });
  return fc.tuple(...drawn);
}

function inferBody(tensors: readonly DrawnTensor[], form: 'flat' | 'nested' | 'binary'): RequestInit {
  if (form !== 'binary') {
    const inputs = tensors.map((one) =>
      form === 'flat' ? one : { ...one, data: nestedBy(one.data, one.shape) },
    );
    return { headers: JSON_TYPE, body: JSON.stringify({ inputs }) };
  }
  const parts = tensors.map(({ datatype, data }) => bytesOf(datatype, data));
  const inputs = tensors.map(({ name, datatype, shape }, i) => {
    return { name, datatype, shape, parameters: { binary_data_size: parts[i]?.length } };
  });
  const json = Buffer.from(JSON.stringify({ inputs }));
  const headers = {
    'content-type': 'application/octet-stream',
    'inference-header-content-length': String(json.length),
  };
  return { headers, body: Buffer.concat([json, ...parts]) };
}

const JSON_TYPE = { 'content-type': 'application/json' };
const INFER = '/v2/models/{name}/infer';
const PREDICT = '/v1/models/{name}:predict';
const SIZES = fc.integer({ min: 1, max: 3 });

async function assertExamples({ document, check, ask }: DescribedService, name: string, version: string) {
  const asked: string[] = [];
  for (const [path, methods] of Object.entries(document.paths)) {
    for (const [method, { operationId, requestBody }] of Object.entries(methods)) {
      for (const [type, { schema, example }] of Object.entries(requestBody?.content ?? {})) {
        if (example === undefined) continue;
        check(schema, example, `the example of ${operationId}`);
        const url = path.replace('{name}', name).replace('{version}', version);
        const body = { headers: { 'content-type': type }, body: JSON.stringify(example) };
        await ask(method.toUpperCase(), url, operationId === 'enqueue' ? 202 : 200, body, path);
        asked.push(operationId);
      }
    }
  }
  return asked;
}

const WITH_EXAMPLES = [
  'predict',
  'invocations',
  'enqueue',
  'v2Infer',
  'v2InferVersion',
  'predictModel',
  'predictVersion',
  'encodeJson',
];

for (const [title, { config, fill }] of Object.entries(DESCRIBED_JOBS)) {
  const isWorker = title === 'a worker';
  test(
    `${title} takes every request that its document calls valid`,
    isWorker ? WITH_PYTHON : {},
    async (t) => {
      const folder = await temporaryFolder(t, 'cs-described-');
      await fill?.(folder, t);
      const place = isWorker ? { directory: folder } : { modelDirectory: join(folder, 'model') };
      const stack = await testStack(t, config ? { config, ...place } : {});
      const service = await describedService(stack.url);
      const { document, check, ask } = service;
      const version = stack.jobs[0]?.model ?? '';
      assert.deepEqual(await assertExamples(service, stack.job, version), isWorker ? [] : WITH_EXAMPLES);
      // A worker does not describe its items.
      if (isWorker) return;

      const { schemas } = document.components;
      const request = schemas['InferenceRequest'] as Schema;
      const inputs = request.properties?.['inputs']?.items?.anyOf ?? assert.fail();
      const forms = fc.constantFrom('flat', 'nested', 'binary');
      await fc.assert(
        fc.asyncProperty(
          SIZES.chain((size) => tensorsOf(inputs, size)),
          forms,
          async (tensors, form) => {
            check(request, { inputs: tensors }, 'drawn');
            await ask('POST', INFER.replace('{name}', stack.job), 200, inferBody(tensors, form), INFER);
          },
        ),
        { numRuns: 25 },
      );

      const { schema } =
        document.paths[PREDICT]?.['post']?.requestBody?.content['application/json'] ?? assert.fail();
      const bodies = SIZES.chain((size) => valuesOf(schemas, schema, size)).chain((values) => values);
      await fc.assert(
        fc.asyncProperty(bodies, async (body) => {
          check(schema, body, 'drawn');
          const sent = { headers: JSON_TYPE, body: JSON.stringify(body) };
          await ask('POST', PREDICT.replace('{name}', stack.job), 200, sent, PREDICT);
        }),
        { numRuns: 25 },
      );
    },
  );
}
