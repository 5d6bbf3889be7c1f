import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { LibJpeg } from '@cornerstonejs/codec-libjpeg-turbo-8bit/decodewasmjs';
import { decodeImage } from '../../../../lib/codecs/image/image.ts';
import { jpegDecoder, sharedDecoder } from '../../../../lib/codecs/image/libjpeg.ts';
import { ServingError } from '../../../../lib/contract/errors.ts';
import { assertDecoded, SMALL_JPEGS, smallJpeg } from '../../../support/jpegs.ts';

function refusal(code: string, message: RegExp) {
  return (error: unknown) => {
    assert.ok(error instanceof ServingError, String(error));
    assert.equal(error.code, code);
    assert.match(error.message, message);
    return true;
  };
}

describe('the JPEG decoder', () => {
  it('holds no more memory after 1,000 images, broken ones among them, than after the first', async () => {
    const jpeg = smallJpeg('progressive');
    // A comment of 65,535 bytes: 1,000 of these would not fit into the memory an instance starts with.
    const comment = Buffer.concat([Buffer.of(0xff, 0xfe, 0xff, 0xff), Buffer.alloc(65_533)]);
    const large = Buffer.concat([jpeg.bytes.subarray(0, 2), comment, jpeg.bytes.subarray(2)]);
    const damaged = Buffer.concat([large.subarray(0, -200), Buffer.of(0xff, 0xd9)]);
    await decodeImage(large);
    const before = sharedDecoder.memoryBytes();
    assert.ok(before > 0 && before < 1_000 * large.length);
    for (let count = 0; count < 1_000; count++) {
      if (count % 4 === 0) await assert.rejects(decodeImage(damaged));
      else await decodeImage(large);
    }
    assert.equal(sharedDecoder.memoryBytes(), before);
    assertDecoded(await decodeImage(large), jpeg);
  });

  it('decodes images that arrive together as it decodes them one by one', async () => {
    const decoded = await Promise.all(SMALL_JPEGS.map((jpeg) => decodeImage(jpeg.bytes)));
    for (const [index, jpeg] of SMALL_JPEGS.entries()) {
      const pixels = decoded[index];
      assert.ok(pixels !== undefined);
      assertDecoded(pixels, jpeg);
    }
  });

  /** A library that does what the test says when it decodes; every frame is 2x1. */
  function library(decode: () => void, memoryBytes = 1_024): LibJpeg {
    const memory = new Uint8Array(memoryBytes);
    class Decoder {
      getEncodedBuffer = (length: number) => memory.subarray(512, 512 + length);
      readHeader = () => {};
      getFrameInfo = () => ({ width: 2, height: 1, componentCount: 3 });
      decode = decode;
      getDecodedBuffer = () => new Uint8ClampedArray([1, 2, 3, 4, 5, 6]);
      delete = () => {};
    }
    return { JPEGDecoder: Decoder, HEAPU8: memory };
  }
  const size = { width: 2, height: 1 };
  const jpeg = Uint8Array.of(1);

  it('takes a new instance after one that trapped, and keeps one that only refused', async () => {
    const steps: (() => void)[] = [
      () => {},
      () => {
        // A number is what C++ exceptions arrive as.
        const thrown: unknown = 4_711;
        throw thrown;
      },
      () => {
        throw new Error('memory access out of bounds');
      },
      () => {},
    ];
    let opened = 0;
    const decoder = jpegDecoder(async () => {
      opened++;
      return library(() => steps.shift()?.());
    });
    assert.deepEqual([...(await decoder.decode(jpeg, size)).data], [1, 2, 3, 4, 5, 6]);
    await assert.rejects(decoder.decode(jpeg, size), refusal('bad_input', /damaged/));
    assert.equal(opened, 1);
    await assert.rejects(decoder.decode(jpeg, size), refusal('bad_input', /gave up .*out of bounds/));
    assert.equal(decoder.memoryBytes(), 0);
    assert.equal((await decoder.decode(jpeg, size)).width, 2);
    assert.equal(opened, 2);
  });

  it('lets go of an instance that has refused 10,000 images, since each leaves a little behind', async () => {
    let opened = 0;
    const decoder = jpegDecoder(async () => {
      opened++;
      return library(() => {
        const thrown: unknown = 4_711;
        throw thrown;
      });
    });
    for (let count = 0; count < 10_001; count++) await assert.rejects(decoder.decode(jpeg, size));
    assert.equal(opened, 2);
  });

  it('lets go of an instance whose memory has grown over 128 MiB', async () => {
    const grown = 128 * 1024 * 1024 + 1;
    const decoder = jpegDecoder(async () => library(() => {}, grown));
    await decoder.decode(jpeg, size);
    assert.equal(decoder.memoryBytes(), 0);
  });

  it('refuses an image whose size libjpeg reads differently', async () => {
    const decoder = jpegDecoder(async () => library(() => {}));
    const differs = decoder.decode(jpeg, { width: 3, height: 1 });
    await assert.rejects(differs, refusal('bad_input', /reads as 3x1 and as 2x1/));
  });

  it('is opened once for images that arrive together, and again after an open that failed', async () => {
    let opened = 0;
    const decoder = jpegDecoder(async () => {
      opened++;
      if (opened === 1) throw new Error('no such file');
      return library(() => {});
    });
    const first = [decoder.decode(jpeg, size), decoder.decode(jpeg, size)];
    for (const attempt of first) {
      await assert.rejects(attempt, refusal('internal', /JPEG decoder cannot be loaded: no such file/));
    }
    assert.equal(opened, 1);
    await Promise.all([decoder.decode(jpeg, size), decoder.decode(jpeg, size)]);
    assert.equal(opened, 2);
  });

  it('leaves process.type as it found it', async () => {
    await decodeImage(smallJpeg('grey').bytes);
    assert.equal(Object.hasOwn(process, 'type'), false);
  });
});
