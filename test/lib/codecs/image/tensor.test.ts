import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { FORMAT_NAMES } from '../../../../lib/codecs/image/formats.ts';
import {
  DEFAULT_IMAGE,
  decodeImage,
  type ImageSettings,
  imageSize,
  imageTensor as imageTensorOf,
} from '../../../../lib/codecs/image/image.ts';
import type { Pixels } from '../../../../lib/codecs/image/pixels.ts';
import { ServingError } from '../../../../lib/contract/errors.ts';
import type { NumericDType, Tensor } from '../../../../lib/contract/tensor.ts';
import fc from '../../../support/fast-check.ts';

/** Red 1 2 3 / 4 5 6, green ten and blue a hundred more. */
const STEPS: Pixels = {
  width: 3,
  height: 2,
  data: Uint8Array.from([1, 2, 3, 4, 5, 6].flatMap((level) => [level, level + 10, level + 100])),
};
const RED = [1, 2, 3, 4, 5, 6];
const GREEN = RED.map((level) => level + 10);
const BLUE = RED.map((level) => level + 100);

/** The tensor of a small image, which comes at once. */
function imageTensor(...given: Parameters<typeof imageTensorOf>): Tensor {
  const made = imageTensorOf(...given);
  assert.ok(!(made instanceof Promise));
  return made;
}

function values(
  pixels: Pixels,
  settings: Partial<ImageSettings>,
  dtype: NumericDType = 'float32',
): unknown[] {
  return [...imageTensor(pixels, { ...DEFAULT_IMAGE, ...settings }, dtype).data];
}

function refuses(
  settings: Partial<ImageSettings>,
  code: string,
  message: RegExp,
  dtype: NumericDType = 'float32',
) {
  assert.throws(
    () => imageTensor(STEPS, { ...DEFAULT_IMAGE, ...settings }, dtype),
    (error) => {
      assert.ok(error instanceof ServingError, String(error));
      assert.equal(error.code, code);
      assert.match(error.message, message);
      return true;
    },
  );
}

