/** Pillow's resizing of one axis: a picture that keeps its width is resized as its transposed one, which keeps its height. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type PillowFilter, pillowResizer } from '../../../../lib/codecs/image/pillow.ts';
import type { Pixels } from '../../../../lib/codecs/image/pixels.ts';
import type { Window } from '../../../../lib/codecs/image/resize.ts';

const FILTERS: readonly PillowFilter[] = ['nearest', 'box', 'bilinear', 'hamming', 'bicubic', 'lanczos'];

/** Every pixel differs from its neighbors. */
function drawn(width: number, height: number): Pixels {
  const data = Uint8Array.from({ length: 3 * width * height }, (_, i) => (i * 89 + (i >> 3) * 31) % 256);
  return { width, height, data };
}

function transposed({ width, height, data }: Pixels): Pixels {
  const turned = new Uint8Array(data.length);
  for (let y = 0; y < height; y++)
    for (let x = 0; x < width; x++)
      turned.set(data.subarray(3 * (y * width + x), 3 * (y * width + x + 1)), 3 * (x * height + y));
  return { width: height, height: width, data: turned };
}

function resized(
  pixels: Pixels,
  width: number,
  height: number,
  window: Window,
  filter: PillowFilter,
): Pixels {
  const resizer = pillowResizer(pixels, { width, height }, window, filter);
  const rows = Array.from({ length: window.height }, (_, y) => [
    ...resizer.row(window.top + y, new Uint8Array(3 * window.width)),
  ]);
  return { width: window.width, height: window.height, data: Uint8Array.from(rows.flat()) };
}

for (const filter of FILTERS)
  test(`${filter}: height alone is resized as width alone, whole and cut`, () => {
    for (const [from, to] of [
      [9, 4],
      [4, 9],
      [12, 5],
    ] as const) {
      const picture = drawn(7, from);
      const turned = transposed(picture);
      for (const [left, top] of [
        [0, 0],
        [2, 1],
      ] as const) {
        const window = { left, top, width: 7 - 2 * left, height: to - 2 * top };
        const other = { left: top, top: left, width: window.height, height: window.width };
        const down = resized(picture, 7, to, window, filter);
        assert.deepEqual(down, transposed(resized(turned, to, 7, other, filter)), `${from} to ${to}`);
        assert.equal(down.data.length, 3 * window.width * window.height);
        assert.ok(new Set(down.data).size > 10);
      }
    }
  });
