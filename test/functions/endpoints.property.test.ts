/** What holds for every request and every message, through the handlers, with real models. Seeded. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { runMessages } from '../../lib/pipeline/serve.ts';
import { enqueued } from '../support/enqueue.ts';
import fc from '../support/fast-check.ts';
import { predictEndpoint, predictionsEndpoint } from './hostile/endpoints.ts';
import { GOOD, type ModelName, Models } from './hostile/models.ts';

const RUNS = { seed: 20_261_121, numRuns: 400 } as const;
const MODELS: readonly ModelName[] = ['pair', 'int64', 'texts', 'two', 'grid', 'image', 'bool'];

/** JSON values near what a model takes. */
const near = fc.oneof(
  { weight: 3, arbitrary: fc.jsonValue({ maxDepth: 4 }) },
  fc.array(fc.oneof(fc.double(), fc.integer(), fc.boolean(), fc.string()), { maxLength: 4 }),
  fc.array(fc.array(fc.integer(), { maxLength: 3 }), { maxLength: 3 }),
  fc.record({
    shape: fc.array(fc.oneof(fc.nat(4), fc.integer(), fc.double()), { maxLength: 3 }),
    data: fc.array(fc.integer(), { maxLength: 3 }),
    indices: fc.array(fc.array(fc.integer({ min: -1, max: 4 }), { maxLength: 3 }), { maxLength: 3 }),
  }),
  fc.record({ b64: fc.oneof(fc.base64String(), fc.string()) }),
);
const instance = fc.dictionary(fc.constantFrom('x', 'a', 'b', 'other', '__proto__'), near, { maxKeys: 3 });
const body = fc.oneof(fc.string(), fc.json(), {
  weight: 4,
  arbitrary: fc.array(instance, { maxLength: 4 }).map((instances) => JSON.stringify({ instances })),
});

test('POST /predict answers every body with predictions or with the reason, and is never at a loss', async (t) => {
  const models = new Models(t);
  const endpoints = await Promise.all(
    MODELS.map(async (model) => predictEndpoint(await models.runner(model))),
  );
  await fc.assert(
    fc.asyncProperty(body, fc.boolean(), async (text, asBytes) => {
      for (const endpoint of endpoints) {
        const { status, body: answer, error } = await endpoint(asBytes ? Buffer.from(text) : text);
        assert.ok([200, 400, 413, 415].includes(status), `${status}: ${String(error)}`);
        if (status === 200) {
          const { instances } = JSON.parse(text) as { instances: unknown[] };
          assert.equal((answer['predictions'] as unknown[]).length, instances.length);
        } else assert.ok(typeof error === 'string' && error.length > 0 && error.length <= 1_500);
      }
    }),
    RUNS,
  );
  for (const [i, endpoint] of endpoints.entries()) {
    const { status } = await endpoint(`{"instances":[${GOOD[MODELS[i] as ModelName]}]}`);
    assert.equal(status, 200);
  }
});

test('POST /predictions sends a message per instance, or none and says why', async () => {
  const uri = fc.oneof(fc.string(), fc.constant(undefined), fc.jsonValue({ maxDepth: 1 }));
  const posted = fc.oneof(
    body,
    fc
      .tuple(uri, fc.array(instance, { maxLength: 3 }))
      .map(([given, instances]) => JSON.stringify({ uri: given, instances })),
    fc
      .record({ uri, data: near, serde: fc.constantFrom('arrow', 'stream', 'safetensors', 'x', 1) })
      .map((record) => JSON.stringify(record)),
  );
  await fc.assert(
    fc.asyncProperty(posted, async (text) => {
      const { endpoint, sent } = predictionsEndpoint();
      const { status, body: answer, error } = await endpoint(text);
      if (status === 202) {
        const uris = (answer['uris'] ?? [answer['uri']]) as unknown[];
        assert.deepEqual(
          sent.map((message) => (JSON.parse(message) as { uri: unknown }).uri),
          uris,
        );
      } else {
        assert.ok(status === 400 || status === 413, `${status}: ${String(error)}`);
        assert.deepEqual(sent, []);
      }
    }),
    { ...RUNS, numRuns: 1_000 },
  );
});

test('every message of a batch is finished or goes back, once, and good ones always finish', async (t) => {
  const runner = await new Models(t).runner('pair');
  const good = { uri: 'good', serde: 'stream', data: `{"instances":[${GOOD.pair}]}` };
  const message = fc.oneof(
    fc.string(),
    fc.json(),
    fc.constant(JSON.stringify(good)),
    fc
      .record({
        uri: fc.string(),
        data: fc.string(),
        serde: fc.constantFrom('arrow', 'stream', 'safetensors'),
      })
      .map((record) => JSON.stringify(record)),
    instance.map((inputs) =>
      JSON.stringify({ ...good, uri: 'near', data: JSON.stringify({ instances: [inputs] }) }),
    ),
  );
  await fc.assert(
    fc.asyncProperty(fc.array(message, { maxLength: 12 }), async (bodies) => {
      const messages = bodies.map((text, i) => ({
        id: String(i),
        enqueue: enqueued(String(i)),
        attempts: 1,
        body: text,
      }));
      const { finished, returned } = await runMessages(messages, (records) => runner.run(records));
      const ids = [...finished, ...returned].map(({ id }) => Number(id));
      assert.deepEqual(
        ids.sort((a, b) => a - b),
        messages.map((_, i) => i),
      );
      for (const { uri, outcome } of finished) if (uri === 'good') assert.ok(outcome.ok);
      for (const { error } of returned) assert.ok(error.code === 'bad_request', error.message);
    }),
    { ...RUNS, numRuns: 200 },
  );
});