describe('imageTensor', () => {
  it('by default is float BGR planes of 0 to 255, as Cluster Serving fed its models', () => {
    const tensor = imageTensor(STEPS, DEFAULT_IMAGE, 'float32');
    assert.deepEqual(tensor.shape, [3, 2, 3]);
    assert.equal(tensor.dtype, 'float32');
    assert.ok(tensor.data instanceof Float32Array);
    assert.deepEqual([...tensor.data], [...BLUE, ...GREEN, ...RED]);
  });

  it('lays out rgb and bgr, chw and hwc as asked', () => {
    assert.deepEqual(values(STEPS, { channels: 'rgb' }), [...RED, ...GREEN, ...BLUE]);
    const hwc = imageTensor(STEPS, { ...DEFAULT_IMAGE, layout: 'hwc' }, 'float32');
    assert.deepEqual(hwc.shape, [2, 3, 3]);
    assert.deepEqual(
      [...hwc.data],
      RED.flatMap((level) => [level + 100, level + 10, level]),
    );
    assert.deepEqual(
      values(STEPS, { layout: 'hwc', channels: 'rgb' }),
      RED.flatMap((level) => [level, level + 10, level + 100]),
    );
  });

  it('grey is OpenCV BGR2GRAY, one channel in either layout', () => {
    const image = pattern(5, 4);
    // cv2.cvtColor(image(5, 4)[..., ::-1].copy(), cv2.COLOR_BGR2GRAY), OpenCV 5.0.0; image as in pattern() below.
    const expected = [
      43, 80, 117, 154, 191, 134, 178, 193, 87, 54, 196, 97, 71, 122, 173, 60, 118, 176, 205, 113,
    ];
    for (const layout of ['chw', 'hwc'] as const) {
      const tensor = imageTensor(image, { ...DEFAULT_IMAGE, channels: 'grey', layout }, 'uint8');
      assert.deepEqual(tensor.shape, layout === 'chw' ? [1, 4, 5] : [4, 5, 1]);
      assert.deepEqual([...tensor.data], expected);
    }
  });

  it('normalises as (pixel * scale - mean) / std, each output channel with its own numbers', () => {
    const settings = { channels: 'rgb', scale: 0.5, mean: [1, 2, 3], std: [2, 4, 8] } as const;
    assert.deepEqual(values(STEPS, settings), [
      ...RED.map((level) => (level * 0.5 - 1) / 2),
      ...GREEN.map((level) => (level * 0.5 - 2) / 4),
      ...BLUE.map((level) => (level * 0.5 - 3) / 8),
    ]);
    const [blue] = values(STEPS, { ...settings, channels: 'bgr' });
    assert.equal(blue, (101 * 0.5 - 1) / 2);
    assert.deepEqual(
      values(STEPS, { scale: 2, mean: [4], std: [0.5] }),
      [...BLUE, ...GREEN, ...RED].map((level) => (level * 2 - 4) / 0.5),
    );
  });

  it('rounds and clamps into whole-number inputs', () => {
    const settings = { channels: 'rgb', scale: 100, mean: [250] } as const;
    // (1..6, 11..16, 101..106) * 100 - 250
    assert.deepEqual(values(STEPS, settings, 'uint8').slice(0, 4), [0, 0, 50, 150]);
    assert.deepEqual(values(STEPS, settings, 'int8').slice(0, 4), [-128, -50, 50, 127]);
    assert.deepEqual(values(STEPS, settings, 'int16').slice(0, 3), [-150, -50, 50]);
    assert.deepEqual(values(STEPS, settings, 'uint16').slice(0, 3), [0, 0, 50]);
    assert.deepEqual(values(STEPS, settings, 'int32').slice(0, 3), [-150, -50, 50]);
    assert.deepEqual(values(STEPS, settings, 'uint32').slice(0, 3), [0, 0, 50]);
    assert.deepEqual(values(STEPS, settings, 'int64').slice(0, 3), [-150n, -50n, 50n]);
    assert.deepEqual(values(STEPS, settings, 'uint64').slice(0, 3), [0n, 0n, 50n]);
    assert.deepEqual(values(STEPS, { channels: 'rgb', scale: 0.3 }, 'uint8').slice(0, 4), [0, 1, 1, 1]);
    assert.deepEqual(values(STEPS, { scale: 1e30 }, 'int64').slice(0, 1), [2n ** 63n - 1n]);
    assert.deepEqual(values(STEPS, { scale: 1e30 }, 'uint64').slice(0, 1), [2n ** 64n - 1n]);
    assert.deepEqual(values(STEPS, { scale: -1e30 }, 'int64').slice(0, 1), [-(2n ** 63n)]);
    assert.deepEqual(values(STEPS, { scale: 1e30 }, 'uint32').slice(0, 1), [2 ** 32 - 1]);
  });

  it('float16 is the raw bits, float64 keeps what float32 cannot', () => {
    assert.deepEqual(
      values(STEPS, { channels: 'rgb', scale: 0.5 }, 'float16').slice(0, 4),
      [0x3800, 0x3c00, 0x3e00, 0x4000],
    );
    assert.deepEqual(values(STEPS, { channels: 'rgb', scale: 0.1 }, 'float64').slice(0, 3), [
      0.1,
      0.2,
      3 * 0.1,
    ]);
  });

  it('refuses settings that make no sense, naming the setting and its value', () => {
    refuses({ mean: [1, 2] }, 'bad_config', /mean must be 1 or 3 .* \[1,2\]/);
    refuses({ std: [] }, 'bad_config', /std must be 1 or 3 .* \[\]/);
    refuses({ channels: 'grey', mean: [1, 2, 3] }, 'bad_config', /mean must be 1 finite number/);
    refuses({ std: [1, 0, 1] }, 'bad_config', /std must not be 0/);
    refuses({ scale: Number.NaN }, 'bad_config', /scale .* NaN/);
    refuses({ mean: [Number.POSITIVE_INFINITY] }, 'bad_config', /mean .* \[Infinity\]/);
    refuses({ width: 0 }, 'bad_config', /width .* 0/);
    refuses({ height: 2.5 }, 'bad_config', /height .* 2\.5/);
    refuses({ width: 5_000, height: 5_000 }, 'too_large', /5000x5000 .* 16777216/);
    refuses({}, 'bad_input', /bool/, 'bool');
  });
});

