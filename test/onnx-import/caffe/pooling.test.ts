/** Pooling, its masks and SPP, against plain loops over Caffe's own formulas. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Tensor } from '../../../lib/contract/tensor.ts';
import { assertClose, convertNet, inputText, noiseTensor, runNet, tensor } from '../support/caffe/net.ts';
import { make, reader } from '../support/caffe/planes.ts';

interface Pool {
  readonly kernel: readonly [number, number];
  readonly stride: readonly [number, number];
  readonly pad: readonly [number, number];
  readonly floor?: boolean;
}

/** Caffe's pooling_layer.cpp in plain loops. */
function naivePool(input: Tensor, method: 'MAX' | 'AVE', { kernel, stride, pad, floor }: Pool): Tensor {
  const [n = 1, c = 1, h = 1, w = 1] = input.shape;
  const size = (length: number, axis: 0 | 1) => {
    const span = (length + 2 * pad[axis] - kernel[axis]) / stride[axis];
    const count = (floor ? Math.floor(span) : Math.ceil(span)) + 1;
    const clips = pad[0] > 0 || pad[1] > 0;
    return clips && (count - 1) * stride[axis] >= length + pad[axis] ? count - 1 : count;
  };
  const read = reader(input);
  return make([n, c, size(h, 0), size(w, 1)], (a, b, py, px) => {
    const [top, left] = [py * stride[0] - pad[0], px * stride[1] - pad[1]];
    const [bottom, right] = [Math.min(top + kernel[0], h + pad[0]), Math.min(left + kernel[1], w + pad[1])];
    let [sum, max] = [0, -3.4028234663852886e38];
    for (let y = top; y < bottom; y++)
      for (let x = left; x < right; x++) {
        const value = read(a, b, y, x);
        if (value === undefined) continue;
        sum += value;
        max = Math.max(max, value);
      }
    return method === 'MAX' ? max : sum / ((bottom - top) * (right - left));
  });
}

function poolText(method: string, { kernel, stride, pad, floor }: Pool): string {
  return `layer { name: "pool" type: "Pooling" bottom: "data" top: "out" pooling_param { pool: ${method}
    kernel_h: ${kernel[0]} kernel_w: ${kernel[1]} stride_h: ${stride[0]} stride_w: ${stride[1]}
    pad_h: ${pad[0]} pad_w: ${pad[1]} ${floor ? 'round_mode: FLOOR' : ''} } }`;
}

const POOLS: readonly (Pool & { readonly plane: readonly [number, number] })[] = [
  { plane: [7, 8], kernel: [3, 3], stride: [2, 2], pad: [0, 0] },
  { plane: [7, 8], kernel: [3, 3], stride: [2, 2], pad: [1, 1] },
  { plane: [8, 8], kernel: [2, 2], stride: [2, 2], pad: [1, 1] },
  { plane: [9, 6], kernel: [3, 5], stride: [2, 1], pad: [2, 1] },
  { plane: [7, 7], kernel: [2, 3], stride: [3, 2], pad: [1, 0] },
  { plane: [7, 8], kernel: [3, 3], stride: [2, 2], pad: [0, 0], floor: true },
  { plane: [8, 9], kernel: [3, 3], stride: [2, 2], pad: [1, 1], floor: true },
  { plane: [5, 5], kernel: [5, 5], stride: [1, 1], pad: [0, 0] },
];

for (const method of ['MAX', 'AVE'] as const)
  for (const pool of POOLS)
    test(`${method} pooling of ${pool.plane.join('x')} with ${JSON.stringify(pool)} counts windows as Caffe does`, async () => {
      const input = noiseTensor([2, 3, ...pool.plane]);
      const { out } = await runNet(
        inputText('data', [1, 3, ...pool.plane]) + poolText(method, pool),
        {},
        { data: input },
      );
      assertClose(out, naivePool(input, method, pool));
    });

test('MAX pooling with a stride longer than its kernel gives the lowest float for a window beyond the edge', async () => {
  const pool: Pool = { kernel: [1, 1], stride: [2, 2], pad: [0, 0] };
  const input = noiseTensor([1, 1, 4, 5]);
  const { out } = await runNet(inputText('data', [1, 1, 4, 5]) + poolText('MAX', pool), {}, { data: input });
  assert.deepEqual(out?.shape, [1, 1, 3, 3]);
  assertClose(out, naivePool(input, 'MAX', pool));
});

test('MAX pooling over free sizes counts windows as over fixed ones', async () => {
  const pool: Pool = { kernel: [3, 3], stride: [2, 2], pad: [1, 1] };
  const text = inputText('data', [1, 2, 4, 4]) + poolText('MAX', pool);
  for (const plane of [
    [7, 8],
    [8, 9],
  ]) {
    const input = noiseTensor([1, 2, ...plane]);
    const { out } = await runNet(text, {}, { data: input }, { inputShapes: { data: ['N', 2, 'H', 'W'] } });
    assertClose(out, naivePool(input, 'MAX', pool));
  }
});

test('global pooling gives one number for each channel', async () => {
  const input = noiseTensor([2, 3, 4, 5]);
  for (const method of ['MAX', 'AVE'] as const) {
    const text = `layer { name: "g" type: "Pooling" bottom: "data" top: "out" pooling_param { pool: ${method} global_pooling: true } }`;
    const { out } = await runNet(inputText('data', [2, 3, 4, 5]) + text, {}, { data: input });
    assertClose(out, naivePool(input, method, { kernel: [4, 5], stride: [1, 1], pad: [0, 0] }));
  }
});

