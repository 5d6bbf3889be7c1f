import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { TensorSpec } from '../../../lib/contract/values.ts';
import { DECLARATIONS } from '../../../lib/http/routes/lists/declarations.ts';
import { ROUTES } from '../../../lib/http/routes.ts';
import { type Declaration, operationsOf } from '../../../lib/openapi/declaration.ts';
import { openApiDocument } from '../../../lib/openapi/document.ts';
import { type Json, modelOfMetadata, type ServiceFacts } from '../../../lib/openapi/facts.ts';
import { exampleOf, inferenceExample } from '../../../lib/openapi/inputs.ts';
import { docsPage } from '../../../lib/openapi/page.ts';
import { descriptionRoutes } from '../../../local/description/routes.ts';
import { localDeclarations } from '../../../local/service/declarations.ts';
import { largeResultsRoute } from '../../../local/service/large-results.ts';
import { uploadsRoute } from '../../../local/service/uploads.ts';
import { openServiceParts } from '../../../local/worker/open.ts';
import { ServiceStatistics } from '../../../local/worker/statistics.ts';
import { assertOpenApi, schemaChecks } from '../../support/json-schema.ts';

const FACTS: ServiceFacts = {
  job: 'job',
  version: 'v1',
  model: undefined,
  inputAlreadyBatched: false,
  example: undefined,
  security: 'none',
  url: '/',
};
/** The facts of a single machine. */
const ALL = [...DECLARATIONS, ...localDeclarations(true)];
const METADATA = {
  name: 'job',
  versions: ['v1'],
  platform: 'onnxruntime_onnx',
  inputs: [
    { name: 'image', datatype: 'FP32', shape: [-1, 3, 224, 224] },
    { name: 'ids', datatype: 'INT64', shape: [-1, -1] },
    { name: 'flags', datatype: 'BOOL', shape: [4], parameters: { batch_axis: 'none' } },
    { name: 'text', datatype: 'BYTES', shape: [-1], parameters: { text: true, optional: true } },
    { name: 'row', datatype: 'FP32', shape: [-1, 2], parameters: { names: ['age', 'fare'] } },
  ],
  outputs: [{ name: 'p', datatype: 'FP32', shape: [-1, 2], parameters: { names: ['cat', 'dog'] } }],
};

function modelFacts() {
  return modelOfMetadata(METADATA) ?? assert.fail();
}

test('every route of a single machine is declared, those that it alone has too, and nothing else', async () => {
  const parts = openServiceParts({
    statistics: new ServiceStatistics(() => 0),
    ttlMs: 1,
    fetch: { allowedHosts: [] },
    page: () => ({ job: 'job', workers: 1, batchSize: 1 }),
    facts: () => ({}),
    control: { token: 'none', verbs: {} },
    log: () => undefined,
  });
  parts.close();
  const model = { use: () => assert.fail() };
  const own = [
    ...parts.routes,
    largeResultsRoute({} as never, { bucket: 'b', job: 'job' }),
    uploadsRoute({} as never, { bucket: 'b', job: 'job' }),
    ...descriptionRoutes({ ...FACTS, model, filter: undefined, declarations: [] }),
  ];
  // HEAD answers as GET does.
  const deployed = ROUTES.filter(({ method }) => method !== 'HEAD');
  const names = (routes: readonly { readonly method: string; readonly path: string }[]) =>
    [...new Set(routes.map(({ method, path }) => `${method} ${path}`))].sort();
  const declared = ALL.flatMap(({ routes }) => routes.filter((key) => !key.startsWith('HEAD ')));
  assert.equal(new Set(declared).size, declared.length);
  assert.deepEqual(declared.sort(), names([...deployed, ...own]));
});

