/** Refusals of TensorFlow Serving's API: each is one error in its form, `{"error": message}`. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ServingError } from '../../../lib/contract/errors.ts';
import { LIMITS } from '../../../lib/contract/limits.ts';
import type { NamedTensor, Runner } from '../../../lib/contract/values.ts';
import { openModelBytes } from '../../support/runner.ts';
import { halfPlus, passing, servingOf } from '../../support/tensorflow-serving.ts';

type Ask = ReturnType<typeof servingOf>;

async function refuses(
  ask: Ask,
  status: number,
  message: RegExp,
  path: string,
  body?: unknown,
  method?: string,
) {
  const answer = await ask(path, body, method);
  const shown = `${path} ${JSON.stringify(body)?.slice(0, 80)}`;
  assert.equal(answer.status, status, `${shown}: ${answer.text}`);
  const { error, ...rest } = JSON.parse(answer.text) as { error: string };
  assert.deepEqual(rest, {}, shown);
  assert.match(error, message, shown);
  assert.ok(error.length < 1_000, shown);
}

const PREDICT = 'half:predict';

test('paths, models, versions, labels and signatures that are not there', async (t) => {
  const ask = servingOf(await openModelBytes(t, halfPlus(2)));
  const body = { instances: [1] };
  for (const path of [
    'foo/version/50:predict',
    'half/metadata',
    'half/versions/test/labels/a:predict',
    'half:explain',
    'half:predict/',
    'half',
  ])
    await refuses(ask, 400, /^Malformed request: POST \/v1\/models\//, path, body);
  for (const path of ['debug/model_name', 'half:predict', 'half/versions/', ':predict', 'half/metadata/x'])
    await refuses(ask, 400, /^Malformed request: GET \/v1\/models\//, path);
  await refuses(
    ask,
    404,
    /^Servable not found for request: Latest\(foo\); the model is "half"$/,
    'foo:predict',
    body,
  );
  const second = /^Servable not found for request: Specific\(half, 2\); version "test" serves$/;
  for (const path of ['half/versions/2', 'half/versions/2/metadata']) await refuses(ask, 404, second, path);
  await refuses(ask, 404, second, 'half/versions/2:predict', body);
  await refuses(
    ask,
    400,
    /^Unrecognized servable version label: "stable"/,
    'half/labels/stable:predict',
    body,
  );
  await refuses(ask, 400, /^Unrecognized servable version label: "stable"/, 'half/labels/stable');
  await refuses(ask, 400, /signature name: "other" not found.*"serving_default"/, PREDICT, {
    ...body,
    signature_name: 'other',
  });
  await refuses(ask, 400, /signature name: "tensorflow\/serving\/regress"/, PREDICT, {
    ...body,
    signature_name: 'tensorflow/serving/regress',
  });
});

test('bodies that are not requests', async (t) => {
  const ask = servingOf(await openModelBytes(t, halfPlus(2)));
  for (const [status, message, body] of [
    [400, /the body is empty/, ' '],
    [400, /not JSON/, 'instances = [1, 2]'],
    [400, /not JSON/, '{"instances": [NaN,]}'],
    [400, /not JSON/, '{"instances": [-]}'],
    [400, /not JSON/, '{"instances": [0.0-NaN]}'],
    [400, /not JSON/, '{"instances": [--Infinity]}'],
    [400, /expected an object, got an array/, '[NaN]'],
    [400, /expected an object, got null/, 'null'],
    [400, /"signature_name": expected a text, got 100/, { signature_name: 100 }],
    [400, /expected either "instances" or "inputs"/, {}],
    [400, /expected either "instances" or "inputs"/, { instances: [1], inputs: [1] }],
    [400, /"instances": expected a list, got an object/, { instances: { x: 1 } }],
    [400, /"instances" is empty/, { instances: [] }],
    [400, /is empty \(shape \[0\]\)/, { inputs: [] }],
    [400, /is empty \(shape \[0\]\)/, { inputs: { x: [] } }],
    [413, /1001 instances are over the limit of 1000/, { instances: Array.from({ length: 1001 }, () => 1) }],
    [413, /over the limit of 6291456 bytes/, `{"inputs":[${'1,'.repeat(3_200_000)}1]}`],
    [413, /nested deeper/, `{"inputs":${'['.repeat(200_000)}NaN${']'.repeat(200_000)}}`],
    [413, /nested deeper/, `{"inputs":${'['.repeat(200_000)}1${']'.repeat(200_000)}}`],
  ] as const)
    await refuses(ask, status, message, PREDICT, body);
});

test('values that are not those of the model', async (t) => {
  const ask = servingOf(await openModelBytes(t, passing({ x: ['float32', 'N', 2] })));
  for (const [message, body] of [
    [/input "x": expected a number, got "x"/, { instances: [['x', 'y']] }],
    [/do not agree in shape/, { instances: [[1, 2], [3]] }], // biome-ignore format: short
    [/do not agree in shape/, { instances: [[1, 2], 3] }],
    [/expected float32 \[N,2\], got shape \[1,3\]/, { instances: [[1, 2, 3]] }],
    [/expected float32 \[N,2\], got shape \[\]/, { inputs: 1 }],
    [/out of the range of float32: 1e\+39/, { inputs: [[1e39, 1]] }],
    [/out of the range of float32: Infinity/, '{"inputs":[[1e400, NaN]]}'],
    [/out of the range of float32: Infinity/, '{"inputs":[[1e400, 1]]}'],
    [/missing input "x", unknown input "y"/, { inputs: { y: [[1, 2]] } }],
    [/unknown input "y"/, { inputs: { x: [[1, 2]], y: 1 } }],
    [/missing input "x"/, { instances: [{}] }],
    [
      /instances\[1\]: expected \["x"\] as instances\[0\] has, got \["x", "y"\]/,
      { instances: [{ x: [1, 2] }, { x: [1, 2], y: 1 }] },
    ],
    [
      /instances\[1\]: expected \["x"\] .* got \["__proto__"\]/,
      '{"instances":[{"x":[1,2]},{"__proto__":[1,2]}]}',
    ],
    [
      /instances\[1\]: expected an object of inputs by name, got an array/,
      { instances: [{ x: [1, 2] }, [1, 2]] },
    ],
    [
      /instances\[1\]: expected a value as instances\[0\] is, got an object/,
      { instances: [[1, 2], { x: [1, 2] }] },
    ],
    [/got text or an image/, { instances: [{ b64: 'AAAA' }] }],
  ] as const)
    await refuses(ask, 400, message, PREDICT, body);
  const whole = servingOf(await openModelBytes(t, passing({ i: ['int64', 'N'] })));
  await refuses(
    whole,
    400,
    /expected -9223372036854775808 to 9223372036854775807/,
    PREDICT,
    '{"inputs":[9223372036854775808]}',
  );
  await refuses(
    whole,
    400,
    /input "i": expected a whole number \(int64\), got NaN/,
    PREDICT,
    '{"inputs":[NaN]}',
  );
  const two = servingOf(await openModelBytes(t, passing({ t: ['string', 'N'], u: ['string', 'N'] })));
  await refuses(two, 400, /expected objects of inputs by name, because the model has "t", "u"/, PREDICT, {
    instances: ['a'],
  });
  await refuses(two, 400, /input "t": base64: unexpected "!"/, PREDICT, {
    instances: [{ t: { b64: '!' }, u: '' }],
  });
  await refuses(two, 400, /input "t": "b64": the bytes are not UTF-8/, PREDICT, {
    instances: [{ t: { b64: '/w==' }, u: '' }],
  });
  await refuses(two, 400, /has 1 rows where another input has 2/, PREDICT, {
    inputs: { t: ['a', 'b'], u: ['c'] },
  });
});

test('examples that are none, and models that classify nothing', async (t) => {
  const ask = servingOf(await openModelBytes(t, passing({ x: ['float32', 'N', 2] })));
  for (const [message, body] of [
    [/"examples": expected a list, got nothing/, { instances: [1] }],
    [/"examples" is empty/, { examples: [] }],
    [/examples\[0\]: expected an object of inputs by name, got a number/, { examples: [1] }],
    [/"context": expected an object, got an array/, { context: [], examples: [{ x: [1, 2] }] }],
    [/examples\[1\]: "x" is in "context" as well/, { context: { x: [1, 2] }, examples: [{}, { x: [1, 2] }] }],
    [
      /regress needs one output of floats.*"x_out" float32 \[1,2\]; ask :predict/,
      { examples: [{ x: [1, 2] }] },
    ],
  ] as const)
    await refuses(ask, 400, message, 'half:regress', body);
  const examples = Array.from({ length: 1_000 }, () => ({ x: [1, 2] }));
  for (const c of [Array.from({ length: 10_000 }, () => 1), 'a'.repeat(10_000), { b64: 'A'.repeat(10_000) }])
    await refuses(ask, 413, /"context" in each of 1000 examples/, 'half:classify', {
      context: { c },
      examples,
    });
  const texts = servingOf(await openModelBytes(t, passing({ t: ['string', 'N'] })));
  await refuses(texts, 400, /classify needs one output of floats.*"t_out" string \[1\]/, 'half:classify', {
    examples: [{ t: 'a' }],
  });
});

/** A runner that answers with these tensors. */
function answering(...outputs: readonly NamedTensor[]): Runner {
  const inputs = [{ name: 'x', dtype: 'float32', shape: ['N'] }] as const;
  return { version: '1', inputs, run: async () => [{ ok: true, outputs }], close: async () => undefined };
}
const output = (name: string, ...shape: number[]): NamedTensor => {
  const count = shape.reduce((product, dim) => product * dim, 1);
  return { name, dtype: 'float32', shape, data: new Float32Array(count) };
};

