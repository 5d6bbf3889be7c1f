/** Scale, Bias and the normalizations, against the formula of each. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  assertClose,
  convertNet,
  inputText,
  noise,
  noiseTensor,
  runNet,
  type TestBlob,
  tensor,
} from '../support/caffe/net.ts';

const SHAPE = [2, 3, 2, 2] as const;
const INPUT = noiseTensor(SHAPE);
const X = INPUT.data as Float32Array;

function layerText(type: string, parameters = '', bottoms = ['data']): string {
  const taken = bottoms.map((bottom) => `bottom: "${bottom}"`).join(' ');
  return `layer { name: "l" type: "${type}" ${taken} top: "out" ${parameters} }`;
}

async function run(type: string, parameters = '', blobs?: readonly TestBlob[]) {
  const text = inputText('data', SHAPE) + layerText(type, parameters);
  return (await runNet(text, blobs ? { l: blobs } : {}, { data: INPUT })).out;
}

test('Scale has a factor for each channel, a bias when it says so', async () => {
  const [scale, bias] = [
    [1, 2, 3],
    [-1, 0, 1],
  ];
  const channel = (i: number) => Math.floor(i / 4) % 3;
  assertClose(
    await run('Scale', 'scale_param { bias_term: true }', [
      { shape: [3], data: scale },
      { shape: [3], data: bias },
    ]),
    tensor(
      SHAPE,
      X.map((x, i) => x * (scale[channel(i)] as number) + (bias[channel(i)] as number)),
    ),
  );
});

test('Scale covers the axes it names', async () => {
  const factors = noise(4, 7);
  const out = await run('Scale', 'scale_param { axis: 2 num_axes: -1 }', [{ shape: [2, 2], data: factors }]);
  assertClose(
    out,
    tensor(
      SHAPE,
      X.map((x, i) => x * (factors[i % 4] as number)),
    ),
  );
  const one = await run('Scale', 'scale_param { num_axes: 0 }', [{ shape: [], data: [3] }]);
  assertClose(
    one,
    tensor(
      SHAPE,
      X.map((x) => 3 * x),
    ),
  );
});

test('Scale and Bias take a second input along their axis', async () => {
  const other = noiseTensor([2, 3], 5);
  for (const [type, parameters, formula] of [
    ['Scale', 'scale_param { axis: 0 }', (x: number, y: number) => x * y],
    ['Bias', 'bias_param { axis: 0 }', (x: number, y: number) => x + y],
  ] as const) {
    const text = `${inputText('data', SHAPE)} ${inputText('other', [2, 3])} ${layerText(type, parameters, ['data', 'other'])}`;
    const { out } = await runNet(text, {}, { data: INPUT, other });
    assertClose(
      out,
      tensor(
        SHAPE,
        X.map((x, i) => formula(x, other.data[Math.floor(i / 4)] as number)),
      ),
    );
  }
});

test('BatchNorm divides its stored sums by the third blob, and keeps zeros where that is 0', async () => {
  const blobs = (factor: number) => [
    { shape: [3], data: [2, 4, 6] },
    { shape: [3], data: [1, 2, 3] },
    { shape: [1], data: [factor] },
  ];
  const channel = (i: number) => Math.floor(i / 4) % 3;
  const formula = (by: number) =>
    X.map((x, i) => (x - [2, 4, 6][channel(i)]! * by) / Math.sqrt([1, 2, 3][channel(i)]! * by + 0.001));
  assertClose(
    await run('BatchNorm', 'batch_norm_param { eps: 0.001 }', blobs(4)),
    tensor(SHAPE, formula(0.25)),
  );
  assertClose(await run('BatchNorm', 'batch_norm_param { eps: 0.001 }', blobs(0)), tensor(SHAPE, formula(0)));
});

test('BatchNorm without stored statistics uses those of the batch, whose size then stays', async () => {
  const text =
    inputText('data', SHAPE) +
    layerText('BatchNorm', 'batch_norm_param { use_global_stats: false eps: 0.1 }');
  const { graph, notes } = await convertNet(text);
  assert.deepEqual(graph.inputs[0]?.shape, SHAPE);
  assert.match(notes.join(), /the batch stays 2/);
  const expected = X.map((x, i) => {
    const own = Array.from(X).filter((_, j) => Math.floor(j / 4) % 3 === Math.floor(i / 4) % 3);
    const mean = own.reduce((a, b) => a + b) / own.length;
    const variance = own.reduce((a, b) => a + (b - mean) ** 2, 0) / own.length;
    return (x - mean) / Math.sqrt(variance + 0.1);
  });
  assertClose((await runNet(text, {}, { data: INPUT })).out, tensor(SHAPE, expected));
});

test('BatchNorm, Scale and PReLU work on rows without a plane', async () => {
  const text = `${inputText('data', [2, 3])} layer { name: "n" type: "BatchNorm" bottom: "data" top: "data" batch_norm_param { eps: 0 } }
    layer { name: "s" type: "Scale" bottom: "data" top: "data" } layer { name: "p" type: "PReLU" bottom: "data" top: "out" }`;
  const blob = (...data: number[]) => ({ shape: [data.length], data });
  const weights = {
    n: [blob(1, 2, 3), blob(1, 4, 1), blob(1)],
    s: [blob(1, 2, 3)],
    p: [blob(0.1, 0.2, 0.3)],
  };
  const { out } = await runNet(text, weights, { data: tensor([2, 3], [2, 4, 3, 0, 0, 0]) });
  assertClose(out, tensor([2, 3], [1, 2, 0, -0.1, -0.4, -2.7]));
});

test('BN is slope, bias, mean and variance, or scale and shift once its statistics are absorbed', async () => {
  const [a, b, m, v] = [
    [1, 2, 3],
    [0, 1, 2],
    [0.5, 0, -0.5],
    [1, 4, 9],
  ] as const;
  const at = (list: readonly number[], i: number) => list[Math.floor(i / 4) % 3] as number;
  const four = [a, b, m, v].map((data) => ({ shape: [1, 3, 1, 1], data }));
  assertClose(
    await run('BN', 'bn_param { eps: 0.01 }', four),
    tensor(
      SHAPE,
      X.map((x, i) => (at(a, i) * (x - at(m, i))) / Math.sqrt(at(v, i) + 0.01) + at(b, i)),
    ),
  );
  assertClose(
    await run('BN', 'bn_param { bn_mode: INFERENCE }', four.slice(0, 2)),
    tensor(
      SHAPE,
      X.map((x, i) => x * at(a, i) + at(b, i)),
    ),
  );
});

test('MVN adds its eps to the deviation, over a channel or over all of them', async () => {
  for (const [parameters, size, divides] of [
    ['eps: 0.1', 4, true],
    ['across_channels: true eps: 0.1', 12, true],
    ['normalize_variance: false', 4, false],
  ] as const) {
    const expected = X.map((x, i) => {
      const own = X.slice(Math.floor(i / size) * size, (Math.floor(i / size) + 1) * size);
      const mean = own.reduce((a, b) => a + b) / size;
      const deviation = Math.sqrt(own.reduce((a, b) => a + (b - mean) ** 2, 0) / size);
      return divides ? (x - mean) / (deviation + 0.1) : x - mean;
    });
    assertClose(await run('MVN', `mvn_param { ${parameters} }`), tensor(SHAPE, expected));
  }
});

test('Normalize divides by the norm of the channels, or of the whole record', async () => {
  const norm = (indices: readonly number[]) =>
    Math.sqrt(indices.reduce((sum, i) => sum + (X[i] as number) ** 2, 0));
  const across = X.map((x, i) => {
    const first = Math.floor(i / 12) * 12;
    return (2 * x) / norm(Array.from({ length: 12 }, (_, j) => first + j));
  });
  assertClose(await run('Normalize', '', [{ shape: [1], data: [2] }]), tensor(SHAPE, across));
  const within = X.map((x, i) => {
    const first = Math.floor(i / 12) * 12 + (i % 4);
    return (x * ((Math.floor(i / 4) % 3) + 1)) / norm([first, first + 4, first + 8]);
  });
  const text = 'norm_param { across_spatial: false channel_shared: false }';
  assertClose(await run('Normalize', text, [{ shape: [3], data: [1, 2, 3] }]), tensor(SHAPE, within));
});
