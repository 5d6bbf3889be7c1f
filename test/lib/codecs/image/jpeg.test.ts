import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { decodeImage, imageSize } from '../../../../lib/codecs/image/image.ts';
import type { Pixels } from '../../../../lib/codecs/image/pixels.ts';
import { ServingError } from '../../../../lib/contract/errors.ts';
import { LIMITS } from '../../../../lib/contract/limits.ts';
import fc from '../../../support/fast-check.ts';
import { assertDecoded, CMYK_JPEG, pixelAt, SMALL_JPEGS, smallJpeg } from '../../../support/jpegs.ts';
import { orientationBlock } from '../../../support/tiff.ts';

const END = Buffer.of(0xff, 0xd9);

function refusal(code: string, message: RegExp) {
  return (error: unknown) => {
    assert.ok(error instanceof ServingError, String(error));
    assert.equal(error.code, code);
    assert.match(error.message, message);
    return true;
  };
}

function segment(marker: number, body: Uint8Array): Buffer {
  const head = Buffer.of(0xff, marker, (body.length + 2) >> 8, (body.length + 2) & 255);
  return Buffer.concat([head, body]);
}

/** `bytes` with segments put right after the start of the image. */
function withSegments(bytes: Buffer, ...segments: readonly Buffer[]): Buffer {
  return Buffer.concat([bytes.subarray(0, 2), ...segments, bytes.subarray(2)]);
}

function exif(orientation: number, littleEndian = true): Buffer {
  return segment(0xe1, Buffer.concat([Buffer.from('Exif\0\0'), orientationBlock(orientation, littleEndian)]));
}

/** A baseline JPEG with nothing but a frame header and an empty scan. */
function headerOnly(width: number, height: number, precision = 8, components = 3): Buffer {
  const frame = Buffer.alloc(6 + 3 * components);
  frame.set([precision, height >> 8, height & 255, width >> 8, width & 255, components]);
  return Buffer.concat([Buffer.of(0xff, 0xd8), segment(0xc0, frame), segment(0xda, Buffer.alloc(10)), END]);
}