test('outputs that do not follow the rows have no row form, and a columnar one', async () => {
  const body = { instances: [1, 2] };
  await refuses(
    servingOf(answering(output('y'))),
    400,
    /^Tensor name: y has no shape information; ask with "inputs"/,
    PREDICT,
    body,
  );
  const uneven = servingOf(answering(output('y', 2), output('z', 3)));
  await refuses(uneven, 400, /^Tensor name: z has inconsistent batch size: 3 expecting: 2/, PREDICT, body);
  assert.equal(
    (await uneven(PREDICT, { inputs: [1, 2] })).text,
    '{"outputs":{"y":[0.0,0.0],"z":[0.0,0.0,0.0]}}',
  );
  assert.equal((await servingOf(answering(output('y')))(PREDICT, { inputs: [1] })).text, '{"outputs":0.0}');
  const inputs = [{ name: 'x', dtype: 'float32', shape: [1] }] as const;
  const byRow = (batchAxis: 0 | 'none', ...each: NamedTensor[]) =>
    servingOf({
      ...answering(),
      inputs,
      outputs: [{ name: 'y', dtype: 'float32', shape: ['M'], batchAxis }],
      run: async () => each.map((one) => ({ ok: true, outputs: [one] })),
    });
  // Each row is a record of its own, and answered as one.
  const shared = byRow('none', output('y', 2, 1), output('y', 2, 1));
  assert.equal((await shared(PREDICT, body)).text, '{"predictions":[[[0.0],[0.0]],[[0.0],[0.0]]]}');
  const examples = { examples: [{ x: 1 }, { x: 2 }] };
  const apart = /^output "y": is not known to follow the rows, so that the rows make no batch/;
  await refuses(shared, 422, apart, 'half:classify', examples);
  const one = byRow('none', output('y', 1, 2));
  await refuses(one, 422, apart, 'half:classify', { examples: [{ x: 1 }] });
  const ragged = byRow(0, output('y', 3), output('y', 2));
  assert.equal((await ragged(PREDICT, body)).text, '{"predictions":[[0.0,0.0,0.0],[0.0,0.0]]}');
  await refuses(ragged, 422, /^output "y": has shape \[3\] and \[2\], so that the/, 'half:regress', examples);
  const huge = servingOf(answering(output('y', LIMITS.httpBodyBytes)));
  await refuses(huge, 413, /the answer has 12582912 bytes and more/, PREDICT, body);
});

test('a worker, a model that is not open, and too many requests', async () => {
  const { inputs: _, ...worker } = answering();
  await refuses(servingOf(worker), 404, /a worker serves here.*POST \/predict/, PREDICT, { instances: [1] });
  const failing = (code: 'model_unavailable' | 'internal') => ({
    model: { use: () => Promise.reject(new ServingError(code, 'secret')) },
  });
  const closed = servingOf(answering(), failing('model_unavailable'));
  for (const [path, body] of [['half'], ['half/metadata'], [PREDICT, { instances: [1] }]] as const)
    await refuses(closed, 503, /^no model is loaded \(yet\)/, path, body);
  await refuses(servingOf(answering(), failing('internal')), 500, /^Internal error$/, PREDICT, {
    instances: [1],
  });
  const limiter = { acquire: () => Promise.reject(new ServingError('rate_limited', 'too many requests')) };
  await refuses(servingOf(answering(), { limiter }), 429, /too many requests/, PREDICT, { instances: [1] });
});
