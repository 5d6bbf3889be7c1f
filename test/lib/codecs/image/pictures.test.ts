import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { describe, it } from 'node:test';
import { decodeImage, imageSize } from '../../../../lib/codecs/image/image.ts';
import { ServingError } from '../../../../lib/contract/errors.ts';
import { PICTURES, pictureBytes } from '../../../support/pictures.ts';

/** The pixels as OpenCV's are noted, or why there are none. */
async function outcome(bytes: Uint8Array): Promise<string> {
  try {
    const { width, height, data } = await decodeImage(bytes);
    return `${width}x${height} ${createHash('sha256').update(data).digest('hex').slice(0, 16)}`;
  } catch (error) {
    assert.ok(error instanceof ServingError, String(error));
    return `${error.code}: ${error.message}`;
  }
}

for (const format of ['bmp', 'gif', 'tiff']) {
  describe(`pictures as ${format.toUpperCase()}`, () => {
    const pictures = PICTURES.filter(({ name }) => name.startsWith(`${format}-`));

    it('decode to the pixels of OpenCV, to the bit, or are refused with a reason', async () => {
      assert.ok(pictures.length >= 200, `${pictures.length}`);
      for (const { name, bytes, opencv, refused } of pictures) {
        const got = await outcome(bytes);
        if (refused === undefined) assert.equal(got, opencv, name);
        else {
          assert.match(got, /^(bad_input|unsupported_media_type|too_large): /, name);
          assert.ok(got.includes(refused), `${name}: ${got}`);
        }
      }
    });

    it('are refused wherever they are cut', async () => {
      const { name, bytes } = pictures.find(({ refused, bytes: { length } }) => !refused && length > 200)!;
      for (let length = 1; length < bytes.length; length++) {
        assert.match(await outcome(bytes.subarray(0, length)), /^bad_input: /, `${name}, ${length} bytes`);
      }
    });
  });
}

describe('imageSize', () => {
  it('reads the size as stored of a BMP, a GIF and a TIFF', () => {
    const sizes = ['bmp-rle8-0', 'gif-many-pixels', 'tiff-orientation-6-1'].map((name) =>
      imageSize(pictureBytes(name)),
    );
    assert.deepEqual(sizes, [
      { width: 300, height: 3, isColor: false },
      { width: 5, height: 4, isColor: false },
      { width: 5, height: 7, isColor: false },
    ]);
  });
});