describe('JPEG', () => {
  for (const jpeg of SMALL_JPEGS) {
    it(`${jpeg.name} decodes to what OpenCV decodes`, async () => {
      assertDecoded(await decodeImage(jpeg.bytes), jpeg);
    });
  }

  it('each EXIF orientation turns the image the way OpenCV turns it, in both byte orders', async () => {
    const { bytes } = smallJpeg('baseline420');
    const stored = await decodeImage(bytes);
    // Where the stored corners 0,0 and 19,0 and 0,11 go: measured with cv2.imdecode on files of orientation 1 to 8.
    const corners = { tl: [0, 0], tr: [1, 0], bl: [0, 1], br: [1, 1] } as const;
    const expected = [
      ['tl', 'tr', 'bl'],
      ['tr', 'tl', 'br'],
      ['br', 'bl', 'tr'],
      ['bl', 'br', 'tl'],
      ['tl', 'bl', 'tr'],
      ['tr', 'br', 'tl'],
      ['br', 'tr', 'bl'],
      ['bl', 'tl', 'br'],
    ] as const;
    for (const [index, places] of expected.entries()) {
      for (const littleEndian of [true, false]) {
        const turned = await decodeImage(withSegments(bytes, exif(index + 1, littleEndian)));
        assert.deepEqual([turned.width, turned.height], index < 4 ? [20, 12] : [12, 20]);
        for (const [from, place] of (
          [
            [0, 0],
            [19, 0],
            [0, 11],
          ] as const
        ).entries()) {
          const [right, bottom] = corners[places[from] ?? 'tl'];
          const to = pixelAt(turned, right * (turned.width - 1), bottom * (turned.height - 1));
          assert.deepEqual(to, pixelAt(stored, place[0], place[1]), `orientation ${index + 1}`);
        }
        // And no pixel is lost or doubled.
        assert.deepEqual(turned.data.toSorted(), stored.data.toSorted());
      }
    }
  });

  it('a garbled EXIF block leaves the image as stored', async () => {
    const jpeg = smallJpeg('baseline420');
    const block = orientationBlock(6, true);
    const garbled = [
      Buffer.alloc(0),
      block.subarray(0, 9),
      block.subarray(0, 21),
      orientationBlock(0, true),
      orientationBlock(9, false),
      Buffer.concat([Buffer.from('XX'), block.subarray(2)]),
      Buffer.concat([block.subarray(0, 4), Buffer.of(255, 255, 255, 255), block.subarray(8)]),
    ];
    for (const body of garbled) {
      const app1 = segment(0xe1, Buffer.concat([Buffer.from('Exif\0\0'), body]));
      assertDecoded(await decodeImage(withSegments(jpeg.bytes, app1)), jpeg);
    }
  });

  it('of two EXIF segments the first counts, as in OpenCV', async () => {
    const { bytes } = smallJpeg('baseline420');
    const sizes: number[] = [];
    for (const [one, two] of [
      [6, 3],
      [1, 6],
    ] as const) {
      sizes.push((await decodeImage(withSegments(bytes, exif(one), exif(two)))).width);
    }
    assert.deepEqual(sizes, [12, 20]);
  });

  it('fill bytes before a marker are skipped', async () => {
    const jpeg = smallJpeg('baseline420');
    assertDecoded(await decodeImage(withSegments(jpeg.bytes, Buffer.alloc(3, 0xff))), jpeg);
  });

  it('an end marker inside an EXIF thumbnail is not the end of the image', async () => {
    const jpeg = smallJpeg('baseline420');
    const thumbnail = Buffer.concat([Buffer.from('Exif\0\0'), orientationBlock(1, true), jpeg.bytes]);
    assertDecoded(await decodeImage(withSegments(jpeg.bytes, segment(0xe1, thumbnail))), jpeg);
  });

  it('stray bytes between the last scan and the end marker, as cameras write them, do no harm', async () => {
    for (const jpeg of SMALL_JPEGS) {
      for (const count of [3, 40]) {
        const bytes = Buffer.concat([jpeg.bytes.subarray(0, -2), Buffer.alloc(count, 7), END]);
        assertDecoded(await decodeImage(bytes), jpeg);
      }
    }
  });

  it('damage is refused even when stray bytes follow it, and after an image with stray bytes', async () => {
    const { bytes } = smallJpeg('restarts');
    const stray = Buffer.concat([bytes.subarray(0, -2), Buffer.alloc(9, 7), END]);
    const damaged = Buffer.from(stray);
    // The number of a restart marker.
    const marker = damaged.lastIndexOf(Buffer.of(0xff, 0xd1));
    assert.ok(marker > 0);
    damaged[marker + 1] = 0xd6;
    await decodeImage(stray);
    await assert.rejects(decodeImage(damaged), refusal('bad_input', /damaged/));
    await decodeImage(stray);
  });

  it('bytes after the end marker are ignored', async () => {
    const jpeg = smallJpeg('progressive');
    assertDecoded(await decodeImage(Buffer.concat([jpeg.bytes, Buffer.alloc(99, 0xff)])), jpeg);
  });

  it('imageSize reads no further than the first scan', () => {
    const { bytes } = smallJpeg('grey');
    const start = bytes.indexOf(Buffer.of(0xff, 0xda));
    const { width, height, isColor } = imageSize(bytes.subarray(0, start + 2));
    assert.deepEqual([width, height, isColor], [20, 12, false]);
  });
});

