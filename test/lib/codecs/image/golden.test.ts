import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { describe, it } from 'node:test';
import { PNG } from 'pngjs';
import { DEFAULT_IMAGE, decodeImage, imageTensor } from '../../../../lib/codecs/image/image.ts';

const SHARED = new URL('../../../../../shared/', import.meta.url);
const GOLDEN = new URL('fixtures/zoo/derived/image_decode_golden.json', SHARED);
const skip = existsSync(GOLDEN) ? false : `${GOLDEN.pathname} is missing`;

interface GoldenImage {
  readonly name: string;
  readonly shape_hwc: readonly [number, number, number];
  readonly first5_hwc_flat: readonly number[];
  readonly first5_chw_flat: readonly number[];
  readonly mean_bgr: readonly number[];
  readonly sum: number;
}

function read(path: string): Buffer {
  return readFileSync(new URL(path, SHARED));
}

function isBase64(byte: number): boolean {
  return /[A-Za-z0-9+/=]/.test(String.fromCharCode(byte));
}

/** The old client's record keeps the JPEG as base64 text in an Arrow cell: the longest run of base64 in the bytes. */
function innerJpeg(): Buffer {
  const arrow = Buffer.from(
    read('fixtures/zoo/arrow/image-3_224_224-arrow-base64').toString('latin1'),
    'base64',
  );
  const start = arrow.indexOf('/9j/');
  let end = start;
  while (end < arrow.length && isBase64(arrow[end] ?? 0)) end++;
  return Buffer.from(arrow.toString('latin1', start, end), 'base64');
}

function encoded(name: string): Buffer {
  if (name.includes('inner jpeg')) return innerJpeg();
  if (name.endsWith('base64')) {
    return Buffer.from(read(`fixtures/zoo/arrow/${name}`).toString('latin1'), 'base64');
  }
  return read(`fixtures/zoo/images/${name}`);
}

function assertNear(actual: readonly number[], expected: readonly number[], tolerance: number): void {
  assert.equal(actual.length, expected.length);
  for (const [index, value] of expected.entries()) {
    assert.ok(
      Math.abs((actual[index] ?? Number.NaN) - value) <= tolerance,
      `${actual.join()} is not ${expected.join()}`,
    );
  }
}

function mean(levels: readonly number[]): number {
  return levels.reduce((total, level) => total + level, 0) / levels.length;
}

describe('images of the old system', { skip }, () => {
  const images: GoldenImage[] = skip === false ? JSON.parse(readFileSync(GOLDEN, 'utf8')).images : [];

  it('are five', () => {
    assert.equal(images.length, 5);
  });

  for (const golden of images) {
    it(`${golden.name} becomes the tensor OpenCV made of it, to 3 levels a pixel and 0.5 in the mean`, async () => {
      const pixels = await decodeImage(encoded(golden.name));
      const [height, width] = golden.shape_hwc;
      const chw = await imageTensor(pixels, DEFAULT_IMAGE, 'float32');
      assert.deepEqual(chw.shape, [3, height, width]);
      const planes = [...chw.data].map(Number);
      assertNear(planes.slice(0, 5), golden.first5_chw_flat, 3);
      const size = width * height;
      const means = [0, 1, 2].map((channel) => mean(planes.slice(channel * size, (channel + 1) * size)));
      assertNear(means, golden.mean_bgr, 0.5);
      assertNear([mean(planes)], [golden.sum / (3 * size)], 0.5);
      const hwc = await imageTensor(pixels, { ...DEFAULT_IMAGE, layout: 'hwc' }, 'float32');
      assert.deepEqual(hwc.shape, golden.shape_hwc);
      assertNear([...hwc.data].map(Number).slice(0, 5), golden.first5_hwc_flat, 3);
    });
  }

  for (const name of ['dog416.png', 'grace_hopper_227.png', 'street.png']) {
    it(`${name} decodes to the same bytes as with pngjs`, async () => {
      const bytes = read(`corpus/images/${name}`);
      const pixels = await decodeImage(bytes);
      const oracle = PNG.sync.read(bytes);
      assert.deepEqual([pixels.width, pixels.height], [oracle.width, oracle.height]);
      const rgb = oracle.data.filter((_, index) => index % 4 !== 3);
      assert.equal(Buffer.compare(rgb, pixels.data), 0);
    });
  }
});