test('generators of clients can make classes: each enum has one type, and each form of a row of a table a name', () => {
  const spec = { name: 'x', dtype: 'float32', shape: ['', 1, 8, 8] } as const;
  const model = { inputs: [spec], outputs: [] };
  const enums: unknown[][] = [];
  JSON.stringify(openApiDocument({ ...FACTS, model }, ALL), (key, value: unknown) => {
    if (key === 'enum') enums.push(value as unknown[]);
    return value;
  });
  assert.ok(enums.length > 0);
  for (const values of enums) assert.equal(new Set(values.map((value) => typeof value)).size, 1);
  const table = {
    inputs: [{ ...spec, shape: ['', 2] }],
    outputs: [],
    names: { columns: { x: ['age', 'fare'] }, labels: {} },
  };
  const { components } = openApiDocument({ ...FACTS, model: table }, ALL) as {
    components: { schemas: Record<string, { anyOf?: object[] }> };
  };
  const forms = ['InputsByName', 'InputsByColumn'].map((name) => ({ $ref: `#/components/schemas/${name}` }));
  assert.deepEqual(components.schemas['Instance']?.anyOf, forms);
  assert.ok(
    forms.every(({ $ref }) => (components.schemas[$ref.split('/').at(-1) as string] ?? false) !== false),
  );
});

test('the example of /v2 is the instance that was answered, with the batch dimension of each input', () => {
  const specs = [
    { name: 'a', dtype: 'float32', shape: ['', ''] },
    { name: 'b', dtype: 'int64', shape: ['', ''], batchAxis: 1 },
    { name: 'c', dtype: 'bool', shape: [2], batchAxis: 'none' },
  ] as const;
  const model = { inputs: specs, outputs: [] };
  const instance = { a: [1, 2], b: [3], c: [true, false] };
  assert.deepEqual(inferenceExample(model, instance, false), {
    inputs: [
      { name: 'a', datatype: 'FP32', shape: [1, 2], data: [1, 2] },
      { name: 'b', datatype: 'INT64', shape: [1, 1], data: [3] },
      { name: 'c', datatype: 'BOOL', shape: [2], data: [true, false] },
    ],
  });
  const [a] = specs;
  const whole = { inputs: [{ ...a, shape: [2, 1] }], outputs: [] };
  assert.equal(inferenceExample(whole, { a: [1] }, false), undefined);
  assert.deepEqual(inferenceExample(whole, { a: [[1], [2]] }, true), {
    inputs: [{ name: 'a', datatype: 'FP32', shape: [2, 1], data: [1, 2] }],
  });
  assert.equal(inferenceExample(whole, { a: { b64: '' } }, true), undefined);
});

test('each route has an operation, and each operation is one of its routes', () => {
  for (const declaration of ALL) {
    const operations = operationsOf(FACTS, [declaration]);
    const asked = operations.map(({ method, path }) => `${method.toUpperCase()} ${path}`);
    const patterns = declaration.routes
      .filter((key) => !key.startsWith('HEAD '))
      .map((key) => new RegExp(`^${key.replace(/\{\w+\+\}$/, '.+').replaceAll(/\{\w+\}/g, '[^/]+')}$`));
    for (const pattern of patterns)
      assert.ok(
        asked.some((key) => pattern.test(key)),
        `${pattern} of ${declaration.routes[0]}`,
      );
    for (const key of asked)
      assert.ok(
        patterns.some((pattern) => pattern.test(key)),
        `${key} of ${declaration.routes[0]}`,
      );
    for (const { path, parameters = [] } of operations)
      assert.deepEqual(
        [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name),
        parameters.filter((one) => one['in'] === 'path').map((one) => one['name']),
        path,
      );
  }
});

test('the documents of models, workers, deployments and each way to say who calls are OpenAPI 3.1', async () => {
  const cases: readonly (readonly [ServiceFacts, readonly Declaration[]])[] = [
    [FACTS, ALL],
    [{ ...FACTS, model: modelFacts(), example: { image: 1 } }, ALL],
    [{ ...FACTS, inputAlreadyBatched: true, model: modelFacts() }, DECLARATIONS],
    ...(['token', 'jwt', 'iam', 'api-key'] as const).map(
      (security) => [{ ...FACTS, security }, ALL] as const,
    ),
  ];
  for (const [facts, declarations] of cases) {
    const document = openApiDocument(facts, declarations);
    await assertOpenApi(document);
    const ids = operationsOf(facts, declarations).map(({ id }) => id);
    assert.equal(new Set(ids).size, ids.length);
    const { security, components } = document as {
      security?: unknown;
      components: { securitySchemes?: object };
    };
    if (facts.security === 'none') assert.equal(security, undefined);
    else {
      assert.deepEqual(security, [{ [facts.security]: [] }]);
      assert.deepEqual(Object.keys(components.securitySchemes ?? {}), [facts.security]);
    }
  }
});

