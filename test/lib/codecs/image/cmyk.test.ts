import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { decodeImage } from '../../../../lib/codecs/image/image.ts';
import { ServingError } from '../../../../lib/contract/errors.ts';
import fc from '../../../support/fast-check.ts';
import { CMYK_JPEG } from '../../../support/jpegs.ts';
import { differing, type Picture, picturesOf } from '../../../support/pictures.ts';

const PICTURES = picturesOf('cmyk');
const SOS = Buffer.of(0xff, 0xda);

/** From the last frame header on; of what comes before, bytes may look like one. */
function frameAt(bytes: Buffer): number {
  return Math.max(...[0xc0, 0xc1, 0xc2].map((marker) => bytes.lastIndexOf(Buffer.of(0xff, marker, 0, 20))));
}

function changed(bytes: Buffer, at: number, value: number): Buffer {
  const copy = Buffer.from(bytes);
  copy[at] = value;
  return copy;
}

describe('a JPEG of four components', () => {
  it('decodes to the very pixels of OpenCV: 200 pictures in CMYK and YCCK', async () => {
    assert.equal(PICTURES.length, 200);
    assert.deepEqual(await differing(PICTURES), []);
  });

  it('is refused when cut at any offset, also when an end marker follows, and the next one decodes', async () => {
    const whole = Buffer.from(CMYK_JPEG);
    for (let length = 12; length < whole.length - 2; length++) {
      const cut = whole.subarray(0, length);
      await assert.rejects(decodeImage(cut), { code: 'bad_input', message: /broken JPEG/ });
    }
    const scan = whole.indexOf(SOS);
    for (const length of [scan + 16, (scan + whole.length) >> 1]) {
      const cut = Buffer.concat([whole.subarray(0, length), Buffer.of(0xff, 0xd9)]);
      await assert.rejects(decodeImage(cut), { code: 'bad_input', message: /coded data is damaged/ });
    }
    assert.deepEqual(await differing([PICTURES[30] as Picture]), []);
  });

  it('is refused as unsupported where its codes are arithmetic, its black is largest or a scan holds three', async () => {
    const at = frameAt(CMYK_JPEG);
    const scan = CMYK_JPEG.indexOf(SOS);
    const three = Buffer.concat([
      CMYK_JPEG.subarray(0, scan),
      Buffer.of(0xff, 0xda, 0, 12, 3),
      CMYK_JPEG.subarray(scan + 5, scan + 11),
      CMYK_JPEG.subarray(scan + 13),
    ]);
    for (const [bytes, message] of [
      [changed(CMYK_JPEG, at + 1, 0xc9), /without Huffman codes/],
      [changed(CMYK_JPEG, at + 20, 0x22), /fourth component is the largest/],
      [three, /two or three components/],
    ] as const) {
      await assert.rejects(decodeImage(bytes), { code: 'unsupported_media_type', message });
    }
  });

  it('is refused with two frames, a missing table, or more scans than refine it', async () => {
    const at = frameAt(CMYK_JPEG);
    const scan = CMYK_JPEG.indexOf(SOS);
    const coded = CMYK_JPEG.subarray(scan, -2);
    const end = CMYK_JPEG.subarray(-2);
    const frame = CMYK_JPEG.subarray(at, at + 22);
    for (const bytes of [
      Buffer.concat([CMYK_JPEG.subarray(0, -2), frame, coded, end]),
      changed(CMYK_JPEG, scan + 6, 0x33),
      Buffer.concat([CMYK_JPEG.subarray(0, scan), ...Array.from({ length: 15 }, () => coded), end]),
    ]) {
      await assert.rejects(decodeImage(bytes), { code: 'bad_input', message: /broken JPEG/ });
    }
  });

  it('is decoded or refused with an error of ours, whatever its bytes become', async () => {
    const originals = [4, 9, 14, 30, 46, 47].map((index) => (PICTURES[index] as Picture).bytes);
    await fc.assert(
      fc.asyncProperty(
        fc.constantFrom(...originals),
        fc.array(fc.tuple(fc.nat(3_000), fc.nat(255)), { maxLength: 5 }),
        async (original, changes) => {
          const bytes = Buffer.from(original);
          for (const [index, value] of changes) bytes[index % bytes.length] = value;
          try {
            const { width, height, data } = await decodeImage(bytes);
            assert.equal(data.length, width * height * 3);
          } catch (error) {
            assert.ok(error instanceof ServingError && error.status < 500, String(error));
          }
        },
      ),
      { numRuns: 300 },
    );
  });
});
