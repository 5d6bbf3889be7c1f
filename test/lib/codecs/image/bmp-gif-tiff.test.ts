import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { decodeImage, imageSize } from '../../../../lib/codecs/image/image.ts';
import { ServingError } from '../../../../lib/contract/errors.ts';
import { differing, type Picture, pictureBytes, picturesOf } from '../../../support/pictures.ts';

/** Why a picture is refused; what it decodes to, when it is not. */
async function refusalOf(bytes: Uint8Array): Promise<string> {
  try {
    const { width, height } = await decodeImage(bytes);
    return `${width}x${height} pixels`;
  } catch (error) {
    assert.ok(error instanceof ServingError, String(error));
    return `${error.code}: ${error.message}`;
  }
}

for (const format of ['bmp', 'gif', 'tiff']) {
  describe(format.toUpperCase(), () => {
    const all = picturesOf(format);
    const pictures = all.filter(({ refused }) => refused === undefined);

    it('over 200 pictures decode to the very pixels of OpenCV', async () => {
      assert.ok(pictures.length > 200, `${pictures.length}`);
      assert.deepEqual(await differing(pictures), []);
    });

    it('what is too large, broken or of another kind is refused for that', async () => {
      for (const { name, bytes, refused } of all.filter((picture) => !pictures.includes(picture))) {
        const message = await refusalOf(bytes);
        assert.match(message, /^(bad_input|unsupported_media_type|too_large): /, name);
        assert.ok(message.includes(refused!), `${name}: ${message}`);
      }
    });

    it('a picture is refused wherever it is cut', async () => {
      const { name, bytes } = pictures.find((picture) => picture.bytes.length > 200) as Picture;
      for (let length = 1; length < bytes.length; length++) {
        assert.match(await refusalOf(bytes.subarray(0, length)), /^bad_input: /, `${name}, ${length} bytes`);
      }
    });
  });
}

describe('imageSize', () => {
  it('reads the size as stored of a BMP, a GIF and a TIFF', () => {
    const names = ['bmp-rle8-0', 'gif-many-pixels', 'tiff-orientation-6-1'];
    assert.deepEqual(
      names.map((name) => imageSize(pictureBytes(name))),
      [
        { width: 300, height: 3, isColor: false },
        { width: 5, height: 4, isColor: false },
        { width: 5, height: 7, isColor: false },
      ],
    );
  });
});