test('ceil_mode false rounds the number of windows down', async () => {
  const text = `layer { name: "p" type: "Pooling" bottom: "data" top: "out" pooling_param { kernel_size: 2 stride: 2 ceil_mode: false } }`;
  const { out } = await runNet(
    inputText('data', [1, 1, 5, 5]) + text,
    {},
    { data: noiseTensor([1, 1, 5, 5]) },
  );
  assert.deepEqual(out?.shape, [1, 1, 2, 2]);
});

test('stochastic pooling is refused', async () => {
  const text = `layer { name: "p" type: "Pooling" bottom: "data" top: "out" pooling_param { pool: STOCHASTIC kernel_size: 2 } }`;
  await assert.rejects(convertNet(inputText('data', [1, 1, 5, 5]) + text), {
    code: 'bad_model',
    message: /Pooling \(node "p"\): stochastic pooling is not supported/,
  });
});

test('the mask of a pooling holds positions in the plane, and Upsample puts values back there', async () => {
  const input = noiseTensor([2, 3, 6, 4]);
  const text = `${inputText('data', [2, 3, 6, 4])}
    layer { name: "p" type: "Pooling" bottom: "data" top: "pooled" top: "mask" pooling_param { kernel_size: 2 stride: 2 } }
    layer { name: "u" type: "Upsample" bottom: "pooled" bottom: "mask" top: "out" upsample_param { scale: 2 } }`;
  const results = await runNet(text, {}, { data: input }, { outputNames: ['mask', 'out'] });
  const read = reader(input);
  const places = make([2, 3, 3, 2], (n, c, y, x) => {
    let best = [2 * y, 2 * x] as [number, number];
    for (const [dy, dx] of [
      [0, 1],
      [1, 0],
      [1, 1],
    ] as const)
      if ((read(n, c, 2 * y + dy, 2 * x + dx) as number) > (read(n, c, ...best) as number))
        best = [2 * y + dy, 2 * x + dx];
    return best[0] * 4 + best[1];
  });
  assertClose(results.mask, places);
  const place = reader(places);
  assertClose(
    results.out,
    make([2, 3, 6, 4], (n, c, y, x) =>
      place(n, c, y >> 1, x >> 1) === y * 4 + x ? (read(n, c, y, x) as number) : 0,
    ),
  );
});

test('Upsample refuses a mask of a plane of another size', async () => {
  const text = `${inputText('data', [1, 1, 5, 5])}
    layer { name: "p" type: "Pooling" bottom: "data" top: "pooled" top: "mask" pooling_param { kernel_size: 2 stride: 2 } }
    layer { name: "u" type: "Upsample" bottom: "pooled" bottom: "mask" top: "out" upsample_param { SIZE } }`;
  await assert.rejects(convertNet(text.replace('SIZE', 'scale: 2')), {
    code: 'bad_model',
    message: /Upsample \(node "u"\): makes 6x6, the mask is of a plane of 5x5/,
  });
  const input = noiseTensor([1, 1, 5, 5]);
  const { out } = await runNet(text.replace('SIZE', 'upsample_h: 5 upsample_w: 5'), {}, { data: input });
  assert.deepEqual(out?.shape, [1, 1, 5, 5]);
  const pooled = naivePool(input, 'MAX', { kernel: [2, 2], stride: [2, 2], pad: [0, 0] });
  const kept = new Set(Array.from(pooled.data as Float32Array));
  assert.deepEqual(
    Array.from(out?.data as Float32Array),
    Array.from(input.data as Float32Array, (x) => (kept.has(x) ? x : 0)),
  );
});

test('Upsample by a scale repeats each element', async () => {
  const input = noiseTensor([1, 2, 3, 2]);
  const text = `layer { name: "u" type: "Upsample" bottom: "data" top: "out" upsample_param { scale: 3 } }`;
  const { out } = await runNet(inputText('data', [1, 2, 3, 2]) + text, {}, { data: input });
  const read = reader(input);
  assertClose(
    out,
    make([1, 2, 9, 6], (n, c, y, x) => read(n, c, Math.floor(y / 3), Math.floor(x / 3)) as number),
  );
});

test('SPP lays the poolings of 1, 4 and 16 bins side by side', async () => {
  const input = noiseTensor([2, 2, 9, 7]);
  const text = `layer { name: "s" type: "SPP" bottom: "data" top: "out" spp_param { pyramid_height: 3 pool: MAX } }`;
  const { out } = await runNet(inputText('data', [1, 2, 9, 7]) + text, {}, { data: input });
  const levels = [1, 2, 4].map((bins) => {
    const kernel = [Math.ceil(9 / bins), Math.ceil(7 / bins)] as const;
    const pad = [
      Math.floor((kernel[0] * bins - 9 + 1) / 2),
      Math.floor((kernel[1] * bins - 7 + 1) / 2),
    ] as const;
    return naivePool(input, 'MAX', { kernel, stride: kernel, pad });
  });
  const rows = [0, 1].map((n) =>
    levels.flatMap(({ data }) =>
      Array.from(data.slice((n * data.length) / 2, ((n + 1) * data.length) / 2) as Float32Array),
    ),
  );
  assertClose(out, tensor([2, 2 * 21], rows.flat()));
});