test('metadata of /v2 becomes the facts of the model, and that of a worker or of another service none', () => {
  const { inputs, outputs, names } = modelFacts();
  assert.deepEqual(inputs.slice(1, 4), [
    { name: 'ids', dtype: 'int64', shape: ['', ''] },
    { name: 'flags', dtype: 'bool', shape: [4], batchAxis: 'none' },
    { name: 'text', dtype: 'string', shape: [''], isText: true, optional: true },
  ]);
  assert.deepEqual(outputs, [{ name: 'p', dtype: 'float32', shape: ['', 2] }]);
  assert.deepEqual(names, { columns: { row: ['age', 'fare'] }, labels: { p: ['cat', 'dog'] } });
  for (const other of [
    undefined,
    'a',
    {},
    { inputs: [], outputs: [] },
    { inputs: [{ name: 1 }], outputs: [] },
  ])
    assert.equal(modelOfMetadata(other), undefined);
});

test('an instance has a schema by the name, dtype and shape of each input', () => {
  const document = openApiDocument({ ...FACTS, model: modelFacts() }, ALL);
  const { schemas } = document['components'] as { schemas: Record<string, object> };
  const check = schemaChecks(document);
  const image = { b64: 'AAAA' };
  const good = { image, ids: [1, 2], flags: [true, false, true, true], row: [1, null] };
  const instance = schemas['Instance'] ?? assert.fail();
  check(instance, good, 'without what is optional');
  check(instance, { ...good, text: 'a' }, 'with a text');
  check(instance, { ...good, ids: { shape: [3], data: [1], indices: [[0]] } }, 'sparse');
  for (const bad of [
    { ...good, ids: ['a'] },
    { ...good, ids: [1.5] },
    { ...good, flags: [true] },
    { ...good, row: [1] },
    { ...good, ids: { shape: [3], data: [1], indices: [[0, 0]] } },
    { ...good, flags: { shape: [4], data: [true], indices: [[4]] } },
    { ...good, more: 1 },
    { ...good, row: [1e39, 1] },
    { ...good, image: undefined },
  ]) {
    assert.throws(() => check(instance, JSON.parse(JSON.stringify(bad)), 'bad'), assert.AssertionError);
  }
  assert.match(JSON.stringify(schemas['InferenceAnswer']), /"x-labels":\["cat","dog"\]/);
  assert.match(JSON.stringify(instance), /"x-columns":\["age","fare"\]/);
});

test('a request of /v2 has a list of the inputs of the model, by their names', () => {
  const document = openApiDocument({ ...FACTS, model: modelFacts() }, ALL);
  const { schemas } = document['components'] as { schemas: Record<string, object> };
  const check = schemaChecks(document);
  const request = schemas['InferenceRequest'] ?? assert.fail();
  const ids = { name: 'ids', datatype: 'INT64', shape: [1, 2], data: [1, 2] };
  check(request, { inputs: [ids] }, 'one input');
  for (const inputs of [[{ ...ids, name: 'other' }], [{ ...ids, datatype: 'FP32' }], { ids }, 'ids'])
    assert.throws(() => check(request, { inputs }, 'bad'), assert.AssertionError);
});

