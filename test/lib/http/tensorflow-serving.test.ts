/** TensorFlow Serving's REST API: the examples of its documentation, its forms of values, and what it answers. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import type { Runner } from '../../../lib/contract/values.ts';
import { writePng } from '../../support/png.ts';
import { openModelBytes } from '../../support/runner.ts';
import { halfPlus, oneOperator, passing, servingOf } from '../../support/tensorflow-serving.ts';

const ok = (text: string) => ({ status: 200, text });

suite('the examples of the documentation', () => {
  for (const [what, shape] of [
    ['a list', ['N']],
    ['a column, as in the SavedModel', ['N', 1]],
  ] as const)
    test(`half_plus_two and half_plus_three answer as documented, where x is ${what}`, async (t) => {
      const two = servingOf(await openModelBytes(t, halfPlus(2, shape)));
      const three = servingOf(await openModelBytes(t, halfPlus(3, shape)));
      const instances = { instances: [1.0, 2.0, 5.0] };
      assert.deepEqual(await two('half:predict', instances), ok('{"predictions":[2.5,3.0,4.5]}'));
      assert.deepEqual(await three('half:predict', instances), ok('{"predictions":[3.5,4.0,5.5]}'));
      const signed = { signature_name: 'serving_default', inputs: [3.0, 4.0] };
      assert.deepEqual(await two('half/versions/test:predict', signed), ok('{"outputs":[3.5,4.0]}'));
      const examples = {
        signature_name: 'tensorflow/serving/regress',
        examples: [{ x: 1.0 }, { x: 2.0 }],
      };
      assert.deepEqual(await three('half:regress', examples), ok('{"results":[3.5,4.0]}'));
    });

  test('the status of a model and of its version', async (t) => {
    const ask = servingOf(await openModelBytes(t, halfPlus(3)));
    const status = {
      model_version_status: [
        { version: 'test', state: 'AVAILABLE', status: { error_code: 'OK', error_message: '' } },
      ],
    };
    for (const path of ['half', 'half/versions/test'])
      assert.deepEqual(await ask(path), ok(JSON.stringify(status)), path);
    assert.deepEqual(await ask('none'), {
      status: 404,
      text: '{"error":"Servable not found for request: Latest(none); the model is \\"half\\""}',
    });
  });

  test('the metadata of half_plus_two, with the sizes of its dimensions as texts', async (t) => {
    const ask = servingOf(await openModelBytes(t, halfPlus(2, ['N', 1])));
    const tensor = (name: string) => ({
      dtype: 'DT_FLOAT',
      tensor_shape: {
        dim: [
          { size: '-1', name: '' },
          { size: '1', name: '' },
        ],
        unknown_rank: false,
      },
      name,
    });
    const signature = {
      inputs: { x: tensor('x') },
      outputs: { y: tensor('y') },
      method_name: 'tensorflow/serving/predict',
      defaults: {},
    };
    const { status, text } = await ask('half/metadata');
    assert.equal(status, 200);
    assert.deepEqual(JSON.parse(text), {
      model_spec: { name: 'half', signature_name: '', version: 'test' },
      metadata: { signature_def: { signature_def: { serving_default: signature } } },
    });
    assert.equal((await ask('half/versions/test/metadata')).text, text);
  });

  test('rows of named tensors, and the same as columns', async (t) => {
    const bytes = passing({
      tag: ['string', 'N'],
      signal: ['int32', 'N', 5],
      sensor: ['float32', 'N', 2, 2],
    });
    const ask = servingOf(await openModelBytes(t, bytes));
    const instances = [
      { tag: 'foo', signal: [1, 2, 3, 4, 5], sensor: [[1, 2], [3, 4]] }, // biome-ignore format: as documented
      { tag: 'bar', signal: [3, 4, 1, 2, 5], sensor: [[4, 5], [6, 8]] }, // biome-ignore format: as documented
    ];
    const rows = await ask('half:predict', { instances });
    assert.deepEqual(JSON.parse(rows.text), {
      predictions: instances.map(({ tag, signal, sensor }) => ({
        tag_out: tag,
        signal_out: signal,
        sensor_out: sensor,
      })),
    });
    const inputs = {
      tag: instances.map(({ tag }) => tag),
      signal: instances.map(({ signal }) => signal),
      sensor: instances.map(({ sensor }) => sensor),
    };
    const columns = await ask('half:predict', { inputs });
    const { tag, signal, sensor } = inputs;
    assert.deepEqual(JSON.parse(columns.text), {
      outputs: { tag_out: tag, signal_out: signal, sensor_out: sensor },
    });
    assert.match(rows.text, /"signal_out":\[1,2,3,4,5\],"sensor_out":\[\[1\.0,2\.0\]/);
  });

  test('texts, lists of lists, and bytes as base64', async (t) => {
    const texts = servingOf(await openModelBytes(t, passing({ t: ['string', 'N'] })));
    const request = { instances: ['foo', 'bar', 'baz'] };
    assert.deepEqual(await texts('half:predict', request), ok('{"predictions":["foo","bar","baz"]}'));
    const lists = servingOf(await openModelBytes(t, passing({ x: ['int64', 'N', 1, 2] })));
    const nested = { instances: [[[1, 2]], [[3, 4]]] };
    assert.deepEqual(await lists('half:predict', nested), ok('{"predictions":[[[1,2]],[[3,4]]]}'));
    const asBytes = servingOf(await openModelBytes(t, passing({ t: ['string', 'N'] }, { t: 't_bytes' })));
    const b64 = [{ b64: 'aW1hZ2UgYnl0ZXM=' }, { b64: 'YXdlc29tZSBpbWFnZSBieXRlcw==' }];
    assert.deepEqual(
      await texts('half:predict', { instances: b64 }),
      ok('{"predictions":["image bytes","awesome image bytes"]}'),
    );
    assert.deepEqual(
      await texts('half:predict', { inputs: { t: b64 } }),
      ok('{"outputs":["image bytes","awesome image bytes"]}'),
    );
    const both = { instances: b64.map((bytes) => ({ t: bytes })) };
    assert.deepEqual(await asBytes('half:predict', both), ok(JSON.stringify({ predictions: b64 })));
  });

  test('an object of bytes and captions is classified', async () => {
    const one = { name: 'caption', dtype: 'string', shape: ['N'] } as const;
    const runner: Runner = {
      version: '1',
      inputs: [{ ...one, name: 'image' }, one],
      run: async ([record]) => {
        const value = record?.get('image');
        assert.deepEqual(value?.kind === 'tensor' && value.tensor.data, [
          'image bytes',
          'awesome image bytes',
        ]);
        const scores = { dtype: 'float32', shape: [2, 2], data: Float32Array.of(0.25, 0.75, 1, 0) } as const;
        const labels = ['sea', 'hill'];
        return [{ ok: true, outputs: [{ name: 'p', ...scores, labels }] }];
      },
      close: async () => undefined,
    };
    const examples = [
      { image: { b64: 'aW1hZ2UgYnl0ZXM=' }, caption: 'seaside' },
      { image: { b64: 'YXdlc29tZSBpbWFnZSBieXRlcw==' }, caption: 'mountains' },
    ];
    const wanted = '{"results":[[["sea",0.25],["hill",0.75]],[["sea",1.0],["hill",0.0]]]}';
    assert.deepEqual(await servingOf(runner)('half:classify', { examples }), ok(wanted));
  });
});

suite('values', () => {
  test('NaN and the infinities are words in both directions, and not inside of texts', async (t) => {
    const ask = servingOf(await openModelBytes(t, passing({ x: ['float32', 'N'], t: ['string', 'N'] })));
    const body =
      '{"inputs":{"x":[ 1.0, -3.14, NaN, Infinity,-Infinity,Inf],"t":["NaN,\\" NaN", ": Inf", "", "", "", ""]}}';
    const outputs =
      '{"x_out":[1.0,-3.14,NaN,Infinity,-Infinity,Infinity],"t_out":["NaN,\\" NaN",": Inf","","","",""]}';
    assert.deepEqual(await ask('half:predict', body), ok(`{"outputs":${outputs}}`));
    const half = servingOf(await openModelBytes(t, halfPlus(2)));
    assert.deepEqual(await half('half:predict', '{"instances":[NaN]}'), ok('{"predictions":[NaN]}'));
  });

  test('whole numbers of 64 bits keep each digit', async (t) => {
    const ask = servingOf(await openModelBytes(t, passing({ i: ['int64', 'N'], u: ['uint64', 'N'] })));
    const rows = '{"i":-9223372036854775808,"u":18446744073709551615},{"i":9007199254740993,"u":0}';
    const answers =
      '{"i_out":-9223372036854775808,"u_out":18446744073709551615},{"i_out":9007199254740993,"u_out":0}';
    assert.deepEqual(
      await ask('half:predict', `{"instances":[${rows}]}`),
      ok(`{"predictions":[${answers}]}`),
    );
    const floats = servingOf(await openModelBytes(t, passing({ x: ['float64', 'N'] })));
    assert.deepEqual(
      await floats('half:predict', '{"inputs":[9007199254740993]}'),
      ok('{"outputs":[9.007199254740992E15]}'),
    );
  });

  test('keys that the API does not know are ignored, and an empty signature is the default', async (t) => {
    const ask = servingOf(await openModelBytes(t, halfPlus(2)));
    const body = { instances: [1], signature_name: '', output_filter: ['y'], extra: [[[1]]] };
    assert.deepEqual(await ask('half:predict', body), ok('{"predictions":[2.5]}'));
  });

  test('an image is the bytes of a file, by rows, by columns and in examples', async (t) => {
    const ask = servingOf(await openModelBytes(t, passing({ image: ['float32', 'N', 1, 1, 1] })));
    const b64 = (level: number) => ({
      b64: writePng({ width: 1, height: 1, depth: 8, colourType: 0, sample: () => [level] }).toString(
        'base64',
      ),
    });
    const images = [b64(0), b64(255)];
    const wanted = '[[[[0.0]]],[[[255.0]]]]';
    assert.deepEqual(await ask('half:predict', { instances: images }), ok(`{"predictions":${wanted}}`));
    assert.deepEqual(await ask('half:predict', { inputs: { image: images } }), ok(`{"outputs":${wanted}}`));
    const bytes = passing({ image: ['float32', 'N', 1, 1, 1], scale: ['float32'] });
    const shared = servingOf(await openModelBytes(t, bytes, { batchAxes: { scale: 'none' } }));
    const outputs = '{"image_out":[[[[255.0]]]],"scale_out":2.0}';
    const inputs = { image: [b64(255)], scale: 2 };
    assert.deepEqual(await shared('half:predict', { inputs }), ok(`{"outputs":${outputs}}`));
    assert.equal((await ask('half:classify', { examples: images.map((image) => ({ image })) })).status, 400);
  });
});

suite('batches', () => {
  test('the rows of a request are one batch, as in a model whose rows are not independent', async (t) => {
    const seen: number[] = [];
    const runner = await openModelBytes(t, halfPlus(2), { batching: 'never' });
    const counting: Runner = {
      ...runner,
      run: (records, policy) => (seen.push(records.length), runner.run(records, policy)),
    };
    const instances = Array.from({ length: 100 }, (_, i) => i);
    const { text } = await servingOf(counting)('half:predict', { instances });
    assert.deepEqual(JSON.parse(text), { predictions: instances.map((x) => x / 2 + 2) });
    assert.deepEqual(seen, [1]);
  });

  test('a model of one row at a time, and one that counts rows on another axis, answer row by row', async (t) => {
    const one = servingOf(await openModelBytes(t, halfPlus(2, [1, 2])));
    assert.deepEqual(await one('half:predict', { instances: [[0, 2], [4, 6]] }), ok('{"predictions":[[2.0,3.0],[4.0,5.0]]}')); // biome-ignore format: short
    const wanted = ok('{"predictions":[[2.0,3.0],[4.0,5.0],[6.0,7.0]]}');
    const across = { batchAxes: { x: 1 }, outputAxes: { y: 1 } };
    const ask = servingOf(await openModelBytes(t, halfPlus(2, [2, 'N']), across));
    assert.deepEqual(await ask('half:predict', { instances: [[0, 2], [4, 6], [8, 10]] }), wanted); // biome-ignore format: short
    assert.deepEqual(await ask('half:predict', { inputs: [[0, 4, 8], [2, 6, 10]] }), ok('{"outputs":[[2.0,4.0,6.0],[3.0,5.0,7.0]]}')); // biome-ignore format: short
    const turned = await openModelBytes(t, oneOperator('Transpose', [2, 'N'], ['N', 2]), {
      batchAxes: { x: 1 },
    });
    assert.deepEqual(await servingOf(turned)('half:predict', { instances: [[2, 3], [4, 5], [6, 7]] }), wanted); // biome-ignore format: short
  });

  test('rows that are not as many as the file fixes run one by one, as POST /predict runs them', async (t) => {
    const four = servingOf(await openModelBytes(t, halfPlus(2, [4, 2])));
    assert.deepEqual(await four('half:predict', { instances: [[0, 2]] }), ok('{"predictions":[[2.0,3.0]]}'));
    const instances = [[0, 2], [4, 6], [8, 10], [0, 0], [2, 2]]; // biome-ignore format: short
    assert.deepEqual(await four('half:predict', { instances }), ok('{"predictions":[[2.0,3.0],[4.0,5.0],[6.0,7.0],[2.0,2.0],[3.0,3.0]]}')); // biome-ignore format: short
  });

  test('context is part of each example, features are flat, and labels come from the model or its output', async (t) => {
    const ask = servingOf(
      await openModelBytes(
        t,
        passing({ a: ['float32', 'N', 2], c: ['string', 'N', 2] }, { a: 'scores', c: 'classes' }),
      ),
    );
    const body = { context: { c: ['x', 'y'] }, examples: [{ a: [1, 2] }, { a: [3, 4] }] };
    assert.deepEqual(
      await ask('half:classify', body),
      ok('{"results":[[["x",1.0],["y",2.0]],[["x",3.0],["y",4.0]]]}'),
    );
    const square = servingOf(await openModelBytes(t, oneOperator('Flatten', ['N', 2, 1], ['N', 2])));
    assert.deepEqual(
      await square('half:classify', { examples: [{ x: [1, 2] }] }),
      ok('{"results":[[["",1.0],["",2.0]]]}'),
    );
    const flat = servingOf(await openModelBytes(t, passing({ a: ['float32', 'N', 1] })));
    assert.deepEqual(await flat('half:classify', { examples: [{ a: 20 }] }), ok('{"results":[[["",20.0]]]}'));
  });
});