describe('a JPEG is refused', () => {
  it('when cut at any offset', async () => {
    for (const { bytes } of SMALL_JPEGS) {
      for (let length = 1; length < bytes.length; length++) {
        await assert.rejects(
          decodeImage(bytes.subarray(0, length)),
          refusal('bad_input', /ends at byte|begin with/),
        );
      }
    }
  });

  it('when its coded data is cut and an end marker is put there', async () => {
    const { bytes } = smallJpeg('baseline420');
    const start = bytes.indexOf(Buffer.of(0xff, 0xda)) + 14;
    for (let length = start; length < bytes.length - 12; length += 7) {
      const cut = Buffer.concat([bytes.subarray(0, length), END]);
      await assert.rejects(decodeImage(cut), refusal('bad_input', /broken JPEG: its coded data is damaged/));
    }
  });

  it('when its header claims more pixels than the limit, naming both', async () => {
    await assert.rejects(
      decodeImage(headerOnly(65_500, 65_500)),
      refusal('too_large', /65500x65500 .* 16777216 .*imagePixels/),
    );
  });

  it('when it has more bytes than the limit, naming both', async () => {
    const bytes = new Uint8Array(LIMITS.imageBytes + 1);
    await assert.rejects(
      decodeImage(bytes),
      refusal('too_large', /33554433 bytes .* 33554432 \(imageBytes\)/),
    );
  });

  it('when it has 12 bits or two components: as unsupported, saying which', async () => {
    await assert.rejects(decodeImage(headerOnly(8, 8, 12)), refusal('unsupported_media_type', /12 bits/));
    await assert.rejects(
      decodeImage(headerOnly(8, 8, 8, 2)),
      refusal('unsupported_media_type', /2 components/),
    );
  });

  it('when it asks for more scans than any encoder writes', async () => {
    const { bytes } = smallJpeg('progressive');
    const last = bytes.subarray(bytes.lastIndexOf(Buffer.of(0xff, 0xda)), -2);
    const many = Array.from({ length: 60 }, () => last);
    const bomb = Buffer.concat([bytes.subarray(0, -2), ...many, END]);
    await assert.rejects(decodeImage(bomb), refusal('bad_input', /more than 50 scans/));
    // Each scan is a walk over all pixels, so the largest image has fewer.
    const frame = bytes.indexOf(Buffer.of(0xff, 0xc2));
    const large = Buffer.from(bomb);
    large.writeUInt16BE(4_096, frame + 5);
    large.writeUInt16BE(4_096, frame + 7);
    await assert.rejects(decodeImage(large), refusal('bad_input', /more than 20 scans/));
  });

  const { bytes } = smallJpeg('baseline420');
  const frameAt = bytes.indexOf(Buffer.of(0xff, 0xc0));
  const frame = bytes.subarray(frameAt, frameAt + 2 + bytes.readUInt16BE(frameAt + 2));
  const scanAt = bytes.indexOf(Buffer.of(0xff, 0xda));
  const cases: readonly (readonly [what: string, bytes: Buffer, message: RegExp])[] = [
    ['width 0', headerOnly(0, 8), /0x8 pixels/],
    ['height 0', headerOnly(8, 0), /8x0 pixels/],
    ['two frame headers', withSegments(bytes, frame), /two frame headers/],
    [
      'a scan before its frame header',
      withSegments(bytes, segment(0xda, Buffer.alloc(10))),
      /before the frame/,
    ],
    [
      'a frame header of the wrong length',
      withSegments(bytes, segment(0xc0, frame.subarray(4, -1))),
      /wrong length/,
    ],
    [
      'a segment shorter than its own length',
      withSegments(bytes, Buffer.of(0xff, 0xe0, 0, 1)),
      /has length 1/,
    ],
    [
      'bytes between its segments',
      withSegments(bytes, Buffer.of(0xff, 0xfe, 0, 2), Buffer.from('zz')),
      /no marker at byte 6/,
    ],
    [
      'an end marker before any scan',
      Buffer.concat([bytes.subarray(0, scanAt), END]),
      /unexpected marker 0xd9/,
    ],
    ['a second start', withSegments(bytes, Buffer.of(0xff, 0xd8)), /unexpected marker 0xd8/],
    [
      'too many segments',
      withSegments(bytes, ...Array.from({ length: 1_001 }, () => segment(0xfe, Buffer.alloc(0)))),
      /more than 1000 segments/,
    ],
    [
      'no quantisation table',
      Buffer.concat([bytes.subarray(0, 2), bytes.subarray(frameAt)]),
      /damaged|header/,
    ],
    ['nothing but headers', headerOnly(64, 64), /damaged|header/],
  ];
  for (const [what, broken, message] of cases) {
    it(`with ${what}`, async () => {
      await assert.rejects(decodeImage(broken), refusal('bad_input', message));
    });
  }

  it('or decoded, but no other error than ours comes out, for any change of its bytes', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.constantFrom(...SMALL_JPEGS.map((jpeg) => jpeg.bytes), CMYK_JPEG),
        fc.array(fc.tuple(fc.nat(700), fc.nat(255)), { maxLength: 5 }),
        async (original, changes) => {
          const changed = Buffer.from(original);
          for (const [index, value] of changes) changed[index % changed.length] = value;
          let pixels: Pixels;
          try {
            pixels = await decodeImage(changed);
          } catch (error) {
            assert.ok(error instanceof ServingError && error.status < 500, String(error));
            return;
          }
          assert.equal(pixels.data.length, pixels.width * pixels.height * 3);
        },
      ),
      { numRuns: 1_000 },
    );
    const jpeg = smallJpeg('baseline420');
    assertDecoded(await decodeImage(jpeg.bytes), jpeg);
  });
});