/** The same image as in the OpenCV commands: (x * 37 + y * 91 + c * 53 + x * y * 7) % 256, c = 0 for red. */
function pattern(width: number, height: number): Pixels {
  const data = new Uint8Array(width * height * 3);
  for (const index of data.keys()) {
    const x = Math.floor(index / 3) % width;
    const y = Math.floor(index / 3 / width);
    data[index] = x * 37 + y * 91 + (index % 3) * 53 + x * y * 7;
  }
  return { width, height, data };
}

function resized(pixels: Pixels, width: number, height: number): number[] {
  return values(pixels, { width, height, channels: 'rgb', layout: 'hwc' }, 'uint8').map(Number);
}

/**
 * Expected values from OpenCV 5.0.0 and 4.10.0 (both the same), opencv-python-headless:
 * def image(w, h): return np.fromfunction(lambda y, x, c: (x*37 + y*91 + c*53 + x*y*7) % 256, (h, w, 3)).astype(np.uint8)
 * cv2.resize(image(5, 4), (3, 2)).ravel().tolist()
 */
describe('resizing', () => {
  const small: readonly (readonly [
    from: readonly [number, number],
    to: readonly [number, number],
    number[],
  ])[] = [
    [
      [5, 4],
      [3, 2],
      [59, 112, 165, 127, 180, 105, 109, 119, 172, 118, 128, 96, 81, 134, 187, 171, 139, 149],
    ],
    [
      [3, 2],
      [5, 4],
      [
        0, 53, 106, 15, 68, 121, 37, 90, 143, 59, 112, 165, 74, 127, 180, 23, 76, 129, 38, 91, 144, 62, 115,
        168, 85, 138, 152, 100, 153, 142, 68, 121, 174, 85, 138, 191, 111, 164, 217, 136, 189, 127, 153, 206,
        67, 91, 144, 197, 108, 161, 214, 135, 188, 241, 161, 214, 114, 179, 232, 29,
      ],
    ],
    [
      [4, 4],
      [2, 2],
      [66, 119, 172, 147, 136, 125, 127, 116, 105, 108, 161, 150],
    ],
    [
      [7, 5],
      [7, 3],
      [
        30, 83, 136, 70, 122, 176, 109, 162, 129, 148, 116, 169, 102, 155, 208, 142, 195, 77, 181, 63, 116,
        182, 235, 32, 233, 30, 83, 28, 81, 134, 79, 132, 185, 130, 183, 236, 181, 234, 31, 232, 29, 82, 77,
        131, 184, 140, 193, 76, 203, 85, 138, 95, 148, 115, 158, 125, 178, 135, 188, 70, 198, 80, 133,
      ],
    ],
    [
      [1, 1],
      [3, 2],
      [0, 53, 106, 0, 53, 106, 0, 53, 106, 0, 53, 106, 0, 53, 106, 0, 53, 106],
    ],
  ];
  for (const [from, to, expected] of small) {
    it(`${from.join('x')} to ${to.join('x')} gives the very bytes of OpenCV`, () => {
      assert.deepEqual(resized(pattern(...pair(from)), ...pair(to)), expected);
    });
  }

  it('larger images give the checksums of OpenCV, smaller and larger than they were', () => {
    // r = cv2.resize(image(50, 37), (22, 31)).ravel().astype(np.int64); r.sum(), (r * (np.arange(r.size) % 251)).sum()
    const sums = (levels: number[]) => [
      levels.reduce((total, level) => total + level, 0),
      levels.reduce((total, level, index) => total + level * (index % 251), 0),
    ];
    assert.deepEqual(sums(resized(pattern(50, 37), 22, 31)), [260_222, 32_007_302]);
    assert.deepEqual(sums(resized(pattern(50, 37), 111, 70)), [2_965_743, 369_587_065]);
    // 2 to 4096 pixels: every weight is a tie, which OpenCV rounds to even.
    const two = { width: 2, height: 1, data: Uint8Array.of(0, 255, 7, 255, 3, 200) };
    assert.deepEqual(sums(resized(two, 4096, 1)), [1_474_566, 184_472_840]);
  });

  it('two pixels made four are the hand-computed quarter steps, edges clamped', () => {
    const pixels = { width: 2, height: 1, data: Uint8Array.of(0, 0, 0, 100, 200, 40) };
    // Centres -0.25, 0.25, 0.75, 1.25 on the source: 0, a quarter, three quarters, 1.
    assert.deepEqual(resized(pixels, 4, 1), [0, 0, 0, 25, 50, 10, 75, 150, 30, 100, 200, 40]);
  });

  it('one given side leaves the other unchanged', () => {
    const tensor = imageTensor(pattern(5, 4), { ...DEFAULT_IMAGE, width: 2 }, 'float32');
    assert.deepEqual(tensor.shape, [3, 4, 2]);
    assert.deepEqual(imageTensor(pattern(5, 4), { ...DEFAULT_IMAGE, height: 2 }, 'float32').shape, [3, 2, 5]);
  });

  it('stays within the levels of the image, for any sizes', () => {
    const side = fc.integer({ min: 1, max: 40 });
    fc.assert(
      fc.property(side, side, side, side, fc.nat(255), fc.nat(255), (w, h, toW, toH, one, other) => {
        const data = Uint8Array.from({ length: w * h * 3 }, (_, index) => (index % 7 < 3 ? one : other));
        const levels = resized({ width: w, height: h, data }, toW, toH);
        assert.equal(levels.length, toW * toH * 3);
        // OpenCV's fixed point may fall one level short.
        const low = Math.max(0, Math.min(...data) - 1);
        const high = Math.max(...data);
        assert.ok(levels.every((level) => level >= low && level <= high));
      }),
      { numRuns: 300 },
    );
  });
});