test('a table takes its columns by their names, and a model of texts no images', () => {
  const { names = { columns: {}, labels: {} } } = modelFacts();
  const row = { name: 'row', dtype: 'float32', shape: ['', 2] } as const;
  const document = openApiDocument({ ...FACTS, model: { inputs: [row], outputs: [], names } }, ALL);
  const { schemas } = document['components'] as { schemas: Record<string, object> };
  const check = schemaChecks(document);
  const instance = schemas['Instance'] ?? assert.fail();
  check(instance, { row: [1, 2] }, 'by input');
  check(instance, { fare: 7.5, age: null }, 'by column');
  for (const bad of [{ age: 1 }, { row: [1, 2], age: 1 }, { age: 1, fare: 2, other: 3 }])
    assert.throws(() => check(instance, bad, 'bad'), assert.AssertionError);

  const pathsOf = (spec: TensorSpec) =>
    Object.keys(
      openApiDocument({ ...FACTS, model: { inputs: [spec], outputs: [] } }, ALL)['paths'] as object,
    );
  const images = ['/encode_img_bytes', '/v1/encode_img_bytes', '/encode_img_url'];
  const ofTexts = pathsOf({ name: 'text', dtype: 'string', shape: [''], isText: true });
  assert.deepEqual(
    ofTexts.filter((path) => images.includes(path)),
    [],
  );
  const ofImages = pathsOf({ name: 'image', dtype: 'float32', shape: ['', 3, 8, 8] });
  assert.deepEqual(ofImages.filter((path) => images.includes(path)).length, 3);
});

test('the example is the first instance that is answered: small tensors written out, pictures, others sparse', async () => {
  const tried: Json[] = [];
  const example = await exampleOf(modelFacts(), false, async (instance) => {
    tried.push(instance);
    return (instance['ids'] as number[]).length === 16;
  });
  assert.deepEqual(
    tried.map(({ ids }) => (ids as number[]).length),
    [1, 1, 2, 2, 16],
  );
  assert.deepEqual(Object.keys(example?.['image'] ?? {}), ['b64']);
  assert.deepEqual(
    { ...example, image: 0 },
    {
      image: 0,
      ids: Array.from({ length: 16 }, () => 0),
      flags: [false, false, false, false],
      text: 'a text',
      row: [0, 0],
    },
  );
  const large = { inputs: [{ name: 'x', dtype: 'float32', shape: [1, 1000] }], outputs: [] } as const;
  assert.deepEqual(await exampleOf(large, false, async () => true), {
    x: { shape: [1000], data: [0], indices: [[0]] },
  });
  assert.equal(await exampleOf(large, false, async () => false), undefined);
});

test('the page has every operation, loads nothing, and escapes what the model is called', () => {
  const facts = { ...FACTS, job: '<script>alert(1)</script>', model: modelFacts(), example: { image: 1 } };
  const html = docsPage(openApiDocument(facts, ALL), 'http://machine:1234');
  for (const { path, method } of operationsOf(facts, ALL))
    assert.ok(html.includes(`<b>${method.toUpperCase()}</b><code>${path}</code>`), path);
  assert.doesNotMatch(html, /<script|<link|<img|src=/);
  assert.match(html, /curl &#39;http:\/\/machine:1234\/predict&#39; -H/);
});

test('the page begins with what the job has, and shows neither backticks nor references as they are in the document', () => {
  for (const [model, first, last] of [
    [modelFacts(), 'Predict', 'Worker'],
    [undefined, 'Worker', 'TensorFlow Serving (/v1)'],
  ] as const) {
    const html = docsPage(openApiDocument({ ...FACTS, model }, ALL), 'http://machine:1234');
    const titles = Array.from(html.matchAll(/<h2>(.*?)<\/h2>/g), ([, title]) => title);
    assert.deepEqual([titles[0], titles.at(-2), titles.at(-1)], [first, last, 'Schemas']);
    assert.doesNotMatch(html, /`|\$ref|#\/components/);
    assert.match(html, /<code>bad_request<\/code>/);
    // Each link goes to a schema of the page.
    for (const [, name] of html.matchAll(/href="#(\w+)"/g))
      assert.ok(html.includes(`<details id="${name}">`), name);
    assert.match(html, /<pre tabindex="0">\{\s+&quot;anyOf&quot;: \[\s+<a href="#Instances">Instances<\/a>/);
  }
});