function pair(numbers: readonly [number, number]): [number, number] {
  return [numbers[0], numbers[1]];
}

describe('an image of another format', () => {
  const formats: readonly (readonly [name: string, start: string])[] = [
    ['AVIF', '\0\0\0\x20ftypavif'],
    ['HEIC', '\0\0\0\x18ftypheic'],
    ['JPEG 2000', '\0\0\0\x0cjP  \r\n'],
    ['JPEG XL', '\xff\x0a\x01'],
    ['PDF', '%PDF-1.7'],
    ['SVG', '<svg xmlns="http://www.w3.org/2000/svg">'],
    ['SVG', '\xef\xbb\xbf <?xml version="1.0"?>'],
  ];
  for (const [name, start] of formats) {
    it(`is refused as unsupported and called ${name} when it begins with ${JSON.stringify(start)}`, async () => {
      const bytes = Buffer.from(`${start} and more`, 'latin1');
      const isRefusal = (error: unknown) =>
        error instanceof ServingError &&
        error.code === 'unsupported_media_type' &&
        error.message === `expected a ${FORMAT_NAMES} image, got ${name}`;
      await assert.rejects(decodeImage(bytes), isRefusal);
      assert.throws(() => imageSize(bytes), isRefusal);
    });
  }

  it('is bad input when it is empty or unknown, and the message shows how it begins', async () => {
    await assert.rejects(decodeImage(new Uint8Array(0)), { code: 'bad_input', message: /got 0 bytes/ });
    const unknown = decodeImage(Uint8Array.of(1, 2, 0xab));
    await assert.rejects(unknown, { code: 'bad_input', message: /got 3 bytes that begin with 0x0102ab$/ });
  });

  it('is refused with an error of ours, for any bytes', async () => {
    await fc.assert(
      fc.asyncProperty(fc.uint8Array({ maxLength: 200 }), async (bytes) => {
        await assert.rejects(
          decodeImage(bytes),
          (error) => error instanceof ServingError && error.status < 500,
        );
      }),
      { numRuns: 500 },
    );
  });
});
